//! The state as others get to see it: status pages, the control socket.

use howdah_sys::{Moment, Pid};
use howdah_wire::WorkerPhase;

use crate::counts::Counts;

/// The supervisor's state at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Generation that serves.
    pub generation: u32,
    /// Since when it does; none when none does.
    pub serving_since: Option<Moment>,
    /// Process id of its zygote; none while that is dead.
    pub zygote: Option<Pid>,
    /// Those of all generations.
    pub zygotes: Vec<Pid>,
    /// Version of the perl that runs the application; empty when it is not known.
    pub perl: String,
    /// Templates that the generation that serves has compiled before the fork.
    pub templates: u32,
    /// How often a worker has left the next zygote behind since it was loaded.
    pub reforks: u32,
    /// A new generation is loading or starting its workers.
    pub reloading: bool,
    /// Workers wanted.
    pub target: usize,
    /// Workers that are there, by index.
    pub workers: Vec<WorkerInfo>,
    /// What came and went.
    pub counts: Counts,
    /// Why nothing is forked at the moment, and until when; none when all is well.
    pub trouble: Option<String>,
}

/// One worker.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// Its cell.
    pub index: u16,
    /// Process id; none before the fork is reported. Of a worker that is a thread, that of its host.
    pub pid: Option<Pid>,
    /// The process that is at work for it: itself, or what a worker that is a thread runs, none while that is nothing.
    pub process: Option<Pid>,
    /// It is a thread of a host, which runs scripts.
    pub is_thread: bool,
    /// Load of the application that it runs.
    pub generation: u32,
    /// What it is doing.
    pub phase: WorkerPhase,
    /// It has been asked to leave.
    pub draining: bool,
    /// Requests served.
    pub requests: u64,
    /// Requests after which it leaves; 0 for never.
    pub quota: u64,
    /// Slot that it serves.
    pub slot: Option<u32>,
    /// When it was asked for.
    pub started: Moment,
    /// CLOCK_MONOTONIC nanoseconds at which the current phase began.
    pub since: u64,
    /// Private memory in bytes when last measured; only with `max_memory`.
    pub memory: Option<u64>,
}

impl WorkerInfo {
    /// The response to its request is out, and it has not come to the next: psgix.cleanup, close, or a destructor runs.
    #[must_use]
    pub fn is_behind_response(&self) -> bool {
        self.phase == WorkerPhase::Busy && self.slot.is_none() && !self.is_thread
    }
}
