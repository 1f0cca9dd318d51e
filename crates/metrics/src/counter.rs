//! Counting, for `recorder` and the buckets of a `histogram`.
//!
//! A counter has one writer, so a relaxed load and a relaxed store are enough: no locked instruction, no shared cache
//! line but when somebody reads.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Adds to a counter whose only writer is this thread.
#[inline]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}
