//! When a certificate is due, and how long to wait after a failure.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// After the first failure...
const FIRST: Duration = Duration::from_secs(10);
/// ...and at most, which is often enough for a certificate that has a third of its life left.
const MOST: Duration = Duration::from_secs(6 * 3600);
/// What an authority puts us off for at most, of its own saying: it counts what it has issued by the day and by the week.
pub(crate) const LATEST: Duration = Duration::from_secs(24 * 3600);
/// Each failure makes the wait so many times longer: authorities bound failures to a few an hour.
const GROWTH: u32 = 4;

const DAY: i64 = 24 * 3600;
/// Shorter lives, in seconds, are those of six days.
const SHORT: i64 = 10 * DAY;

/// Between tries that people ask for: authorities take few failures an hour for a name.
const ASKED: Duration = Duration::from_secs(600);

/// In seconds since 1970.
#[must_use]
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).cast_signed()
}

/// When two thirds of its life are over, in seconds since 1970; half of it, where a third would be too little for what may come
/// between.
#[must_use]
pub fn due(begins: i64, expires: i64) -> i64 {
    let life = (expires - begins).max(0);
    begins + if life < SHORT { life / 2 } else { life / 3 * 2 }
}

/// When the authority would like a certificate to be replaced, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first of them.
    pub start: i64,
    /// The last.
    pub end: i64,
}

impl Window {
    /// When that is: `share` thousandths into it, which spreads servers. A certificate has a day to itself, so that an authority that
    /// always wants another is not asked for one after the other, and the last sixth of its life is for what may go wrong.
    #[must_use]
    pub fn due(self, begins: i64, expires: i64, share: i64) -> i64 {
        let chosen = self.start + (self.end - self.start).max(0) / 1000 * share;
        chosen.max(begins + DAY).min(expires - (expires - begins).max(0) / 6)
    }
}

/// How long a process that starts leaves the authority alone after so many failures of others: as long as they would have, but no
/// longer than after a try that people have asked for, since they may have mended something.
pub(crate) fn at_start(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        Some(before) => growing(before).min(ASKED),
        None => Duration::ZERO,
    }
}

fn growing(failures: u32) -> Duration {
    FIRST.saturating_mul(GROWTH.saturating_pow(failures)).min(MOST)
}

/// How long to wait when a try has failed after so many others. `random` spreads servers that were started together, and the
/// authority has said that it does not want to be asked before `later`.
pub(crate) fn wait(failures: u32, random: u64, later: Duration) -> Duration {
    let wait = growing(failures).max(later.min(LATEST));
    let spread = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) / 5;
    wait + Duration::from_millis(random % spread.max(1))
}

/// Tries that people ask for in the middle of a wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    last: Option<Instant>,
}

impl Asked {
    /// How much longer to wait then: not at all, but for the last such try, and for `later`, until which the authority does not want to be asked.
    pub fn wait(&self, now: Instant, later: Instant) -> Duration {
        let next = self.last.map_or(now, |last| last + ASKED);
        next.max(later).saturating_duration_since(now)
    }

    /// Such a try is made.
    pub fn made(&mut self, now: Instant) {
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_due_when_two_thirds_of_its_life_are_over_or_half_of_a_short_one() {
        for (begins, expires, at) in [(0, 90, 60), (1, 46, 31), (0, 6, 3), (5, 5, 5), (9, 3, 9)] {
            let [begins, expires, at] = [begins, expires, at].map(|day| day * DAY);
            assert_eq!(due(begins, expires), at, "{begins} to {expires}");
        }
    }

    #[test]
    fn what_the_authority_wants_counts_within_bounds() {
        // A life of 60 days; what is wanted, in days, and when it is due.
        for (start, end, share, at) in [
            (30, 40, 0, 30),
            (30, 40, 500, 35),
            (-10, -5, 999, 1),
            (50, 60, 999, 50),
            (40, 30, 999, 40),
            (90, 100, 0, 50),
        ] {
            let window = Window { start: start * DAY, end: end * DAY };
            assert_eq!(window.due(0, 60 * DAY, share), at * DAY, "{start} to {end}");
        }
        assert_eq!(Window { start: 0, end: 0 }.due(0, 60, 0), 50, "a life of a minute");
    }

    #[test]
    fn who_fails_waits_longer_each_time_within_bounds() {
        let waits: Vec<u64> = (0..9).map(|failures| wait(failures, 0, Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [10, 40, 160, 640, 2560, 10_240, 21_600, 21_600, 21_600]);
        assert!((0..1000).all(|random| {
            let wait = wait(0, random * 7919, Duration::ZERO).as_millis();
            (10_000..12_000).contains(&wait)
        }));
        assert_eq!(wait(0, 0, Duration::from_secs(900)).as_secs(), 900);
        assert_eq!(wait(0, 0, Duration::MAX).as_secs(), 86_400);
        let starts: Vec<u64> = (0..7).map(|failures| at_start(failures).as_secs()).collect();
        assert_eq!(starts, [0, 10, 40, 160, 600, 600, 600]);
    }

    #[test]
    fn who_is_asked_tries_at_once_but_seldom() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(asked.wait(at(0), at(0)).as_secs(), 0);
        assert_eq!(asked.wait(at(0), at(30)).as_secs(), 30, "the authority has said so");
        asked.made(at(1));
        assert_eq!(asked.wait(at(101), at(0)).as_secs(), 500);
        assert_eq!(asked.wait(at(601), at(0)).as_secs(), 0);
    }
}
