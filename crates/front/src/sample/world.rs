//! For tests: a front thread without an event loop of its own, with an application whose worker is in the test's hands, and
//! clients by script.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use howdah_metrics::{Counters, Recorder, Totals};
use howdah_proxied::Trust;
use howdah_wire::{Roster, Segment, Shape};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel, unbounded_channel};

use crate::address::Serves;
use crate::app::{Job, Pool, PoolSetup, Upgrades};
use crate::capacity::{Capacity, Kind};
use crate::config::Config;
use crate::exchange::Exchange;
use crate::h1;
use crate::outflow::Stock;
use crate::pages::{OwnPage, OwnPages, PagePath, Question};
use crate::reports::{Damaged, Overdue, WorkerAnswer};
use crate::request_record::Body;
use crate::sample::parts::{client, forever, with};
use crate::sample::worker::Worker;
use crate::server::Presence;
use crate::sharing::Sharing;
use crate::thread::{Setup, Thread};
use crate::transport::Transport;
use crate::transport::scripted::{Piece, Scripted};

/// See the module.
pub(crate) struct World {
    pub(crate) thread: &'static Thread,
    pub(crate) worker: Worker,
    pub(crate) capacity: &'static Capacity,
    pub(crate) overdue: UnboundedReceiver<Overdue>,
    pub(crate) departed: UnboundedReceiver<u16>,
    pub(crate) damaged: UnboundedReceiver<Damaged>,
    pub(crate) questions: UnboundedReceiver<Question>,
    pub(crate) answers: Receiver<WorkerAnswer>,
    counters: Arc<Counters>,
}

/// What may be set of an application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) max_queue: usize,
    pub(crate) request_timeout: Duration,
    pub(crate) max_upgrades: u64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { max_queue: 8, request_timeout: Duration::ZERO, max_upgrades: 3 }
    }
}

impl World {
    /// With one application, and a page at /health.
    pub(crate) fn new(config: Config) -> Self {
        Self::with(config, Terms::default(), |_| ())
    }

    /// With what `change` makes of the set-up.
    pub(crate) fn with(config: Config, terms: Terms, change: impl FnOnce(&mut Setup)) -> Self {
        let (mut setup, reports) = set_up(config, terms);
        change(&mut setup);
        Self::on(forever(Thread::build(setup).expect("a thread")), reports)
    }

    /// On a thread that `reports` are of.
    pub(crate) fn on(thread: &'static Thread, reports: Reports) -> Self {
        thread.pools[0].worker_up(0);
        let worker = Worker::new(0, thread.pools[0].setup.segment);
        let capacity = thread.entrance.room.capacity;
        let Reports { overdue, departed, damaged, questions, answers, counters } = reports;
        Self { thread, worker, capacity, overdue, departed, damaged, questions, answers, counters }
    }

    pub(crate) fn pool(&self) -> &'static Pool {
        self.thread.pools[0]
    }

    /// A request that the first application has, of nobody's connection.
    pub(crate) fn ask(&self, target: &str) -> (Job, Exchange) {
        let mut exchange = Exchange::default();
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-In: in\r\n\r\n");
        let slot = with(&head, &client("127.0.0.1"), |request| {
            self.pool().queue(&mut exchange, request, Body::Inline(b"")).expect("room in the queue")
        });
        (Job::new(self.pool(), slot), exchange)
    }

    /// What has been counted.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(&[Arc::clone(&self.counters)])
    }

    /// Lets time pass.
    pub(crate) fn wait(&self, span: Duration) {
        // There are sweeps within that time, too.
        self.thread.pools.iter().for_each(|pool| pool.sweep());
        self.thread.clock.advance(span);
        self.thread.timers.sweep();
        self.thread.desks.sweep();
        self.pool().sweep();
    }

    /// A connection of a client by script; its task says when it is over.
    pub(crate) fn connect(&self, script: &Scripted) -> tokio::task::JoinHandle<()> {
        let transport = Transport::Scripted(script.clone());
        let server = self.thread.entrance.server;
        tokio::task::spawn_local(h1::serve(server, transport, client("127.0.0.1"), self.presence()))
    }

    /// Of one more connection.
    pub(crate) fn presence(&self) -> Presence {
        let permit = self.capacity.enter(Kind::Connection).expect("there is no bound");
        Presence::new(self.thread.entrance.server, permit, Serves::Requests)
    }

    /// Lets everybody do what they can: the worker if it `works`, too.
    pub(crate) async fn run(&self, works: bool) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
            while works && self.worker.serve() {}
            self.pool().turn();
        }
    }

    /// What `look` finds, also where others have their part in it: threads, or the kernel.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..2000 {
            self.run(false).await;
            if let Some(found) = look() {
                return Some(found);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        None
    }

    /// Serves a client to the end of its script. False when the connection is still open then.
    pub(crate) async fn serve(&self, script: &Scripted) -> bool {
        let connection = self.connect(script);
        for _ in 0..4 {
            self.run(true).await;
            script.go_on();
        }
        self.run(true).await;
        connection.is_finished()
    }
}

