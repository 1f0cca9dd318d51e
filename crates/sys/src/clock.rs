//! The clocks of the system that nobody sets, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// For how long the calling thread has run.
#[must_use]
pub fn thread_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// CLOCK_MONOTONIC: the clock of every timestamp in the segment.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// CLOCK_BOOTTIME, which runs while the machine sleeps.
pub(crate) fn boottime_ns() -> u64 {
    read(ClockId::Boottime)
}

/// They begin with the thread or the machine, and are never negative.
#[inline]
fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
