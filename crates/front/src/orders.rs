//! The door of the crate: starts a front thread, and gives it orders from any other.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_sys::watch::unwatched;
use howdah_wire::Segment;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

use crate::address::Serves;
use crate::listen::Listener;
use crate::reports::Loss;
use crate::share_cpu;
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
    CutOff { done: oneshot::Sender<()> },
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
        let knocks = setup.sharing.sit_down(setup.index as usize);
        let thread = Thread::install(setup)?;
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::task::spawn_local(obey(thread, inbox, eventfd));
        tokio::task::spawn_local(thread.entrance.welcome(knocks));
        tokio::task::spawn_local(thread.sweep());
        tokio::task::spawn_local(thread.look_out());
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
        self.obeyed(|done| Order::WorkerGone { pool, worker, loss, done }).await;
    }

    /// All workers of a pool are gone, and those to come use this segment. Requests that wait are queued there; those that
    /// were running are lost (502). `done` is dropped when this thread has left the segment before.
    pub fn replace(&self, pool: usize, segment: Segment, done: Arc<dyn std::any::Any + Send + Sync>) {
        let segment = Shared { segment, _done: done };
        let _ = self.orders.send(Order::Replace { pool, segment });
    }

    /// Accepts connections from these listeners, too, for all threads: an order to the first one.
    pub fn accept(&self, listeners: Vec<Listener>) {
        let _ = self.orders.send(Order::Accept { listeners });
    }

    /// Accepts those who have connected already and no more. Resolves when the listeners are let go.
    pub async fn close(&self) {
        self.obeyed(|done| Order::Close { done }).await;
    }

    /// As [`Front::close`], but for the listeners of the server's own pages, which go on to the end; and closes each
    /// connection after the response to its request. Idle ones have `idle` to bring another request, since one may be
    /// on its way already; then they are closed. Resolves when the last one is.
    pub async fn drain(&self, idle: Duration) {
        self.obeyed(|done| Order::Drain { idle, done }).await;
    }

    /// Ends all that is under way, for the process is about to end. Resolves when the records have heard of it.
    pub async fn cut_off(&self) {
        self.obeyed(|done| Order::CutOff { done }).await;
    }

    /// Gives an order that takes a while. Resolves when it is done, or the thread has ended.
    async fn obeyed(&self, order: impl FnOnce(oneshot::Sender<()>) -> Order) {
        let (done, obeyed) = oneshot::channel();
        let _ = self.orders.send(order(done));
        let _ = obeyed.await;
    }
}

/// The event loop that a front thread runs on.
///
/// # Errors
/// When the system gives no epoll descriptor, or not the one thread beside it that may wait for files.
pub fn runtime() -> io::Result<tokio::runtime::LocalRuntime> {
    share_cpu::remember();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("blocking")
        .thread_keep_alive(Duration::MAX)
        .on_thread_park(thread::before_park)
        .on_thread_unpark(thread::after_unpark)
        .on_thread_start(share_cpu::leave)
        .build_local(tokio::runtime::LocalOptions::default())
        .map_err(unwatched)?;
    // tokio panics when blocking work finds no thread and the system gives none (RLIMIT_NPROC, pids.max); so there is
    // one from the start, for good. Whether there can be is asked first.
    try_thread()?;
    runtime.spawn_blocking(|| ());
    Ok(runtime)
}

/// Whether the system gives one thread more. It is not counted any more when this returns, which is later than it has ended.
fn try_thread() -> io::Result<()> {
    let itself = || std::fs::read_link("/proc/thread-self");
    let tried = std::thread::Builder::new().spawn(itself)?.join().map_err(|_| io::ErrorKind::Other)?;
    // Without /proc nobody knows.
    let Ok(listed) = tried.map(|link| Path::new("/proc").join(link)) else { return Ok(()) };
    let bound = Instant::now() + Duration::from_secs(1);
    while listed.exists() && Instant::now() < bound {
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
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
            Order::Close { done } => beside(close(thread), done),
            Order::Drain { idle, done } => beside(thread.drain(idle), done),
            Order::CutOff { done } => beside(thread.cut_off(), done),
        }
    }
    drop(eventfd);
}

