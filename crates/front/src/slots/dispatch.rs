//! Hands out slots, queues requests, and passes slots' news on to the exchanges that wait for them.
//!
//! Which slots are at hand, and which ticket each has, is this thread's own knowledge (`own`). A word in the segment
//! counts only where it fits that; one that cannot be true makes the whole segment suspect, see `inspect`. `wake` sees to
//! it that workers come.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use howdah_wire::{Answer, FrontCell, Phase, Segment, SlotControl, queue::Queue};
use tokio::sync::mpsc::UnboundedSender;

use crate::exchange::Desks;
use crate::reports::Damaged;
use crate::slots::body::Spool;
use crate::slots::own::{Hold, NOBODY, Place, Slot, Slots};

/// The longest run time that counts towards the average: one slow request says little about the next.
const SAMPLE_NS: u64 = 1_000_000;
/// Requests under way with which a slot that held a large response gives its memory back: so many slots keep theirs.
const WARM: u32 = 32;
/// A response that leaves much memory in its slot, in bytes.
const LARGE: u64 = 128 * 1024;

/// The slots of one front thread in the segment of one application.
pub(crate) struct Dispatch {
    pub(crate) segment: Segment,
    pub(crate) queue: Queue<'static>,
    pub(crate) cell: &'static FrontCell,
    /// Slots at hand; the last one used is the first to be used again, because it is warm.
    free: Vec<u32>,
    pub(crate) slots: Slots,
    /// Bodies of requests in slots of this thread.
    kept: HashMap<u32, Spool>,
    /// Moving average of run times in nanoseconds.
    pub(crate) run_ns: u64,
    /// Workers that live, by the number of their cell.
    pub(crate) present: Vec<bool>,
    /// Requests queued and not yet given back.
    pub(crate) in_flight: u32,
    /// Requests in a row that were queued with none other in flight.
    pub(crate) serial: u32,
    /// Workers have been told to look for the next request before they sleep.
    pub(crate) workers_spin: bool,
    /// Head of the queue when the backstop last looked.
    pub(crate) seen_head: u64,
    max_queue: usize,
    /// Where those wait whose requests are in the slots.
    pub(crate) desks: &'static Desks,
    /// What is wrong with the segment: it will be replaced.
    pub(crate) damage: Option<&'static str>,
    pub(crate) damaged: UnboundedSender<Damaged>,
    /// Head of the queue at the last inspection, and inspections in a row that found nothing there.
    pub(crate) inspected: (u64, u8),
}

impl Dispatch {
    pub(crate) fn new(
        segment: Segment,
        thread: u32,
        max_queue: usize,
        desks: &'static Desks,
        damaged: UnboundedSender<Damaged>,
    ) -> Self {
        let own = segment.slots_of(thread);
        Self {
            segment,
            queue: segment.queue(),
            cell: &segment.fronts()[thread as usize],
            free: own.clone().rev().collect(),
            slots: Slots::new(own),
            kept: HashMap::new(),
            run_ns: 0,
            in_flight: 0,
            serial: 0,
            workers_spin: false,
            present: Vec::new(),
            seen_head: 0,
            max_queue,
            desks,
            damage: None,
            damaged,
            inspected: (0, 0),
        }
    }

    /// A slot to write a request into, or none when too many requests wait.
    pub(crate) fn take_slot(&mut self) -> Option<u32> {
        if self.queue.backlog() >= self.max_queue as u64 && self.queue.waiting() >= self.max_queue {
            return None;
        }
        let slot = self.free.pop()?;
        *self.slots.get_mut(slot)? = Slot { hold: Hold::Ours, ..Slot::default() };
        Some(slot)
    }

    /// Gives back a slot that was taken and not queued.
    pub(crate) fn put_back(&mut self, slot: u32) {
        if let Some(own) = self.slots.get_mut(slot) {
            own.hold = Hold::Free;
            self.free.push(slot);
        }
    }

    /// Queues the request in `slot`; news will go to that desk. False when the queue has no room.
    pub(crate) fn queue(&mut self, slot: u32, place: Place, desk: usize, now: u64) -> bool {
        let control = self.control(slot);
        let Some(own) = self.slots.get_mut(slot) else { return false };
        control.reset(now);
        *own = Slot { hold: Hold::Ours, desk, place, queued_at: now, ..Slot::default() };
        let queued = self.push(slot);
        self.in_flight += 1;
        self.count_serial();
        if !queued {
            self.free_slot(slot);
        }
        queued
    }

    /// Gives a slot of ours its ticket and its place in the queue. Where the segment is to be replaced it waits for that.
    pub(crate) fn push(&mut self, slot: u32) -> bool {
        let ticket = if self.damage.is_none() { self.queue.draw() } else { None };
        if ticket.is_none() {
            self.inspect_queue();
        }
        let waits = self.damage.is_some();
        let Some(own) = self.slots.get_mut(slot) else { return false };
        own.consumed = 0;
        own.answer = Answer::default();
        let Some(ticket) = ticket else {
            own.hold = if waits { Hold::Kept } else { Hold::Ours };
            return waits;
        };
        (own.hold, own.ticket) = (Hold::Out, ticket);
        self.segment.stamp(slot, own.place.near, ticket);
        if let Some(extent) = own.place.extent.and_then(|extent| self.segment.extent_ticket(extent)) {
            extent.store(ticket, Relaxed);
        }
        self.queue.push(slot, ticket);
        true
    }

