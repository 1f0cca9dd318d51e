//! One application with its zygotes, its workers and its queue; and several of them seen as one.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::label::{ExitCause, Per, State, WorkerState};

/// An application and those who run it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// Where it is mounted: `/`, `/wiki`.
    pub name: String,
    /// What it runs: a file, or a word for it.
    pub application: String,
    /// How it is.
    pub state: State,
    /// What is wrong, for people; none when all is well.
    pub trouble: Option<String>,
    /// Load of the application that serves, counted from 1.
    pub generation: u32,
    /// How often since that load a worker has become the zygote.
    pub reforks: u32,
    /// When that took over, in seconds since 1970; the server's start before there is one.
    pub loaded: f64,
    /// The next generation is on its way.
    pub reloading: bool,
    /// Templates that were compiled before the fork of its workers.
    pub templates: u32,
    /// Process id of the zygote of the generation that serves; none while it is dead.
    pub zygote: Option<u32>,
    /// Requests that wait.
    pub queue: Queue,
    /// Connections that its workers have taken.
    pub upgrades: Upgrades,
    /// The workers.
    pub workers: Workers,
    /// Workers and generations that came and went.
    pub lifecycle: Lifecycle,
    /// The routes whose requests leave something behind, the worst first, in the workers that are there.
    pub growth: Vec<Growth>,
}

/// What a route's requests leave behind in a worker, in the newer half of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Growth {
    /// The application's name for it, or the first segments of a path: [`crate::printable`] makes it.
    pub route: String,
    /// Those requests.
    pub requests: u64,
    /// Perl values that one leaves behind on average.
    pub values: f64,
    /// Bytes of memory, when measured.
    pub bytes: Option<f64>,
}

/// Requests that wait for a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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

/// Connections that the workers of a pool have taken, such as WebSockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Upgrades {
    /// Now.
    pub open: u64,
    /// `--max-upgrades`.
    pub limit: u64,
    /// Since the start.
    pub total: u64,
    /// Those that were one too many.
    pub refused: u64,
}

/// The workers of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Workers {
    /// How many are wanted.
    pub target: u32,
    /// The most there can be: open slots of Apache's scoreboard.
    pub capacity: u32,
    /// Those that are there, by index.
    pub list: Vec<Worker>,
}

/// One worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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

/// What came and went since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lifecycle {
    /// Workers started.
    pub spawns: u64,
    /// Workers ended, by cause.
    pub exits: Per<ExitCause>,
    /// Reloads that succeeded.
    pub reloads: u64,
    /// Reloads that failed.
    pub failed_reloads: u64,
    /// Reforks: a worker has left the next zygote behind, from which all others were forked.
    pub reforks: u64,
    /// Reforks that failed.
    pub failed_reforks: u64,
    /// Shared memory that was replaced because a worker had written over it.
    pub replacements: u64,
}

/// What a worker is at whose response is out, in the place of a request.
pub const AFTER: &str = "(after the response)";

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
    /// Those that run a request and may run more.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.states[WorkerState::Busy]
    }

    /// Those that wait for one.
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.states[WorkerState::Idle]
    }

    /// Those that go.
    #[must_use]
    pub fn going(&self) -> u64 {
        self.states[WorkerState::Draining] + self.states[WorkerState::Leaving]
    }
}

impl Worker {
    /// Its response is out, and it has not come to the next request: what the application does then keeps it.
    #[must_use]
    pub fn is_behind_response(&self) -> bool {
        self.state == WorkerState::Busy && self.request.is_none()
    }

    /// Seconds of its request; without one it has none.
    #[must_use]
    pub fn request_seconds(&self) -> f64 {
        self.request.as_ref().map_or(0.0, |request| request.seconds)
    }
}

impl Pool {
    /// The generation that serves, with what it comes from if that is no load: `2 (refork 1, 3m05s ago)`. `span` puts seconds into
    /// words.
    pub fn origin(&self, now: f64, span: impl Fn(f64) -> String) -> String {
        match self.reforks {
            0 => self.generation.to_string(),
            reforks => format!("{} (refork {reforks}, {} ago)", self.generation, span(now - self.loaded)),
        }
    }

    /// These seen as one, without a name; a single one is what it is.
    pub(crate) fn together(pools: &[Self]) -> Cow<'_, Self> {
        match pools {
            [pool] => Cow::Borrowed(pool),
            [] => Cow::Owned(Self::default()),
            several => Cow::Owned(several.iter().fold(Self::none(several), Self::with)),
        }
    }

    /// What is not added up.
    fn none(pools: &[Self]) -> Self {
        Self { state: State::together(pools.iter().map(|pool| pool.state)), ..Self::default() }
    }

    fn with(mut self, pool: &Self) -> Self {
        self.trouble = joined(self.trouble, pool);
        self.generation = self.generation.max(pool.generation);
        self.loaded = self.loaded.max(pool.loaded);
        self.reloading |= pool.reloading;
        self.templates = self.templates.saturating_add(pool.templates);
        self.queue.add(&pool.queue);
        self.upgrades.add(&pool.upgrades);
        self.workers.add(&pool.workers);
        self.lifecycle.add(&pool.lifecycle);
        self.growth.extend_from_slice(&pool.growth);
        self
    }
}

/// Whose trouble it is must be said.
fn joined(before: Option<String>, pool: &Pool) -> Option<String> {
    let Some(trouble) = &pool.trouble else { return before };
    let before = before.map(|before| before + "; ").unwrap_or_default();
    Some(format!("{before}{}: {trouble}", pool.name))
}

impl Queue {
    fn add(&mut self, other: &Self) {
        add(&mut self.depth, other.depth);
        add(&mut self.limit, other.limit);
        // They need not have been at the same time, but no more than that ever waited.
        add(&mut self.peak, other.peak);
        self.oldest_seconds = self.oldest_seconds.max(other.oldest_seconds);
        self.saturated |= other.saturated;
        self.saturated_seconds = self.saturated_seconds.max(other.saturated_seconds);
    }
}

impl Upgrades {
    /// Whether there has been one, or was to be.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.total > 0 || self.refused > 0
    }

    fn add(&mut self, other: &Self) {
        add(&mut self.open, other.open);
        add(&mut self.limit, other.limit);
        add(&mut self.total, other.total);
        add(&mut self.refused, other.refused);
    }
}

impl Workers {
    fn add(&mut self, other: &Self) {
        self.target = self.target.saturating_add(other.target);
        self.capacity = self.capacity.saturating_add(other.capacity);
        self.list.extend_from_slice(&other.list);
    }
}

impl Lifecycle {
    fn add(&mut self, other: &Self) {
        add(&mut self.spawns, other.spawns);
        self.exits.add(&other.exits);
        add(&mut self.reloads, other.reloads);
        add(&mut self.failed_reloads, other.failed_reloads);
        add(&mut self.reforks, other.reforks);
        add(&mut self.failed_reforks, other.failed_reforks);
        add(&mut self.replacements, other.replacements);
    }
}

/// What another process says of itself may be anything.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}
