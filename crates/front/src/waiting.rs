//! Threads that wait for a disk, which may be slow or hang, in the place of a front thread: so many at a time and no more.

use std::io;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;

/// See the module. One for each kind of work, for all front threads.
#[derive(Debug)]
pub(crate) struct Waiting {
    turns: Semaphore,
}

/// Somebody may have a thread wait.
#[derive(Debug)]
pub(crate) struct Turn {
    _place: SemaphorePermit<'static>,
}

impl Waiting {
    pub(crate) const fn new(most: usize) -> Self {
        Self { turns: Semaphore::const_new(most) }
    }

    pub(crate) async fn turn(&'static self) -> io::Result<Turn> {
        Ok(Turn { _place: self.turns.acquire().await.map_err(io::Error::other)? })
    }

    /// Has a thread do it when it is its turn.
    pub(crate) async fn wait<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.turn().await?.wait(work).await
    }

    /// Has a thread drop what may take its time over that. Without an event loop whoever asks does it, at the end of a test.
    pub(crate) fn close<T: Send + 'static>(&'static self, last: T) {
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.wait(move || {
                drop(last);
                Ok(())
            }));
        }
    }

    #[cfg(test)]
    pub(crate) async fn take_all(&'static self, most: usize) -> SemaphorePermit<'static> {
        self.turns.acquire_many(most as u32).await.unwrap()
    }
}

impl Turn {
    /// Has a thread do it. That has the turn until it is through, whether or not anybody still waits for it: a client of HTTP/2 can
    /// break off one body after the other.
    pub(crate) async fn wait<T: Send + 'static>(
        self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        spawn_blocking(move || {
            let _turn = self;
            work()
        })
        .await?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::sample::world::run;

    #[test]
    fn who_breaks_off_leaves_its_turn_to_the_thread_that_still_waits_for_the_disk() {
        static WAITING: Waiting = Waiting::new(1);
        run(async {
            let ((begun, begins), (disk, done)) = (channel(), channel::<()>());
            let mut work = Box::pin(WAITING.wait(move || {
                let _ = (begun.send(()), done.recv());
                Ok(())
            }));
            while begins.try_recv().is_err() {
                let _ = tokio::time::timeout(Duration::from_millis(1), work.as_mut()).await;
            }
            drop(work);
            for _ in 0..50 {
                assert_eq!(WAITING.turns.available_permits(), 0);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(disk);
            WAITING.turn().await.unwrap();
        });
    }
}
