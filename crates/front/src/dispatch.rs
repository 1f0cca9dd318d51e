//! Between connections and workers: hands out slots, queues requests, wakes workers, and passes slots' news on.
//!
//! Wake-ups are what a request costs most, so they are batched: all connections that are ready are read first, and
//! [`Dispatch::wake_workers`] runs when the thread is about to sleep, or every few requests when it never does. A
//! sleeper is only woken when those awake will not drain the queue soon; [`Dispatch::backstop`] finds out when that
//! estimate was wrong.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use howdah_wire::{FrontCell, Phase, Segment, SlotControl, WorkerCell, WorkerPhase, queue::Queue};

use crate::registry::{Mail, Registry};
use crate::spool::Spool;

/// How long the workers that are awake may need for the queue before another one is woken.
const DRAIN_NS: u64 = 50_000;
/// The longest run time that counts towards the average: one slow request says little about the next.
const SAMPLE_NS: u64 = 1_000_000;
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
/// Requests under way with which a slot that held a large response gives its memory back: so many slots keep theirs.
const WARM: u32 = 32;
/// A response that leaves much memory in its slot, in bytes.
const LARGE: u64 = 128 * 1024;
/// No connection waits for this slot.
const NOBODY: usize = usize::MAX;

/// The slots of one front thread.
pub(crate) struct Dispatch {
    segment: Segment,
    queue: Queue<'static>,
    cell: &'static FrontCell,
    /// Slots at hand; the last one used is the first to be used again, because it is warm.
    free: Vec<u32>,
    /// For each slot of the segment, the connection that waits for it.
    conns: Vec<usize>,
    /// Bodies of requests in slots of this thread.
    kept: HashMap<u32, Spool>,
    /// Moving average of run times in nanoseconds.
    run_ns: u64,
    /// Worker cells that have been in use: the first so many.
    cells: usize,
    /// Requests queued and not yet given back.
    in_flight: u32,
    /// Requests in a row that were queued with none other in flight.
    serial: u32,
    /// Workers have been told to look for the next request before they sleep.
    workers_spin: bool,
    /// Head of the queue when the backstop last looked.
    seen_head: u64,
    max_queue: usize,
}

impl Dispatch {
    pub(crate) fn new(segment: Segment, thread: u32, max_queue: usize) -> Self {
        let controls = segment.controls();
        let own = |slot: &u32| controls[*slot as usize].front.load(Relaxed) == thread;
        Self {
            segment,
            queue: segment.queue(),
            cell: &segment.fronts()[thread as usize],
            free: (0..controls.len() as u32).rev().filter(own).collect(),
            conns: vec![NOBODY; controls.len()],
            kept: HashMap::new(),
            run_ns: 0,
            in_flight: 0,
            serial: 0,
            workers_spin: false,
            cells: 0,
            seen_head: 0,
            max_queue,
        }
    }

    /// A slot to write a request into, or none when too many requests wait.
    pub(crate) fn take_slot(&mut self) -> Option<u32> {
        if self.queue.length() >= self.max_queue as u64 && self.queue.waiting() >= self.max_queue {
            return None;
        }
        self.free.pop()
    }

    /// Gives back a slot that was taken and not queued.
    pub(crate) fn put_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Queues the request in `slot`; news will go to `conn`. False when the queue has no room.
    pub(crate) fn queue(&mut self, slot: u32, conn: usize, now: u64) -> bool {
        self.control(slot).reset(now);
        self.conns[slot as usize] = conn;
        let queued = self.queue.push(slot);
        self.in_flight += 1;
        self.count_serial();
        if !queued {
            self.free_slot(slot);
        }
        queued
    }

    /// True while requests come one by one, so that a short wait for an answer costs less than to sleep and be woken.
    pub(crate) fn is_serial(&self) -> bool {
        self.serial >= SERIAL && self.in_flight == 1
    }

    fn count_serial(&mut self) {
        self.serial = if self.in_flight == 1 { self.serial.saturating_add(1) } else { 0 };
        let pays = self.serial >= SERIAL && self.run_ns < SPIN_NS;
        if self.workers_spin != pays {
            self.workers_spin = pays;
            self.queue.cells.spin.store(if pays { WORKER_SPIN_NS } else { 0 }, Relaxed);
        }
    }

    /// The connection is through with `slot`: it is dropped from the queue, left to run for nobody, or free again.
    pub(crate) fn give_back(&mut self, slot: u32) {
        let phase = self.queue.state(slot).phase;
        if phase == Phase::Done || phase == Phase::Free {
            self.release(slot);
        } else if self.queue.cancel(slot) {
            self.free_slot(slot);
        } else {
            self.abandon(slot);
        }
    }

    fn release(&mut self, slot: u32) {
        self.queue.release(slot);
        self.free_slot(slot);
    }

    /// A worker has it and may even be done by now; whatever comes is for nobody.
    fn abandon(&mut self, slot: u32) {
        self.conns[slot as usize] = NOBODY;
        let control = self.control(slot);
        if control.abandon() {
            howdah_sys::futex_wake(&control.room, 1);
        }
    }

