//! What the supervisor knows of reforks (`refork.rs`): the worker that was asked, and when there may be another.

use std::time::{Duration, Instant};

use howdah_sys::Pid;

use crate::config::Config;

/// Time between two looks at the workers' counters.
const LOOKS: Duration = Duration::from_millis(500);
/// Until the next worker is asked after one has failed, which doubles with each failure...
const AGAIN: Duration = Duration::from_secs(60);
/// ...up to so many times.
const DOUBLED: u32 = 6;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Promotion {
    pub(crate) asked: Option<Asked>,
    /// When to look who has served enough; none when nobody ever will have.
    pub(crate) look_at: Option<Instant>,
    failures: u32,
    wanted: bool,
}

/// A worker that is to leave the next zygote behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) worker: u16,
    pub(crate) pid: Option<Pid>,
    pub(crate) generation: u32,
    pub(crate) since: Instant,
    /// It has ended then. Its word may be on its way.
    pub(crate) gone: Option<Instant>,
}

impl Promotion {
    pub(crate) fn new(config: &Config) -> Self {
        let wanted = !config.reforks.is_empty();
        Self { look_at: wanted.then(Instant::now), wanted, ..Self::default() }
    }

    /// Nobody can be asked now.
    pub(crate) fn look_later(&mut self, now: Instant) {
        self.look_at = Some(now + LOOKS);
    }

    /// What was in the way may be so for long. Returns the time until the next try.
    pub(crate) fn failed(&mut self, now: Instant) -> Duration {
        let wait = AGAIN * (1 << self.failures.min(DOUBLED));
        self.failures += 1;
        self.look_at = Some(now + wait);
        wait
    }

    /// One has come to its end well, or the application has been loaded anew.
    pub(crate) fn begin_anew(&mut self, now: Instant) {
        self.failures = 0;
        self.look_at = self.wanted.then_some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_try_waits_longer_after_each_failure_up_to_about_an_hour() {
        let now = Instant::now();
        let mut promotion = Promotion::new(&Config { reforks: vec![50], ..Config::default() });
        let waits: Vec<u64> = (0..8).map(|_| promotion.failed(now).as_secs()).collect();
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3840, 3840]);
        promotion.begin_anew(now);
        assert_eq!(promotion.look_at, Some(now));
        assert_eq!(promotion.failed(now).as_secs(), 60);
    }

    #[test]
    fn without_numbers_nobody_looks() {
        let mut promotion = Promotion::new(&Config::default());
        promotion.begin_anew(Instant::now());
        assert_eq!(promotion.look_at, None);
    }
}
