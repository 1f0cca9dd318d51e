//! Puts the state of the server together: what front threads have counted, what the supervisor knows, what stands in
//! shared memory, and what the system says of our processes. `status` owns it and asks.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use howdah_accesslog::Counts as LineCounts;
use howdah_front::Stock;
use howdah_metrics::{
    ConnectionState as Connection, Counters, ExitCause, Front, Gauges, Lifecycle, Lines, Monitor, Per, Queue,
    Server, Snapshot, Spool, State, Times, Totals, Workers,
};
use howdah_supervisor::{Cause, Counts, Handle, Pid, Snapshot as Supervised, WorkerInfo};
use howdah_wire::{Segment, WorkerPhase};

use super::cpu::Meter;
use super::memory::{Known, Memories};
use super::saturation::{LONG, Pool, Saturation, oldest_wait};
use super::workers::worker;
use crate::options::Serve;

/// Time for the supervisor to answer: it has nothing to wait for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time to measure memory for one look.
const MEASURING: Duration = Duration::from_millis(50);

/// Where the server stands in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The first workers are not ready.
    #[default]
    Starting,
    /// Requests are welcome.
    Serving,
    /// It finishes what it has.
    Draining,
}

/// How the server is, in a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    pub(super) state: State,
    /// Something is wrong, though it may serve.
    pub(super) trouble: bool,
}

/// What is read, and what is remembered from one look to the next.
pub(super) struct Collector {
    /// Until there is a supervisor.
    segment: Segment,
    /// Of each front thread, in order.
    counters: Vec<Arc<Counters>>,
    lines: Option<LineCounter>,
    stock: Arc<Stock>,
    monitor: Monitor,
    meter: Meter,
    saturation: Saturation,
    /// Whether it is saturated, for others.
    pub(super) saturated: Arc<AtomicBool>,
    server: Server,
    started: f64,
    limit: u64,
    pub(super) stage: Stage,
    /// Once there is a supervisor.
    pub(super) handle: Option<Handle>,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("stage", &self.stage).finish_non_exhaustive()
    }
}

/// Reads how many lines the access log has.
pub(crate) type LineCounter = Box<dyn Fn() -> LineCounts + Send>;

impl Collector {
    pub(super) fn new(
        options: &Serve,
        segment: Segment,
        counters: Vec<Arc<Counters>>,
        lines: Option<LineCounter>,
        stock: Arc<Stock>,
    ) -> Self {
        Self {
            segment,
            monitor: Monitor::new(counters.clone(), howdah_sys::monotonic_ns()),
            counters,
            lines,
            stock,
            meter: Meter::new(),
            saturation: Saturation::new(options.workers.fewest() as usize, options.workers.count() as usize),
            saturated: Arc::default(),
            server: server(options),
            started: since_1970(SystemTime::now()),
            limit: u64::from(options.workers.max_queue),
            stage: Stage::default(),
            handle: None,
        }
    }

    /// To be called once a second.
    pub(super) fn tick(&mut self) {
        let gauges = Gauges { queue_depth: self.waiting(), busy: self.busy() };
        self.monitor.tick(howdah_sys::monotonic_ns(), gauges);
    }

    /// Everything, now that the supervisor has answered and memory is measured.
    fn snapshot(&mut self, supervised: &Supervised, memories: &Known) -> Snapshot {
        self.server.perl.clone_from(&supervised.perl);
        let processes = pids(supervised).chain(supervised.zygotes.iter().copied());
        Snapshot {
            server: self.server.clone(),
            times: self.times(supervised),
            state: self.state_by(supervised),
            trouble: supervised.trouble.clone(),
            generation: supervised.generation,
            load: load(),
            cpu: self.meter.read(processes),
            workers: self.workers(supervised, memories),
            queue: self.queue(),
            spool: Spool { bytes: self.stock.spooled(), limit: self.stock.spool_limit() },
            totals: self.totals(),
            recent: self.monitor.recent(),
            history: self.monitor.history(),
            lifecycle: lifecycle(&supervised.counts),
            fronts: self.fronts(),
            access_log: self.lines.as_ref().map(|lines| {
                let LineCounts { written, dropped } = lines();
                Lines { written, dropped }
            }),
        }
    }

    fn queue(&self) -> Queue {
        Queue {
            depth: self.waiting(),
            limit: self.limit,
            peak: self.monitor.queue_peak(),
            oldest_seconds: oldest_wait(self.segment).as_secs_f64(),
            saturated: self.saturation.is_now,
            saturated_seconds: self.saturation.sum.as_secs_f64(),
        }
    }

    /// Tells the log when it is time to.
    fn judge(&mut self, waited: Duration, supervised: Option<&Supervised>) {
        let pool = supervised.filter(|_| self.stage == Stage::Serving);
        let pool = pool.map(|it| Pool { ready: able(it).count(), target: it.target });
        let tell = self.saturation.look(Instant::now(), waited, pool);
        self.saturated.store(self.saturation.is_now, Relaxed);
        if let Some(pool) = pool.filter(|_| tell) {
            tracing::warn!(
                "requests wait for a worker: {}, the oldest for {:.1} s; all {} workers are busy, and there may be no \
                 more: see --workers, and in docs/processes.md how many it takes",
                self.waiting(),
                waited.as_secs_f64(),
                pool.ready,
            );
        }
    }

    fn state_by(&self, supervised: &Supervised) -> State {
        let able = able(supervised).next().is_some();
        match self.stage {
            Stage::Draining => State::Draining,
            _ if !able && supervised.trouble.is_some() => State::Failing,
            Stage::Serving if able && supervised.reloading => State::Reloading,
            Stage::Serving if able => State::Ready,
            _ => State::Starting,
        }
    }

