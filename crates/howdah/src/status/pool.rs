//! One pool as `collect` watches it: what its supervisor knows, what stands in its segment, and how long its requests
//! wait.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use howdah_find::growth::growing;
use howdah_find::leaks::Route;
use howdah_front::{Rush, Upgrades};
use howdah_metrics::{ExitCause, Growth, Lifecycle, Per, Pool, Queue, State, Workers, printable};
use howdah_supervisor::{Cause, Counts, Handle, Pid, Snapshot as Supervised, WorkerInfo};
use howdah_wire::{RouteCell, Segment, WorkerPhase};

use super::memory::Known;
use super::saturation::{Saturation, Staff};
use super::workers::{since_1970, worker};

/// The trouble with a supervisor that has not answered in time.
const SILENT: &str = "the supervisor does not answer: this is what it said last";

/// Routes that are shown of those that leave something behind.
const MOST_ROUTES: usize = 10;

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

/// What is known of a pool from the start.
pub(crate) struct Facts {
    /// Where it is mounted: what operators call it.
    pub(crate) name: String,
    /// What it runs.
    pub(crate) application: String,
    /// Where its requests wait, until a supervisor says otherwise.
    pub(crate) segment: Segment,
    /// How many workers there may be.
    pub(crate) workers: RangeInclusive<usize>,
    /// `--max-queue`.
    pub(crate) max_queue: u64,
    /// Counted by the front.
    pub(crate) upgrades: Arc<Upgrades>,
    pub(crate) rush: Arc<Rush>,
}

/// What is watched of a pool, and remembered from one look to the next.
pub(super) struct Watched {
    facts: Facts,
    /// Once there is a supervisor.
    pub(super) handle: Option<Handle>,
    /// What that said last.
    said: Supervised,
    saturation: Saturation,
    /// Most that have waited at once, as of the last tick.
    peak: u64,
}

impl From<Facts> for Watched {
    fn from(facts: Facts) -> Self {
        let saturation = Saturation::new(*facts.workers.start(), *facts.workers.end());
        Self { facts, handle: None, said: Supervised::default(), saturation, peak: 0 }
    }
}

impl Watched {
    /// What the supervisor has said, or what it said last.
    pub(super) fn recall(&mut self, said: Option<Supervised>) -> Supervised {
        match said {
            Some(said) => self.said = said,
            None => self.said.trouble = Some(SILENT.to_owned()),
        }
        self.said.clone()
    }

    /// To be called once a second. Most requests that have waited at once since then, workers that run one.
    pub(super) fn tick(&mut self) -> (u64, u64) {
        let waiting = self.facts.rush.take().max(self.waiting());
        self.peak = self.peak.max(waiting);
        (waiting, self.busy())
    }

    /// All of it. `loaded` is the server's start.
    pub(super) fn show(&self, stage: Stage, supervised: &Supervised, memories: &Known, loaded: f64) -> Pool {
        Pool {
            name: self.facts.name.clone(),
            application: self.facts.application.clone(),
            state: state(stage, supervised),
            trouble: supervised.trouble.clone(),
            generation: supervised.generation,
            reforks: supervised.reforks,
            loaded: supervised.serving_since.map_or(loaded, |mut since| since_1970(since.wall())),
            reloading: supervised.reloading,
            templates: supervised.templates,
            zygote: supervised.zygote.map(|pid| pid.as_raw_pid().unsigned_abs()),
            queue: self.queue(),
            upgrades: self.upgrades(),
            workers: self.workers(supervised, memories),
            lifecycle: lifecycle(&supervised.counts),
            growth: self.growth(supervised),
        }
    }

    fn upgrades(&self) -> howdah_metrics::Upgrades {
        let upgrades = &*self.facts.upgrades;
        let (open, limit) = (upgrades.open(), upgrades.most());
        howdah_metrics::Upgrades { open, limit, total: upgrades.total(), refused: upgrades.refused() }
    }

