//! What a front thread knows by itself of its slots: which are at hand, whose request is in each, and under which ticket
//! it waits. `dispatch` keeps it; what stands in the segment counts only where it fits this.

use std::ops::Range;

use howdah_wire::{Answer, RESPONSE_HEAD, RESPONSE_RING};

/// Nobody waits for the slot.
pub(crate) const NOBODY: usize = usize::MAX;

/// Who has a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It is at hand.
    #[default]
    Free,
    /// We have it: a request is being written, or the one that was there is lost.
    Ours,
    /// We have it, with a request that cannot be queued before the damaged segment is replaced.
    Kept,
    /// It is in the queue or with a worker.
    Out,
    /// We have it: its worker died within the response, and what that had handed over lies in the ring.
    Left,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    /// In its slot: near the response ring, or where there is more room.
    pub(crate) near: bool,
    /// The extent with its body.
    pub(crate) extent: Option<u32>,
}

/// One slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) hold: Hold,
    /// The desk of the exchange that waits for it.
    pub(crate) desk: usize,
    pub(crate) ticket: u64,
    pub(crate) place: Position,
    /// CLOCK_MONOTONIC nanoseconds.
    pub(crate) queued_at: u64,
    /// When a worker was first seen at it, as the thread has served (`Clock::served`). The worker's own word may be wrong, and does not
    /// come from one that was stopped before it.
    pub(crate) seen_at: Option<u64>,
    /// What its worker has last said of the response.
    pub(crate) answer: Answer,
    /// Bytes of the response taken from the ring.
    pub(crate) consumed: u64,
    /// Its end has been passed on.
    pub(crate) ended: bool,
    /// Inspections in a row that found it doubtful, and the processor time that its worker had had at the last of them, in ticks.
    pub(crate) doubts: u8,
    pub(crate) spent: u64,
    /// The worker that died at its request.
    pub(crate) lost_with: Option<u16>,
    /// Nanoseconds that a worker may be at the request though nobody waits for it; zero for any time.
    pub(crate) limit: u64,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            hold: Hold::Free,
            desk: NOBODY,
            ticket: 0,
            place: Position::default(),
            queued_at: 0,
            seen_at: None,
            answer: Answer::default(),
            consumed: 0,
            ended: false,
            doubts: 0,
            spent: 0,
            lost_with: None,
            limit: 0,
        }
    }
}

impl Slot {
    /// Takes note of what the worker says, unless that cannot be.
    pub(crate) fn believe(&mut self, answer: Answer) -> bool {
        let grown = answer.produced >= self.answer.produced.max(self.consumed);
        let fits = answer.produced.wrapping_sub(self.consumed) <= RESPONSE_RING as u64;
        let head = answer.head_length as usize <= RESPONSE_HEAD;
        let sane = grown && fits && head && answer.direct >= self.answer.direct;
        if sane {
            self.answer = answer;
        }
        sane
    }

    /// Whether there may be something of a response in its ring.
    pub(crate) fn has_ring(&self) -> bool {
        matches!(self.hold, Hold::Out | Hold::Left)
    }

    /// Bytes of the response that may be taken now.
    pub(crate) fn available(&self) -> usize {
        self.answer.produced.saturating_sub(self.consumed) as usize
    }
}

/// The slots of a front thread, by their numbers in the segment.
#[derive(Debug)]
pub(crate) struct Slots {
    first: u32,
    slots: Vec<Slot>,
}

impl Slots {
    pub(crate) fn new(own: Range<u32>) -> Self {
        Self { first: own.start, slots: vec![Slot::default(); own.len()] }
    }

    /// None for a number that is not of this thread, whoever named it.
    pub(crate) fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(slot.checked_sub(self.first)? as usize)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(slot.checked_sub(self.first)? as usize)
    }

    /// A slot in whose ring there may be something of a response.
    pub(crate) fn with_ring(&self, slot: u32) -> Option<&Slot> {
        self.get(slot).filter(|own| own.has_ring())
    }

    /// A slot that is in the queue or with a worker.
    pub(crate) fn out(&self, slot: u32) -> Option<&Slot> {
        self.get(slot).filter(|own| own.hold == Hold::Out)
    }

    /// The numbers of those that are not at hand: `count` of them, most often the first.
    pub(crate) fn taken(&self, count: u32) -> Vec<u32> {
        let taken = (self.first..).zip(&self.slots).filter(|(_, own)| own.hold != Hold::Free);
        taken.map(|(slot, _)| slot).take(count as usize).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_other_threads_and_beyond_the_last_are_no_slots() {
        let mut slots = Slots::new(10..20);
        for (number, ours) in [(0, false), (9, false), (10, true), (19, true), (20, false), (u32::MAX, false)]
        {
            assert_eq!(slots.get(number).is_some(), ours, "{number}");
            assert_eq!(slots.get_mut(number).is_some(), ours, "{number}");
        }
        assert!(slots.out(10).is_none() && slots.taken(9).is_empty());
        slots.get_mut(12).unwrap().hold = Hold::Out;
        assert!(slots.out(12).is_some());
        assert_eq!((slots.taken(9), slots.taken(0)), (vec![12], vec![]));
    }

    #[test]
    fn what_a_worker_says_is_bounded_by_what_is_known() {
        let ring = RESPONSE_RING as u64;
        // (consumed, known, said, head, believed)
        let cases = [
            (0, 0, 100, 50, true),
            (0, 0, ring, 0, true),
            (0, 0, ring + 1, 0, false),
            (100, 200, 200, 0, true),
            (100, 200, 199, 0, false),
            (100, 100 + ring, 101 + ring, 0, false),
            (0, 0, 100, RESPONSE_HEAD as u32 + 1, false),
            (0, 0, u64::MAX, 0, false),
        ];
        for (consumed, known, said, head_length, believed) in cases {
            let answer = Answer { produced: known, ..Answer::default() };
            let mut slot = Slot { consumed, answer, ..Slot::default() };
            let said = Answer { produced: said, head_length, ..Answer::default() };
            assert_eq!(slot.believe(said), believed, "{said:?} of {consumed} and {known}");
            assert_eq!(slot.available() as u64, if believed { said.produced } else { known } - consumed);
        }
        let mut slot = Slot { answer: Answer { direct: 5, ..Answer::default() }, ..Slot::default() };
        let believed = [5, 4, 6].map(|direct| slot.believe(Answer { direct, ..Answer::default() }));
        assert_eq!(believed, [true, false, true], "nor is it sent back what a worker has sent by itself");
    }
}
