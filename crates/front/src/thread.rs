//! A front thread: one event loop and all that lives on it. Everything is put together here, and gets what it needs from
//! here; nobody reaches for it.
//!
//! The loop's own turn is in [`before_park`] and [`after_unpark`]: tokio calls them around every sleep, which is where
//! wake-ups are batched. Only they, and [`turn`], have to find their thread by themselves.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use howdah_accesslog::Source;
use howdah_metrics::Recorder;

use crate::accept::Entrance;
use crate::address::Serves;
use crate::app::{PACKET, Pool, PoolSetup, Services};
use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::config::Config;
use crate::doors::Doors;
use crate::exchange::Desks;
use crate::gate::Gate;
use crate::listen::Listener;
use crate::lookout::Lookout;
use crate::others;
use crate::outflow::{Holding, Stock};
use crate::pages::OwnPages;
use crate::record::{AccessLog, Records, SlowLog};
use crate::request_id::Ids;
use crate::room::Room;
use crate::route::Router;
use crate::server::Server;
use crate::share_cpu::ShareCpu;
use crate::sharing::{Need, Sharing};
use crate::timers::Timers;
use crate::turns::Turns;

/// How often deadlines are looked at.
const SWEEP: Duration = Duration::from_millis(100);
/// The same while there is no connection and no request, and how often the log is told what it is told from time to time.
const SECOND: Duration = Duration::from_secs(1);
/// How often freed memory may be given back, and how much of it there has to be.
const TIDY: Duration = Duration::from_secs(10);
const UNTIDY: usize = 32 << 20;
/// How long connections may take to end that are cut off: one that waits for a disk hears of it later.
const LAST_TURNS: Duration = Duration::from_millis(200);
/// How often to look again at what is usually told: news may come between the look and the wait.
const LOOK: Duration = Duration::from_millis(50);

/// What a front thread needs to start.
#[expect(missing_debug_implementations, reason = "segments have no useful rendering")]
pub struct Setup {
    /// Settings.
    pub config: Arc<Config>,
    /// The applications. The first one has every path that no other is mounted at.
    pub pools: Vec<PoolSetup>,
    /// Number of this thread, from 0.
    pub index: u32,
    /// Workers write to it when this thread sleeps.
    pub eventfd: OwnedFd,
    /// Accepted from at once, by the first thread. [`crate::Front::accept`] adds some later.
    pub listeners: Vec<Listener>,
    /// Where finished requests are told.
    pub access_log: Option<AccessLog>,
    /// Where those are told that took too long.
    pub slow_log: Option<SlowLog>,
    /// Where they are counted; each thread has its own.
    pub recorder: Recorder,
    /// Pages that the front answers by itself.
    pub local: Option<Arc<OwnPages>>,
    /// Bounds what clients cost; the same for all threads.
    pub capacity: &'static Capacity,
    /// What responses hold for slow clients; one for all threads.
    pub stock: Arc<Stock>,
    /// Which thread has a connection; the same for all threads, of which the first one alone has listeners.
    pub sharing: &'static Sharing,
    /// For listeners that speak TLS; one for all threads.
    pub tls: Option<Arc<howdah_tls::Acceptor>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) pools: Vec<&'static Pool>,
    pub(crate) clock: &'static Clock,
    pub(crate) timers: &'static Timers,
    pub(crate) desks: &'static Desks,
    pub(crate) records: &'static Records,
    pub(crate) entrance: Entrance,
    need: Need,
    share_cpu: ShareCpu,
    lookout: Lookout,
    tidied: Cell<Tidied>,
}

/// When memory was given back for the last time, and how many requests had ended by then.
#[derive(Clone, Copy, Debug, Default)]
struct Tidied {
    at: u64,
    ended: u64,
}

thread_local! {
    static HERE: OnceCell<&'static Thread> = const { OnceCell::new() };
}

/// A front thread lives as long as its process, and so does what it has.
fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

