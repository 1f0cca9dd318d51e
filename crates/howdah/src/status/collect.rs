//! Puts the state of the server together: what front threads have counted, what the system says of our processes, and
//! of each pool (`pool`) what its supervisor knows and what stands in shared memory. `status` owns it and asks.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use howdah_accesslog::Condition as LogCondition;
use howdah_front::Stock;
use howdah_metrics::{
    ConnectionState as Connection, Connections, Counters, ErrorLog, Front, Gauges, Lines, Monitor, Pool,
    Requests, Server, Snapshot, Spool, State, Times, Totals,
};
use howdah_supervisor::{Handle, Snapshot as Supervised};
use howdah_sys::Moment;
use tokio::time::{Instant, timeout_at};

use super::cpu::Meter;
use super::memory::{Known, Memories};
use super::pool::{Facts, Stage, Watched, pids, state, worker_pids};
use super::saturation::LONG;
use super::workers::since_1970;
use crate::options::Serve;
use crate::tls::Tls;

/// Time for the supervisor to answer: it has nothing to wait for.
const PATIENCE: Duration = Duration::from_secs(1);

/// How the server is, in a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    pub(super) state: State,
    /// Something is wrong, though it may serve.
    pub(super) trouble: bool,
}

/// What is read, beside what the system and supervisors say.
pub(crate) struct Sources {
    pub(crate) pools: Vec<Facts>,
    /// Of each front thread, in order.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// Of the access log.
    pub(crate) log: Option<LogWatch>,
    /// Of the slow-request log, where that is not the error log.
    pub(crate) slow_log: Option<LogWatch>,
    pub(crate) stock: Arc<Stock>,
    pub(crate) tls: Option<Tls>,
}

/// What is read, and what is remembered from one look to the next.
pub(super) struct Collector {
    pub(super) pools: Vec<Watched>,
    counters: Vec<Arc<Counters>>,
    log: Option<LogWatch>,
    slow_log: Option<LogWatch>,
    stock: Arc<Stock>,
    tls: Option<Tls>,
    monitor: Monitor,
    meter: Meter,
    pub(super) server: Server,
    started: Moment,
    pub(super) stage: Stage,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("stage", &self.stage).finish_non_exhaustive()
    }
}

/// Tells how a log of requests is.
pub(crate) type LogWatch = Box<dyn Fn() -> LogCondition + Send>;

impl Collector {
    pub(super) fn new(options: &Serve, sources: Sources) -> Self {
        let Sources { pools, counters, log, slow_log, stock, tls } = sources;
        Self {
            pools: pools.into_iter().map(Watched::from).collect(),
            monitor: Monitor::new(counters.clone(), howdah_sys::monotonic_ns()),
            counters,
            log,
            slow_log,
            stock,
            tls,
            meter: Meter::new(),
            server: server(options),
            started: Moment::now(),
            stage: Stage::default(),
        }
    }

    /// To be called once a second.
    pub(super) fn tick(&mut self) {
        let mut gauges = Gauges::default();
        for pool in &mut self.pools {
            let (waiting, busy) = pool.tick();
            gauges.queue_depth += waiting;
            gauges.busy += busy;
        }
        self.monitor.tick(howdah_sys::monotonic_ns(), gauges);
    }

    fn recall(&mut self, said: Vec<Option<Supervised>>) -> Vec<Supervised> {
        self.pools.iter_mut().zip(said).map(|(pool, said)| pool.recall(said)).collect()
    }

    /// Everything, now that supervisors have answered and memory is measured.
    fn snapshot(&mut self, supervised: &[Supervised], memories: &Known) -> Snapshot {
        self.server.perl = supervised.first().map(|pool| pool.perl.clone()).unwrap_or_default();
        let totals = self.totals();
        let started = since_1970(self.started.wall());
        let pools = self.show(supervised, memories, started);
        let loaded = pools.iter().map(|pool| pool.loaded).fold(started, f64::max);
        Snapshot {
            server: self.server.clone(),
            times: Times { now: since_1970(SystemTime::now()), started, loaded },
            load: load(),
            cpu_seconds: self.meter.read(supervised.iter().flat_map(pids)),
            requests: Requests::from(&totals),
            recent: self.monitor.recent(),
            spool: Spool { bytes: self.stock.spooled(), limit: self.stock.spool_limit() },
            tls: self.tls.as_ref().map(|tls| howdah_metrics::Tls {
                handshakes: totals.handshakes.clone(),
                certificates: tls.certificates(),
            }),
            connections: Connections::from(&totals),
            pools,
            fronts: self.fronts(),
            access_log: self.log.as_ref().map(lines),
            slow_log: self.slow_log.as_ref().map(lines),
            error_log: ErrorLog { trouble: crate::log::trouble() },
            history: self.monitor.history(),
        }
    }

