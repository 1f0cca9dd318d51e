//! A file of an application's, of which nobody knows where it lies: a disk may be slow, and a server of files may be gone for good.
//! What the kernel has in memory is taken at once; for all else, down to the closing of the file, a thread waits.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::{ReadWriteFlags, pread, preadv2};

use crate::capacity::Permit;
use crate::outflow::{Outflow, Taken, send_of_file};
use crate::waiting::Waiting;

/// So many threads may wait for files, in all front threads.
static WAITING: Waiting = Waiting::new(TURNS);
const TURNS: usize = 64;
/// Whether a file is in memory is asked for a byte in so many: the kernel reads ahead as much by default.
const STRIDE: u64 = 128 << 10;

/// What was in memory so many nanoseconds ago still is.
const RECENT: u64 = 100_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Source {
    /// With its place among the descriptors, until the last who has it is through.
    file: Arc<(OwnedFd, Option<Permit>)>,
    /// It has been waited for.
    is_slow: bool,
    /// Up to where it was in memory, and when, in monotonic nanoseconds.
    seen: (u64, u64),
}

impl Source {
    pub(crate) fn new(file: OwnedFd, permit: Option<Permit>) -> Self {
        Self { file: Arc::new((file, permit)), is_slow: false, seen: (0, 0) }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.0.as_fd()
    }

    /// Whether the kernel has these bytes in memory, as far as it says; one that cannot tell has not.
    pub(crate) fn is_at_hand(&mut self, from: u64, length: usize, now: u64) -> bool {
        let last = from + (length as u64).saturating_sub(1);
        if last < self.seen.0 && now < self.seen.1 + RECENT {
            return true;
        }
        let mut asked = (from..last).step_by(STRIDE as usize).chain([last]);
        let at_hand = asked.all(|at| self.read_now(&mut [0], at).is_ok());
        self.is_slow |= !at_hand;
        if at_hand {
            self.seen = (last + 1, now);
        }
        at_hand
    }

    fn read_now(&self, bytes: &mut [u8], from: u64) -> io::Result<usize> {
        Ok(preadv2(&self.file.0, &mut [IoSliceMut::new(bytes)], from, ReadWriteFlags::NOWAIT)?)
    }

    /// Up to `length` bytes from `from` on; none at the end of the file.
    pub(crate) async fn read(&mut self, from: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        if let Ok(read) = self.read_now(&mut bytes, from) {
            bytes.truncate(read);
            return Ok(bytes);
        }
        self.is_slow = true;
        let file = Arc::clone(&self.file);
        WAITING
            .wait(move || {
                let read = pread(&file.0, &mut bytes, from)?;
                bytes.truncate(read);
                Ok(bytes)
            })
            .await
    }

    /// Has a thread send these bytes by a plain connection to which nobody else writes meanwhile. Nothing when the file has ended.
    pub(crate) async fn send(&self, out: &mut Outflow, from: u64, length: usize) -> io::Result<Taken> {
        // Only who has a turn needs another descriptor: however many wait for a disk, there are few.
        let turn = WAITING.turn().await?;
        let (client, permit) = out.duplicate()?;
        let file = Arc::clone(&self.file);
        let sent = turn
            .wait(move || {
                let sent = send_of_file(&file.0, &client, from..from + length as u64);
                drop((client, permit));
                match sent {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Taken::default()),
                    sent => sent,
                }
            })
            .await?;
        out.sent_by_another(sent);
        Ok(sent)
    }
}

