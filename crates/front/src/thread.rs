//! A front thread: one event loop, and the state that its connections share.
//!
//! Tasks reach that state through [`here`], because everything in it belongs to one thread and none of it is held
//! across an await. The loop's own turn is in [`before_park`] and [`after_unpark`]: tokio calls them around every
//! sleep, which is where wake-ups are batched.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use howdah_accesslog::Source;
use howdah_http1::FieldStore;
use howdah_metrics::Recorder;
use howdah_wire::{FrontCell, Roster, Segment};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, Semaphore};

use crate::account::AccessLog;
use crate::capacity::Capacity;
use crate::channel::PACKET;
use crate::clock::Clock;
use crate::config::Config;
use crate::dispatch::{Dispatch, SPIN_NS};
use crate::local::Local;
use crate::registry::Registry;
use crate::request_id::Maker;
use crate::response_spool::JOBS;
use crate::slots::Place;
use crate::slow::SlowLog;
use crate::stock::Stock;
use crate::{Damaged, Overdue};

/// Bytes that one read may bring.
pub(crate) const READ_SIZE: usize = 64 * 1024;
/// Requests queued between two looks at workers while the thread does not sleep. A worker that gets fewer at a time is
/// through with them before the next ones come, and to wake it again costs more than they do.
const BATCH: u32 = 32;
/// How often deadlines are looked at.
const SWEEP: Duration = Duration::from_millis(100);
/// Idle connections that a sweep lets go for clients that wait at another thread.
const TURN: usize = 8;
/// How long requests may wait though workers sleep.
const BACKSTOP: Duration = Duration::from_millis(1);

/// State of a front thread.
pub(crate) struct Thread {
    pub(crate) config: Arc<Config>,
    segment: Cell<Segment>,
    /// Number of this thread.
    index: u32,
    pub(crate) clock: Clock,
    pub(crate) dispatch: RefCell<Dispatch>,
    pub(crate) registry: RefCell<Registry>,
    pub(crate) scratch: RefCell<Scratch>,
    /// Makes ids for requests that have none.
    pub(crate) ids: Maker,
    /// Channels to workers, by index.
    pub(crate) channels: RefCell<HashMap<u16, Arc<AsyncFd<OwnedFd>>>>,
    /// Accept loops, and what is theirs: of listeners that lead to the application...
    pub(crate) doors: Doors,
    /// ...and of those for the server's own pages.
    pub(crate) page_doors: Doors,
    /// How many connections and files there may be, in all threads.
    pub(crate) capacity: &'static Capacity,
    /// No connection is kept.
    pub(crate) draining: Cell<bool>,
    /// When draining: until when idle connections may bring another request, in monotonic nanoseconds.
    pub(crate) idle_until: Cell<u64>,
    /// Tells accept loops that `closing` is set, and whoever waits for their end or the last connection's.
    pub(crate) changed: Notify,
    pub(crate) outlets: Outlets,
    cell: Cell<&'static FrontCell>,
    /// Extents at hand.
    pub(crate) extents: RefCell<Vec<u32>>,
    /// What responses hold for slow clients, on all threads.
    pub(crate) stock: Arc<Stock>,
    /// Turns at the disk.
    pub(crate) disk: Arc<Semaphore>,
    /// Until when no response goes to a file, in monotonic nanoseconds.
    pub(crate) files_rest_until: Cell<u64>,
    /// Requests refused for a full queue since the log was last told.
    overloaded: Cell<u64>,
    queued: Cell<u32>,
    backstop: Notify,
}

/// Accept loops of one kind.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    /// Loops that run.
    pub(crate) accepting: Cell<usize>,
    /// They are to end.
    pub(crate) closing: Cell<bool>,
    /// Connections that came through them.
    pub(crate) inside: Cell<usize>,
}

/// Adds to a counter of the thread.
pub(crate) fn add(counter: &Cell<usize>, by: isize) {
    counter.set(counter.get().saturating_add_signed(by));
}

