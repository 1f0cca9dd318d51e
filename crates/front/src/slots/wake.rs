//! Wakes workers. Wake-ups are what a request costs most, so they are batched: all connections that are ready are read
//! first, and [`Dispatch::wake_workers`] runs when the thread is about to sleep, or every few requests when it never does.
//! A sleeper is only woken when those awake will not drain the queue soon; [`Dispatch::backstop`] finds out when that
//! estimate was wrong.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use howdah_wire::{WorkerCell, WorkerPhase};

use crate::slots::dispatch::Dispatch;

/// How long the workers that are awake may need for the queue before another one is woken.
const DRAIN_NS: u64 = 50_000;
/// A worker that is busy with one request for this long, and for eight times the average, is not waited for.
const LATE_NS: u64 = 300_000;
const BUSY: u32 = WorkerPhase::Busy as u32;
const IDLE: u32 = WorkerPhase::Idle as u32;
/// Requests one by one before waiting is worth a spin.
const SERIAL: u32 = 32;
/// How long the thread looks for the answer to a single request before it sleeps.
pub(crate) const SPIN_NS: u64 = 50_000;
/// How long a worker looks for the next request: what the client and this thread need to bring it, wake-ups included.
const WORKER_SPIN_NS: u32 = 300_000;

impl Dispatch {
    /// True while requests come one by one, so that a short wait for an answer costs less than to sleep and be woken.
    pub(crate) fn is_serial(&self) -> bool {
        self.serial >= SERIAL && self.in_flight == 1
    }

    /// Another request is queued.
    pub(super) fn count_serial(&mut self) {
        self.serial = if self.in_flight == 1 { self.serial.saturating_add(1) } else { 0 };
        let pays = self.serial >= SERIAL && self.run_ns < SPIN_NS;
        if self.workers_spin != pays {
            self.workers_spin = pays;
            self.queue.cells.spin.store(if pays { WORKER_SPIN_NS } else { 0 }, Relaxed);
        }
    }

    /// Wakes as many workers as the queue needs.
    pub(crate) fn wake_workers(&self, now: u64) {
        let waiting = self.queue.backlog();
        let sleepers = if waiting == 0 { 0 } else { self.queue.cells.sleepers() };
        if sleepers == 0 {
            return;
        }
        let awake = self.come_soon(now);
        let wanted = (waiting * self.run_ns).div_ceil(DRAIN_NS).max(1);
        for _ in 0..wanted.saturating_sub(awake).min(waiting).min(u64::from(sleepers)) {
            self.wake_one();
        }
    }

    /// True while requests wait though workers sleep: the estimate behind that must be checked soon.
    pub(crate) fn needs_backstop(&self) -> bool {
        self.queue.backlog() > 0 && self.queue.cells.sleepers() > 0
    }

    /// Wakes one more worker when the queue has not moved since the last call.
    pub(crate) fn backstop(&mut self) {
        let head = self.queue.cells.head.value.load(SeqCst);
        if head == self.seen_head && self.needs_backstop() {
            self.wake_one();
        }
        self.seen_head = head;
    }

    /// Workers that are awake and will look at the queue soon. One that has been at its request for much longer than
    /// usual may never.
    fn come_soon(&self, now: u64) -> u64 {
        let late = now.saturating_sub((self.run_ns * 8).max(LATE_NS));
        let soon = |worker: &&WorkerCell| match worker.phase.load(Relaxed) {
            BUSY => worker.since.load(Relaxed) > late,
            IDLE => worker.wake.load(Relaxed) == 1,
            _ => false,
        };
        self.segment.workers()[..self.present.len()].iter().filter(soon).count() as u64
    }

    fn wake_one(&self) {
        let workers = self.segment.workers();
        if let Some(worker) = self.queue.cells.pick_sleeper(workers) {
            howdah_sys::futex_wake(&workers[worker as usize].wake, 1);
        }
    }
}
