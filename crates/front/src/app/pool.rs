//! An application as a front thread sees it: this thread's slots in its segment, the channels to its workers, and the
//! turns that it takes at them around each sleep of the event loop.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_http1::decode_path;
use howdah_wire::{RequestReader, Roster, Segment};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Sender, UnboundedSender};

use crate::app::rush::Rush;
use crate::app::upgrades::Upgrades;
use crate::clock::Clock;
use crate::exchange::{Desks, Exchange};
use crate::fault::Fault;
use crate::reports::{Damaged, Loss, Overdue, WorkerAnswer};
use crate::request::Request;
use crate::request_id::{self, Id, Ids};
use crate::request_record::{Body, Complete};
use crate::room::Room;
use crate::slots::{BodyFile, Dispatch, Extent, Extents, SPIN_NS};

/// Requests queued between two looks at workers while the thread does not sleep. A worker that gets fewer at a time is
/// through with them before the next ones come, and to wake it again costs more than they do.
const BATCH: u32 = 32;
/// How long requests may wait though workers sleep.
const BACKSTOP: Duration = Duration::from_millis(1);
/// Largest packet of a worker: a message and the header lines of an interim response.
pub(crate) const PACKET: usize = 64 * 1024 + 64;

/// An application, as the program sets it up for a front thread.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "the segment has no useful rendering")]
pub struct PoolSetup {
    /// For people.
    pub name: Arc<str>,
    /// Where the application is mounted: what SCRIPT_NAME has of a path, and PATH_INFO has not. None for all paths.
    pub mount: Option<String>,
    /// Memory that this application's workers share with the front, and no others.
    pub segment: Segment,
    /// Who its workers are.
    pub roster: Roster,
    /// Requests that may wait for a worker; beyond, 503.
    pub max_queue: usize,
    /// Processors that this server may use.
    pub cpus: u64,
    /// How long a worker may run a request before its response begins; then 504, and the worker is replaced. Zero for no
    /// limit.
    pub request_timeout: Duration,
    /// Connections that its workers have taken; one for all threads.
    pub upgrades: Arc<Upgrades>,
    /// How many of its requests have waited; one for all threads.
    pub rush: Arc<Rush>,
    /// Told of workers that are stuck.
    pub overdue: UnboundedSender<Overdue>,
    /// With [`crate::Config::abort_on_disconnect`]: told of workers whose client has left.
    pub departed: UnboundedSender<u16>,
    /// Told of a segment that is damaged.
    pub damaged: UnboundedSender<Damaged>,
    /// Gets what workers say to inquiries, as far as it has room.
    pub answers: Sender<WorkerAnswer>,
}

/// What a pool needs of its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Services {
    pub(crate) clock: &'static Clock,
    pub(crate) desks: &'static Desks,
    pub(crate) ids: &'static Ids,
    pub(crate) room: &'static Room,
    /// Where packets from workers go.
    pub(crate) packet: &'static RefCell<Box<[u8]>>,
    /// Whether the access log wants variables of the env.
    pub(crate) wants_report: bool,
    /// The thread has no other pool.
    pub(crate) alone: bool,
}

/// A question of a worker's that is answered by whoever has the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) worker: u16,
    pub(crate) kind: u32,
}

/// See the module.
pub(crate) struct Pool {
    pub(crate) setup: PoolSetup,
    pub(crate) services: Services,
    pub(crate) dispatch: RefCell<Dispatch>,
    extents: Extents,
    /// To workers, by their numbers.
    pub(crate) channels: RefCell<HashMap<u16, Arc<OwnedFd>>>,
    /// Workers whose answer the kernel has not taken yet.
    pub(crate) late: Rc<RefCell<HashSet<u16>>>,
    /// What workers have asked of an exchange and wait for, by their slots.
    pub(crate) asked: RefCell<HashMap<u32, Asked>>,
    /// A path, decoded.
    path: RefCell<Vec<u8>>,
    /// Requests refused for a full queue since the log was last told, and how many waited at the first of them if no slot was left.
    refused: Cell<(u64, Option<usize>)>,
    /// Requests queued since the last turn.
    queued: Cell<u32>,
    backstop: Notify,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("name", &self.setup.name).finish_non_exhaustive()
    }
}

