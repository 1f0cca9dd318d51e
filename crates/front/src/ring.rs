//! The response in a slot, as the connection reads it that waits for it.
//!
//! What the worker says is copied once, and believed when it bears the ticket of this request and fits what is known
//! already. How much has been taken is our own count.

use howdah_wire::{Answer, Phase};

use crate::dispatch::Dispatch;
use crate::slots::{Hold, Slot};
use crate::thread::here;

/// What is known of the response in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub(crate) answer: Answer,
    /// The worker is through with it.
    pub(crate) done: bool,
}

/// See the module. It is a number: the slot is its connection's as long as that has not given it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring(pub(crate) u32);

impl Ring {
    /// Bytes that may be taken now.
    pub(crate) fn available(self) -> usize {
        let mut dispatch = here().dispatch.borrow_mut();
        dispatch.look(self.0);
        dispatch.slots.out(self.0).map_or(0, Slot::available)
    }

    /// RESPONSE_ flags.
    pub(crate) fn flags(self) -> u32 {
        here().dispatch.borrow_mut().look(self.0).answer.flags
    }

    /// Of those bytes, as of the last look, `length` behind the first `skip`, or as many as there are: up to the ring's end,
    /// and from its start.
    pub(crate) fn bytes(self, skip: usize, length: usize) -> (&'static [u8], &'static [u8]) {
        let thread = here();
        let dispatch = thread.dispatch.borrow();
        let Some(own) = dispatch.slots.out(self.0) else { return (&[], &[]) };
        let length = own.available().saturating_sub(skip).min(length);
        thread.segment().response(self.0, own.consumed + skip as u64, length)
    }

    /// The first `length` bytes have been taken. Wakes the worker when it waits for room.
    pub(crate) fn consume(self, length: usize) {
        here().dispatch.borrow_mut().consume(self.0, length);
    }

    /// The header lines: they start the ring and are shorter than it, so they lie in one run.
    pub(crate) fn lines(self, length: usize) -> &'static [u8] {
        self.bytes(0, length).0
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