/// Where the thread tells what happens.
pub(crate) struct Outlets {
    /// Finished requests.
    pub(crate) access_log: Option<AccessLog>,
    /// Requests that took too long.
    pub(crate) slow_log: Option<SlowLog>,
    /// Counters.
    pub(crate) recorder: Recorder,
    /// Pages that the front answers by itself, and who makes them.
    pub(crate) local: Option<Arc<Local>>,
    /// Workers that are stuck.
    pub(crate) overdue: UnboundedSender<Overdue>,
    /// Workers whose client has left.
    pub(crate) departed: UnboundedSender<u16>,
    /// Segments that are damaged.
    pub(crate) damaged: UnboundedSender<Damaged>,
    /// Who the workers are.
    pub(crate) roster: Roster,
}

impl Outlets {
    /// Whether the access log wants values from there.
    pub(crate) fn wants(&self, source: Source) -> bool {
        self.access_log.as_ref().is_some_and(|log| log.wants(source))
    }
}

/// Buffers that are only used between two awaits.
pub(crate) struct Scratch {
    /// Where reads go.
    pub(crate) input: Box<[u8]>,
    /// Where packets from workers go.
    pub(crate) packet: Box<[u8]>,
    /// Field positions of the head being looked at.
    pub(crate) fields: FieldStore,
    /// The path, decoded.
    pub(crate) path: Vec<u8>,
    /// The response being built.
    pub(crate) output: Vec<u8>,
}

thread_local! {
    static HERE: OnceCell<&'static Thread> = const { OnceCell::new() };
}

/// The front thread that we are on.
///
/// # Panics
/// On any other thread.
pub(crate) fn here() -> &'static Thread {
    HERE.with(|here| *here.get().expect("only tasks of a front thread ask for it"))
}