    fn queue(&self) -> Queue {
        let depth = self.waiting();
        Queue {
            depth,
            limit: self.facts.max_queue,
            peak: self.peak.max(depth),
            oldest_seconds: self.oldest_wait().as_secs_f64(),
            saturated: self.saturation.is_now,
            saturated_seconds: self.saturation.sum.as_secs_f64(),
        }
    }

    fn workers(&self, supervised: &Supervised, memories: &Known) -> Workers {
        let now = howdah_sys::monotonic_ns();
        let segment = self.segment();
        let list = supervised.workers.iter().map(|info| {
            let memory = info.process.and_then(|pid| memories.get(&pid)?.bytes);
            worker(segment, info, memory, now)
        });
        Workers {
            target: u32::try_from(supervised.target).unwrap_or(u32::MAX),
            capacity: u32::try_from(segment.shape().workers).unwrap_or(u32::MAX),
            list: list.collect(),
        }
    }

    /// The routes that leave something behind in the workers that are there.
    fn growth(&self, supervised: &Supervised) -> Vec<Growth> {
        let segment = self.segment();
        let cells = supervised.workers.iter().flat_map(|worker| segment.routes(worker.index));
        let routes = growing(cells.map(RouteCell::read)).into_iter().take(MOST_ROUTES);
        let shown = |route: Route| Growth {
            route: printable(route.route.as_bytes()),
            requests: route.requests,
            values: route.values,
            bytes: route.bytes,
        };
        routes.map(shown).collect()
    }

    /// Do requests wait for long, though there may be no more workers? Tells the log when it is time to.
    pub(super) fn judge(
        &mut self,
        stage: Stage,
        waited: Duration,
        supervised: Option<&Supervised>,
        among_others: bool,
    ) {
        let staff = supervised.filter(|_| stage == Stage::Serving);
        let staff = staff.map(|it| Staff { ready: able(it).count(), target: it.target });
        let tell = self.saturation.look(Instant::now(), waited, staff);
        if let Some(staff) = staff.filter(|_| tell) {
            let pool = among_others.then_some(self.facts.name.as_str());
            tracing::warn!(
                pool,
                "requests wait for a worker: {}, the oldest for {:.1} s; all {} workers are busy{}, and there may be no \
                 more: see --workers, and in docs/processes.md how many it takes",
                self.waiting(),
                waited.as_secs_f64(),
                staff.ready,
                behind(supervised),
            );
        }
    }

    /// How long the oldest of the requests has waited that wait for a worker; no time when none does.
    pub(super) fn oldest_wait(&self) -> Duration {
        let since = self.segment().queue().oldest();
        let now = howdah_sys::monotonic_ns();
        Duration::from_nanos(since.map_or(0, |since| now.saturating_sub(since)))
    }

    pub(super) fn waiting(&self) -> u64 {
        self.segment().queue().waiting() as u64
    }

    /// The one that workers use now.
    fn segment(&self) -> Segment {
        self.handle.as_ref().map_or(self.facts.segment, Handle::segment)
    }

    /// Workers that run a request, by their own word.
    fn busy(&self) -> u64 {
        let busy = |phase: u32| phase == WorkerPhase::Busy as u32;
        self.segment().workers().iter().filter(|cell| busy(cell.phase.load(Relaxed))).count() as u64
    }
}

/// How a pool is.
pub(super) fn state(stage: Stage, supervised: &Supervised) -> State {
    let able = able(supervised).next().is_some();
    match stage {
        Stage::Draining => State::Draining,
        _ if !able && supervised.trouble.is_some() => State::Failing,
        Stage::Serving if able && supervised.reloading => State::Reloading,
        Stage::Serving if able => State::Ready,
        _ => State::Starting,
    }
}

/// Its processes: workers, or what workers that are threads run; then zygotes.
pub(super) fn pids(supervised: &Supervised) -> impl Iterator<Item = Pid> {
    worker_pids(supervised).chain(supervised.zygotes.iter().copied())
}

