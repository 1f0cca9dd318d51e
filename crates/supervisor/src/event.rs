//! What the fronts must know about workers.
//!
//! The binary bridges these to every front thread, in order.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use howdah_sys::{ExitKind, Retired};
use howdah_wire::Segment;

use crate::notice::{Mailbox, Notice};

/// News for the front threads.
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub enum Event {
    /// A worker is about to be forked; it can claim requests from now on.
    WorkerUp {
        /// Its cell.
        index: u16,
        /// Its channel to each front thread, in order of the threads; non-blocking.
        channels: Vec<OwnedFd>,
    },
    /// A worker's process has ended. Each front thread drops its channel, answers for the slots that the worker owned,
    /// tells itself of slots that it finished unheard, wakes another worker when requests wait (a wake-up may have gone
    /// to the dead one), and then drops `done`.
    WorkerGone {
        /// Its cell. Not used again before every copy of `done` is dropped.
        index: u16,
        /// How it ended.
        status: ExitKind,
        /// Drop it when the slots are recovered; clone it for each thread.
        done: Recovery,
    },
    /// The segment was damaged. Every worker that used it is gone; those to come use this one.
    Replaced {
        /// The new one.
        segment: Segment,
        /// Drop it when the old one is used no more; clone it for each thread.
        old: Arc<Retired>,
    },
}

/// A promise to recover a worker's slots. Dropping the last clone keeps it, so a front thread that ended cannot hold
/// up the others.
#[derive(Clone, Debug)]
pub struct Recovery {
    _guard: Arc<Guard>,
}

#[derive(Debug)]
struct Guard {
    index: u16,
    mailbox: Mailbox,
}

impl Recovery {
    pub(crate) fn new(index: u16, mailbox: Mailbox) -> Self {
        Self { _guard: Arc::new(Guard { index, mailbox }) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Without a supervisor nobody reuses the cell.
        let _ = self.mailbox.send(Notice::Recovered { index: self.index });
    }
}
