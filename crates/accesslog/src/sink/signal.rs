//! How writers wake the sink's thread: flags, and a parked thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Thread;
use std::time::Instant;

/// A lane has got its first line.
pub(super) const DATA: u32 = 1;
/// A lane has a batch.
pub(super) const FULL: u32 = 2;
/// Open the file anew.
pub(super) const REOPEN: u32 = 4;
/// Write what there is and end.
pub(super) const STOP: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Signal {
    flags: AtomicU32,
    thread: OnceLock<Thread>,
}

impl Signal {
    pub(super) fn belongs_to(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// Raises flags, and wakes the thread if one of them is new. Costs a system call only when the thread sleeps.
    pub(super) fn raise(&self, flags: u32) {
        let before = self.flags.fetch_or(flags, Ordering::AcqRel);
        if let (true, Some(thread)) = (before & flags != flags, self.thread.get()) {
            thread.unpark();
        }
    }

    /// Lowers flags; says which of them were raised. In one step: one that is raised meanwhile is either told or left.
    pub(super) fn lower(&self, flags: u32) -> u32 {
        self.flags.fetch_and(!flags, Ordering::AcqRel) & flags
    }

    pub(super) fn has(&self, flags: u32) -> bool {
        self.flags.load(Ordering::Acquire) & flags != 0
    }

    /// Sleeps until one of `flags` is raised, or until `deadline`. Called by the sink's thread.
    pub(super) fn wait(&self, flags: u32, deadline: Option<Instant>) {
        while !self.has(flags) {
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(left) if left.is_zero() => return,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_wait_lasts_until_its_flag_is_raised_or_its_time_is_over() {
        let (signal, start) = (Signal::default(), Instant::now());
        signal.raise(FULL);
        signal.wait(DATA | REOPEN, Some(start + Duration::from_millis(50)));
        assert!(start.elapsed() >= Duration::from_millis(50), "another flag is none of its business");
        signal.wait(FULL | STOP, None);
        assert_eq!(signal.lower(FULL | STOP), FULL, "what was raised");
        assert!(!signal.has(FULL));
    }
}
