//! What an operator may do to a running server without ending it: by signal, by the control socket, or by saving a file
//! under `--reload`. Each goes to the supervisor, and the service manager hears of it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use howdah_front::Listener;
use howdah_metrics::RequestSeen;
use howdah_supervisor::{Handle, Pid, ReloadError, WorkerInfo};
use howdah_wire::{Segment, WorkerPhase};

use crate::manager::Manager;
use crate::options::Serve;
use crate::protocol::{Change, Status, Worker};
use crate::status::{Observer, oldest_wait, request_of};

/// Time to measure memory for `howdah status`: enough for hundreds of workers.
const MEASURING: Duration = Duration::from_secs(1);

/// What does not change while the server runs.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Name of the instance.
    pub(crate) name: String,
    /// What is served.
    pub(crate) application: String,
    /// Addresses.
    pub(crate) listeners: Vec<String>,
    /// When it began.
    pub(crate) started: Instant,
}

impl Facts {
    pub(crate) fn of(options: &Serve, listeners: &[Listener]) -> Self {
        Self {
            name: options.instance.name().to_owned(),
            application: options.application().to_owned(),
            listeners: listeners.iter().map(Listener::shown).collect(),
            started: Instant::now(),
        }
    }
}

/// The means to do it. Clones do the same.
#[derive(Clone)]
pub(crate) struct Operations {
    pub(crate) handle: Handle,
    pub(crate) manager: Manager,
    pub(crate) observer: Observer,
    pub(crate) facts: Arc<Facts>,
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operations").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Operations {
    /// Loads the application anew. The generation that serves then.
    pub(crate) async fn reload(&self) -> Result<u32, ReloadError> {
        self.manager.reloading();
        // The supervisor logs how it went.
        let outcome = self.handle.reload().await;
        let state = self.handle.snapshot().await;
        let note = if outcome.is_ok() { "" } else { "; the last reload failed, see the log" };
        self.manager.ready(&format!("{}{note}", self.summary(state.target, state.generation)));
        outcome.map(|()| state.generation)
    }

    /// Changes the number of workers. The number from now on.
    pub(crate) async fn resize(&self, change: Change) -> usize {
        let workers = match change {
            Change::By(by) => self.handle.resize(by).await,
            Change::To(count) => self.handle.set_workers(count).await,
        };
        let generation = self.handle.snapshot().await.generation;
        self.manager.status(&self.summary(workers, generation));
        workers
    }

    /// For people who look at the service manager.
    pub(crate) fn summary(&self, workers: usize, generation: u32) -> String {
        let plural = if workers == 1 { "worker" } else { "workers" };
        format!("serving {} with {workers} {plural}, generation {generation}", self.facts.application)
    }

    /// The state of everything.
    pub(crate) async fn status(&self) -> Status {
        let state = self.handle.snapshot().await;
        let pids = state.workers.iter().filter_map(|worker| worker.pid).collect();
        let memories = self.observer.memories.look(pids, MEASURING).await;
        let memory = |info: &WorkerInfo| memories.get(&info.pid?)?.bytes;
        let segment = self.handle.segment();
        Status {
            name: self.facts.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime: self.facts.started.elapsed().as_secs(),
            application: self.facts.application.clone(),
            listeners: self.facts.listeners.clone(),
            generation: state.generation,
            zygote: state.zygote.map(Pid::as_raw_pid),
            reloading: state.reloading,
            target: state.target,
            queue: segment.queue().waiting(),
            oldest: millis(oldest_wait(segment)),
            saturated: self.observer.is_saturated(),
            spooled: self.observer.spooled(),
            trouble: state.trouble,
            workers: state.workers.iter().map(|info| worker(segment, info, memory(info))).collect(),
        }
    }
}

fn worker(segment: Segment, info: &WorkerInfo, memory: Option<u64>) -> Worker {
    let since = howdah_sys::monotonic_ns().saturating_sub(info.since);
    Worker {
        index: info.index,
        pid: info.pid.map(Pid::as_raw_pid),
        state: state(info).to_owned(),
        since: millis(Duration::from_nanos(since)),
        requests: info.requests,
        memory: memory.or(info.memory),
        generation: info.generation,
        age: SystemTime::now().duration_since(info.started).unwrap_or_default().as_secs(),
        request: request_of(segment, info, howdah_sys::monotonic_ns()).map(|request| seen(&request)),
    }
}

fn millis(span: Duration) -> u64 {
    span.as_millis().try_into().unwrap_or(u64::MAX)
}

/// In the order of a worker's title.
fn seen(request: &RequestSeen) -> String {
    let RequestSeen { client, host, method, target, .. } = request;
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    format!("{} {} {method} {target}", or_dash(client), or_dash(host))
}

fn state(info: &WorkerInfo) -> &'static str {
    match info.phase {
        WorkerPhase::Absent | WorkerPhase::Starting => "starting",
        WorkerPhase::Leaving => "leaving",
        _ if info.draining => "draining",
        WorkerPhase::Idle => "idle",
        WorkerPhase::Busy => "busy",
    }
}