impl Pool {
    /// For the thread with this number; files of request bodies go to `directory`.
    pub(crate) fn new(mut setup: PoolSetup, index: u32, directory: PathBuf, services: Services) -> Self {
        // With many threads each has fewer slots than may wait.
        setup.max_queue = setup.max_queue.min(setup.segment.slots_of(index).len());
        let (segment, damaged, roster) = (setup.segment, setup.damaged.clone(), setup.roster.clone());
        let (max_queue, desks) = (setup.max_queue, services.desks);
        let dispatch = Dispatch::new(segment, index, max_queue, setup.cpus, desks, damaged, roster);
        Self {
            dispatch: RefCell::new(dispatch),
            extents: Extents::new(segment, index, directory, services.room),
            setup,
            services,
            channels: RefCell::default(),
            late: Rc::default(),
            asked: RefCell::default(),
            path: RefCell::default(),
            refused: Cell::default(),
            queued: Cell::new(0),
            backstop: Notify::new(),
        }
    }

    /// Queues a complete request for `exchange`; gives the slot in which it waits.
    pub(crate) fn queue(
        &self,
        exchange: &mut Exchange,
        request: &Request<'_>,
        body: Body<'_>,
    ) -> Result<u32, Fault> {
        let mut path = self.path.borrow_mut();
        path.clear();
        decode_path(request.path, &mut path)?;
        let slot = self.dispatch.borrow_mut().take_slot();
        let slot = slot.ok_or_else(|| self.is_full())?;
        let mut room = request_id::ROOM;
        let id = self.services.ids.choose(request.fields.clone(), &mut room);
        let segment = self.dispatch.borrow().segment;
        // A connection also brings what is for other applications, which this one's workers must not get at.
        let lends = request.lends && self.services.alone;
        let Ok(place) = (Complete { request, body: &body, path: &path, id, lends }).place(&segment, slot)
        else {
            self.dispatch.borrow_mut().put_back(slot);
            return Err(Fault::TooLarge);
        };
        let desk = exchange.open(self.services.desks);
        let queued = self.dispatch.borrow_mut().queue(slot, place, desk, self.services.clock.now());
        self.count_queued();
        if !queued {
            exchange.close();
            return Err(self.is_full());
        }
        exchange.account.id = Id::new(id);
        if let Body::Spooled(spool, _) = body {
            // It must last as long as a worker may look at the slot, which can be longer than the exchange.
            self.dispatch.borrow_mut().keep(slot, spool);
        }
        Ok(slot)
    }

    fn count_queued(&self) {
        self.queued.set(self.queued.get() + 1);
        if self.queued.get() >= BATCH {
            self.services.clock.refresh();
            self.turn();
        }
    }

    fn is_full(&self) -> Fault {
        let (refused, mut waiting) = self.refused.get();
        let dispatch = self.dispatch.borrow();
        if refused == 0 && !dispatch.has_slot() {
            waiting = Some(dispatch.queue.waiting());
        }
        self.refused.set((refused + 1, waiting));
        Fault::QueueFull
    }

    /// An extent for a body of `length` bytes, if that is known, too large for a slot.
    pub(crate) fn extent_for_body(&'static self, length: Option<u64>) -> Option<Extent> {
        self.extents.extent(length)
    }

    /// A file for one that begins with these bytes.
    pub(crate) async fn file_for_body(&self, bytes: Vec<u8>) -> std::io::Result<BodyFile> {
        self.extents.file(bytes).await
    }

    /// A worker is about to serve.
    pub(crate) fn worker_up(&self, worker: u16) {
        self.dispatch.borrow_mut().worker_up(worker);
    }

    /// A worker is dead.
    pub(crate) fn worker_gone(&self, worker: u16, loss: Loss) {
        let fault = match loss {
            Loss::Exited => Fault::WorkerExited,
            Loss::Killed => Fault::WorkerLost,
        };
        self.channels.borrow_mut().remove(&worker);
        self.dispatch.borrow_mut().worker_gone(worker, fault);
    }

    /// No worker is left, nor will there be one: requests that wait are answered 503.
    pub(crate) fn give_up_waiting(&self) {
        let refused = self.dispatch.borrow().give_up_waiting();
        if refused > 0 {
            tracing::warn!(
                "refused {refused} requests (503) that waited for a worker of {}",
                self.setup.name
            );
        }
    }

    /// Goes on with another segment. No worker uses the present one any more.
    pub(crate) fn replace(&self, segment: Segment) {
        self.extents.replace(segment);
        self.dispatch.borrow_mut().replace(segment);
        self.turn();
    }