impl Thread {
    /// Makes the calling thread a front thread, for the rest of the process.
    pub(crate) fn install(
        config: Arc<Config>,
        segment: Segment,
        index: u32,
        capacity: &'static Capacity,
        outlets: Outlets,
        stock: Arc<Stock>,
    ) -> std::io::Result<&'static Self> {
        let dispatch = Dispatch::new(segment, index, config.max_queue, outlets.damaged.clone());
        let scratch = Scratch {
            input: vec![0; READ_SIZE].into_boxed_slice(),
            packet: vec![0; PACKET].into_boxed_slice(),
            fields: FieldStore::new(),
            path: Vec::new(),
            output: Vec::with_capacity(READ_SIZE),
        };
        let thread = Box::leak(Box::new(Self {
            config,
            segment: Cell::new(segment),
            index,
            clock: Clock::new(),
            dispatch: RefCell::new(dispatch),
            registry: RefCell::default(),
            scratch: RefCell::new(scratch),
            ids: Maker::new()?,
            channels: RefCell::default(),
            doors: Doors::default(),
            page_doors: Doors::default(),
            capacity,
            draining: Cell::new(false),
            idle_until: Cell::new(0),
            changed: Notify::new(),
            outlets,
            cell: Cell::new(&segment.fronts()[index as usize]),
            extents: RefCell::new(segment.extents_of(index).rev().collect()),
            stock,
            disk: Arc::new(Semaphore::new(JOBS)),
            files_rest_until: Cell::new(0),
            overloaded: Cell::new(0),
            queued: Cell::new(0),
            backstop: Notify::new(),
        }));
        // The pool for work that may block panics when its first thread cannot be had, which later may be so.
        tokio::task::spawn_blocking(|| ());
        HERE.with(|here| here.set(thread).ok().expect("a thread becomes a front thread once"));
        Ok(thread)
    }

    /// Those of a listener, by whether it is for the server's own pages alone.
    pub(crate) fn doors(&self, for_pages: bool) -> &Doors {
        if for_pages { &self.page_doors } else { &self.doors }
    }

    /// What this thread shares with its workers.
    pub(crate) fn segment(&self) -> Segment {
        self.segment.get()
    }

    /// Goes on with another segment. No worker uses the present one any more.
    pub(crate) fn replace(&self, segment: Segment) {
        let old = self.segment.replace(segment);
        self.cell.set(&segment.fronts()[self.index as usize]);
        for extent in segment.extents_of(self.index) {
            if !self.extents.borrow().contains(&extent) {
                segment.extent(extent).copy_from_slice(old.extent(extent));
            }
        }
        self.dispatch.borrow_mut().replace(segment, self.index, &mut self.registry.borrow_mut());
        self.turn();
    }

    /// Queues the request in `slot` for `conn`. False when the queue has no room.
    pub(crate) fn queue(&self, slot: u32, place: Place, conn: usize) -> bool {
        let queued = self.dispatch.borrow_mut().queue(slot, place, conn, self.clock.now());
        self.queued.set(self.queued.get() + 1);
        if self.queued.get() >= BATCH {
            self.clock.refresh();
            self.turn();
        }
        queued
    }

    /// Whether a connection may have another request after the one that it has: not when the server drains, nor while
    /// others wait to be let in.
    pub(crate) fn keeps_connections(&self) -> bool {
        !self.draining.get() && !self.capacity.is_crowded()
    }

    /// Lets idle connections go for clients that wait at another thread, and when there are more than may be.
    fn make_room(&self) {
        let most = self.capacity.excess().max(if self.capacity.is_crowded() { TURN } else { 0 });
        let _ = (0..most).all(|_| self.dismiss(false));
    }

    /// Asks the connection to go that has rested for longest, see `idle`. False when none rests.
    pub(crate) fn dismiss(&self, for_pages: bool) -> bool {
        let dismissed = self.registry.borrow_mut().dismiss(for_pages, self.clock.now());
        if dismissed {
            self.outlets.recorder.dismissed();
        }
        dismissed
    }

    /// A request was refused because the queue is full.
    pub(crate) fn count_overload(&self) {
        self.overloaded.set(self.overloaded.get() + 1);
    }

    pub(crate) fn log_overload(&self) {
        let refused = self.overloaded.take();
        if refused > 0 {
            tracing::warn!(
                "the queue was full: refused {refused} requests (503), for {} were waiting; see --max-queue and --workers",
                self.config.max_queue
            );
        }
    }

    /// Looks for the answer to a single request a little longer. True when it came.
    fn spin(&self) -> bool {
        if !self.dispatch.borrow().is_serial() {
            return false;
        }
        let end = howdah_sys::monotonic_ns() + SPIN_NS;
        while howdah_sys::monotonic_ns() < end {
            if self.dispatch.borrow_mut().take_news(&mut self.registry.borrow_mut()) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sees to both sides: what workers have done, and whether more of them are needed. True when there was news.
    fn turn(&self) -> bool {
        self.queued.set(0);
        let mut dispatch = self.dispatch.borrow_mut();
        let news = dispatch.take_news(&mut self.registry.borrow_mut());
        dispatch.wake_workers(self.clock.now());
        if dispatch.needs_backstop() {
            self.backstop.notify_one();
        }
        news
    }
}

/// Called by tokio before the thread sleeps: wakes workers, and makes sure that no news is slept through.
pub(crate) fn before_park() {
    HERE.with(|here| {
        let Some(thread) = here.get() else { return };
        if thread.turn() || thread.spin() {
            return; // a task was woken, so the thread will not sleep
        }
        while !thread.cell.get().try_sleep() {
            if thread.dispatch.borrow_mut().take_news(&mut thread.registry.borrow_mut()) {
                return;
            }
        }
    });
}

/// Called by tokio after the thread has slept.
pub(crate) fn after_unpark() {
    HERE.with(|here| {
        let Some(thread) = here.get() else { return };
        thread.cell.get().wake_up();
        thread.clock.refresh();
        thread.dispatch.borrow_mut().take_news(&mut thread.registry.borrow_mut());
    });
}

/// Looks after deadlines and the segment; every tenth time, tells the log what is told once a second.
pub(crate) async fn sweep() {
    for round in 0_u64.. {
        tokio::time::sleep(SWEEP).await;
        let thread = here();
        thread.clock.refresh();
        thread.registry.borrow_mut().sweep(thread.clock.now());
        thread.make_room();
        thread.dispatch.borrow_mut().inspect(&mut thread.registry.borrow_mut());
        if round % 10 == 0 {
            thread.log_overload();
            thread.capacity.refresh();
            thread.outlets.recorder.connection_limit(thread.capacity.most() as u64);
            thread.outlets.slow_log.iter().for_each(SlowLog::next_second);
        }
    }
}

/// Wakes further workers when those awake do not come to the queue.
pub(crate) async fn backstop() {
    loop {
        here().backstop.notified().await;
        while here().dispatch.borrow().needs_backstop() {
            tokio::time::sleep(BACKSTOP).await;
            here().dispatch.borrow_mut().backstop();
        }
    }
}
