//! How quickly a client must take its response: `--write-timeout` and `--min-send-rate`.
//!
//! Nothing is measured while a client keeps up. From the moment when it has to be waited for, the kernel is asked now
//! and then how much of what was sent has arrived: bytes that lie in our socket's buffer have been taken by nobody, and a
//! window that opens says nothing about how far. Each byte that arrives buys the client some time.

use std::time::Duration;

use crate::config::{Config, GRACE};

const SECOND: u64 = 1_000_000_000;
/// Time between two looks at a client: an eighth of the write timeout, within these bounds.
const LOOKS: [u64; 2] = [SECOND / 10, 5 * SECOND];

/// What a client owes; of time in nanoseconds, 0 for no bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The longest time in which nothing arrives.
    timeout: u64,
    /// The least number of bytes that arrive in a second.
    rate: u64,
}

impl Terms {
    pub(crate) fn of(config: &Config) -> Self {
        Self { timeout: nanos(config.write_timeout), rate: config.min_send_rate }
    }

    /// The time that so many bytes buy.
    fn worth(self, bytes: i64) -> u64 {
        bytes.max(0).cast_unsigned().saturating_mul(SECOND).checked_div(self.rate).unwrap_or(0)
    }

    /// A client that is quick at first must not have bought hours: it could stop for no longer than this in any case.
    fn longest_credit(self) -> u64 {
        if self.timeout == 0 { u64::MAX } else { self.timeout.max(GRACE) }
    }

    fn interval(self) -> u64 {
        if self.timeout == 0 { LOOKS[1] } else { (self.timeout / 8).clamp(LOOKS[0], LOOKS[1]) }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// How a client that has to be waited for comes along. Times are nanoseconds that the thread has served (`Clock::served`): a client
/// whose words nobody has heard is not late.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When to look at it again; 0 while it keeps up, or for never.
    due: u64,
    /// Bytes that had arrived at the last look. Negative while those of an earlier response are on their way.
    arrived: i64,
    /// When that number was last seen to grow.
    moved: u64,
    /// Until when its bytes have paid.
    paid: u64,
}

impl Pace {
    /// The client has to be waited for. Says when to look at it, 0 for never.
    pub(crate) fn wait(&mut self, now: u64, terms: Terms) -> u64 {
        if self.due == 0 && (terms.timeout != 0 || terms.rate != 0) {
            self.moved = now;
            self.paid = now.saturating_add(GRACE);
            self.due = self.next(now, terms);
        }
        self.due
    }

    /// The client keeps up: it owes nothing.
    pub(crate) fn rest(&mut self) {
        self.due = 0;
    }

    /// Of what was sent, `arrived` bytes have; `all` says that none are on their way, so that the client waits for us.
    /// False when it is too slow.
    pub(crate) fn look(&mut self, now: u64, arrived: i64, all: bool, terms: Terms) -> bool {
        let more = arrived - self.arrived;
        self.arrived = arrived;
        if all || more > 0 {
            self.moved = now;
        }
        if all {
            self.paid = self.paid.max(now.saturating_add(GRACE));
        }
        let most = now.saturating_add(terms.longest_credit());
        self.paid = self.paid.saturating_add(terms.worth(more)).min(most);
        self.due = self.next(now, terms);
        let stands_still = terms.timeout != 0 && now >= self.moved.saturating_add(terms.timeout);
        let trickles = terms.rate != 0 && now >= self.paid;
        !stands_still && !trickles
    }

    fn next(&self, now: u64, terms: Terms) -> u64 {
        let mut due = now + terms.interval();
        if terms.timeout != 0 {
            due = due.min(self.moved.saturating_add(terms.timeout));
        }
        if terms.rate != 0 {
            due = due.min(self.paid);
        }
        due.max(now + 1)
    }
}

/// Whether a client takes note of what it is sent, where nothing waits for it. One that is gone without a word does not, and the kernel
/// takes what is said to it for a quarter of an hour all the same.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// When to look again.
    due: u64,
    /// Bytes that had arrived at the last look.
    arrived: i64,
    /// Since when none has of those that are on their way; 0 while none are.
    since: u64,
}

impl Pulse {
    /// When to look who looks now; 0 for never.
    pub(crate) fn next(now: u64, terms: Terms) -> u64 {
        if terms.timeout == 0 { 0 } else { now + terms.interval() }
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&self, now: u64, terms: Terms) -> bool {
        terms.timeout != 0 && now >= self.due
    }

