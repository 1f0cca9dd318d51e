//! Whether requests wait for long though there may be no more workers: what an operator can do something about, so
//! that it is told in the log, on every page, and by `howdah status`.
//!
//! `status` looks once a second. A wait of two seconds is always seen, a shorter one by chance.

use std::time::{Duration, Instant};

/// A request that has waited for so long has waited for long.
pub(super) const LONG: Duration = Duration::from_secs(1);
/// Where more than this lies between two looks, the server stood still meanwhile, as by `docker pause`: nothing waited for a worker.
const STOOD_STILL: Duration = Duration::from_secs(2);
/// Time between two lines of the log.
const REST: Duration = Duration::from_secs(60);

/// The workers of a pool at a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staff {
    /// Workers that are able to run requests.
    pub(super) ready: usize,
    /// Workers wanted.
    pub(super) target: usize,
}

/// What is remembered from one look to the next.
#[derive(Debug)]
pub(super) struct Saturation {
    /// The most workers to which the pool grows by itself; none when it does not.
    grows_to: Option<usize>,
    /// At the last look.
    pub(super) is_now: bool,
    /// For how long in all.
    pub(super) sum: Duration,
    looked: Option<Instant>,
    /// Until when the server stood still the last time, and for how long.
    stood: Option<(Instant, Duration)>,
    told: Option<Instant>,
}

impl Saturation {
    /// For a pool of `fewest` to `most` workers.
    pub(super) fn new(fewest: usize, most: usize) -> Self {
        let grows_to = (fewest < most).then_some(most);
        Self { grows_to, is_now: false, sum: Duration::ZERO, looked: None, stood: None, told: None }
    }

    /// A look at which the oldest request has waited for so long. Workers that are not known: the supervisor has not answered. True when
    /// it is time to tell the log.
    pub(super) fn look(&mut self, now: Instant, waited: Duration, staff: Option<Staff>) -> bool {
        let before = self.looked.replace(now).unwrap_or(now);
        let passed = now.saturating_duration_since(before);
        if passed > STOOD_STILL {
            self.stood = Some((now, passed));
        }
        self.is_now = self.served(now, waited) >= LONG && staff.is_some_and(|staff| self.is_full(staff));
        if !self.is_now {
            return false;
        }
        self.sum += passed.min(STOOD_STILL);
        let due = self.told.is_none_or(|told| now.saturating_duration_since(told) >= REST);
        if due {
            self.told = Some(now);
        }
        due
    }

    /// How much of a wait that is in which the server did not stand still.
    fn served(&self, now: Instant, waited: Duration) -> Duration {
        match self.stood {
            Some((until, time)) if waited > now.saturating_duration_since(until) => {
                waited.saturating_sub(time)
            }
            _ => waited,
        }
    }

    /// All that are wanted are there, since else it is those who are missing that requests wait for; and more will not
    /// be wanted.
    fn is_full(&self, staff: Staff) -> bool {
        staff.ready >= staff.target.max(1) && self.grows_to.is_none_or(|most| staff.target >= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks of a pool of `fewest` to four workers that has `ready` of `target`.
    fn judge((fewest, ready, target): (usize, usize, usize), waited: Duration) -> bool {
        let mut saturation = Saturation::new(fewest, 4);
        let told = saturation.look(Instant::now(), waited, Some(Staff { ready, target }));
        assert_eq!(told, saturation.is_now, "the first time is told");
        told
    }

    #[test]
    fn a_pool_is_saturated_when_requests_wait_for_long_and_it_does_not_grow() {
        for (pool, waited, saturated) in [
            ((4, 4, 4), SECOND, true),
            ((4, 4, 4), SECOND * 9, true),
            ((4, 4, 4), SECOND - Duration::from_millis(1), false),
            ((4, 3, 4), SECOND * 9, false), // one is missing
            ((4, 0, 4), SECOND * 9, false), // the application does not load
            ((4, 0, 0), SECOND * 9, false),
            ((4, 2, 2), SECOND, true), // made smaller by hand
            ((4, 9, 9), SECOND, true),
            ((1, 4, 4), SECOND, true),
            ((1, 3, 3), SECOND * 9, false), // more are to come
            ((1, 3, 4), SECOND * 9, false),
        ] {
            assert_eq!(judge(pool, waited), saturated, "{pool:?} {waited:?}");
        }
    }

    #[test]
    fn nobody_has_waited_while_the_server_stood_still() {
        let (start, pool) = (Instant::now(), Some(Staff { ready: 2, target: 2 }));
        let mut saturation = Saturation::new(2, 2);
        // When to look, in milliseconds, how long the oldest has waited by then, and whether that is long.
        for (at, waited, saturated) in [
            (0, 0, false),
            (12_000, 12_400, false),
            (12_010, 12_410, false),
            (13_000, 900, false),
            (14_000, 13_500, true),
            (15_000, 1000, true),
            (18_000, 3500, false),
            (21_000, 6500, true), // it is always late, and somebody waits
        ] {
            let (at, waited) = (start + Duration::from_millis(at), Duration::from_millis(waited));
            saturation.look(at, waited, pool);
            assert_eq!(saturation.is_now, saturated, "{waited:?}");
        }
        assert_eq!(saturation.sum, SECOND * 4);
    }

    #[test]
    fn it_is_told_once_a_minute_however_often_it_comes_and_goes() {
        let mut saturation = Saturation::new(2, 2);
        let (start, pool) = (Instant::now(), Some(Staff { ready: 2, target: 2 }));
        let mut told = Vec::new();
        for second in 0..200_u32 {
            let waited = if second % 3 == 0 { SECOND * 5 } else { Duration::ZERO };
            if saturation.look(start + SECOND * second, waited, pool) {
                told.push(second);
            }
        }
        assert_eq!(told, [0, 60, 120, 180]);
        assert_eq!(saturation.sum, SECOND * 66, "a second for each look but the first");
        assert!(
            !saturation.look(start + SECOND * 300, SECOND * 5, None),
            "a supervisor that does not answer"
        );
        assert!(!saturation.is_now);
    }
}
