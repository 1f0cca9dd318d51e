//! Finds out when the segment cannot be relied upon any more: ten times a second, each front thread compares what stands
//! there with what it knows.
//!
//! Words that only the front writes, and tickets, must be right at once. What a worker is just about to write may be
//! doubtful for an instant: it counts when it has been so several times in a row. News that was lost is passed on.

use std::sync::atomic::Ordering::Relaxed;

use howdah_wire::queue::State;
use howdah_wire::{Phase, RESPONSE_HEAD_READY};

use crate::reports::Damaged;
use crate::slots::dispatch::Dispatch;
use crate::slots::own::Hold;

/// Inspections in a row that may find something doubtful.
const DOUBTS: u8 = 5;

/// What an inspection makes of a slot.
enum Verdict {
    Fine,
    /// It has news that its exchange has not heard of.
    News,
    /// For an instant this may be.
    Doubtful(&'static str),
    Wrong(&'static str),
}

impl Dispatch {
    /// Looks after everything once.
    pub(crate) fn inspect(&mut self) {
        if self.damage.is_none() && !self.segment.has_its_header() {
            self.suspect("its header was overwritten");
        }
        self.inspect_queue();
        for slot in self.slots.taken(self.in_flight) {
            if self.damage.is_some() {
                return;
            }
            self.inspect_slot(slot);
        }
    }

    /// The queue's two ends, and whether it moves.
    pub(crate) fn inspect_queue(&mut self) {
        if self.damage.is_some() {
            return;
        }
        let (mut head, stuck) = self.inspected;
        let before = head;
        if let Some(what) = self.queue.doubt(&mut head) {
            return self.suspect(what);
        }
        let stuck = if self.queue.is_stuck() && head == before { stuck.saturating_add(1) } else { 0 };
        self.inspected = (head, stuck);
        if stuck >= DOUBTS {
            self.suspect("the queue does not move");
        }
    }

    fn inspect_slot(&mut self, slot: u32) {
        let verdict = self.verdict(slot);
        let Some(own) = self.slots.get_mut(slot) else { return };
        own.doubts = if let Verdict::Doubtful(_) = verdict { own.doubts.saturating_add(1) } else { 0 };
        match verdict {
            Verdict::Fine => {}
            Verdict::News => {
                self.news(slot);
            }
            Verdict::Doubtful(what) if own.doubts >= DOUBTS => self.suspect(what),
            Verdict::Doubtful(_) => {}
            Verdict::Wrong(what) => self.suspect(what),
        }
    }

    fn verdict(&self, slot: u32) -> Verdict {
        let Some(own) = self.slots.get(slot).filter(|own| own.hold == Hold::Out) else {
            return Verdict::Fine;
        };
        let state = self.queue.state(slot);
        if state.ticket != own.ticket {
            return Verdict::Wrong("a slot bears a ticket that it was not given");
        }
        match state.phase {
            Phase::Free => Verdict::Wrong("a slot is free that was not given back"),
            Phase::Queued => match self.queue.doubt_waiting(slot, own.ticket) {
                Some(what) => Verdict::Wrong(what),
                None => Verdict::Fine,
            },
            Phase::Running => self.verdict_on_running(slot, state),
            // The look makes sure of the response.
            Phase::Done if own.ended => Verdict::Fine,
            Phase::Done => Verdict::News,
        }
    }

    fn verdict_on_running(&self, slot: u32, state: State) -> Verdict {
        let Some(own) = self.slots.get(slot) else { return Verdict::Fine };
        let control = self.control(slot);
        if control.consumed.load(Relaxed) != own.consumed {
            return Verdict::Wrong("a count of the front's was overwritten");
        }
        if !self.is_present(state.owner) || !self.is_at(state.owner, slot) {
            return Verdict::Doubtful("a request has a worker that does not know of it");
        }
        match control.answer(own.ticket) {
            Some(answer) if answer == own.answer => Verdict::Fine,
            Some(_) => Verdict::News,
            None if control.flags.load(Relaxed) & RESPONSE_HEAD_READY == 0 => Verdict::Fine,
            None => Verdict::Doubtful("a response is not what its worker has made"),
        }
    }

    /// Something cannot be true, so nothing there can be relied upon. Says so, once.
    pub(crate) fn suspect(&mut self, what: &'static str) {
        if self.damage.is_none() {
            self.damage = Some(what);
            // Without a listener the server ends.
            let _ = self.damaged.send(Damaged { segment: self.segment, what });
        }
    }
}
