//! Where a worker is told what to do while it works or sleeps: the host's main thread gives orders here, and the worker's own
//! looks for them between any two waits.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use howdah_sys::{drain_eventfd, eventfd, futex_wake, signal_eventfd};
use howdah_wire::Segment;

/// End what runs, and this worker with it.
const KILL: u32 = 1;
/// Have what runs say where it stands, or end it in order.
const ASK: u32 = 2;
/// Leave after the present request.
const LEAVE: u32 = 4;

/// See the module.
pub(crate) struct Seat {
    segment: Segment,
    worker: u16,
    orders: AtomicU32,
    /// Readable when there is an order.
    pub(crate) bell: OwnedFd,
}

impl Seat {
    pub(crate) fn new(segment: Segment, worker: u16) -> io::Result<Self> {
        Ok(Self { segment, worker, orders: AtomicU32::new(0), bell: eventfd()? })
    }

    /// What the front would have said by a signal.
    pub(crate) fn signal(&self, signal: howdah_sys::Signal) {
        use howdah_sys::Signal;
        self.order(match signal {
            Signal::KILL => KILL,
            Signal::USR2 => ASK,
            Signal::TERM | Signal::QUIT => LEAVE,
            // Whoever it is for looks whether its client is still there.
            _ => 0,
        });
    }

    fn order(&self, what: u32) {
        self.orders.fetch_or(what, SeqCst);
        let _ = signal_eventfd(&self.bell);
        let Some(cell) = self.segment.workers().get(usize::from(self.worker)) else { return };
        if self.segment.queue().cells.mark_woken(self.worker, cell) {
            futex_wake(&cell.wake, 1);
        }
    }

    /// Its worker is to end at once.
    pub(crate) fn is_killed(&self) -> bool {
        self.orders.load(SeqCst) & KILL != 0
    }

    /// Its worker is to leave when it can.
    pub(crate) fn must_leave(&self) -> bool {
        self.orders.load(SeqCst) & LEAVE != 0
    }

    /// What runs is to say where it stands: true once for each time that somebody asks.
    pub(crate) fn is_asked(&self) -> bool {
        let _ = drain_eventfd(&self.bell);
        self.orders.fetch_and(!ASK, SeqCst) & ASK != 0
    }
}