impl Drop for Source {
    /// Some file systems ask somebody else also when a file is closed.
    fn drop(&mut self) {
        if self.is_slow {
            WAITING.close(Arc::clone(&self.file));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::os::unix::net::UnixStream;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;
    use crate::capacity::{Capacity, Kind};
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::outflow::{Holding, Stock};
    use crate::sample;
    use crate::sample::world::{run, run_beside_slow_disk};
    use crate::transport::{Socket, Transport};

    #[test]
    fn a_file_is_read_piece_by_piece_to_its_end() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; 1000]).unwrap();
        let mut source = Source::new(file.into(), None);
        run(async {
            for (from, length, found) in [(0, 600, 600), (600, 600, 400), (1000, 600, 0)] {
                assert_eq!(source.read(from, length).await.unwrap().len(), found, "from {from}");
            }
            let (pipe, end) = pipe().unwrap();
            drop(end);
            assert!(Source::new(pipe.into(), None).read(0, 1).await.is_err(), "it has no place to read from");
        });
    }

    #[test]
    fn a_file_that_was_waited_for_is_closed_by_a_thread() {
        for is_slow in [false, true] {
            run_beside_slow_disk(async |disk| {
                // A pipe tells when its end is closed.
                let (pipe, end) = pipe().unwrap();
                rustix::io::ioctl_fionbio(&pipe, true).unwrap();
                let is_closed = || (&pipe).read(&mut [0]).is_ok();
                let mut source = Source::new(end.into(), None);
                source.is_slow = is_slow;
                drop(source);
                assert_eq!(is_closed(), !is_slow);
                drop(disk);
                while !is_closed() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
    }

    #[test]
    fn a_file_that_was_waited_for_is_closed_in_its_turn() {
        run(async {
            let (pipe, end) = pipe().unwrap();
            rustix::io::ioctl_fionbio(&pipe, true).unwrap();
            let is_closed = || (&pipe).read(&mut [0]).is_ok();
            let mut source = Source::new(end.into(), None);
            source.is_slow = true;
            let turns = WAITING.take_all(TURNS).await;
            drop(source);
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!is_closed());
            drop(turns);
            while !is_closed() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }

    #[test]
    fn a_file_counts_until_it_is_closed() {
        let capacity = sample::forever(Capacity::of_descriptors(8, 8));
        let has_all =
            || std::iter::from_fn(|| capacity.enter(Kind::File)).take(9).collect::<Vec<_>>().len() == 8;
        run(async {
            let file = tempfile::tempfile().unwrap();
            let mut source = Source::new(file.into(), capacity.enter(Kind::File));
            source.is_slow = true;
            let turns = WAITING.take_all(TURNS).await;
            drop(source);
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!has_all());
            drop(turns);
            while !has_all() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }

    #[test]
    fn who_waits_for_a_turn_at_a_disk_has_no_further_descriptor() {
        let clock = sample::forever(Clock::new());
        let room = sample::room_for(Capacity::of_descriptors(8, 8), clock);
        let config = Config::default();
        let stock = Arc::new(Stock::new(&config));
        let holding = sample::forever(Holding::new(Arc::new(config), clock, stock, room));
        let left =
            || std::iter::from_fn(|| room.capacity.enter(Kind::File)).take(9).collect::<Vec<_>>().len();
        let (mut client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello").unwrap();
        let source = Source::new(file.into(), None);
        run(async {
            let mut out = Outflow::new(Transport::Plain(Socket::Fresh(socket.into())), holding);
            let turns = WAITING.take_all(TURNS).await;
            let mut sending = Box::pin(source.send(&mut out, 0, 5));
            assert!(sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(left(), 8);
            drop(turns);
            assert_eq!(sending.await.unwrap().bytes, 5);
            assert_eq!(left(), 8);
            // A file that has become shorter.
            assert_eq!(source.send(&mut out, 3, 5).await.unwrap().bytes, 2);
            assert_eq!(source.send(&mut out, 5, 3).await.unwrap(), Taken::default());
        });
        let mut had = [0; 7];
        client.read_exact(&mut had).unwrap();
        assert_eq!(&had, b"hellolo");
    }

    #[test]
    fn what_is_not_in_memory_is_not_at_hand() {
        let mut file = tempfile::tempfile_in(".").unwrap();
        file.write_all(&vec![b'x'; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let copy = file.try_clone().unwrap();
        let mut source = Source::new(file.into(), None);
        assert!(source.is_at_hand(0, 1 << 20, 0) && !source.is_slow);
        assert!(source.is_at_hand(1 << 20, 1 << 20, 0), "there is nothing to wait for behind its end");
        let (pipe, _end) = pipe().unwrap();
        assert!(!Source::new(pipe.into(), None).is_at_hand(0, 1, 0), "it cannot tell");
        rustix::fs::fadvise(&copy, 512 << 10, None, rustix::fs::Advice::DontNeed).unwrap();
        // A file system in memory keeps it.
        if source.read_now(&mut [0], 600 << 10).is_err() {
            assert!(source.is_at_hand(0, 512 << 10, RECENT) && !source.is_slow);
            assert!(!source.is_at_hand(256 << 10, 512 << 10, RECENT) && source.is_slow);
        }
    }
}