/// Does what takes a while, and hears of other orders meanwhile.
fn beside(work: impl Future<Output = ()> + 'static, done: oneshot::Sender<()>) {
    tokio::task::spawn_local(async {
        work.await;
        let _ = done.send(());
    });
}

async fn close(thread: &Thread) {
    thread.close(Serves::Requests).await;
    thread.close(Serves::Pages).await;
}

fn worker_up(thread: &Thread, pool: usize, worker: u16, channel: OwnedFd) {
    let Some(pool) = thread.pools.get(pool) else { return };
    pool.worker_up(worker);
    pool.open_channel(worker, channel);
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::net::SocketAddr;

    use tokio::net::TcpStream;

    use super::*;
    use crate::address::{Address, ListenOptions};
    use crate::config::Config;
    use crate::sample::worker::Worker;
    use crate::sample::world::{Reports, Terms, new_segment, set_up};

    /// A front thread, its reports, and a worker of its application.
    struct House {
        front: Front,
        reports: Reports,
        worker: Worker,
        segment: Segment,
    }

    /// Starts one with a listener.
    fn house() -> (House, SocketAddr) {
        let (mut setup, reports) = set_up(Config::default(), Terms::default());
        let segment = setup.pools[0].segment;
        let (listener, address) = listener();
        setup.listeners.push(listener);
        let front = Front::start(setup).unwrap();
        (House { front, reports, worker: Worker::new(0, segment), segment }, address)
    }

    fn listener() -> (Listener, SocketAddr) {
        let listener = Listener::bind(&Address::Host("127.0.0.1".to_owned(), 0), &ListenOptions::default())
            .unwrap()
            .remove(0);
        let address = listener.url.strip_prefix("http://").unwrap().parse().unwrap();
        (listener, address)
    }

    fn channel() -> OwnedFd {
        howdah_sys::socketpair_seqpacket().unwrap().0
    }

    /// Runs a test on the event loop of a front thread, for a bounded time.
    fn run(test: impl Future<Output = ()>) {
        let bounded = async { tokio::time::timeout(Duration::from_secs(30), test).await.expect("it hangs") };
        runtime().unwrap().block_on(bounded);
    }

    /// What a client gets for a request of which that worker runs: the first line, and whether the connection is closed.
    async fn get(address: SocketAddr, worker: &Worker) -> (String, bool) {
        ask(address, || {
            worker.serve();
        })
        .await
    }

    /// What a client gets for a request while `meanwhile` goes on.
    async fn ask(address: SocketAddr, mut meanwhile: impl FnMut()) -> (String, bool) {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.writable().await.unwrap();
        stream.try_write(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut received = [0; 4096];
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            meanwhile();
            if let Ok(length) = stream.try_read(&mut received) {
                let text = String::from_utf8(received[..length].to_vec()).unwrap();
                let line = text.lines().next().unwrap_or_default().to_owned();
                return (line, text.contains("Connection: close"));
            }
        }
    }

    const OK: &str = "HTTP/1.1 200 OK";

    #[test]
    fn a_front_thread_serves_until_it_is_told_to_drain() {
        run(async {
            let (house, address) = house();
            assert_eq!(get(address, &house.worker).await, (OK.to_owned(), false));
            let (listener, another) = listener();
            house.front.accept(vec![listener]);
            assert_eq!(get(another, &house.worker).await.0, OK);
            house.front.clone().drain(Duration::from_millis(1)).await;
            for address in [address, another] {
                assert!(TcpStream::connect(address).await.is_err(), "nobody is let in any more");
            }
        });
    }

    #[test]
    fn closing_lets_the_listeners_go() {
        run(async {
            let (house, address) = house();
            assert_eq!(get(address, &house.worker).await.0, OK);
            house.front.close().await;
            assert!(TcpStream::connect(address).await.is_err());
        });
    }

    #[test]
    fn a_worker_that_is_up_is_listened_to() {
        run(async {
            let (house, _address) = house();
            let (ours, theirs) = howdah_sys::socketpair_seqpacket().unwrap();
            rustix::io::ioctl_fionbio(&theirs, true).unwrap();
            house.front.worker_up(0, 0, ours);
            let asked = howdah_sys::encode_message(howdah_wire::Message { kind: 77, slot: 0, value: 0 });
            howdah_sys::send_with_fds(&theirs, &asked, &[]).unwrap();
            let mut packet = [0; 64];
            while howdah_sys::recv_with_fds(&theirs, &mut packet).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (refusal, _) = howdah_sys::decode_message(&packet).unwrap();
            assert_eq!((refusal.kind, refusal.value), (77, 1));
        });
    }

    #[test]
    fn the_client_of_a_worker_that_has_died_hears_how() {
        for (loss, line) in
            [(Loss::Exited, "HTTP/1.1 500 Internal Server Error"), (Loss::Killed, "HTTP/1.1 502 Bad Gateway")]
        {
            let test = async move {
                let (house, address) = house();
                let dies = || {
                    let Some(claimed) = house.worker.claim() else { return };
                    house.worker.begin(&claimed);
                    let front = house.front.clone();
                    tokio::task::spawn_local(async move { front.worker_gone(0, 0, loss).await });
                };
                assert_eq!(ask(address, dies).await.0, line);
            };
            // A thread becomes a front thread once.
            std::thread::spawn(move || run(test)).join().unwrap();
        }
    }

    #[test]
    fn a_worker_is_forgotten_when_it_is_gone() {
        run(async {
            let (house, address) = house();
            house.front.worker_gone(0, 0, Loss::Killed).await;
            let segment = new_segment();
            let done = Arc::new(());
            house.front.replace(0, segment, Arc::clone(&done) as _);
            house.front.worker_up(0, 0, channel());
            let worker = Worker::new(0, segment);
            assert_eq!(get(address, &worker).await.0, OK);
            assert_eq!(Arc::strong_count(&done), 1, "the thread has left the old one");
            assert!(house.segment.queue().claim(0).is_none());
        });
    }

    #[test]
    fn orders_to_a_pool_that_is_not_there_do_nothing() {
        run(async {
            let (mut house, address) = house();
            house.front.worker_up(7, 0, channel());
            house.front.worker_gone(7, 0, Loss::Exited).await;
            let done = Arc::new(());
            house.front.replace(7, new_segment(), Arc::clone(&done) as _);
            // What cannot be watched is no channel, but its worker serves.
            house.front.worker_up(0, 1, tempfile::tempfile().unwrap().into());
            assert_eq!(get(address, &house.worker).await.0, OK);
            assert_eq!(Arc::strong_count(&done), 1);
            assert!(house.reports.damaged.try_recv().is_err() && house.reports.overdue.try_recv().is_err());
        });
    }

    #[test]
    fn orders_to_a_thread_that_has_ended_are_dropped() {
        let front = runtime().unwrap().block_on(async { house().0.front });
        run(async {
            front.worker_up(0, 0, channel());
            front.worker_gone(0, 0, Loss::Killed).await;
            front.close().await;
            front.drain(Duration::ZERO).await;
            front.cut_off().await;
        });
    }

    #[test]
    fn an_order_is_shown_without_the_segment() {
        let segment = Shared { segment: new_segment(), _done: Arc::new(()) };
        assert_eq!(
            format!("{:?}", Order::Replace { pool: 3, segment }),
            "Replace { pool: 3, segment: Shared { .. } }"
        );
    }
}