    /// The front does not see a worker claim a request: it takes those that wait for running ones.
    fn totals(&self) -> Totals {
        let mut totals = self.monitor.totals();
        let waiting = self.waiting().min(totals.connections[Connection::Running]);
        totals.connections[Connection::Running] -= waiting;
        totals.connections[Connection::Queued] += waiting;
        totals
    }

    fn times(&self, supervised: &Supervised) -> Times {
        let loaded = supervised.serving_since.map_or(self.started, since_1970);
        Times { now: since_1970(SystemTime::now()), started: self.started, loaded }
    }

    fn workers(&self, supervised: &Supervised, memories: &Known) -> Workers {
        let now = howdah_sys::monotonic_ns();
        let segment = self.segment();
        let list = supervised.workers.iter().map(|info| {
            let memory = info.pid.and_then(|pid| memories.get(&pid)?.bytes);
            worker(segment, info, memory, now)
        });
        Workers {
            target: u32::try_from(supervised.target).unwrap_or(u32::MAX),
            capacity: u32::try_from(segment.shape().workers).unwrap_or(u32::MAX),
            list: list.collect(),
        }
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

    /// The one that workers use now.
    fn segment(&self) -> Segment {
        self.handle.as_ref().map_or(self.segment, Handle::segment)
    }

    fn waiting(&self) -> u64 {
        self.segment().queue().waiting() as u64
    }

    /// Workers that run a request, by their own word.
    fn busy(&self) -> u64 {
        let busy = |phase: u32| phase == WorkerPhase::Busy as u32;
        self.segment().workers().iter().filter(|cell| busy(cell.phase.load(Relaxed))).count() as u64
    }
}

/// A collector that several answers are made of, one while another waits.
pub(super) type Shared = Rc<RefCell<Collector>>;

/// How the server is; none when the supervisor does not answer.
pub(super) async fn condition(shared: &Shared) -> Option<Condition> {
    let supervised = supervised(shared).await?;
    let state = shared.borrow().state_by(&supervised);
    Some(Condition { state, trouble: supervised.trouble.is_some() })
}

/// Everything.
pub(super) async fn snapshot(shared: &Shared, memories: &Memories) -> Snapshot {
    let supervised = supervised(shared).await.unwrap_or_default();
    let memories = memories.look(pids(&supervised).collect(), MEASURING).await;
    shared.borrow_mut().snapshot(&supervised, &memories)
}

/// Once a second: do requests wait for long, though there may be no more workers? The supervisor is only asked when
/// they do wait.
pub(super) async fn look_at_queue(shared: Shared) {
    let waited = oldest_wait(shared.borrow().segment);
    let supervised = if waited < LONG { None } else { supervised(&shared).await };
    shared.borrow_mut().judge(waited, supervised.as_ref());
}

/// Workers that run requests.
fn able(supervised: &Supervised) -> impl Iterator<Item = &WorkerInfo> {
    let ready = |phase| matches!(phase, WorkerPhase::Idle | WorkerPhase::Busy);
    supervised.workers.iter().filter(move |worker| !worker.draining && ready(worker.phase))
}

/// What the supervisor says; nothing while there is none, none when it does not answer.
async fn supervised(shared: &Shared) -> Option<Supervised> {
    let handle = shared.borrow().handle.clone();
    let Some(handle) = handle else { return Some(Supervised::default()) };
    tokio::time::timeout(PATIENCE, handle.snapshot()).await.ok()
}

fn pids(supervised: &Supervised) -> impl Iterator<Item = Pid> {
    supervised.workers.iter().filter_map(|worker| worker.pid)
}

fn server(options: &Serve) -> Server {
    let application = options.app.name().filter(|_| options.process.zygote_fd.is_none());
    Server {
        version: format!("Howdah/{}", env!("CARGO_PKG_VERSION")),
        built: built(),
        perl: String::new(),
        name: options.instance.given_name().or(application).unwrap_or_default().to_owned(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
    }
}

/// As the build script noted it.
fn built() -> String {
    let time = env!("HOWDAH_BUILT").parse().ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
    time.map(|time| time.to_string()).unwrap_or_default()
}

fn lifecycle(counts: &Counts) -> Lifecycle {
    let mut exits = Per::default();
    for (cause, count) in &counts.exits {
        exits[label(*cause)] += count;
    }
    Lifecycle {
        spawns: counts.spawns,
        exits,
        reloads: counts.reloads,
        failed_reloads: counts.failed_reloads,
        replacements: counts.replacements,
    }
}

fn label(cause: Cause) -> ExitCause {
    match cause {
        Cause::Crash => ExitCause::Crash,
        Cause::AppExit => ExitCause::AppExit,
        Cause::MaxRequests => ExitCause::MaxRequests,
        Cause::MaxLifetime => ExitCause::MaxLifetime,
        Cause::MaxMemory => ExitCause::MaxMemory,
        Cause::Harakiri => ExitCause::Harakiri,
        Cause::Deadline => ExitCause::Deadline,
        Cause::Reload => ExitCause::Reload,
        Cause::Resize => ExitCause::Resize,
        Cause::Signal => ExitCause::Signal,
        Cause::Stop => ExitCause::Stop,
    }
}

/// Over 1, 5 and 15 minutes; zeros where the system does not tell.
fn load() -> [f64; 3] {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0.0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

fn since_1970(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
