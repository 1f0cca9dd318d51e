//! One queue of requests that every worker pulls from.
//!
//! A ticket is a place in the queue. To push, the front draws a ticket, writes it into the slot's state word, then
//! into the ring. To claim, a worker reads the ring at `head` and swaps the slot's state from "queued with this
//! ticket" to "running, mine". That swap is the claim; advancing `head` only tidies up, and whoever comes next does it
//! when the claimer died in between. So there is no instant at which killing a worker loses a slot: it is either
//! still queued or bears the dead worker's number.
//!
//! Tickets come from the front's own memory ([`Tickets`]): a front remembers which one it has given a slot, and believes no
//! word about that slot which bears another. What stands in the segment may be nonsense; it is bounded here, so that it
//! leads to no place outside, and [`Queue::doubt`] finds it out.

use crate::layout::{MAX_FRONTS, Phase, QueueCells, SlotControl};
use crate::sync::{AtomicU64, Ordering::SeqCst};

/// What the front threads of one process have in common of a queue, in memory of their own.
#[derive(Debug)]
#[cfg_attr(
    not(loom),
    expect(unused_qualifications, reason = "a model has other atomics, which these are not")
)]
pub struct Tickets {
    /// The next one.
    pub next: core::sync::atomic::AtomicU64,
    /// How many places have been cancelled.
    cancelled: core::sync::atomic::AtomicU64,
    /// Below which ticket each front thread has pushed all that it has drawn, as of when it last said so.
    pushed: [core::sync::atomic::AtomicU64; MAX_FRONTS],
}

#[cfg_attr(not(loom), expect(unused_qualifications, reason = "as above"))]
impl Tickets {
    /// Of a queue that has had none.
    #[must_use]
    pub fn new() -> Self {
        Self {
            next: core::sync::atomic::AtomicU64::new(FIRST_TICKET),
            cancelled: core::sync::atomic::AtomicU64::new(0),
            pushed: [const { core::sync::atomic::AtomicU64::new(0) }; MAX_FRONTS],
        }
    }

    /// A front thread has pushed whatever it has drawn.
    pub fn has_pushed(&self, front: u32) {
        if let Some(pushed) = self.pushed.get(front as usize) {
            pushed.store(self.next.load(SeqCst), SeqCst);
        }
    }

    /// Whether each of so many front threads has pushed `ticket` if it has drawn it. One that had no processor since then may not have.
    #[must_use]
    pub fn is_pushed(&self, ticket: u64, fronts: usize) -> bool {
        self.pushed.iter().take(fronts).all(|pushed| pushed.load(SeqCst) > ticket)
    }
}

impl Default for Tickets {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a queue stood that was found full: it is until its head has moved, or a place was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    head: u64,
    cancelled: u64,
}

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
    /// Where a front draws tickets. A worker's are of no use.
    pub tickets: &'a Tickets,
}

/// A request that a worker has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where it is.
    pub slot: u32,
    /// The ticket under which it waited.
    pub ticket: u64,
}