impl Thread {
    /// Makes the calling thread a front thread, for the rest of the process.
    ///
    /// # Errors
    /// When the system has no random bytes, or there is no application.
    ///
    /// # Panics
    /// When it is one already.
    pub(crate) fn install(setup: Setup) -> io::Result<&'static Self> {
        let thread = forever(Self::build(setup)?);
        HERE.with(|here| assert!(here.set(thread).is_ok(), "a thread becomes a front thread once"));
        others::see_to(turn);
        Ok(thread)
    }

    /// Puts a thread together.
    pub(crate) fn build(setup: Setup) -> io::Result<Self> {
        let Setup { config, capacity, .. } = setup;
        let clock = forever(Clock::new());
        let timers = forever(Timers::new(clock));
        let desks = forever(Desks::default());
        let records = forever(Records::new(setup.access_log, setup.slow_log, setup.recorder, clock));
        let room = forever(Room::new(capacity, timers, clock, records));
        let doors = forever(Doors::new(capacity, clock));
        let ids = forever(Ids::new(config.request_id)?);
        let packet = forever(RefCell::new(vec![0; PACKET].into_boxed_slice()));
        let wants_report = records.wants(Source::Environment);
        let alone = setup.pools.len() == 1;
        let services = Services { clock, desks, ids, room, packet, wants_report, alone };
        let directory = config.spool_dir.clone().unwrap_or_else(std::env::temp_dir);
        let turns = Turns::new(setup.pools.first().map_or(1, |pool| pool.cpus));
        let pool = |pool| forever(Pool::new(pool, setup.index, directory.clone(), services));
        let pools: Vec<&'static Pool> = setup.pools.into_iter().map(pool).collect();
        let no_pool = || io::Error::new(io::ErrorKind::InvalidInput, "a front thread has no application");
        let challenges = setup.tls.as_ref().and_then(|acceptor| acceptor.challenges().cloned());
        let router = Router::new(setup.local, challenges, &pools, ids).ok_or_else(no_pool)?;
        let holding = forever(Holding::new(Arc::clone(&config), clock, setup.stock, room));
        let gate = setup.tls.map(|acceptor| forever(Gate::new(acceptor, config.tls_handshakes)));
        let scratch = RefCell::default();
        let share_cpu = ShareCpu::new(config.share_cpu);
        let (sharing, number) = (setup.sharing, setup.index as usize);
        let need = Need::new(sharing, number);
        let kept = OnceCell::new();
        let server = Server {
            config,
            clock,
            timers,
            doors,
            records,
            holding,
            turns,
            sharing,
            number,
            router,
            scratch,
            kept,
        };
        let entrance = Entrance { doors, room, server: forever(server), gate };
        let (lookout, tidied) = (Lookout::default(), Cell::default());
        Ok(Self { pools, clock, timers, desks, records, entrance, need, share_cpu, lookout, tidied })
    }

    /// Accepts connections from a listener until the thread closes its listeners.
    pub(crate) fn accept(&self, listener: Listener) {
        tokio::task::spawn_local(self.entrance.accept(listener));
    }

    /// Closes the listeners for the server's own pages, or the others.
    pub(crate) async fn close(&self, serves: Serves) {
        let doors = self.entrance.doors;
        doors.close(serves);
        while doors.is_open(serves) {
            let _ = tokio::time::timeout(LOOK, doors.changed.notified()).await;
        }
        let Server { sharing, number, .. } = self.entrance.server;
        if serves == Serves::Requests && *number == 0 {
            sharing.close();
        }
    }

    /// Closes the listeners but for those of the server's own pages, and waits for the last connection. Those that rest
    /// have `idle`.
    pub(crate) async fn drain(&self, idle: Duration) {
        let doors = self.entrance.doors;
        self.clock.refresh();
        let drain = doors.drain(idle);
        // Connections of HTTP/2 tell their clients at once.
        self.timers.wake_all();
        self.close(Serves::Requests).await;
        // Whoever looks at the server's own pages sees the drain, but does not prolong it.
        let Server { sharing, number, .. } = self.entrance.server;
        while self.timers.len() > doors.inside(Serves::Pages) || sharing.expects_guests(*number) {
            // Each time, for those that come to rest meanwhile.
            self.timers.hurry(drain);
            let _ = tokio::time::timeout(LOOK, doors.changed.notified()).await;
        }
        self.pools.iter().for_each(|pool| pool.tell_refused());
    }

    /// Ends what is under way, whoever has it, so that the records hear of it; no worker is left. Requests that wait are refused, as
    /// far as that can be said at once. Waits a moment for the last connection.
    pub(crate) async fn cut_off(&self) {
        let doors = self.entrance.doors;
        if !doors.is_draining() {
            // From here on each response is its connection's last.
            self.clock.refresh();
            doors.drain(Duration::ZERO);
        }
        self.pools.iter().for_each(|pool| pool.give_up_waiting());
        // Streams of HTTP/2 have to hear of it before their connection ends.
        let refused = async {
            while self.desks.has_last_words() {
                tokio::task::yield_now().await;
            }
        };
        let _ = tokio::time::timeout(LAST_TURNS, refused).await;
        doors.cut_off();
        self.timers.wake_all();
        self.desks.wake_all();
        // Streams of HTTP/2 end in a turn behind their connection's.
        let last = async {
            while self.timers.len() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let _ = tokio::time::timeout(LAST_TURNS, last).await;
    }

    /// Looks after deadlines and segments, and once a second tells the log what is told then.
    pub(crate) async fn sweep(&self) {
        let mut next_second = 0;
        loop {
            self.clock.refresh();
            self.timers.sweep();
            self.desks.sweep();
            let Server { sharing, number, .. } = self.entrance.server;
            self.entrance.room.sweep(*number == 0);
            self.pools.iter().for_each(|pool| pool.sweep());
            let (now, looked) = (self.clock.now(), self.lookout.spent());
            self.need.look(now, howdah_sys::thread_ns().saturating_sub(looked));
            self.share_cpu.look(&self.pools, sharing.has_all(*number), now, looked);
            if self.clock.served() >= next_second {
                next_second = self.clock.after(SECOND);
                self.next_second();
            }
            self.next_sweep().await;
        }
    }

    /// Waits for the time to look, which comes seldom while there is nothing to look after: a server that nobody asks is not to be
    /// a load.
    async fn next_sweep(&self) {
        if self.timers.len() > 0 || self.is_asked() {
            return tokio::time::sleep(SWEEP).await;
        }
        tokio::select! {
            () = tokio::time::sleep(SECOND) => {}
            () = self.timers.some() => tokio::time::sleep(SWEEP).await,
        }
    }

    fn next_second(&self) {
        let capacity = self.entrance.room.capacity;
        self.pools.iter().for_each(|pool| pool.tell_refused());
        capacity.refresh();
        self.records.next_second(capacity.most());
        self.tidy();
    }

    /// Gives memory back after a peak, at a moment at which nobody waits for a response: it takes a while.
    fn tidy(&self) {
        let Server { sharing, number, .. } = self.entrance.server;
        let ended = self.pools.iter().map(|pool| pool.dispatch.borrow().ended).sum();
        let (now, tidied) = (self.clock.now(), self.tidied.get());
        let is_time = now.saturating_sub(tidied.at) >= TIDY.as_nanos() as u64;
        if is_time && ended != tidied.ended && !self.is_asked() && sharing.has_all(*number) {
            self.tidied.set(Tidied { at: now, ended });
            howdah_sys::heap::give_back(UNTIDY);
        }
    }

    /// Looks for the next request before the thread sleeps, again and again.
    pub(crate) async fn look_out(&self) {
        self.lookout.watch(self.clock, || self.turn() || self.is_asked()).await;
    }

    /// Sees to all applications. True when one has news.
    fn turn(&self) -> bool {
        self.pools.iter().filter(|pool| pool.turn()).count() > 0
    }

    /// There are requests that wait, or run.
    fn is_asked(&self) -> bool {
        self.pools.iter().any(|pool| pool.dispatch.borrow().in_flight > 0)
    }

    fn is_asked_one_by_one(&self) -> bool {
        matches!(*self.pools, [pool] if pool.dispatch.borrow().come_one_by_one())
    }

    /// Wakes workers, and makes sure that no news is slept through.
    fn before_park(&self) {
        if self.turn() || self.spin() || !self.is_asked() && self.lookout.begin(self.is_asked_one_by_one()) {
            return; // a task was woken, so the thread will not sleep
        }
        let _ = self.pools.iter().all(|pool| pool.try_sleep());
    }

    /// To look longer for an answer pays where no other application may have one meanwhile.
    fn spin(&self) -> bool {
        matches!(*self.pools, [pool] if pool.spin())
    }

    fn after_unpark(&self) {
        self.clock.refresh();
        self.pools.iter().for_each(|pool| pool.wake_up());
    }
}

