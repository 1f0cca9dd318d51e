//! The response in a slot, as the exchange reads it that waits for it.
//!
//! What the worker says is copied once, and believed when it bears the ticket of this request and fits what is known
//! already. How much has been taken is our own count.

use std::cell::RefCell;
use std::fmt;

use howdah_wire::{Answer, Phase};

use crate::slots::dispatch::Dispatch;
use crate::slots::own::{Hold, Slot};

/// What is known of the response in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub(crate) answer: Answer,
    /// The worker is through with it.
    pub(crate) done: bool,
}

/// See the module. The slot is its exchange's as long as that has not given it back.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    dispatch: &'static RefCell<Dispatch>,
    slot: u32,
}

impl Ring {
    pub(crate) fn new(dispatch: &'static RefCell<Dispatch>, slot: u32) -> Self {
        Self { dispatch, slot }
    }

    /// What is known of the response now.
    pub(crate) fn look(self) -> Look {
        self.dispatch.borrow_mut().look(self.slot)
    }

    /// Bytes that may be taken now.
    pub(crate) fn available(self) -> usize {
        let mut dispatch = self.dispatch.borrow_mut();
        dispatch.look(self.slot);
        dispatch.slots.out(self.slot).map_or(0, Slot::available)
    }

    /// Of those bytes, as of the last look, `length` behind the first `skip`, or as many as there are: up to the ring's end,
    /// and from its start.
    pub(crate) fn bytes(self, skip: usize, length: usize) -> (&'static [u8], &'static [u8]) {
        let dispatch = self.dispatch.borrow();
        let Some(own) = dispatch.slots.out(self.slot) else { return (&[], &[]) };
        let length = own.available().saturating_sub(skip).min(length);
        dispatch.segment.response(self.slot, own.consumed + skip as u64, length)
    }

    /// The first `length` bytes have been taken. Wakes the worker when it waits for room.
    pub(crate) fn consume(self, length: usize) {
        self.dispatch.borrow_mut().consume(self.slot, length);
    }

    /// The header lines: they start the ring and are shorter than it, so they lie in one run.
    pub(crate) fn lines(self, length: usize) -> &'static [u8] {
        self.bytes(0, length).0
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Dispatch {
    /// What the worker says of the response in `slot`, copied once. It counts when it is sealed with the ticket that the
    /// request has been given, and is possible; else what it has said before still holds.
    pub(crate) fn look(&mut self, slot: u32) -> Look {
        let (queue, control) = (self.queue, self.control(slot));
        let Some(own) = self.slots.get_mut(slot).filter(|own| own.hold == Hold::Out) else {
            return Look::default();
        };
        let state = queue.state(slot);
        let done = state.phase == Phase::Done && state.ticket == own.ticket;
        let believed = control.answer(own.ticket).is_some_and(|answer| own.believe(answer));
        let answer = own.answer;
        if done && !believed {
            self.suspect("a response is not what its worker has made");
        }
        Look { answer, done: done && believed }
    }

    /// `length` bytes of the response have been taken from the ring.
    pub(crate) fn consume(&mut self, slot: u32, length: usize) {
        let control = self.control(slot);
        let Some(own) = self.slots.get_mut(slot).filter(|own| own.hold == Hold::Out) else { return };
        own.consumed += length.min(own.available()) as u64;
        if control.consume(own.consumed) {
            howdah_sys::futex_wake(&control.room, 1);
        }
    }
}
