//! One queue of requests that every worker pulls from.
//!
//! A ticket is a place in the queue. To push, the front draws a ticket, writes it into the slot's state word, then
//! into the ring. To claim, a worker reads the ring at `head` and swaps the slot's state from "queued with this
//! ticket" to "running, mine". That swap is the claim; advancing `head` only tidies up, and whoever comes next does it
//! when the claimer died in between. So there is no instant at which killing a worker loses a slot: it is either
//! still queued or bears the dead worker's number.

use crate::layout::{Command, MAX_FRONTS, Phase, QueueCells, SlotControl};
use crate::sync::{AtomicU64, Ordering::SeqCst};

const TICKET_BITS: u32 = 48;
const TICKET_MASK: u64 = (1 << TICKET_BITS) - 1;
const OWNER_MASK: u64 = 0xfff;

/// The first ticket. Not 0, so that a ring of zeros holds no ticket that anybody waits for.
pub const FIRST_TICKET: u64 = 1;

/// A slot's state word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// What the slot is doing.
    pub phase: Phase,
    /// Worker that claimed it, when running or done.
    pub owner: u16,
    /// Its place in the queue.
    pub ticket: u64,
}

impl State {
    /// Into the state word.
    #[must_use]
    pub fn pack(self) -> u64 {
        ((self.phase as u64) << 60)
            | (u64::from(self.owner) & OWNER_MASK) << TICKET_BITS
            | (self.ticket & TICKET_MASK)
    }

    /// From the state word. An impossible phase reads as `Free`, which makes the front drop the slot's response.
    #[must_use]
    pub fn unpack(word: u64) -> Self {
        let phase = match word >> 60 {
            1 => Phase::Queued,
            2 => Phase::Running,
            3 => Phase::Done,
            _ => Phase::Free,
        };
        Self { phase, owner: ((word >> TICKET_BITS) & OWNER_MASK) as u16, ticket: word & TICKET_MASK }
    }
}

/// The queue's memory, borrowed from the segment (or built by a model).
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub struct Queue<'a> {
    /// Head, tail and the idle bitmap.
    pub cells: &'a QueueCells,
    /// `slot << 48 | ticket` at `ticket % len`; length a power of two.
    pub ring: &'a [AtomicU64],
    /// Every slot's control words.
    pub controls: &'a [SlotControl],
}