    fn show(&self, supervised: &[Supervised], memories: &Known, started: f64) -> Vec<Pool> {
        let pools = self.pools.iter().zip(supervised);
        pools.map(|(pool, known)| pool.show(self.stage, known, memories, started)).collect()
    }

    /// The front does not see a worker claim a request: it takes those that wait for running ones.
    fn totals(&self) -> Totals {
        let mut totals = self.monitor.totals();
        let waiting = self.pools.iter().map(Watched::waiting).sum::<u64>();
        let waiting = waiting.min(totals.connections[Connection::Running]);
        totals.connections[Connection::Running] -= waiting;
        totals.connections[Connection::Queued] += waiting;
        totals
    }

    fn has_stuck_log(&self) -> bool {
        let mut of_requests = self.log.iter().chain(&self.slow_log);
        of_requests.any(|log| log().trouble.is_some()) || crate::log::trouble().is_some()
    }

    fn fronts(&self) -> Vec<Front> {
        let seconds = self.meter.fronts();
        let front = |(index, counters): (u32, &Arc<Counters>)| {
            let totals = Totals::of(std::slice::from_ref(counters));
            Front {
                index,
                requests: totals.all_requests(),
                accepted: totals.accepted,
                cpu_seconds: seconds.get(&index).copied(),
            }
        };
        (0..).zip(&self.counters).map(front).collect()
    }
}

fn lines(log: &LogWatch) -> Lines {
    let LogCondition { counts, trouble } = log();
    Lines { written: counts.written, dropped: counts.dropped, trouble }
}

/// A collector that several answers are made of, one while another waits.
pub(super) type Shared = Rc<RefCell<Collector>>;

/// How the server is; none when a supervisor does not answer.
pub(super) async fn condition(shared: &Shared) -> Option<Condition> {
    let supervised: Option<Vec<Supervised>> = supervised(shared).await.into_iter().collect();
    let (supervised, stage) = (supervised?, shared.borrow().stage);
    Some(Condition {
        state: State::together(supervised.iter().map(|pool| state(stage, pool))),
        trouble: supervised.iter().any(|pool| pool.trouble.is_some()) || shared.borrow().has_stuck_log(),
    })
}

/// Everything. Memory is measured for so long; what is known from before must do then.
pub(super) async fn snapshot(shared: &Shared, memories: &Memories, measuring: Duration) -> Snapshot {
    let said = supervised(shared).await;
    let supervised = shared.borrow_mut().recall(said);
    let memories = memories.look(supervised.iter().flat_map(worker_pids).collect(), measuring).await;
    shared.borrow_mut().snapshot(&supervised, &memories)
}

/// Once a second: do requests wait for long, though there may be no more workers? Supervisors are only asked when
/// they do wait.
pub(super) async fn look_at_queues(shared: Shared) {
    let waited: Vec<Duration> = shared.borrow().pools.iter().map(Watched::oldest_wait).collect();
    let is_long = waited.iter().any(|waited| *waited >= LONG);
    let supervised = if is_long { supervised(&shared).await } else { vec![None; waited.len()] };
    let collector = &mut *shared.borrow_mut();
    let several = waited.len() > 1;
    for ((pool, waited), supervised) in collector.pools.iter_mut().zip(waited).zip(supervised) {
        pool.judge(collector.stage, waited, supervised.as_ref(), several);
    }
}

/// What each pool's supervisor says; nothing while there is none, none when it does not answer.
async fn supervised(shared: &Shared) -> Vec<Option<Supervised>> {
    let handles: Vec<Option<Handle>> = shared.borrow().pools.iter().map(|pool| pool.handle.clone()).collect();
    let end = Instant::now() + PATIENCE;
    let mut answers = Vec::new();
    for handle in handles {
        answers.push(match handle {
            None => Some(Supervised::default()),
            Some(handle) => timeout_at(end, handle.snapshot()).await.ok(),
        });
    }
    answers
}

fn server(options: &Serve) -> Server {
    let application = options.app().filter(|_| options.process.zygote_fd.is_none());
    Server {
        version: format!("Howdah/{}", env!("CARGO_PKG_VERSION")),
        built: built(),
        perl: String::new(),
        name: options.instance.given_name().or(application).unwrap_or_default().to_owned(),
        instance: options.instance.name().to_owned(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        listeners: Vec::new(),
    }
}

/// As the build script noted it.
fn built() -> String {
    let time = env!("HOWDAH_BUILT").parse().ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
    time.map(|time| time.to_string()).unwrap_or_default()
}

/// Over 1, 5 and 15 minutes; zeros where the system does not tell.
fn load() -> [f64; 3] {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0.0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}
