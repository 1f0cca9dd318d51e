//! A response on its way from a worker to the front: a ring of bytes with one writer and one reader.
//!
//! Header lines come first, body bytes behind. The worker counts what it has produced, the front what it has
//! consumed; their difference is what lies in the ring. A worker that finds no room sleeps on the `room` futex.

use crate::layout::{LENGTH_UNKNOWN, RESPONSE_RING, SlotControl};
use crate::sync::Ordering::{Relaxed, SeqCst};

impl SlotControl {
    /// The front makes the control words ready for a new request.
    pub fn reset(&self, now: u64) {
        self.produced.store(0, Relaxed);
        self.consumed.store(0, Relaxed);
        self.content_length.store(LENGTH_UNKNOWN, Relaxed);
        self.flags.store(0, Relaxed);
        self.status.store(0, Relaxed);
        self.head_length.store(0, Relaxed);
        self.begun.store(0, Relaxed);
        self.report.store(0, Relaxed);
        self.waiting.store(0, Relaxed);
        self.abandoned.store(0, Relaxed);
        self.claimed_at.store(0, Relaxed);
        self.finished_at.store(0, Relaxed);
        self.queued_at.store(now, SeqCst);
    }

    /// Bytes that the worker may add now.
    #[must_use]
    pub fn room_left(&self) -> usize {
        let used = self.produced.load(Relaxed).wrapping_sub(self.consumed.load(SeqCst));
        RESPONSE_RING.saturating_sub(used as usize)
    }

    /// The worker has written `length` more bytes behind `produced`.
    pub fn produce(&self, length: usize) {
        self.produced.store(self.produced.load(Relaxed).wrapping_add(length as u64), SeqCst);
    }

    /// Bytes that the front may take now; a worker gone mad reads as an empty ring.
    #[must_use]
    pub fn available(&self) -> usize {
        let available = self.produced.load(SeqCst).wrapping_sub(self.consumed.load(Relaxed)) as usize;
        if available > RESPONSE_RING { 0 } else { available }
    }

    /// The front has taken `length` bytes. True when the caller must wake the `room` futex.
    #[must_use]
    pub fn consume(&self, length: usize) -> bool {
        self.consumed.store(self.consumed.load(Relaxed).wrapping_add(length as u64), SeqCst);
        self.wake_writer()
    }

    /// Nobody wants the response any more. True when the caller must wake the `room` futex.
    #[must_use]
    pub fn abandon(&self) -> bool {
        self.abandoned.store(1, SeqCst);
        self.wake_writer()
    }

    /// The worker says that it waits for room; returns the futex value to wait on, or none when it need not wait.
    #[must_use]
    pub fn wait_for_room(&self) -> Option<u32> {
        let seen = self.room.load(SeqCst);
        self.waiting.store(1, SeqCst);
        if self.room_left() > 0 || self.abandoned.load(SeqCst) != 0 {
            self.waiting.store(0, SeqCst);
            return None;
        }
        Some(seen)
    }

    fn wake_writer(&self) -> bool {
        if self.waiting.load(SeqCst) == 0 || self.waiting.swap(0, SeqCst) == 0 {
            return false;
        }
        self.room.fetch_add(1, SeqCst);
        true
    }
}