impl Queue<'_> {
    /// Places taken in the ring, cancelled ones included, as a worker sees it.
    #[must_use]
    pub fn length(&self) -> u64 {
        let head = self.cells.head.value.load(SeqCst);
        self.cells.tail.value.load(SeqCst).saturating_sub(head)
    }

    /// The same as the front knows it, at most the ring's length.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        let head = self.cells.head.value.load(SeqCst);
        self.tickets.next.load(SeqCst).saturating_sub(head).min(self.ring.len() as u64)
    }

    /// Requests that wait: an exact count, for when `length` looks too long.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queued().count()
    }

    /// Whether so many requests wait. Each slot is looked at for that only where the queue can have changed since it was last
    /// `found` full: whoever is refused asks, and there may be many of them.
    pub fn has_waiting(&self, most: usize, found: &mut Option<Full>) -> bool {
        if self.backlog() < most as u64 {
            return false;
        }
        let (head, cancelled) = (self.cells.head.value.load(SeqCst), self.tickets.cancelled.load(SeqCst));
        let now = Some(Full { head, cancelled });
        if *found != now {
            *found = if self.waiting() >= most { now } else { None };
        }
        found.is_some()
    }

    /// When the oldest waiting request was queued (CLOCK_MONOTONIC nanoseconds); none when none waits. It need not stand
    /// at the head: places in front of it may be cancelled, and what a dead worker had claimed comes back behind others.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.queued().map(|control| control.queued_at.load(SeqCst)).min()
    }

    fn queued(&self) -> impl Iterator<Item = &SlotControl> {
        let phase = |control: &SlotControl| State::unpack(control.state.load(SeqCst)).phase;
        self.controls.iter().filter(move |control| phase(control) == Phase::Queued)
    }

    /// True when a claim would find something, or find something to tidy.
    #[must_use]
    pub fn has_entry(&self) -> bool {
        let head = self.cells.head.value.load(SeqCst);
        self.entry(head) & TICKET_MASK == head & TICKET_MASK
    }

    /// Draws a ticket for [`Queue::push`], which must follow. None when the ring is full (of cancelled places behind a
    /// request that still waits: its length is a multiple of the number of slots).
    #[must_use]
    pub fn draw(&self) -> Option<u64> {
        if self.is_full() {
            self.tidy();
            if self.is_full() {
                return None;
            }
        }
        let ticket = self.tickets.next.fetch_add(1, SeqCst);
        self.cells.tail.value.fetch_add(1, SeqCst);
        Some(ticket)
    }

    /// Queues a slot that the front holds.
    pub fn push(&self, slot: u32, ticket: u64) {
        let Some(control) = self.controls.get(slot as usize) else { return };
        let state = State { phase: Phase::Queued, owner: 0, ticket };
        control.state.store(state.pack(), SeqCst);
        self.ring[self.index(ticket)].store(entry_for(slot, ticket), SeqCst);
    }

    /// Takes the oldest waiting request for `worker`.
    #[must_use]
    pub fn claim(&self, worker: u16) -> Option<Claim> {
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
            let _ = self.cells.head.value.compare_exchange(head, head.wrapping_add(1), SeqCst, SeqCst);
            if won {
                return Some(Claim { slot, ticket: head & TICKET_MASK });
            }
        }
    }

    /// The worker is through with what it has claimed. False when the front took the slot away meanwhile.
    #[must_use]
    pub fn finish(&self, Claim { slot, ticket }: Claim, worker: u16) -> bool {
        self.swap(slot, (Phase::Running, worker, ticket), (Phase::Done, worker, ticket))
    }

    /// The front takes back a request that no worker has claimed. False when one has.
    #[must_use]
    pub fn cancel(&self, slot: u32, ticket: u64) -> bool {
        let cancelled = self.swap(slot, (Phase::Queued, 0, ticket), (Phase::Free, 0, ticket));
        if cancelled {
            self.tickets.cancelled.fetch_add(1, SeqCst);
        }
        cancelled
    }

    /// The front takes a slot back that is done, or whose worker is dead.
    pub fn release(&self, slot: u32) {
        let free = State { phase: Phase::Free, owner: 0, ticket: 0 };
        if let Some(control) = self.controls.get(slot as usize) {
            control.state.store(free.pack(), SeqCst);
        }
    }

    /// A slot's state.
    #[must_use]
    pub fn state(&self, slot: u32) -> State {
        State::unpack(self.controls.get(slot as usize).map_or(0, |control| control.state.load(SeqCst)))
    }

    /// What is wrong with the queue's ends, if anything. `head` is where the caller last saw it, and is set anew.
    #[must_use]
    pub fn doubt(&self, head: &mut u64) -> Option<&'static str> {
        // The order matters: others go on meanwhile, and each end only rises.
        let drawn = self.tickets.next.load(SeqCst);
        let (tail, now) = (self.cells.tail.value.load(SeqCst), self.cells.head.value.load(SeqCst));
        let latest = self.tickets.next.load(SeqCst);
        let before = core::mem::replace(head, now);
        if tail > latest || tail + (MAX_FRONTS as u64) < drawn {
            return Some("the queue's tail is not where the front has put it");
        }
        (now < before || now > latest).then_some("the queue's head is outside of the queue")
    }

    /// What is wrong with a slot that waits under `ticket`, if anything.
    #[must_use]
    pub fn doubt_waiting(&self, slot: u32, ticket: u64) -> Option<&'static str> {
        // The head passes a ticket only after its slot's state has changed.
        let passed = self.cells.head.value.load(SeqCst) > ticket;
        let listed = self.entry(ticket) == entry_for(slot, ticket);
        if self.state(slot) != (State { phase: Phase::Queued, owner: 0, ticket }) || (listed && !passed) {
            return None;
        }
        Some(if passed {
            "the queue has passed a request that waits"
        } else {
            "the queue has lost a request"
        })
    }

    /// True while nobody can claim anything although requests wait. That is well while a front thread that has drawn the next ticket
    /// has yet to push, see [`Tickets::is_pushed`].
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.backlog() > 0 && !self.has_entry()
    }

    /// Room is kept for every front thread to be between this check and its draw of a ticket.
    fn is_full(&self) -> bool {
        self.backlog() + MAX_FRONTS as u64 >= self.ring.len() as u64
    }

    /// Moves `head` past requests that no longer wait: cancelled, or claimed by a worker that died before it did so.
    fn tidy(&self) {
        for _ in 0..self.ring.len() {
            let head = self.cells.head.value.load(SeqCst);
            let entry = self.entry(head);
            let waiting = State { phase: Phase::Queued, owner: 0, ticket: head };
            let missing = entry & TICKET_MASK != head & TICKET_MASK;
            if missing || self.state((entry >> TICKET_BITS) as u32) == waiting {
                return;
            }
            let _ = self.cells.head.value.compare_exchange(head, head.wrapping_add(1), SeqCst, SeqCst);
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

/// What stands in the ring for a slot that waits.
fn entry_for(slot: u32, ticket: u64) -> u64 {
    u64::from(slot) << TICKET_BITS | (ticket & TICKET_MASK)
}
