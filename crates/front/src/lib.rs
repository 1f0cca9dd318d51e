//! The front: owns every client connection, from accept to the last byte.
//!
//! ```text
//! listen    addresses, bound before privileges are dropped
//! thread    one event loop and what its connections share; wake-ups are batched around its sleep
//! accept -> conn -> (collect, spool) -> fill   a request comes in and is queued
//! dispatch, slots, channel                slots, queue, wake-ups; what workers send beside shared memory
//! inspect, recover                        shared memory that cannot be true; requests of dead workers
//! reply -> ring -> head -> (stream) -> send -> (linger)   its response goes out
//! reader, pace, response_spool, stock   clients that read slowly: how slowly, where their responses lie, how much that is
//! departure   clients that leave before
//! tally -> account   what the request has come to, for the access log; slow, for the log of those that took too long
//! local, audience   pages that the front answers by itself, and who may see them
//! capacity, idle   how many connections there may be, and which go when there is no room
//! request_id  X-Request-Id, taken over or made
//! refusal   answers that the front gives by itself
//! repeated  one line a second for an error that repeats itself
//! ```
//!
//! The binary starts a [`Front`] for each thread and tells it of workers that come and go.
#![forbid(unsafe_code)]

mod accept;
mod account;
mod audience;
mod capacity;
mod channel;
mod clock;
mod collect;
mod config;
mod conn;
mod departure;
mod dispatch;
mod fill;
mod head;
mod idle;
mod inspect;
mod intake;
mod linger;
mod listen;
mod local;
mod pace;
mod reader;
mod recover;
mod refusal;
mod registry;
mod repeated;
mod reply;
mod request_id;
mod response_spool;
mod send;
mod ring;
mod slots;
mod slow;
mod socket;
mod spool;
mod stock;
mod stream;
mod tally;
mod thread;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use howdah_metrics::Recorder;
use howdah_wire::{Roster, Segment};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

pub use account::AccessLog;
pub use audience::Visitor;
pub use capacity::{Capacity, PAGE_CONNECTIONS};
pub use config::Config;
pub use howdah_http1::Limits;
pub use listen::{Address, ListenError, Listener};
pub use local::{Answer, Local, LocalPage, LocalPlace, Question};
pub use repeated::{Again, Repeated};
pub use slow::SlowLog;
pub use stock::Stock;

use thread::{Outlets, Thread, add, here};

/// What a front thread is told.
#[derive(Debug)]
enum Order {
    WorkerUp { worker: u16, channel: OwnedFd },
    WorkerGone { worker: u16, status: u16, done: oneshot::Sender<()> },
    Replace { segment: Shared },
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

/// A worker that has not begun to answer within the request timeout. Its client has had 504; it must be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The worker.
    pub worker: u16,
    /// The slot in which it is stuck: when it has left that meanwhile, it may live.
    pub slot: u32,
}

/// A segment in which something stands that cannot be true: somebody has written over it. It must be replaced, together
/// with every worker that uses it, by [`Front::replace`]; until then this thread gives them nothing more to do.
#[derive(Clone, Copy)]
pub struct Damaged {
    /// The segment.
    pub segment: Segment,
    /// What was found there.
    pub what: &'static str,
}

impl fmt::Debug for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Damaged").field("what", &self.what).finish_non_exhaustive()
    }
}

/// What a front thread needs to start.
#[expect(missing_debug_implementations, reason = "the segment has no useful rendering")]
pub struct Setup {
    /// Settings.
    pub config: Arc<Config>,
    /// The shared segment.
    pub segment: Segment,
    /// Number of this thread, from 0.
    pub index: u32,
    /// Workers write to it when this thread sleeps.
    pub eventfd: OwnedFd,
    /// Accepted from at once; shared with the other threads. [`Front::accept`] adds some later.
    pub listeners: Vec<Listener>,
    /// Where finished requests are told.
    pub access_log: Option<AccessLog>,
    /// Where those are told that took too long.
    pub slow_log: Option<SlowLog>,
    /// Where they are counted; each thread has its own.
    pub recorder: Recorder,
    /// Pages that the front answers by itself.
    pub local: Option<Arc<Local>>,
    /// Bounds what clients cost; the same for all threads.
    pub capacity: &'static Capacity,
    /// Told of workers that are stuck.
    pub overdue: mpsc::UnboundedSender<Overdue>,
    /// With [`Config::abort_on_disconnect`]: told of workers whose client has left.
    pub departed: mpsc::UnboundedSender<u16>,
    /// What responses hold for slow clients; one for all threads.
    pub stock: Arc<Stock>,
    /// Told of a segment that is damaged.
    pub damaged: mpsc::UnboundedSender<Damaged>,
    /// Who the workers are.
    pub roster: Roster,
}

