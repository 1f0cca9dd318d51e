//! Waiting longer after each failure.
//!
//! Workers that were started together and fail together count once, otherwise a crew of fifty would reach the longest
//! wait on its first bad day. Only something started after the last failure can show that things are well again.

use std::time::{Duration, Instant};

/// Wait after the first failure; doubles with each further one.
const FIRST: Duration = Duration::from_millis(100);
/// Longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// Counts failures in a row and says when to try again.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    last: Option<Instant>,
    until: Option<Instant>,
    reason: String,
}

impl Backoff {
    /// Something started at `started` has failed. Returns the wait, none when it belongs to a failure already counted.
    pub(crate) fn failed(&mut self, started: Instant, now: Instant, reason: String) -> Option<Duration> {
        if self.last.is_some_and(|last| started <= last) {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        let wait = wait_after(self.failures);
        self.last = Some(now);
        self.until = Some(now + wait);
        self.reason = reason;
        Some(wait)
    }

    /// Something started at `started` works. True when that ends a row of failures.
    pub(crate) fn worked(&mut self, started: Instant) -> bool {
        if self.last.is_none_or(|last| started <= last) {
            return false;
        }
        *self = Self::default();
        true
    }

    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// When the next try is due; none when at once.
    pub(crate) fn wait_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// For the status page; none when nothing waits.
    pub(crate) fn trouble(&self, now: Instant) -> Option<String> {
        let wait = self.wait_until(now)?.duration_since(now);
        Some(format!("{}; next try in {:.1} s", self.reason, wait.as_secs_f64()))
    }
}

fn wait_after(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_the_longest() {
        let cases = [(1, 100), (2, 200), (3, 400), (9, 25_600), (10, 30_000), (1000, 30_000)];
        for (failures, milliseconds) in cases {
            assert_eq!(wait_after(failures), Duration::from_millis(milliseconds), "{failures}");
        }
    }

    #[test]
    fn what_started_together_counts_once() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut backoff = Backoff::default();
        assert_eq!(backoff.failed(at(0), at(10), "died".into()), Some(Duration::from_millis(100)));
        assert_eq!(backoff.failed(at(1), at(11), "died".into()), None);
        assert_eq!(backoff.wait_until(at(11)), Some(at(110)));
        assert_eq!(backoff.wait_until(at(110)), None);
        assert_eq!(backoff.failed(at(110), at(120), "died".into()), Some(Duration::from_millis(200)));
        assert_eq!(backoff.trouble(at(120)).as_deref(), Some("died; next try in 0.2 s"));
    }

    #[test]
    fn only_what_started_after_the_failure_shows_that_all_is_well() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut backoff = Backoff::default();
        assert!(!backoff.worked(at(0)));
        backoff.failed(at(0), at(10), "died".into());
        assert!(!backoff.worked(at(5)));
        assert!(backoff.worked(at(110)));
        assert_eq!(backoff.failed(at(120), at(130), "died".into()), Some(Duration::from_millis(100)));
    }
}