    /// Sees to both sides: what workers have done, and whether more of them are needed. True when there was news.
    pub(crate) fn turn(&self) -> bool {
        self.queued.set(0);
        let mut dispatch = self.dispatch.borrow_mut();
        let news = dispatch.take_news();
        self.setup.rush.note(dispatch.wake_workers(self.services.clock.now()));
        if dispatch.needs_backstop() {
            self.backstop.notify_one();
        }
        news
    }

    /// Looks for the answer to a single request a little longer. True when it came.
    pub(crate) fn spin(&self) -> bool {
        if !self.dispatch.borrow_mut().looks_for_answer() {
            return false;
        }
        let end = howdah_sys::monotonic_ns() + SPIN_NS;
        let found = loop {
            if self.dispatch.borrow_mut().take_news() {
                break true;
            }
            if howdah_sys::monotonic_ns() >= end {
                break false;
            }
            std::hint::spin_loop();
        };
        self.dispatch.borrow_mut().looks.note(found);
        found
    }

    /// From now on workers have to wake the thread. False when there is news, which it must see to first.
    pub(crate) fn try_sleep(&self) -> bool {
        let cell = self.dispatch.borrow().cell;
        while !cell.try_sleep() {
            if self.dispatch.borrow_mut().take_news() {
                return false;
            }
        }
        true
    }

    /// The thread is awake.
    pub(crate) fn wake_up(&self) {
        let mut dispatch = self.dispatch.borrow_mut();
        dispatch.cell.wake_up();
        dispatch.take_news();
    }

    /// At each sweep: looks after the segment, and after workers at requests that nobody waits for.
    pub(crate) fn sweep(&self) {
        self.dispatch.borrow_mut().inspect();
        if self.setup.request_timeout.is_zero() {
            return;
        }
        let served = self.services.clock.served();
        self.dispatch.borrow_mut().see_runners(served);
        let overdue = self.dispatch.borrow_mut().overdue(served);
        overdue.into_iter().for_each(|(slot, worker)| self.report_overdue(slot, worker));
    }

    /// Has a worker replaced whose client did not wait for its answer, nor for the end of the time that it had for that.
    fn report_overdue(&self, slot: u32, worker: u16) {
        let request = RequestReader::new(self.dispatch.borrow().request(slot));
        tracing::error!(
            worker,
            request_id = %request.field(request_id::VARIABLE).unwrap_or_default().escape_ascii(),
            "no answer within --request-timeout: {} {} from {}; its client has left, replacing the worker",
            request.method().escape_ascii(),
            request.uri().escape_ascii(),
            request.remote_addr().escape_ascii(),
        );
        let _ = self.setup.overdue.send(Overdue { worker, slot });
    }

    /// Once a second, and at the end: tells the log how many requests were refused.
    pub(crate) fn tell_refused(&self) {
        let (refused, waiting) = self.refused.take();
        let most = self.setup.max_queue;
        if let Some(waiting) = waiting.filter(|&waiting| waiting < most) {
            tracing::warn!(
                "the queue was full: refused {refused} requests (503), for beside {waiting} that were waiting its places had requests \
                 that run, or responses that their clients take slowly; see --response-spool and --min-send-rate"
            );
        } else if refused > 0 {
            tracing::warn!(
                "the queue was full: refused {refused} requests (503), for {most} were waiting; see --max-queue and --workers"
            );
        }
    }