impl Front {
    /// Makes the calling thread a front thread. Call once on each, inside a runtime built by [`runtime`].
    ///
    /// # Errors
    /// When the event loop takes no more descriptors, or the system has no random bytes.
    pub fn start(setup: Setup) -> io::Result<Self> {
        let Setup { access_log, slow_log, recorder, local, overdue, departed, damaged, roster, .. } = setup;
        let outlets = Outlets { access_log, slow_log, recorder, local, overdue, departed, damaged, roster };
        Thread::install(setup.config, setup.segment, setup.index, setup.capacity, outlets, setup.stock)?;
        let (orders, inbox) = mpsc::unbounded_channel();
        // Its events need no reader: that the loop wakes is enough, and edges come for every write.
        let eventfd = howdah_sys::watch_readable(setup.eventfd)?;
        tokio::spawn(obey(inbox, eventfd));
        tokio::spawn(thread::sweep());
        tokio::spawn(thread::backstop());
        accept_from(setup.listeners);
        Ok(Self { orders })
    }

    /// A worker is about to serve; `channel` is our end of its channel.
    pub fn worker_up(&self, worker: u16, channel: OwnedFd) {
        let _ = self.orders.send(Order::WorkerUp { worker, channel });
    }

    /// A worker is dead. The request that it was running is answered with `status`. Resolves when nothing of it is left.
    pub async fn worker_gone(&self, worker: u16, status: u16) {
        let (done, settled) = oneshot::channel();
        let _ = self.orders.send(Order::WorkerGone { worker, status, done });
        let _ = settled.await;
    }

    /// All workers are gone, and those to come use this segment. Requests that wait are queued there; those that were
    /// running are lost (502). `done` is dropped when this thread has left the segment before.
    pub fn replace(&self, segment: Segment, done: Arc<dyn std::any::Any + Send + Sync>) {
        let _ = self.orders.send(Order::Replace { segment: Shared { segment, _done: done } });
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
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("blocking")
        .thread_keep_alive(Duration::MAX)
        .on_thread_park(thread::before_park)
        .on_thread_unpark(thread::after_unpark)
        .build()?;
    // tokio panics when blocking work finds no thread and the system gives none (RLIMIT_NPROC, pids.max); so there is
    // one from the start, for good. Whether there can be is asked first.
    std::thread::Builder::new().spawn(|| ())?.join().map_err(|_| io::ErrorKind::Other)?;
    runtime.spawn_blocking(|| ());
    Ok(runtime)
}

async fn obey(mut inbox: mpsc::UnboundedReceiver<Order>, eventfd: AsyncFd<Arc<OwnedFd>>) {
    while let Some(order) = inbox.recv().await {
        match order {
            Order::WorkerUp { worker, channel } => worker_up(worker, channel),
            Order::WorkerGone { worker, status, done } => {
                worker_gone(worker, status);
                let _ = done.send(());
            }
            Order::Replace { segment: Shared { segment, .. } } => here().replace(segment),
            Order::Accept { listeners } => accept_from(listeners),
            Order::Close { done } => {
                tokio::spawn(async {
                    close(false).await;
                    close(true).await;
                    let _ = done.send(());
                });
            }
            Order::Drain { idle, done } => {
                tokio::spawn(drain(idle, done));
            }
        }
    }
    drop(eventfd);
}

fn worker_up(worker: u16, channel: OwnedFd) {
    here().dispatch.borrow_mut().worker_up(worker);
    if let Err(error) = channel::open(worker, channel) {
        tracing::error!("worker {worker} has no channel: {error}");
    }
}

fn worker_gone(worker: u16, status: u16) {
    let thread = here();
    channel::close(worker);
    thread.dispatch.borrow_mut().worker_gone(worker, status, &mut thread.registry.borrow_mut());
}

/// How often to look again at what is usually told: news may come between the look and the wait.
const LOOK: Duration = Duration::from_millis(50);

fn accept_from(listeners: Vec<Listener>) {
    for listener in listeners {
        let for_pages = listener.origin.only_local;
        add(&here().doors(for_pages).accepting, 1);
        tokio::spawn(async move {
            accept::accept(Arc::new(listener)).await;
            add(&here().doors(for_pages).accepting, -1);
            here().changed.notify_waiters();
        });
    }
}

/// Closes the listeners for the server's own pages, or the others.
async fn close(for_pages: bool) {
    here().doors(for_pages).closing.set(true);
    here().changed.notify_waiters();
    while here().doors(for_pages).accepting.get() > 0 {
        let _ = tokio::time::timeout(LOOK, here().changed.notified()).await;
    }
}

/// Returns when idle connections are to be closed.
fn begin_drain(idle: Duration) -> u64 {
    let thread = here();
    thread.draining.set(true);
    thread.clock.refresh();
    let deadline = thread.clock.after(idle.max(Duration::from_millis(1)));
    thread.idle_until.set(deadline);
    deadline
}

async fn drain(idle: Duration, done: oneshot::Sender<()>) {
    let deadline = begin_drain(idle);
    close(false).await;
    // Whoever looks at the server's own pages sees the drain, but does not prolong it.
    while here().registry.borrow().len() > here().doors(true).inside.get() {
        // Each time, for those that come to rest meanwhile.
        here().registry.borrow_mut().hurry_idle(deadline);
        let _ = tokio::time::timeout(LOOK, here().changed.notified()).await;
    }
    here().log_overload();
    let _ = done.send(());
}
