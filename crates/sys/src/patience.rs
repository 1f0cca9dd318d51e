//! Time that somebody has, of which a second at most passes while this process stands still: stopped, as by `docker pause`, or
//! without a processor. What is waited for has stood still as well, or lies unread.

use std::pin::pin;
use std::time::{Duration, Instant};

/// Whoever waits looks as often, and of what has passed between two looks so much counts: so no time is without an end.
const LOOK: Duration = Duration::from_secs(1);

/// See the module. It begins to run when it is made.
#[derive(Debug)]
pub struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    /// So much time.
    #[must_use]
    pub fn new(time: Duration) -> Self {
        Self { left: time, looked: Instant::now() }
    }

    /// How long to wait until the next look; zero when the time is up.
    pub fn look(&mut self) -> Duration {
        self.left().min(LOOK)
    }

    /// What is left.
    pub fn left(&mut self) -> Duration {
        self.pass(Instant::now());
        self.left
    }

    /// Waits for something as long as there is time; none when it has not come by then.
    pub async fn wait_for<T>(&mut self, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        loop {
            let wait = self.look();
            if wait.is_zero() {
                return None;
            }
            if let Ok(done) = tokio::time::timeout(wait, &mut what).await {
                return Some(done);
            }
        }
    }

    /// Resolves when the time is up.
    pub async fn end(&mut self) {
        self.wait_for(std::future::pending::<()>()).await;
    }

    fn pass(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        self.left = self.left.saturating_sub(passed.min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_time_without_a_look_a_second_counts() {
        let mut patience = Patience::new(Duration::from_secs(5));
        let mut now = patience.looked;
        for (passes, left) in
            [(300, 4700), (700, 4000), (3_600_000, 3000), (2000, 2000), (0, 2000), (60_000, 1000)]
        {
            now += Duration::from_millis(passes);
            patience.pass(now);
            assert_eq!(patience.left, Duration::from_millis(left), "{passes}");
        }
        patience.pass(now + LOOK);
        assert_eq!(patience.look(), Duration::ZERO, "a process that is always late gets there, too");
    }

    #[test]
    fn whoever_waits_looks_once_a_second() {
        for (time, wait) in [(0, 0), (400, 400), (1000, 1000), (30_000, 1000)] {
            let wait = Duration::from_millis(wait);
            let look = Patience::new(Duration::from_millis(time)).look();
            assert!(look <= wait && wait - look < Duration::from_millis(300), "{time}: {look:?}");
        }
    }
}
