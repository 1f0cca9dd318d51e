//! Points in time that outlive a clock which is set.

use std::time::{Duration, SystemTime};

use crate::clock::boottime_ns;

/// How far wall clock and running time may be apart before the clock has been set. What is less is not worth another answer.
const SET: Duration = Duration::from_secs(1);

/// A point in time: when it was by the wall clock, and how long ago by a clock that nobody sets and that runs while the
/// machine sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    wall: SystemTime,
    /// CLOCK_BOOTTIME in nanoseconds.
    boot: u64,
}

impl Moment {
    /// This one.
    #[must_use]
    pub fn now() -> Self {
        Self { wall: SystemTime::now(), boot: boottime_ns() }
    }

    /// How long ago it was.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(boottime_ns().saturating_sub(self.boot))
    }

    /// When it was by the wall clock as that is now: the same at each call, until somebody sets the clock.
    pub fn wall(&mut self) -> SystemTime {
        let by_now = SystemTime::now().checked_sub(self.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH);
        let apart = by_now.duration_since(self.wall).unwrap_or_else(|before| before.duration());
        if apart > SET {
            self.wall = by_now;
        }
        self.wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_moves_the_moment_and_not_how_long_ago_it_was() {
        let hour = Duration::from_secs(3600);
        let now = Moment::now();
        for wall in [now.wall - hour, now.wall + hour] {
            let mut moment = Moment { wall, ..now };
            let moved = moment.wall();
            let apart = moved.duration_since(now.wall).unwrap_or_else(|before| before.duration());
            assert!(apart < SET, "{apart:?}");
            assert_eq!(moment.wall(), moved, "and is the same from then on");
            assert!(moment.elapsed() < hour);
        }
        let mut moment = Moment { wall: now.wall - SET / 2, ..now };
        assert_eq!(moment.wall(), now.wall - SET / 2);
    }
}