    /// The exchange is through with `slot`: it is dropped from the queue, left to run for nobody, or free again.
    pub(crate) fn give_back(&mut self, slot: u32) {
        let Some(&Slot { hold, ticket, .. }) = self.slots.get(slot) else { return };
        match hold {
            Hold::Free => {}
            Hold::Ours | Hold::Kept => self.free_slot(slot),
            Hold::Out if self.look(slot).done => self.release(slot),
            Hold::Out if self.queue.cancel(slot, ticket) => self.free_slot(slot),
            Hold::Out => self.abandon(slot),
        }
    }

    pub(crate) fn release(&mut self, slot: u32) {
        self.queue.release(slot);
        self.free_slot(slot);
    }

    /// A worker has it and may even be done by now; whatever comes is for nobody.
    fn abandon(&mut self, slot: u32) {
        if let Some(own) = self.slots.get_mut(slot) {
            own.desk = NOBODY;
        }
        let control = self.control(slot);
        if control.abandon() {
            howdah_sys::futex_wake(&control.room, 1);
        }
    }

    /// The worker that has been at `slot` since before `time`.
    pub(crate) fn stuck_worker(&self, slot: u32, time: u64) -> Option<u16> {
        let owner = self.owner(slot).filter(|_| self.queue.state(slot).phase == Phase::Running)?;
        let claimed = self.control(slot).claimed_at.load(Relaxed);
        (claimed != 0 && claimed < time).then_some(owner)
    }

    /// Keeps the body of the request in `slot` until the slot is free again.
    pub(crate) fn keep(&mut self, slot: u32, body: Spool) {
        self.kept.insert(slot, body);
    }

    /// The body kept for `slot`.
    pub(crate) fn kept(&self, slot: u32) -> Option<&Spool> {
        self.kept.get(&slot)
    }

    /// The worker that has or had the request in `slot`.
    pub(crate) fn owner(&self, slot: u32) -> Option<u16> {
        let (own, state) = (self.slots.out(slot)?, self.queue.state(slot));
        let ours = state.ticket == own.ticket && matches!(state.phase, Phase::Running | Phase::Done);
        ours.then_some(state.owner)
    }

    /// True once the worker is through with `slot`.
    pub(crate) fn is_done(&mut self, slot: u32) -> bool {
        self.look(slot).done
    }

    /// The desk of the exchange that waits for `slot`, when this worker has its request.
    pub(crate) fn desk_served_by(&self, worker: u16, slot: u32) -> Option<usize> {
        self.desk_of(slot).filter(|_| self.owner(slot) == Some(worker))
    }

    /// The desk of the exchange that waits for `slot`.
    pub(crate) fn desk_of(&self, slot: u32) -> Option<usize> {
        self.slots.get(slot).map(|own| own.desk).filter(|&desk| desk != NOBODY)
    }

    /// The request in `slot`, as it stands there now: whoever writes to the segment may have changed it.
    pub(crate) fn request(&self, slot: u32) -> &'static [u8] {
        match self.slots.get(slot) {
            Some(own) => self.segment.request_area(slot, own.place.near),
            None => &[],
        }
    }

    /// The words of a slot of ours.
    pub(crate) fn control(&self, slot: u32) -> &'static SlotControl {
        &self.segment.controls()[slot as usize]
    }

    pub(crate) fn worker_up(&mut self, worker: u16) {
        let index = usize::from(worker);
        if index < self.segment.workers().len() {
            self.present.resize(self.present.len().max(index + 1), false);
            self.present[index] = true;
        }
    }

    pub(crate) fn is_present(&self, worker: u16) -> bool {
        self.present.get(usize::from(worker)).is_some_and(|&present| present)
    }

    /// Passes news of slots on to their exchanges. True when one was woken: news may have been taken already with
    /// that of a neighbour, or be of a slot that nobody waits for.
    pub(crate) fn take_news(&mut self) -> bool {
        let mut woken = false;
        if self.cell.has_news() {
            let cell = self.cell;
            cell.take_news(|slot| woken |= self.news(slot));
        }
        woken
    }

    /// True when an exchange was woken.
    pub(crate) fn news(&mut self, slot: u32) -> bool {
        let Some(own) = self.slots.out(slot) else { return false };
        let (desk, ended) = (own.desk, own.ended);
        let done = self.is_done(slot);
        if done && !ended {
            self.sample(slot);
        }
        if desk == NOBODY {
            if done {
                self.release(slot);
            }
            return false;
        }
        self.desks.tell(desk);
        true
    }

    fn sample(&mut self, slot: u32) {
        if let Some(own) = self.slots.get_mut(slot) {
            own.ended = true;
        }
        let control = self.control(slot);
        let run =
            control.finished_at.load(Relaxed).saturating_sub(control.claimed_at.load(Relaxed)).min(SAMPLE_NS);
        self.run_ns = (self.run_ns * 15 + run) / 16;
    }

    pub(crate) fn free_slot(&mut self, slot: u32) {
        let Some(own) = self.slots.get_mut(slot) else { return };
        let produced = own.answer.produced;
        *own = Slot::default();
        self.in_flight = self.in_flight.saturating_sub(1);
        if !self.kept.is_empty() {
            self.kept.remove(&slot);
        }
        if self.in_flight >= WARM && produced > LARGE {
            // Refused, the memory stays with the slot.
            let _ = howdah_sys::discard(self.segment.slot_area(slot));
        }
        self.free.push(slot);
    }
}