    /// Wakes further workers when those awake do not come to the queue.
    pub(crate) async fn stand_behind(&'static self) {
        loop {
            self.backstop.notified().await;
            while self.dispatch.borrow().needs_backstop() {
                tokio::time::sleep(BACKSTOP).await;
                self.dispatch.borrow_mut().backstop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::app::Job;
    use crate::config::Config;
    use crate::response::Event;
    use crate::sample::heard::heard;
    use crate::sample::worker::Worker;
    use crate::sample::world::{Terms, World, new_segment, run};
    use crate::sample::{client, with};
    use crate::slots::Spool;

    fn world() -> World {
        World::new(Config::default())
    }

    /// Queues a request; gives the fault, and the id of the exchange.
    fn queue(world: &World, head: &str, body: &[u8]) -> (Result<Job, Fault>, String) {
        let mut exchange = Exchange::default();
        let head = format!("GET {head}\r\nHost: h\r\n\r\n");
        let slot = with(&head, &client(""), |request| {
            world.pool().queue(&mut exchange, request, Body::Inline(body))
        });
        let id = String::from_utf8(exchange.account.id.bytes().to_vec()).unwrap();
        (slot.map(|slot| Job::new(world.pool(), slot)), id)
    }

    #[test]
    fn what_cannot_be_queued_is_refused_and_leaves_no_slot_behind() {
        run(async {
            let world = World::with(Config::default(), Terms { max_queue: 1, ..Terms::default() }, |_| ());
            let refusal = |head: &str, body: &[u8]| {
                let (job, id) = queue(&world, head, body);
                (format!("{:?}", job.expect_err("refused")), id)
            };
            assert!(refusal("/%zz HTTP/1.1", b"").0.starts_with("Rejected"));
            assert_eq!(refusal("/a HTTP/1.1", &[0; 300_000]), ("TooLarge".into(), String::new()));
            let slot = world.pool().dispatch.borrow_mut().take_slot();
            assert_eq!(slot, Some(0), "the first one is at hand");
            world.pool().dispatch.borrow_mut().put_back(0);
            let (first, id) = queue(&world, "/a HTTP/1.1\r\nX-Request-Id: mine", b"");
            assert_eq!((first.is_ok(), id.as_str()), (true, "mine"));
            assert_eq!(refusal("/a HTTP/1.1", b""), ("QueueFull".into(), String::new()));
            assert_eq!(refusal("/a HTTP/1.1", b"").0, "QueueFull");
            let told = "WARN the queue was full: refused 2 requests (503), for 1 were waiting; see --max-queue and --workers";
            assert_eq!(heard(|| world.pool().tell_refused()), [told]);
            assert_eq!(heard(|| world.pool().tell_refused()), [""; 0], "it is told once");
        });
    }

    #[test]
    fn no_more_can_wait_than_there_are_slots_and_so_it_is_told() {
        run(async {
            let world = World::with(Config::default(), Terms { max_queue: 100, ..Terms::default() }, |_| ());
            let _waiting: Vec<_> = (0..16).map(|_| queue(&world, "/a HTTP/1.1", b"").0.unwrap()).collect();
            assert!(matches!(queue(&world, "/a HTTP/1.1", b"").0, Err(Fault::QueueFull)));
            let told = "WARN the queue was full: refused 1 requests (503), for 16 were waiting; see --max-queue and --workers";
            assert_eq!(heard(|| world.pool().tell_refused()), [told]);
        });
    }

    #[test]
    fn where_few_wait_and_no_slot_is_left_the_log_says_who_has_them() {
        run(async {
            let world = World::with(Config::default(), Terms { max_queue: 8, ..Terms::default() }, |_| ());
            let mut under_way = Vec::new();
            let mut run = Vec::new();
            for _ in 0..16 {
                under_way.push(queue(&world, "/a HTTP/1.1", b"").0.unwrap());
                run.extend((under_way.len() <= 13).then(|| world.worker.claim().unwrap()));
            }
            assert!(matches!(queue(&world, "/a HTTP/1.1", b"").0, Err(Fault::QueueFull)));
            let told = heard(|| world.pool().tell_refused());
            assert!(
                told[0].contains("beside 3 that were waiting its places had requests that run"),
                "{told:?}"
            );
        });
    }

    #[test]
    fn a_queue_whose_places_are_all_taken_by_dropped_requests_is_full_too() {
        run(async {
            let world = world();
            let _waits = world.ask("/a");
            while world.pool().dispatch.borrow().queue.draw().is_some() {}
            let (job, id) = queue(&world, "/b HTTP/1.1", b"");
            assert_eq!((format!("{:?}", job.unwrap_err()), id), ("QueueFull".into(), String::new()));
        });
    }

    /// Puts workers from number 1 on to sleep; says which of them have been woken.
    fn sleepers(world: &World, count: u16) -> impl Fn() -> Vec<u16> {
        let segment = world.pool().setup.segment;
        let cells = segment.workers();
        for worker in 1..=count {
            world.pool().worker_up(worker);
            cells[usize::from(worker)].rest(0);
            segment.queue().cells.enter_idle(worker, &cells[usize::from(worker)], 1);
        }
        move || (1..=count).filter(|&worker| cells[usize::from(worker)].wake.load(SeqCst) == 1).collect()
    }

    #[test]
    fn workers_are_woken_at_a_turn_or_after_many_requests_without_one() {
        run(async {
            let world = world();
            let woken = sleepers(&world, 1);
            let last = world.ask("/a");
            assert_eq!(woken(), [0; 0]);
            assert!(!world.pool().turn(), "without news");
            assert_eq!(woken(), [1]);
            drop(last);
            let woken = sleepers(&world, 1);
            for _ in 1..BATCH {
                drop(world.ask("/a"));
                assert_eq!(woken(), [0; 0]);
            }
            let _last = world.ask("/a");
            assert_eq!(woken(), [1]);
            assert_eq!(world.pool().queued.get(), 0);
        });
    }

    #[test]
    fn a_turn_passes_news_on() {
        run(async {
            let world = world();
            let _asked = world.ask("/a");
            world.worker.serve();
            assert!(world.pool().turn());
            assert!(!world.pool().turn());
        });
    }

    #[test]
    fn a_thread_does_not_sleep_over_news_for_somebody() {
        run(async {
            let world = world();
            let pool = world.pool();
            let cell = pool.dispatch.borrow().cell;
            let sleeps = || cell.sleeping.load(SeqCst) == 1;
            assert!(pool.try_sleep() && sleeps());
            pool.wake_up();
            assert!(!sleeps());
            let (job, exchange) = world.ask("/a");
            world.worker.serve();
            assert!(!pool.try_sleep() && !sleeps());
            drop((job, exchange));
            let _ = cell.tell(3);
            assert!(pool.try_sleep() && sleeps(), "it is for nobody");
            let (_job, exchange) = world.ask("/b");
            world.worker.serve();
            pool.wake_up();
            let context = Context::from_waker(Waker::noop());
            assert!(exchange.poll(&context).is_ready(), "who is awake sees to it");
        });
    }

    #[test]
    fn an_answer_is_looked_for_longer_where_requests_come_one_by_one() {
        run(async {
            let world = world();
            let spin = |serial| {
                world.pool().dispatch.borrow_mut().serial = serial;
                world.pool().spin()
            };
            let _asked = world.ask("/a");
            assert!(!spin(u32::MAX), "it does not come");
            world.worker.serve();
            assert!(!spin(0));
            assert!(spin(u32::MAX));
        });
    }

    #[test]
    fn when_the_queue_does_not_move_the_backstop_wakes_the_others_one_by_one() {
        run(async {
            let world = world();
            let woken = sleepers(&world, 3);
            tokio::task::spawn_local(world.pool().stand_behind());
            let _asked = [world.ask("/a"), world.ask("/b")];
            world.pool().turn();
            assert_eq!(woken().len(), 1);
            for _ in 0..5000 {
                tokio::time::sleep(BACKSTOP).await;
                if woken().len() == 3 {
                    return;
                }
            }
            panic!("nobody else was woken: {:?}", woken());
        });
    }

    #[test]
    fn how_a_worker_has_died_decides_what_its_request_gets() {
        for (loss, fault) in [(Loss::Exited, "WorkerExited"), (Loss::Killed, "WorkerLost")] {
            run(async {
                let world = world();
                let (mut job, exchange) = world.ask("/a");
                world.worker.begin(&world.worker.claim().unwrap());
                let (ours, _theirs) = howdah_sys::socketpair_seqpacket().unwrap();
                world.pool().open_channel(0, ours);
                world.pool().worker_gone(0, loss);
                assert!(world.pool().channels.borrow().is_empty());
                let Poll::Ready(Event::Fault(said)) =
                    job.poll(&exchange, &Context::from_waker(Waker::noop()))
                else {
                    panic!("it hears nothing");
                };
                assert_eq!(format!("{said:?}"), fault);
            });
        }
    }

    #[test]
    fn a_pool_goes_on_with_another_segment_and_what_bodies_have_there() {
        run(async {
            let world = world();
            let mut body = world.pool().extent_for_body(Some(8)).unwrap();
            assert!(body.append(b"half"));
            let _asked = world.ask("/a");
            let (segment, pool) = (new_segment(), world.pool());
            pool.replace(segment);
            assert!(body.append(b"full"));
            assert_eq!(&segment.extent(Spool::Extent(body).extent().unwrap())[..8], b"halffull");
            let worker = Worker::new(0, segment);
            pool.worker_up(0);
            assert!(worker.serve() && pool.turn());
        });
    }
}
