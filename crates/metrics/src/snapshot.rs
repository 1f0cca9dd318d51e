//! The state of the server at one moment, put together by whoever answers a status request. Every page is made of it.

use serde::Serialize;

use crate::history::{History, Recent};
use crate::label::{ConnectionState, ExitCause, Per, WorkerState};
use crate::totals::Totals;

/// The whole server.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Who answers.
    pub server: Server,
    /// When.
    pub times: Times,
    /// How it is.
    pub state: State,
    /// What is wrong, for people; none when all is well.
    pub trouble: Option<String>,
    /// Load of the application that serves, counted from 1.
    pub generation: u32,
    /// Load averages of the machine over 1, 5 and 15 minutes.
    pub load: [f64; 3],
    /// CPU seconds used since the start.
    pub cpu: Cpu,
    /// The workers.
    pub workers: Workers,
    /// Requests that wait.
    pub queue: Queue,
    /// Responses in files.
    pub spool: Spool,
    /// What the front threads have counted.
    pub totals: Totals,
    /// The last minute.
    pub recent: Recent,
    /// The last five minutes.
    pub history: History,
    /// Workers and generations that came and went.
    pub lifecycle: Lifecycle,
    /// The front threads.
    pub fronts: Vec<Front>,
    /// Lines of the access log; none when there is none.
    pub access_log: Option<Lines>,
}

/// Names and versions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Server {
    /// Product and version, `Howdah/0.1.0`.
    pub version: String,
    /// When it was built; empty when unknown.
    pub built: String,
    /// Version of perl, `v5.36.0`; empty when unknown.
    pub perl: String,
    /// `--name`, or the application; empty for none.
    pub name: String,
    /// Name of the host.
    pub host: String,
    /// Process id of the front.
    pub pid: u32,
}

/// Points in time in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
    /// Of this snapshot.
    pub now: f64,
    /// The server's start.
    pub started: f64,
    /// When the present generation took over.
    pub loaded: f64,
}

impl Times {
    /// Seconds since the start.
    #[must_use]
    pub fn uptime(&self) -> f64 {
        (self.now - self.started).max(0.0)
    }
}

/// How the server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No worker is ready yet.
    #[default]
    Starting,
    /// It serves.
    Ready,
    /// It serves, and a new generation is loading.
    Reloading,
    /// It finishes what it has and ends.
    Draining,
    /// It accepts requests, but no worker can be started.
    Failing,
}

impl State {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Reloading => "reloading",
            Self::Draining => "draining",
            Self::Failing => "failing",
        }
    }

    /// Whether a load balancer should send requests here.
    #[must_use]
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::Reloading)
    }
}

/// CPU seconds, of the front and of all workers and zygotes, ended ones included.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cpu {
    /// The front in user mode.
    pub front_user: f64,
    /// The front in the kernel.
    pub front_system: f64,
    /// Workers in user mode.
    pub workers_user: f64,
    /// Workers in the kernel.
    pub workers_system: f64,
}

/// The pool.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Workers {
    /// How many are wanted.
    pub target: u32,
    /// The most there can be: open slots of Apache's scoreboard.
    pub capacity: u32,
    /// Those that are there, by index.
    pub list: Vec<Worker>,
}

/// One worker.
#[derive(Clone, Debug, Serialize)]
pub struct Worker {
    /// Its place in the pool, which outlives its process.
    pub index: u32,
    /// Process id; 0 before the fork is reported.
    pub pid: u32,
    /// Load of the application that it runs.
    pub generation: u32,
    /// What it is doing.
    pub state: WorkerState,
    /// For how many seconds.
    pub state_seconds: f64,
    /// Seconds since its start.
    pub age_seconds: f64,
    /// Requests served.
    pub requests: u64,
    /// Requests after which it leaves; 0 for never.
    pub quota: u64,
    /// Memory of its own in bytes, when measured.
    pub memory: Option<u64>,
    /// The request that it runs.
    pub request: Option<RequestSeen>,
}

/// A request that is being run. The strings are the client's: [`crate::printable`] makes them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RequestSeen {
    /// Its slot.
    pub slot: u32,
    /// Address of the client; empty for a Unix socket.
    pub client: String,
    /// Host of the request.
    pub host: String,
    /// Method.
    pub method: String,
    /// Target as sent.
    pub target: String,
    /// `HTTP/1.1` and the like.
    pub protocol: String,
    /// Seconds since it was complete.
    pub seconds: f64,
}

/// Requests that wait for a worker.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Queue {
    /// Now.
    pub depth: u64,
    /// `--max-queue`.
    pub limit: u64,
    /// The most since the start.
    pub peak: u64,
    /// For how long the oldest of them has waited.
    pub oldest_seconds: f64,
    /// They wait for long, and there may be no more workers.
    pub saturated: bool,
    /// Seconds in all for which that was so.
    pub saturated_seconds: f64,
}

/// Bytes of responses that lie in files, for clients that read slowly.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spool {
    /// Now.
    pub bytes: u64,
    /// `--response-spool`.
    pub limit: u64,
}

/// What came and went since the start.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lifecycle {
    /// Workers started.
    pub spawns: u64,
    /// Workers ended, by cause.
    pub exits: Per<ExitCause>,
    /// Reloads that succeeded.
    pub reloads: u64,
    /// Reloads that failed.
    pub failed_reloads: u64,
    /// Shared memory that was replaced because a worker had written over it.
    pub replacements: u64,
}

/// One front thread.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Front {
    /// Counted from 0.
    pub index: u32,
    /// Requests ended.
    pub requests: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// CPU seconds used, when known.
    pub cpu_seconds: Option<f64>,
}

/// Lines of a log.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Lines {
    /// Handed to the system.
    pub written: u64,
    /// Given up.
    pub dropped: u64,
}

/// How many workers are in which state.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    /// By state.
    pub states: Per<WorkerState>,
}

impl Workers {
    /// Counts them by state.
    #[must_use]
    pub fn busy(&self) -> Busy {
        let mut states = Per::default();
        for worker in &self.list {
            states[worker.state] += 1;
        }
        Busy { states }
    }
}

impl Busy {
    /// Those that run a request.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.states[WorkerState::Busy] + self.states[WorkerState::Reading]
    }

    /// Those that wait for one.
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.states[WorkerState::Idle]
    }
}

impl Snapshot {
    /// Open connections in this state.
    #[must_use]
    pub fn connections(&self, states: &[ConnectionState]) -> u64 {
        states.iter().map(|state| self.totals.connections[*state]).sum()
    }

    /// Of all exits, those that were nobody's wish.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.lifecycle.exits[ExitCause::Crash]
    }
}
