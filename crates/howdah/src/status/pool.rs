//! One pool as `collect` watches it: what its supervisor knows, what stands in its segment, and how long its requests
//! wait.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use howdah_metrics::{ExitCause, Lifecycle, Per, Pool, Queue, State, Workers};
use howdah_supervisor::{Cause, Counts, Handle, Pid, Snapshot as Supervised, WorkerInfo};
use howdah_wire::{Segment, WorkerPhase};

use super::memory::Known;
use super::saturation::{Saturation, Staff};
use super::workers::{since_1970, worker};
use crate::options::Serve;

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

/// What is watched of a pool, and remembered from one look to the next.
pub(super) struct Watched {
    /// Where it is mounted.
    name: String,
    application: String,
    /// Until there is a supervisor.
    segment: Segment,
    /// Once there is a supervisor.
    pub(super) handle: Option<Handle>,
    saturation: Saturation,
    /// `--max-queue`.
    limit: u64,
    /// Most that waited at a tick.
    peak: u64,
}

impl Watched {
    /// The one application of the options.
    pub(super) fn new(options: &Serve, segment: Segment) -> Self {
        let workers = &options.workers;
        Self {
            name: options.app.path.clone().unwrap_or_else(|| "/".to_owned()),
            application: options.application().to_owned(),
            segment,
            handle: None,
            saturation: Saturation::new(workers.fewest() as usize, workers.count() as usize),
            limit: u64::from(workers.max_queue),
            peak: 0,
        }
    }

    /// To be called once a second. Requests that wait, workers that run one.
    pub(super) fn tick(&mut self) -> (u64, u64) {
        let waiting = self.waiting();
        self.peak = self.peak.max(waiting);
        (waiting, self.busy())
    }

    /// All of it. `loaded` is the server's start, `peak` the most that ever waited, if that is known better than by
    /// looking once a second.
    pub(super) fn show(
        &self,
        stage: Stage,
        supervised: &Supervised,
        memories: &Known,
        loaded: f64,
        peak: Option<u64>,
    ) -> Pool {
        Pool {
            name: self.name.clone(),
            application: self.application.clone(),
            state: state(stage, supervised),
            trouble: supervised.trouble.clone(),
            generation: supervised.generation,
            loaded: supervised.serving_since.map_or(loaded, since_1970),
            reloading: supervised.reloading,
            zygote: supervised.zygote.map(|pid| pid.as_raw_pid().unsigned_abs()),
            queue: self.queue(peak),
            workers: self.workers(supervised, memories),
            lifecycle: lifecycle(&supervised.counts),
        }
    }

    fn queue(&self, peak: Option<u64>) -> Queue {
        Queue {
            depth: self.waiting(),
            limit: self.limit,
            peak: peak.unwrap_or(self.peak),
            oldest_seconds: self.oldest_wait().as_secs_f64(),
            saturated: self.saturation.is_now,
            saturated_seconds: self.saturation.sum.as_secs_f64(),
        }
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

    /// Do requests wait for long, though there may be no more workers? Tells the log when it is time to.
    pub(super) fn judge(&mut self, stage: Stage, waited: Duration, supervised: Option<&Supervised>) {
        let staff = supervised.filter(|_| stage == Stage::Serving);
        let staff = staff.map(|it| Staff { ready: able(it).count(), target: it.target });
        let tell = self.saturation.look(Instant::now(), waited, staff);
        if let Some(staff) = staff.filter(|_| tell) {
            tracing::warn!(
                "requests wait for a worker: {}, the oldest for {:.1} s; all {} workers are busy, and there may be no \
                 more: see --workers, and in docs/processes.md how many it takes",
                self.waiting(),
                waited.as_secs_f64(),
                staff.ready,
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
        self.handle.as_ref().map_or(self.segment, Handle::segment)
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

/// Its processes: workers, then zygotes.
pub(super) fn pids(supervised: &Supervised) -> impl Iterator<Item = Pid> {
    worker_pids(supervised).chain(supervised.zygotes.iter().copied())
}

pub(super) fn worker_pids(supervised: &Supervised) -> impl Iterator<Item = Pid> {
    supervised.workers.iter().filter_map(|worker| worker.pid)
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