pub(super) fn worker_pids(supervised: &Supervised) -> impl Iterator<Item = Pid> {
    supervised.workers.iter().filter_map(|worker| worker.process)
}

/// Workers that run requests.
fn able(supervised: &Supervised) -> impl Iterator<Item = &WorkerInfo> {
    let ready = |phase| matches!(phase, WorkerPhase::Idle | WorkerPhase::Busy);
    supervised.workers.iter().filter(move |worker| !worker.draining && ready(worker.phase))
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
        reforks: counts.reforks,
        failed_reforks: counts.failed_reforks,
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

/// How many of them are busy with no request, which nobody would look for there.
fn behind(supervised: Option<&Supervised>) -> String {
    let all = supervised.into_iter().flat_map(|it| &it.workers);
    match all.filter(|worker| worker.is_behind_response()).count() {
        0 => String::new(),
        some => format!(", {some} of them after their response (psgix.cleanup)"),
    }
}

#[cfg(test)]
mod tests {
    use howdah_wire::Shape;

    use super::*;

    fn info(phase: WorkerPhase, draining: bool) -> WorkerInfo {
        WorkerInfo {
            index: 0,
            pid: None,
            process: None,
            is_thread: false,
            generation: 1,
            phase,
            draining,
            requests: 0,
            quota: 0,
            slot: None,
            started: howdah_sys::Moment::now(),
            since: 0,
            memory: None,
        }
    }

    #[test]
    fn a_pool_is_as_its_workers_are() {
        use WorkerPhase::{Busy, Idle, Leaving, Starting};
        for (stage, (phase, draining), trouble, reloading, expected) in [
            (Stage::Starting, (Starting, false), false, false, State::Starting),
            (Stage::Starting, (Idle, false), false, false, State::Starting),
            (Stage::Starting, (Starting, false), true, false, State::Failing),
            (Stage::Serving, (Idle, false), false, false, State::Ready),
            (Stage::Serving, (Busy, false), true, false, State::Ready),
            (Stage::Serving, (Busy, false), false, true, State::Reloading),
            (Stage::Serving, (Busy, true), false, true, State::Starting),
            (Stage::Serving, (Leaving, false), true, true, State::Failing),
            (Stage::Draining, (Busy, false), true, true, State::Draining),
        ] {
            let supervised = Supervised {
                workers: vec![info(phase, draining)],
                trouble: trouble.then(|| "bad".to_owned()),
                reloading,
                ..Supervised::default()
            };
            assert_eq!(state(stage, &supervised), expected, "{stage:?} {phase:?} {draining} {trouble}");
        }
    }

    #[test]
    fn of_a_supervisor_that_does_not_answer_it_is_known_what_it_said() {
        let (_memfd, segment) =
            howdah_sys::create_segment(Shape { fronts: 1, workers: 4, slots: 4 }).unwrap();
        let mut pool = Watched::from(Facts {
            name: "/shop".to_owned(),
            application: "shop.psgi".to_owned(),
            segment,
            workers: 1..=2,
            max_queue: 7,
            upgrades: Arc::new(Upgrades::new(1)),
            rush: Arc::default(),
        });
        let said = Supervised {
            generation: 3,
            workers: vec![info(WorkerPhase::Busy, true)],
            ..Supervised::default()
        };
        pool.recall(Some(said));
        let recalled = pool.recall(None);
        let shown = pool.show(Stage::Serving, &recalled, &Known::default(), 1.0);
        assert_eq!((shown.name.as_str(), shown.generation, shown.queue.limit), ("/shop", 3, 7));
        assert!(shown.trouble.is_some_and(|trouble| trouble.starts_with("the supervisor does not answer")));
        assert_eq!(shown.workers.list[0].state, howdah_metrics::WorkerState::Draining);
    }
}
