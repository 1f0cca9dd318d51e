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
        dispatch.slots.with_ring(self.slot).map_or(0, Slot::available)
    }

    /// Of those bytes, as of the last look, `length` behind the first `skip`, or as many as there are: up to the ring's end,
    /// and from its start.
    pub(crate) fn bytes(self, skip: usize, length: usize) -> (&'static [u8], &'static [u8]) {
        let dispatch = self.dispatch.borrow();
        let Some(own) = dispatch.slots.with_ring(self.slot) else { return (&[], &[]) };
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
        let Some(own) = self.slots.get_mut(slot).filter(|own| own.has_ring()) else { return };
        own.consumed += length.min(own.available()) as u64;
        if control.consume(own.consumed) {
            howdah_sys::futex_wake(&control.room, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use howdah_wire::{LENGTH_UNKNOWN, RESPONSE_HEAD_READY, RESPONSE_RING};

    use crate::sample::bench::Bench;

    #[test]
    fn a_response_is_seen_as_it_grows_and_taken_from_its_start() {
        let bench = Bench::of(4, 4);
        let worker = bench.worker(0);
        let waiting = bench.queue("/a");
        let ring = bench.ring(&waiting);
        let all = |skip, length| {
            let (first, second) = ring.bytes(skip, length);
            [first, second].concat()
        };
        assert_eq!((ring.look().answer.flags, ring.available(), all(0, 9)), (0, 0, vec![]), "it waits");
        let mut claimed = worker.claim().unwrap();
        worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
        worker.write(&mut claimed, b"body");
        let look = ring.look();
        assert_eq!((look.answer.flags, look.answer.status, look.done), (RESPONSE_HEAD_READY, 200, false));
        assert_eq!((ring.available(), ring.lines(12)), (16, &b"X-App: yes\r\n"[..]));
        assert_eq!(
            (all(12, 2), all(12, 99), all(16, 1), all(99, 1)),
            (b"bo".into(), b"body".into(), vec![], vec![])
        );
        ring.consume(13);
        assert_eq!((ring.available(), all(0, 99)), (3, b"ody".into()));
        ring.consume(99);
        assert_eq!(ring.available(), 0, "no more is taken than there is");
        worker.write(&mut claimed, b"!");
        worker.finish(claimed);
        assert!(ring.look().done && ring.available() == 1 && all(0, 1) == b"!");
        bench.leave(waiting);
        assert!(!ring.look().done && ring.available() == 0 && all(0, 1).is_empty(), "it is another's now");
        ring.consume(1);
    }

    #[test]
    fn a_response_goes_on_at_the_rings_start() {
        let bench = Bench::of(4, 4);
        let worker = bench.worker(0);
        let waiting = bench.queue("/a");
        let ring = bench.ring(&waiting);
        let mut claimed = worker.claim().unwrap();
        worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
        let most = RESPONSE_RING - 12;
        assert_eq!(worker.write(&mut claimed, &vec![b'a'; RESPONSE_RING]), most);
        assert_eq!((ring.available(), worker.write(&mut claimed, b"b")), (RESPONSE_RING, 0), "it is full");
        ring.consume(RESPONSE_RING - 1);
        assert_eq!(worker.write(&mut claimed, b"bc"), 2);
        assert_eq!(ring.available(), 3);
        assert_eq!(ring.bytes(0, 9), (&b"a"[..], &b"bc"[..]));
        assert_eq!(ring.bytes(1, 9), (&b"bc"[..], &b""[..]));
    }

    #[test]
    fn a_worker_that_waits_for_room_is_woken_by_it() {
        let bench = Bench::of(4, 4);
        let worker = bench.worker(0);
        let waiting = bench.queue("/a");
        let ring = bench.ring(&waiting);
        let control = bench.act(|dispatch| dispatch.control(waiting.slot));
        let mut claimed = worker.claim().unwrap();
        worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
        ring.look();
        ring.consume(2);
        let known = || (control.consumed.load(Relaxed), control.room.load(Relaxed));
        assert_eq!(known(), (2, 0), "it does not wait");
        control.waiting.store(1, Relaxed);
        ring.consume(3);
        assert_eq!(known(), (5, 1));
    }

    #[test]
    fn what_bears_another_ticket_or_cannot_be_does_not_count() {
        let mut bench = Bench::of(4, 4);
        let worker = bench.worker(0);
        let waiting = bench.queue("/a");
        let ring = bench.ring(&waiting);
        let control = bench.act(|dispatch| dispatch.control(waiting.slot));
        let mut claimed = worker.claim().unwrap();
        worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
        assert_eq!(ring.look().answer.status, 200);
        control.status.store(201, Relaxed);
        assert_eq!(ring.look().answer.status, 200, "what it has said before holds");
        assert!(bench.damage().is_empty(), "it may be about to say more");
        let state = bench.segment.queue().state(waiting.slot);
        let done = howdah_wire::queue::State { phase: howdah_wire::Phase::Done, ..state };
        control.state.store(howdah_wire::queue::State { ticket: state.ticket + 1, ..done }.pack(), Relaxed);
        assert!(!ring.look().done && bench.damage().is_empty(), "another request is done");
        control.state.store(done.pack(), Relaxed);
        assert!(!ring.look().done, "nobody knows what of");
        assert_eq!(bench.damage(), ["a response is not what its worker has made"]);
    }
}
