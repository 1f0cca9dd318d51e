//! What becomes of requests whose worker is dead, or whose segment is.

use howdah_wire::Segment;
use howdah_wire::recover::Remains;

use crate::exchange::Mail;
use crate::fault::Fault;
use crate::slots::dispatch::Dispatch;
use crate::slots::own::{Hold, NOBODY, Slot};

impl Dispatch {
    /// Settles what a dead worker has left: requests that it had not begun go back into the queue, the one that it
    /// was running is lost, and what it had finished is passed on.
    pub(crate) fn worker_gone(&mut self, worker: u16, fault: Fault) {
        for slot in self.slots.taken(self.in_flight) {
            self.settle(slot, worker, fault);
        }
        if let Some(present) = self.present.get_mut(usize::from(worker)) {
            *present = false;
        }
        self.wake_workers(howdah_sys::monotonic_ns());
    }

    fn settle(&mut self, slot: u32, worker: u16, fault: Fault) {
        let Some(ticket) = self.slots.out(slot).map(|own| own.ticket) else { return };
        match (self.queue.recover(slot, ticket, worker, self.segment.workers()), self.desk_of(slot)) {
            (Remains::None, _) => {}
            (Remains::Response, _) => {
                self.news(slot);
            }
            (Remains::Doubtful(what), _) => self.suspect(what),
            (Remains::Unbegun | Remains::Lost, None) => self.free_slot(slot),
            (Remains::Unbegun, Some(_)) if self.push(slot) => {}
            (Remains::Unbegun | Remains::Lost, Some(desk)) => self.lose(slot, desk, fault),
        }
    }

    /// Nobody has the slot any more, and its exchange will have no answer.
    pub(crate) fn lose(&mut self, slot: u32, desk: usize, fault: Fault) {
        if let Some(own) = self.slots.get_mut(slot) {
            own.hold = Hold::Ours;
        }
        self.desks.post(desk, Mail::Lost(fault));
    }

    /// Whether a worker says that it is at the request in `slot`. It says so before it begins it, and until it has ended it.
    pub(crate) fn is_at(&self, worker: u16, slot: u32) -> bool {
        let cell = self.segment.workers().get(usize::from(worker));
        cell.is_some_and(|cell| cell.is_at(slot))
    }

    /// Goes on with a new segment in the place of a damaged one, in which no worker is left. What waited waits there; of the
    /// rest nothing is left but for the log.
    pub(crate) fn replace(&mut self, segment: Segment, thread: u32) {
        let old = std::mem::replace(&mut self.segment, segment);
        let waited: Vec<(u32, bool)> = self
            .slots
            .taken(self.in_flight)
            .into_iter()
            .map(|slot| (slot, self.waits_in(&old, slot)))
            .collect();
        (self.queue, self.cell) = (segment.queue(), &segment.fronts()[thread as usize]);
        (self.damage, self.inspected, self.seen_head) = (None, (0, 0), 0);
        (self.workers_spin, self.serial) = (false, 0);
        self.present.clear();
        for (slot, waited) in waited {
            self.carry_over(&old, slot, waited);
        }
    }

    /// Whether the request in `slot` has not been begun, by the words of a segment that may be damaged.
    fn waits_in(&self, old: &Segment, slot: u32) -> bool {
        let Some(own) = self.slots.get(slot) else { return false };
        own.hold == Hold::Kept || own.hold == Hold::Out && old.queue().is_unbegun(slot, own.ticket)
    }

    fn carry_over(&mut self, old: &Segment, slot: u32, waited: bool) {
        let Some(&Slot { hold, desk, ticket, place, queued_at, .. }) = self.slots.get(slot) else { return };
        let sound = self.segment.take_over(old, slot, place.near, ticket);
        match (hold, desk) {
            // Its request is being written, or its exchange knows already.
            (Hold::Free | Hold::Ours, _) => {}
            (_, NOBODY) => self.free_slot(slot),
            _ => {
                self.control(slot).reset(queued_at);
                if !(waited && sound && self.push(slot)) {
                    self.lose(slot, desk, Fault::WorkerLost);
                }
            }
        }
    }
}
