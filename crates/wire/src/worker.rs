//! A worker's steps, as it writes them into its own cell and into the slot that it has claimed.
//!
//! One worker alone writes these words while it lives, so each is a plain store. Their order says what may be concluded
//! once it is dead: its cell names a slot before the request there is begun, and until the slot is finished.

use crate::layout::{Command, Leave, SlotControl, WorkerCell, WorkerPhase};
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};

impl WorkerCell {
    /// A process has become this worker.
    pub fn start(&self, pid: u32, now: u64) {
        self.pid.store(pid, Release);
        self.slot.store(0, Release);
        self.leave.store(Leave::Unsaid as u32, Release);
        self.requests.store(0, Release);
        self.change(WorkerPhase::Starting, now);
    }

    /// The worker has claimed `slot`, whose words are `control`, and is about to serve it.
    pub fn enter(&self, slot: u32, control: &SlotControl, now: u64) {
        control.claimed_at.store(now, Release);
        self.slot.store(slot + 1, Release);
        self.change(WorkerPhase::Busy, now);
    }

    /// The slot that it entered is the front's again.
    pub fn finished(&self) {
        self.slot.store(0, Release);
    }

    /// Counts a request that has been served. True when the worker has served its quota.
    #[must_use]
    pub fn count(&self) -> bool {
        let (requests, quota) = (self.requests.load(Relaxed) + 1, self.quota.load(Relaxed));
        self.requests.store(requests, Release);
        quota != 0 && requests >= quota
    }

    /// The worker has nothing to do. Says since when: one that has only looked around between two naps rests on.
    pub fn rest(&self, now: u64) -> u64 {
        if self.phase.load(Relaxed) == WorkerPhase::Idle as u32 {
            return self.since.load(Relaxed);
        }
        self.change(WorkerPhase::Idle, now);
        now
    }

    /// Why it will leave, a [`Leave`].
    pub fn give_reason(&self, reason: u32) {
        self.leave.store(reason, Release);
    }

    /// It claims nothing any more. The front reads the phase after it has queued, and the worker looks at the queue after
    /// this: one of both sees the other.
    pub fn retire(&self, reason: u32) {
        self.give_reason(reason);
        self.phase.store(WorkerPhase::Leaving as u32, SeqCst);
    }

    /// True when the front has asked this worker to leave.
    #[must_use]
    pub fn must_leave(&self) -> bool {
        self.command.load(SeqCst) == Command::Drain as u32
    }

    /// Whether the worker says that it is at the request in `slot`.
    #[must_use]
    pub fn is_at(&self, slot: u32) -> bool {
        self.slot.load(Acquire) == slot + 1
    }

    fn change(&self, phase: WorkerPhase, now: u64) {
        self.since.store(now, Release);
        self.phase.store(phase as u32, Release);
    }
}

impl SlotControl {
    /// The worker is about to call the application with the request.
    pub fn begin(&self) {
        self.begun.store(1, Release);
    }

    /// Whether a worker has.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.begun.load(Acquire) != 0
    }
}