/// What a thread tells the program.
pub(crate) struct Reports {
    pub(crate) overdue: UnboundedReceiver<Overdue>,
    pub(crate) departed: UnboundedReceiver<u16>,
    pub(crate) damaged: UnboundedReceiver<Damaged>,
    pub(crate) questions: UnboundedReceiver<Question>,
    pub(crate) answers: Receiver<WorkerAnswer>,
    counters: Arc<Counters>,
}

/// What a thread with one application needs to start.
pub(crate) fn set_up(config: Config, terms: Terms) -> (Setup, Reports) {
    let segment = new_segment();
    let (overdue, stuck) = unbounded_channel();
    let (departed, left) = unbounded_channel();
    let (damage, damaged) = unbounded_channel();
    let (questions, asked) = unbounded_channel();
    let (answers, heard) = channel(4);
    let Terms { max_queue, request_timeout, max_upgrades } = terms;
    let (name, mount, roster) = ("/".into(), None, Roster::default());
    let pool = PoolSetup {
        name,
        mount,
        segment,
        roster,
        max_queue,
        cpus: 2,
        request_timeout,
        upgrades: Arc::new(Upgrades::new(max_upgrades)),
        rush: Arc::default(),
        overdue,
        departed,
        damaged: damage,
        answers,
    };
    let place = PagePath { path: "/health".to_owned(), page: OwnPage::Health, only_apart: false };
    let local = OwnPages { places: vec![place], allow: Trust::default(), questions };
    let (recorder, capacity) = (Recorder::new(), forever(Capacity::new(None)));
    let counters = recorder.counters();
    let setup = Setup {
        stock: Arc::new(Stock::new(&config)),
        config: Arc::new(config),
        pools: vec![pool],
        index: 0,
        eventfd: howdah_sys::eventfd().expect("an eventfd"),
        listeners: Vec::new(),
        access_log: None,
        slow_log: None,
        recorder,
        local: Some(Arc::new(local)),
        capacity,
        sharing: forever(Sharing::new(1, false)),
        tls: None,
    };
    let reports =
        Reports { overdue: stuck, departed: left, damaged, questions: asked, answers: heard, counters };
    (setup, reports)
}

/// Another application beside that one.
pub(crate) fn beside(first: &PoolSetup, mount: &str) -> PoolSetup {
    PoolSetup { name: mount.into(), mount: Some(mount.to_owned()), segment: new_segment(), ..first.clone() }
}

/// A segment for one application.
pub(crate) fn new_segment() -> Segment {
    let shape = Shape { fronts: 1, workers: 4, slots: 16 };
    howdah_sys::create_segment(shape).expect("a segment").1
}

/// Bytes of a client, with a pause at each `|`.
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    let bytes = |part: &str| Piece::Bytes(part.as_bytes().to_vec());
    let mut pieces = Vec::new();
    for part in text.split('|') {
        pieces.extend((!part.is_empty()).then(|| bytes(part)));
        pieces.push(Piece::Pause);
    }
    pieces
}

/// Runs a test on an event loop as front threads have it.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    run_on(Builder::new_current_thread(), test)
}

/// The same with a disk that does nothing before the sender goes: one thread alone waits for files, and it is busy till then.
pub(crate) fn run_beside_slow_disk<T, F: Future<Output = T>>(test: impl FnOnce(Sender<()>) -> F) -> T {
    let mut builder = Builder::new_current_thread();
    builder.max_blocking_threads(1);
    run_on(builder, async {
        let (slow, done) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || done.recv());
        test(slow).await
    })
}

fn run_on<T>(mut builder: Builder, test: impl Future<Output = T>) -> T {
    let event_loop = builder.enable_all().build_local(tokio::runtime::LocalOptions::default());
    event_loop.expect("an event loop").block_on(test)
}
