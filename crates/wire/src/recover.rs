//! What becomes of the requests that a dead worker has left in its slots.
//!
//! Whatever instruction it died at, a slot that it had claimed bears its number. What it had not begun goes back into the
//! queue, the one request that it was running is lost, and what it had finished is passed on: it may not have told.

use crate::layout::{Phase, SlotControl, WorkerCell};
use crate::queue::Queue;

/// What the front is to do with a slot whose worker may have died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing: the dead worker did not have it.
    None,
    /// It holds a whole response, to be passed on.
    Response,
    /// The slot is the front's again. Nobody has begun its request, which may be queued anew.
    Unbegun,
    /// The slot is the front's again. The application has been called with its request, which gets no response.
    Lost,
    /// This cannot be, so it may be another worker's, which lives and will write there.
    Doubtful(&'static str),
}

impl Queue<'_> {
    /// Takes back the slot that was queued under `ticket`, if it was with `worker`, which is dead.
    #[must_use]
    pub fn recover(&self, slot: u32, ticket: u64, worker: u16, workers: &[WorkerCell]) -> Remains {
        let state = self.state(slot);
        if state.ticket != ticket || state.owner != worker {
            return Remains::None;
        }
        match state.phase {
            Phase::Free | Phase::Queued => Remains::None,
            Phase::Done => Remains::Response,
            Phase::Running => self.take_back(slot, workers.get(usize::from(worker))),
        }
    }

    fn take_back(&self, slot: u32, cell: Option<&WorkerCell>) -> Remains {
        let begun = self.is_begun(slot);
        if begun && !cell.is_some_and(|cell| cell.is_at(slot)) {
            return Remains::Doubtful("a request has a worker that does not know of it");
        }
        self.release(slot);
        if begun { Remains::Lost } else { Remains::Unbegun }
    }

    /// Whether the request that was queued under `ticket` has not been begun, in a segment that no worker uses any more.
    #[must_use]
    pub fn is_unbegun(&self, slot: u32, ticket: u64) -> bool {
        let state = self.state(slot);
        let waits = state.phase == Phase::Queued || state.phase == Phase::Running && !self.is_begun(slot);
        state.ticket == ticket && waits
    }

    fn is_begun(&self, slot: u32) -> bool {
        self.controls.get(slot as usize).is_some_and(SlotControl::is_begun)
    }
}
