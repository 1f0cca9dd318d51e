//! A segment built by hand: loom's atomics cannot be conjured out of zeroed memory.

use howdah_wire::Outgoing;
use howdah_wire::layout::*;
use howdah_wire::model::{AtomicU32, AtomicU64, Ordering::SeqCst};
use howdah_wire::queue::{Claim, FIRST_TICKET, Queue, Tickets};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use std::sync::atomic::{AtomicU32 as Count, Ordering::Relaxed};

/// Places in the ring: above the margin that `push` keeps for racing fronts.
const RING: usize = 32;

pub(crate) struct Room {
    pub(crate) cells: QueueCells,
    pub(crate) ring: Vec<AtomicU64>,
    pub(crate) controls: Vec<SlotControl>,
    pub(crate) workers: Vec<WorkerCell>,
    pub(crate) front: FrontCell,
    tickets: Tickets,
    /// Stands for each slot's plain bytes: loom fails the model when two threads use them without order.
    pub(crate) bytes: Vec<UnsafeCell<u32>>,
    /// How often an application was called with each slot's request: no word of the segment, and no step.
    calls: Vec<Count>,
}

impl Room {
    pub(crate) fn new(slots: usize, workers: usize) -> Arc<Self> {
        let padded = || Padded { value: AtomicU64::new(FIRST_TICKET) };
        Arc::new(Self {
            cells: QueueCells {
                head: padded(),
                tail: padded(),
                spin: AtomicU32::new(0),
                idle: core::array::from_fn(|_| word()),
            },
            ring: (0..RING).map(|_| word()).collect(),
            controls: (0..slots).map(|_| control()).collect(),
            workers: (0..workers).map(|_| worker()).collect(),
            front: FrontCell {
                sleeping: half(),
                summary: word(),
                attention: core::array::from_fn(|_| word()),
                extents: core::array::from_fn(|_| word()),
            },
            tickets: Tickets::new(),
            bytes: (0..slots).map(|_| UnsafeCell::new(0)).collect(),
            calls: (0..slots).map(|_| Count::new(0)).collect(),
        })
    }

    pub(crate) fn queue(&self) -> Queue<'_> {
        Queue { cells: &self.cells, ring: &self.ring, controls: &self.controls, tickets: &self.tickets }
    }

    /// The front writes a request and queues it: its ticket.
    pub(crate) fn push(&self, slot: u32) -> u64 {
        self.touch(slot);
        let ticket = self.queue().draw().unwrap();
        self.queue().push(slot, ticket);
        ticket
    }

    /// A worker makes a response of `length` bytes to what it has claimed, and finishes it. False when it was taken away.
    pub(crate) fn answer(&self, worker: u16, claim: Claim, length: usize) -> bool {
        let control = &self.controls[claim.slot as usize];
        let mut response = Outgoing::new(claim.ticket);
        response.produce(control, length);
        response.close(control);
        self.queue().finish(claim, worker)
    }

    /// A worker serves what it has claimed, step by step as its C files do: whether the front must be woken.
    pub(crate) fn serve(&self, worker: u16, claim: Claim) -> bool {
        let (cell, control) = (&self.workers[worker as usize], &self.controls[claim.slot as usize]);
        cell.enter(claim.slot, control, 1);
        control.begin();
        self.calls[claim.slot as usize].fetch_add(1, Relaxed);
        self.touch(claim.slot);
        assert!(self.answer(worker, claim, 1));
        let wakes = self.front.tell(claim.slot);
        cell.finished();
        wakes
    }

    /// How often an application was called with the request in `slot`.
    pub(crate) fn calls(&self, slot: u32) -> u32 {
        self.calls[slot as usize].load(Relaxed)
    }

    /// The front wakes one sleeper: the worker whose futex it would wake.
    pub(crate) fn wake_one(&self) -> Option<u16> {
        self.cells.pick_sleeper(&self.workers)
    }

    /// Uses the slot's plain bytes as only their owner may.
    pub(crate) fn touch(&self, slot: u32) {
        // SAFETY: exactly what the model is to prove; loom reports any other thread in here.
        self.bytes[slot as usize].with_mut(|bytes| unsafe { *bytes += 1 });
    }

    /// True when worker `index` lies asleep on a futex that nobody has woken.
    pub(crate) fn still_asleep(&self, index: u16) -> bool {
        self.workers[index as usize].wake.load(SeqCst) == 0
    }
}

/// Checks `model` with at most `switches` context switches that nothing forces: for more than two threads. The bugs
/// of interest need two.
pub(crate) fn bounded(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

/// A worker's main loop up to the point where it sleeps: the slots that it claimed.
pub(crate) fn work_until_asleep(room: &Room, worker: u16, mut serve: impl FnMut(Claim)) {
    let cell = &room.workers[worker as usize];
    loop {
        while let Some(claim) = room.queue().claim(worker) {
            serve(claim);
        }
        room.cells.enter_idle(worker, cell, 1);
        if room.queue().may_sleep(cell) {
            return;
        }
        room.cells.leave_idle(worker);
    }
}

fn word() -> AtomicU64 {
    AtomicU64::new(0)
}

fn half() -> AtomicU32 {
    AtomicU32::new(0)
}

fn control() -> SlotControl {
    SlotControl {
        state: word(),
        produced: word(),
        content_length: word(),
        claimed_at: word(),
        finished_at: word(),
        flags: half(),
        status: half(),
        head_length: half(),
        begun: half(),
        seal: word(),
        consumed: word(),
        queued_at: word(),
        room: half(),
        waiting: half(),
        abandoned: half(),
        request_at: half(),
        report: half(),
        direct: word(),
    }
}

fn worker() -> WorkerCell {
    WorkerCell {
        phase: half(),
        pid: half(),
        slot: half(),
        leave: half(),
        requests: word(),
        since: word(),
        idle_order: word(),
        generation: half(),
        command: half(),
        wake: half(),
        cpu: half(),
        quota: word(),
        asks: word(),
        asked: std::array::from_fn(|_| word()),
    }
}