    /// As [`Pace::look`]: false when nothing has arrived for too long.
    pub(crate) fn look(&mut self, now: u64, arrived: i64, all: bool, terms: Terms) -> bool {
        if all {
            self.since = 0;
        } else if self.since == 0 || arrived > self.arrived {
            self.since = now;
        }
        (self.arrived, self.due) = (arrived, Self::next(now, terms));
        terms.timeout == 0 || self.since == 0 || now < self.since.saturating_add(terms.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a client is cut off, in seconds; `arrived` says how many bytes it has after so many. 1000 stands for never.
    fn end(timeout: u64, rate: u64, arrived: impl Fn(f64) -> i64) -> u64 {
        let terms = Terms { timeout: timeout * SECOND, rate };
        let mut pace = Pace::default();
        let start = 77 * SECOND;
        let mut due = pace.wait(start, terms);
        while due != 0 && due < start + 1000 * SECOND {
            // As the sweep does: a little late.
            let now = due + SECOND / 20;
            let seconds = (now - start) as f64 / 1e9;
            if !pace.look(now, arrived(seconds), false, terms) {
                return seconds.round() as u64;
            }
            due = pace.wait(now, terms);
        }
        1000
    }

    #[test]
    fn clients_are_cut_off_when_they_stop_or_trickle() {
        let steady = |rate: f64| move |seconds: f64| (rate * seconds) as i64;
        let gulp = |bytes: i64, rate: f64| move |seconds: f64| bytes + (rate * seconds) as i64;
        let jumps = |every: f64| move |seconds: f64| 65_536 * (1 + (seconds / every) as i64);
        // Timeout, rate, how the bytes arrive, and the end.
        type Case = (&'static str, u64, u64, Box<dyn Fn(f64) -> i64>, std::ops::RangeInclusive<u64>);
        let cases: Vec<Case> = vec![
            ("nothing arrives", 60, 0, Box::new(|_| 0), 60..=60),
            ("nothing arrives, and there is a rate", 60, 256, Box::new(|_| 0), 60..=60),
            ("nothing arrives, only a rate", 0, 256, Box::new(|_| 0), 60..=60),
            ("no bound", 0, 0, Box::new(|_| 0), 1000..=1000),
            ("half the rate", 60, 256, Box::new(steady(128.0)), 115..=125),
            ("just too little", 60, 256, Box::new(steady(224.0)), 440..=520),
            ("enough", 60, 256, Box::new(steady(257.0)), 1000..=1000),
            ("a trickle without a rate", 60, 0, Box::new(steady(1.0)), 1000..=1000),
            ("a gulp, then nothing", 60, 256, Box::new(gulp(10_000_000, 0.0)), 60..=70),
            ("a small gulp, then a trickle", 60, 256, Box::new(gulp(2_560, 160.0)), 150..=190),
            ("a large gulp, then a trickle", 60, 256, Box::new(gulp(10_000_000, 128.0)), 100..=150),
            ("a gulp, then a trickle, only a rate", 0, 256, Box::new(gulp(25_600, 0.0)), 160..=161),
            ("large windows that open rarely", 60, 256, Box::new(jumps(50.0)), 1000..=1000),
            ("an earlier response comes first", 60, 1000, Box::new(gulp(-20_000, 2000.0)), 1000..=1000),
        ];
        for (what, timeout, rate, arrived, expected) in cases {
            let end = end(timeout, rate, arrived);
            assert!(expected.contains(&end), "{what}: {end} is not in {expected:?}");
        }
    }

    #[test]
    fn a_client_that_waits_for_us_is_not_late() {
        let terms = Terms { timeout: 2 * SECOND, rate: 256 };
        let mut pace = Pace::default();
        let mut now = 0;
        for _ in 0..1000 {
            now = pace.wait(now, terms);
            assert!(pace.look(now, 5, true, terms));
        }
    }

    #[test]
    fn a_client_to_which_nothing_arrives_any_more_has_no_pulse() {
        let terms = Terms { timeout: 60 * SECOND, rate: 256 };
        // How many bytes have arrived of so many that were sent after so many seconds, and until when the client has a pulse.
        type Case = (&'static str, fn(i64) -> (i64, i64), std::ops::RangeInclusive<u64>);
        let cases: [Case; 6] = [
            ("it takes all", |second| (second, second), 1000..=1000),
            ("it is always a little behind", |second| (second, second + 3), 1000..=1000),
            ("it takes one byte now and then", |second| (second / 50, 1000), 1000..=1000),
            ("it takes nothing", |second| (0, second), 60..=70),
            (
                "it takes nothing, and its records count for more than is in them",
                |second| (-second, 1),
                60..=70,
            ),
            ("it takes nothing after a while", |second| (second.min(500), second), 560..=575),
        ];
        for (what, at, expected) in cases {
            let (mut pulse, start) = (Pulse::default(), 77 * SECOND);
            let end = (1..=1000_u64).find(|second| {
                let now = start + second * SECOND;
                let (arrived, sent) = at(second.cast_signed());
                pulse.is_due(now, terms) && !pulse.look(now, arrived, arrived == sent, terms)
            });
            let end = end.unwrap_or(1000);
            assert!(expected.contains(&end), "{what}: {end} is not in {expected:?}");
        }
        let (mut pulse, terms) = (Pulse::default(), Terms { timeout: 0, rate: 256 });
        assert!(!pulse.is_due(SECOND, terms) && Pulse::next(SECOND, terms) == 0);
        assert!((1..1000).all(|second| pulse.look(second * SECOND, 0, false, terms)), "there is no bound");
    }

    #[test]
    fn worker_news_does_not_put_the_look_off() {
        let terms = Terms { timeout: 60 * SECOND, rate: 0 };
        let mut pace = Pace::default();
        let due = pace.wait(SECOND, terms);
        assert_eq!(pace.wait(due - 1, terms), due);
        pace.rest();
        assert!(pace.wait(due - 1, terms) > due, "a client that has caught up begins anew");
    }
}