impl Queue<'_> {
    /// Places taken in the ring, cancelled ones included.
    #[must_use]
    pub fn length(&self) -> u64 {
        let head = self.cells.head.value.load(SeqCst);
        self.cells.tail.value.load(SeqCst).saturating_sub(head)
    }

    /// Requests that wait: an exact count, for when `length` looks too long.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.controls
            .iter()
            .filter(|control| State::unpack(control.state.load(SeqCst)).phase == Phase::Queued)
            .count()
    }

    /// When the oldest waiting request was queued (CLOCK_MONOTONIC nanoseconds); none when none waits.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        let head = self.cells.head.value.load(SeqCst);
        let entry = self.entry(head);
        let slot = (entry >> TICKET_BITS) as u32;
        let waits = entry & TICKET_MASK == head & TICKET_MASK && self.state(slot).phase == Phase::Queued;
        waits.then(|| self.controls[slot as usize].queued_at.load(SeqCst))
    }

    /// True when a claim would find something, or find something to tidy.
    #[must_use]
    pub fn has_entry(&self) -> bool {
        let head = self.cells.head.value.load(SeqCst);
        self.entry(head) & TICKET_MASK == head & TICKET_MASK
    }

    /// Queues a slot that the front holds. False when the ring is full (of cancelled places behind a request that
    /// still waits: its length is a multiple of the number of slots).
    #[must_use]
    pub fn push(&self, slot: u32) -> bool {
        if self.is_full() {
            self.tidy();
            if self.is_full() {
                return false;
            }
        }
        let ticket = self.cells.tail.value.fetch_add(1, SeqCst);
        let state = State { phase: Phase::Queued, owner: 0, ticket };
        self.controls[slot as usize].state.store(state.pack(), SeqCst);
        self.ring[self.index(ticket)].store(u64::from(slot) << TICKET_BITS | (ticket & TICKET_MASK), SeqCst);
        true
    }

    /// Takes the oldest waiting request for `worker`.
    #[must_use]
    pub fn claim(&self, worker: u16) -> Option<u32> {
        loop {
            let head = self.cells.head.value.load(SeqCst);
            let entry = self.entry(head);
            if entry & TICKET_MASK != head & TICKET_MASK {
                if self.cells.head.value.load(SeqCst) == head {
                    return None;
                }
                continue; // another worker moved on while we looked
            }
            let slot = (entry >> TICKET_BITS) as u32;
            let won = self.swap(slot, (Phase::Queued, 0, head), (Phase::Running, worker, head));
            let _ = self.cells.head.value.compare_exchange(head, head + 1, SeqCst, SeqCst);
            if won {
                return Some(slot);
            }
        }
    }

    /// The worker is through with `slot`. False when the front took the slot away meanwhile.
    #[must_use]
    pub fn finish(&self, slot: u32, worker: u16) -> bool {
        let state = self.state(slot);
        state.phase == Phase::Running
            && state.owner == worker
            && self.swap(slot, (Phase::Running, worker, state.ticket), (Phase::Done, worker, state.ticket))
    }

    /// The front takes back a request that no worker has claimed. False when one has.
    #[must_use]
    pub fn cancel(&self, slot: u32) -> bool {
        let state = self.state(slot);
        state.phase == Phase::Queued
            && self.swap(slot, (Phase::Queued, 0, state.ticket), (Phase::Free, 0, state.ticket))
    }

    /// The front takes a slot back that is done, or whose worker is dead.
    pub fn release(&self, slot: u32) {
        let free = State { phase: Phase::Free, owner: 0, ticket: 0 };
        self.controls[slot as usize].state.store(free.pack(), SeqCst);
    }

    /// The slots that bear `worker`'s number. Once it is dead the front releases those that are running, or queues
    /// anew those not `begun`; those that are done still hold a whole response, which the dead worker may not have
    /// told.
    pub fn held_by(&self, worker: u16) -> impl Iterator<Item = u32> {
        (0..self.controls.len() as u32).filter(move |&slot| {
            let state = self.state(slot);
            matches!(state.phase, Phase::Running | Phase::Done) && state.owner == worker
        })
    }

    /// A slot's state.
    #[must_use]
    pub fn state(&self, slot: u32) -> State {
        State::unpack(self.controls[slot as usize].state.load(SeqCst))
    }

    /// Room is kept for every front thread to be between this check and its draw of a ticket.
    fn is_full(&self) -> bool {
        self.length() + MAX_FRONTS as u64 >= self.ring.len() as u64
    }

    /// Moves `head` past requests that no longer wait: cancelled, or claimed by a worker that died before it did so.
    fn tidy(&self) {
        loop {
            let head = self.cells.head.value.load(SeqCst);
            let entry = self.entry(head);
            let waiting = State { phase: Phase::Queued, owner: 0, ticket: head };
            let missing = entry & TICKET_MASK != head & TICKET_MASK;
            if missing || self.state((entry >> TICKET_BITS) as u32) == waiting {
                return;
            }
            let _ = self.cells.head.value.compare_exchange(head, head + 1, SeqCst, SeqCst);
        }
    }

    fn swap(&self, slot: u32, from: (Phase, u16, u64), to: (Phase, u16, u64)) -> bool {
        let word = |(phase, owner, ticket)| State { phase, owner, ticket }.pack();
        let Some(control) = self.controls.get(slot as usize) else { return false };
        control.state.compare_exchange(word(from), word(to), SeqCst, SeqCst).is_ok()
    }

    fn entry(&self, ticket: u64) -> u64 {
        self.ring[self.index(ticket)].load(SeqCst)
    }

    fn index(&self, ticket: u64) -> usize {
        (ticket & (self.ring.len() as u64 - 1)) as usize
    }
}

impl crate::layout::WorkerCell {
    /// True when the front has asked this worker to leave.
    #[must_use]
    pub fn must_leave(&self) -> bool {
        self.command.load(SeqCst) == Command::Drain as u32
    }
}