    /// The worker that has been at `slot` since before `time`.
    pub(crate) fn stuck_worker(&self, slot: u32, time: u64) -> Option<u16> {
        let state = self.queue.state(slot);
        let claimed = self.control(slot).claimed_at.load(Relaxed);
        (state.phase == Phase::Running && claimed != 0 && claimed < time).then_some(state.owner)
    }

    /// Keeps the body of the request in `slot` until the slot is free again.
    pub(crate) fn keep(&mut self, slot: u32, body: Spool) {
        self.kept.insert(slot, body);
    }

    /// The body kept for `slot`.
    pub(crate) fn kept(&self, slot: u32) -> Option<&Spool> {
        self.kept.get(&slot)
    }

    /// The worker that has or had `slot`.
    pub(crate) fn owner(&self, slot: u32) -> u16 {
        self.queue.state(slot).owner
    }

    /// True once the worker is through with `slot`.
    pub(crate) fn is_done(&self, slot: u32) -> bool {
        self.queue.state(slot).phase == Phase::Done
    }

    /// The connection that waits for `slot`.
    pub(crate) fn conn_of(&self, slot: u32) -> Option<usize> {
        self.conns.get(slot as usize).copied().filter(|&conn| conn != NOBODY)
    }

    pub(crate) fn control(&self, slot: u32) -> &'static SlotControl {
        &self.segment.controls()[slot as usize]
    }

    /// Passes news of slots on to their connections. True when one was woken: news may have been taken already with
    /// that of a neighbour, or be of a slot that nobody waits for.
    pub(crate) fn take_news(&mut self, registry: &mut Registry) -> bool {
        let mut woken = false;
        if self.cell.has_news() {
            let cell = self.cell;
            cell.take_news(|slot| woken |= self.news(slot, registry));
        }
        woken
    }

    /// Wakes as many workers as the queue needs.
    pub(crate) fn wake_workers(&self, now: u64) {
        let waiting = self.queue.length();
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
        self.queue.length() > 0 && self.queue.cells.sleepers() > 0
    }

    /// Wakes one more worker when the queue has not moved since the last call.
    pub(crate) fn backstop(&mut self) {
        let head = self.queue.cells.head.value.load(SeqCst);
        if head == self.seen_head && self.needs_backstop() {
            self.wake_one();
        }
        self.seen_head = head;
    }

    pub(crate) fn worker_up(&mut self, worker: u16) {
        self.cells = self.cells.max(worker as usize + 1).min(self.segment.workers().len());
    }

    /// Settles what a dead worker has left: requests that it had not begun go back into the queue, the one that it
    /// was running is lost, and what it had finished is passed on.
    pub(crate) fn worker_gone(&mut self, worker: u16, status: u16, registry: &mut Registry) {
        for slot in 0..self.conns.len() as u32 {
            let state = self.queue.state(slot);
            if state.owner != worker || !self.is_own(slot) {
                continue;
            }
            match state.phase {
                Phase::Done => {
                    self.news(slot, registry);
                }
                Phase::Running => self.settle(slot, status, registry),
                Phase::Free | Phase::Queued => {}
            }
        }
        self.wake_workers(howdah_sys::monotonic_ns());
    }

    fn settle(&mut self, slot: u32, status: u16, registry: &mut Registry) {
        let Some(conn) = self.conn_of(slot) else { return self.release(slot) };
        self.queue.release(slot);
        if self.control(slot).begun.load(SeqCst) == 0 && self.queue.push(slot) {
            return;
        }
        let entry = registry.get(conn);
        entry.mail.push_back(Mail::Lost { status });
        entry.wake();
    }

    /// True when a connection was woken.
    fn news(&mut self, slot: u32, registry: &mut Registry) -> bool {
        let done = self.is_done(slot);
        if done {
            self.sample(slot);
        }
        match self.conn_of(slot) {
            Some(conn) => {
                let entry = registry.get(conn);
                entry.news = true;
                entry.wake();
                return true;
            }
            None if done => self.release(slot),
            None => {}
        }
        false
    }

    fn sample(&mut self, slot: u32) {
        let control = self.control(slot);
        let run =
            control.finished_at.load(Relaxed).saturating_sub(control.claimed_at.load(Relaxed)).min(SAMPLE_NS);
        self.run_ns = (self.run_ns * 15 + run) / 16;
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
        self.segment.workers()[..self.cells].iter().filter(soon).count() as u64
    }

    fn wake_one(&self) {
        let workers = self.segment.workers();
        if let Some(worker) = self.queue.cells.pick_sleeper(workers) {
            howdah_sys::futex_wake(&workers[worker as usize].wake, 1);
        }
    }

    fn is_own(&self, slot: u32) -> bool {
        std::ptr::eq(self.segment.front_of(slot), self.cell)
    }

    fn free_slot(&mut self, slot: u32) {
        self.in_flight -= 1;
        if !self.kept.is_empty() {
            self.kept.remove(&slot);
        }
        self.conns[slot as usize] = NOBODY;
        if self.in_flight >= WARM && self.control(slot).produced.load(Relaxed) > LARGE {
            // Refused, the memory stays with the slot.
            let _ = howdah_sys::discard(self.segment.slot_area(slot));
        }
        self.free.push(slot);
    }
}
