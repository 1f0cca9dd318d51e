//! The door of the crate: starts a front thread, and gives it orders from any other.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use howdah_wire::Segment;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

use crate::listen::Listener;
use crate::reports::Loss;
use crate::thread::{self, Setup, Thread};

/// What a front thread is told. Pools go by their numbers.
#[derive(Debug)]
enum Order {
    WorkerUp { pool: usize, worker: u16, channel: OwnedFd },
    WorkerGone { pool: usize, worker: u16, loss: Loss, done: oneshot::Sender<()> },
    Replace { pool: usize, segment: Shared },
    Accept { listeners: Vec<Listener> },
    Close { done: oneshot::Sender<()> },
    Drain { idle: Duration, done: oneshot::Sender<()> },
}

/// A segment in an order, which is to be dropped with the last thread that has obeyed it.
struct Shared {
    segment: Segment,
    _done: Arc<dyn std::any::Any + Send + Sync>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A front thread, to those who give it orders. Orders to a thread that has ended are dropped.
#[derive(Clone, Debug)]
pub struct Front {
    orders: mpsc::UnboundedSender<Order>,
}

impl Front {
    /// Makes the calling thread a front thread. Call once on each, inside a runtime built by [`runtime`].
    ///
    /// # Errors
    /// When the event loop takes no more descriptors, or the system has no random bytes.
    pub fn start(mut setup: Setup) -> io::Result<Self> {
        let listeners = std::mem::take(&mut setup.listeners);
        // Its events need no reader: that the loop wakes is enough, and edges come for every write.
        let eventfd = howdah_sys::watch_readable(setup.eventfd.try_clone()?)?;
        let thread = Thread::install(setup)?;
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::task::spawn_local(obey(thread, inbox, eventfd));
        tokio::task::spawn_local(thread.sweep());
        for pool in &thread.pools {
            tokio::task::spawn_local(pool.stand_behind());
        }
        listeners.into_iter().for_each(|listener| thread.accept(listener));
        Ok(Self { orders })
    }

    /// A worker is about to serve; `channel` is our end of its channel.
    pub fn worker_up(&self, pool: usize, worker: u16, channel: OwnedFd) {
        let _ = self.orders.send(Order::WorkerUp { pool, worker, channel });
    }

    /// A worker is dead; how it left the request that it was running, `loss` says. Resolves when nothing of it is left.
    pub async fn worker_gone(&self, pool: usize, worker: u16, loss: Loss) {
        let (done, settled) = oneshot::channel();
        let _ = self.orders.send(Order::WorkerGone { pool, worker, loss, done });
        let _ = settled.await;
    }

    /// All workers of a pool are gone, and those to come use this segment. Requests that wait are queued there; those that
    /// were running are lost (502). `done` is dropped when this thread has left the segment before.
    pub fn replace(&self, pool: usize, segment: Segment, done: Arc<dyn std::any::Any + Send + Sync>) {
        let segment = Shared { segment, _done: done };
        let _ = self.orders.send(Order::Replace { pool, segment });
    }

    /// Accepts connections from these listeners, too.
    pub fn accept(&self, listeners: Vec<Listener>) {
        let _ = self.orders.send(Order::Accept { listeners });
    }

    /// Accepts those who have connected already and no more. Resolves when the listeners are let go.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        let _ = self.orders.send(Order::Close { done });
        let _ = closed.await;
    }

    /// As [`Front::close`], but for the listeners of the server's own pages, which go on to the end; and closes each
    /// connection after the response to its request. Idle ones have `idle` to bring another request, since one may be
    /// on its way already; then they are closed. Resolves when the last one is.
    pub async fn drain(&self, idle: Duration) {
        let (done, drained) = oneshot::channel();
        let _ = self.orders.send(Order::Drain { idle, done });
        let _ = drained.await;
    }
}

/// The event loop that a front thread runs on.
///
/// # Errors
/// When the system gives no epoll descriptor, or not the one thread beside it that may wait for files.
pub fn runtime() -> io::Result<tokio::runtime::LocalRuntime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("blocking")
        .thread_keep_alive(Duration::MAX)
        .on_thread_park(thread::before_park)
        .on_thread_unpark(thread::after_unpark)
        .build_local(tokio::runtime::LocalOptions::default())?;
    // tokio panics when blocking work finds no thread and the system gives none (RLIMIT_NPROC, pids.max); so there is
    // one from the start, for good. Whether there can be is asked first.
    std::thread::Builder::new().spawn(|| ())?.join().map_err(|_| io::ErrorKind::Other)?;
    runtime.spawn_blocking(|| ());
    Ok(runtime)
}

async fn obey(
    thread: &'static Thread,
    mut inbox: mpsc::UnboundedReceiver<Order>,
    eventfd: AsyncFd<Arc<OwnedFd>>,
) {
    while let Some(order) = inbox.recv().await {
        match order {
            Order::WorkerUp { pool, worker, channel } => worker_up(thread, pool, worker, channel),
            Order::WorkerGone { pool, worker, loss, done } => {
                if let Some(pool) = thread.pools.get(pool) {
                    pool.worker_gone(worker, loss);
                }
                let _ = done.send(());
            }
            Order::Replace { pool, segment: Shared { segment, .. } } => {
                if let Some(pool) = thread.pools.get(pool) {
                    pool.replace(segment);
                }
            }
            Order::Accept { listeners } => listeners.into_iter().for_each(|listener| thread.accept(listener)),
            Order::Close { done } => {
                tokio::task::spawn_local(async {
                    thread.close(false).await;
                    thread.close(true).await;
                    let _ = done.send(());
                });
            }
            Order::Drain { idle, done } => {
                tokio::task::spawn_local(async move {
                    thread.drain(idle).await;
                    let _ = done.send(());
                });
            }
        }
    }
    drop(eventfd);
}

fn worker_up(thread: &Thread, pool: usize, worker: u16, channel: OwnedFd) {
    let Some(pool) = thread.pools.get(pool) else { return };
    pool.worker_up(worker);
    if let Err(error) = pool.open_channel(worker, channel) {
        tracing::error!("worker {worker} of {} has no channel: {error}", pool.setup.name);
    }
}