/// Called by tokio before the thread sleeps.
pub(crate) fn before_park() {
    here(Thread::before_park);
}

/// Called by tokio after the thread has slept.
pub(crate) fn after_unpark() {
    here(Thread::after_unpark);
}

/// Called when a task lets others go first.
fn turn() {
    here(|thread| {
        thread.turn();
    });
}

fn here(see_to: impl Fn(&Thread)) {
    HERE.with(|here| here.get().into_iter().for_each(|thread| see_to(thread)));
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Instant;

    use super::*;
    use crate::capacity::Kind;
    use crate::sample::worker::Worker;
    use crate::sample::world::{Terms, World, beside, pieces, run, set_up};
    use crate::transport::scripted::Scripted;

    /// Two applications: the second is at /b, and has a worker of its own.
    fn two() -> (World, Worker) {
        let world = World::with(Config::default(), Terms::default(), |setup| {
            let first = setup.pools[0].clone();
            setup.pools.push(beside(&first, "/b"));
        });
        let second = world.thread.pools[1];
        second.worker_up(0);
        let worker = Worker::new(0, second.setup.segment);
        (world, worker)
    }

    fn get(target: &str) -> Scripted {
        Scripted::new(pieces(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")))
    }

    fn received(script: &Scripted) -> String {
        String::from_utf8(script.output()).unwrap().lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_thread_without_an_application_is_none() {
        let (mut setup, _reports) = set_up(Config::default(), Terms::default());
        setup.pools.clear();
        assert_eq!(Thread::build(setup).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn an_application_goes_on_beside_one_whose_memory_is_damaged() {
        run(async {
            let (mut world, second) = two();
            world.thread.pools[0].dispatch.borrow_mut().suspect("something");
            let (first, other) = (get("/a"), get("/b/x"));
            let _connections = [world.connect(&first), world.connect(&other)];
            for _ in 0..3 {
                world.run(true).await;
                second.serve();
                world.thread.pools[1].turn();
            }
            assert_eq!((received(&first).as_str(), received(&other).as_str()), ("", "HTTP/1.1 200 OK"));
            assert_eq!(world.damaged.try_recv().unwrap().what, "something");
            let next = crate::sample::world::new_segment();
            world.pool().replace(next);
            let worker = Worker::new(0, next);
            assert!(worker.serve(), "what waited has another chance");
            world.run(false).await;
            assert_eq!(received(&first), "HTTP/1.1 200 OK");
            assert_eq!(world.totals().all_requests(), 2);
        });
    }

    #[test]
    fn a_thread_sleeps_when_no_application_has_news() {
        // Which application has news, and whether the thread sleeps at the first and at the second.
        for (news, first, second) in [(None, true, true), (Some(0), false, false), (Some(1), false, false)] {
            run(async {
                let (world, worker) = two();
                let sleeps =
                    |pool: usize| world.thread.pools[pool].dispatch.borrow().cell.sleeping.load(SeqCst) == 1;
                let scripts = [get("/a"), get("/b")];
                let _connections = scripts.each_ref().map(|script| world.connect(script));
                world.run(false).await;
                match news {
                    Some(0) => assert!(world.worker.serve()),
                    Some(_) => assert!(worker.serve()),
                    None => {}
                }
                world.thread.before_park();
                assert_eq!((sleeps(0), sleeps(1)), (first, second), "news of {news:?}");
                world.thread.after_unpark();
                assert_eq!((sleeps(0), sleeps(1)), (false, false));
            });
        }
    }

    #[test]
    fn an_answer_is_looked_for_longer_only_where_there_is_one_application() {
        run(async {
            let (world, _worker) = two();
            let alone = World::new(Config::default());
            for (world, looks) in [(&world, false), (&alone, true)] {
                let _asked = world.ask("/a");
                world.worker.serve();
                world.pool().dispatch.borrow_mut().serial = u32::MAX;
                assert_eq!(world.thread.spin(), looks);
            }
        });
    }

    #[test]
    fn the_time_is_read_when_the_thread_wakes_up() {
        run(async {
            let world = World::new(Config::default());
            let before = world.thread.clock.now();
            world.thread.after_unpark();
            assert!(world.thread.clock.now() > before);
        });
    }

    #[test]
    fn a_sweep_looks_after_everything() {
        run(async {
            let (mut world, _worker) = two();
            let script = Scripted::new(pieces(""));
            let connection = world.connect(&script);
            world.run(false).await;
            let _asked = world.ask("/a");
            let segment = world.pool().setup.segment;
            segment.queue().cells.head.value.store(1000, SeqCst);
            tokio::task::spawn_local(world.thread.sweep());
            let deadline = Instant::now() + Duration::from_secs(30);
            let found = loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                match world.damaged.try_recv() {
                    Ok(damaged) => break damaged.what,
                    Err(_) => assert!(Instant::now() < deadline, "nothing was swept"),
                }
            };
            assert_eq!(found, "the queue's head is outside of the queue");
            assert_eq!(world.totals().connection_limit, world.capacity.most() as u64, "once a second");
            drop(connection);
        });
    }

    #[test]
    fn there_are_few_sweeps_while_nobody_asks_and_many_from_the_first_connection_on() {
        run(async {
            let world = World::new(Config::default());
            let thread = world.thread;
            let soon = async || {
                let begun = Instant::now();
                thread.next_sweep().await;
                begun.elapsed() < SECOND
            };
            for _ in 0..2 {
                assert!(!soon().await, "nobody is there");
                let timer = thread.timers.start(Serves::Requests);
                assert!(soon().await);
                drop(timer);
                let comes = async {
                    tokio::task::yield_now().await;
                    thread.timers.start(Serves::Requests)
                };
                assert!(tokio::join!(soon(), comes).0, "one that comes while the thread waits");
            }
        });
    }

    /// Whether the kernel has given memory to this address.
    fn is_resident(address: usize) -> bool {
        let map = std::fs::File::open("/proc/self/pagemap").unwrap();
        let mut entry = [0; 8];
        let page = (address / rustix::param::page_size()) as u64;
        map.read_exact_at(&mut entry, page * 8).unwrap();
        u64::from_ne_bytes(entry) >> 63 == 1
    }

    #[test]
    fn memory_that_a_peak_has_left_goes_back_when_nobody_waits() {
        run(async {
            let world = World::new(Config::default());
            let pieces: Vec<_> = (0..4000).map(|_| (vec![1_u8; 32 << 10], Box::new([1_u8; 100]))).collect();
            // A page within each: what the process has in all, other tests change at the same time.
            let pages: Vec<_> = pieces.iter().map(|(piece, _)| piece[16 << 10..].as_ptr().addr()).collect();
            let resident = || pages.iter().filter(|page| is_resident(**page)).count();
            let _kept: Vec<_> = black_box(pieces).into_iter().map(|(_, kept)| kept).collect();
            world.wait(TIDY);
            for (ended, in_flight, gives) in [(0, 0, false), (1, 1, false), (1, 0, true)] {
                {
                    let dispatch = &mut *world.pool().dispatch.borrow_mut();
                    (dispatch.ended, dispatch.in_flight) = (ended, in_flight);
                }
                let held = resident();
                world.thread.tidy();
                assert_eq!(held.saturating_sub(resident()) > pages.len() / 2, gives, "{ended} {in_flight}");
            }
        });
    }

    #[test]
    fn a_drain_waits_for_who_has_a_request_and_not_for_who_looks_at_pages() {
        run(async {
            let world = World::new(Config::default());
            let busy = get("/a");
            let connection = world.connect(&busy);
            let doors = world.thread.entrance.doors;
            // Somebody looks at the server's own pages.
            let _inside = doors.enter(Serves::Pages);
            let _timer = world.thread.timers.start(Serves::Pages);
            let _permit = world.capacity.enter(Kind::Page);
            world.run(false).await;
            let drain = tokio::task::spawn_local(world.thread.drain(Duration::ZERO));
            world.run(false).await;
            assert!(
                !drain.is_finished()
                    && doors.is_closing(Serves::Requests)
                    && !doors.is_closing(Serves::Pages)
            );
            world.run(true).await;
            assert!(busy.was_shut() && !connection.is_finished(), "its client has not said its end");
            world.wait(Duration::from_secs(3));
            world.run(true).await;
            assert!(connection.is_finished());
            tokio::time::timeout(Duration::from_secs(30), drain).await.unwrap().unwrap();
            assert!(!doors.keeps_connections());
        });
    }

    #[test]
    fn listeners_are_closed_when_the_last_accept_loop_is() {
        run(async {
            let world = World::new(Config::default());
            let open = world.thread.entrance.doors.open(Serves::Requests);
            let close = tokio::task::spawn_local(world.thread.close(Serves::Requests));
            world.run(false).await;
            assert!(!close.is_finished());
            drop(open);
            tokio::time::timeout(Duration::from_secs(30), close).await.unwrap().unwrap();
        });
    }

    #[test]
    fn a_front_thread_hears_of_the_sleeps_of_its_event_loop() {
        run(async {
            let (setup, _reports) = set_up(Config::default(), Terms::default());
            let thread = Thread::install(setup).unwrap();
            let sleeps = || thread.pools[0].dispatch.borrow().cell.sleeping.load(SeqCst) == 1;
            before_park();
            assert!(!sleeps(), "it looks for requests first");
            tokio::task::spawn_local(thread.look_out());
            while thread.lookout.spent() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            before_park();
            assert!(sleeps(), "in vain");
            after_unpark();
            assert!(!sleeps());
        });
    }

    #[test]
    fn workers_are_seen_to_while_a_task_goes_on_and_the_thread_never_sleeps() {
        run(async {
            let (setup, reports) = set_up(Config::default(), Terms::default());
            let world = World::on(Thread::install(setup).unwrap(), reports);
            let script = get("/a");
            let _connection = world.connect(&script);
            for _ in 0..50 {
                others::let_others().await;
                while world.worker.serve() {}
            }
            assert_eq!(received(&script), "HTTP/1.1 200 OK");
        });
    }

    #[test]
    fn a_thread_that_is_no_front_thread_may_sleep_as_it_likes() {
        before_park();
        after_unpark();
    }
}
