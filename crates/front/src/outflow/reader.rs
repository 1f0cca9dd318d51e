//! How a client reads its response: whether the next write would be in vain, and whether it has fallen behind. `outflow`
//! asks and tells.
//!
//! A client that stands still for a moment is usually only busy: to copy what it is about to take would cost more than
//! the wait. So it has a moment, and goes on having it while bytes arrive fast; but a worker does not wait long in all.

use std::time::Duration;

use crate::outflow::pace::Pace;

/// A client that has been waited for this long is looked at...
const STALL: Duration = Duration::from_millis(10);
/// ...and then each time that so much time has passed again. It is behind when less than this has arrived meanwhile...
const STILL: Duration = Duration::from_millis(40);
const QUICK: i64 = 64 * 1024;
/// ...and when it has been waited for so long in all, in nanoseconds.
const STALLS: u64 = 1_000_000_000;

/// How the client reads, during one response.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The last write would have blocked, and nobody has said since that the next one would not.
    pub(crate) blocked: bool,
    /// What epoll said before that write has not been forgotten yet.
    pub(crate) stale: bool,
    /// What the worker makes is taken out of its way.
    pub(crate) behind: bool,
    /// For how long it has been waited for, in nanoseconds.
    pub(crate) waited: u64,
    /// When it was last looked at for being behind, and how many bytes had arrived then.
    glance: (u64, i64),
    pub(crate) pace: Pace,
}

impl Reader {
    /// True when a write would be in vain.
    pub(crate) fn is_stuck(&self) -> bool {
        self.blocked && !self.stale
    }

    /// Takes note of how a write went.
    pub(crate) fn tried(&mut self, blocked: bool) {
        (self.blocked, self.stale) = (blocked, blocked);
    }

    /// True when the last glance was not long ago.
    fn is_watched(&self, now: u64) -> bool {
        now < self.glance.0 + 4 * STILL.as_nanos() as u64
    }

    /// How long to wait before the client is looked at.
    pub(crate) fn patience(&self, now: u64) -> Duration {
        if self.is_watched(now) { STILL } else { STALL }
    }

    /// Whether a client at which `arrived` bytes have arrived is behind.
    pub(crate) fn falls_behind(&mut self, now: u64, arrived: i64) -> bool {
        let watched = self.is_watched(now);
        let (_, before) = std::mem::replace(&mut self.glance, (now, arrived));
        watched && (arrived - before < QUICK || self.waited > STALLS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_behind_when_it_stands_still_or_is_waited_for_for_long() {
        let millis = |millis: u64| 1_000_000_000 + millis * 1_000_000;
        // What was waited for before, glances as milliseconds and bytes, and whether the last finds it behind.
        type Case = (&'static str, u64, &'static [(u64, i64)], bool);
        let cases: [Case; 6] = [
            ("it is looked at for the first time", 0, &[(10, 0)], false),
            ("nothing arrives", 0, &[(10, 200_000), (50, 200_000)], true),
            ("little arrives", 0, &[(10, 0), (50, 60_000)], true),
            ("much arrives", 0, &[(10, 0), (50, 70_000), (90, 140_000)], false),
            ("the last glance was long ago", 0, &[(10, 0), (900, 0)], false),
            ("much arrives for long", STALLS + 1, &[(10, 0), (50, 1_000_000)], true),
        ];
        for (what, waited, glances, expected) in cases {
            let mut reader = Reader { waited, ..Reader::default() };
            let found = glances.iter().map(|&(at, arrived)| reader.falls_behind(millis(at), arrived));
            assert_eq!(found.last(), Some(expected), "{what}");
        }
    }
}
