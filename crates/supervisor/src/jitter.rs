//! Spreading what would otherwise coincide: workers that start together must not leave together.

use std::time::Duration;

use howdah_sys::monotonic_ns;

/// A small generator of numbers (splitmix64); nothing secret depends on it.
#[derive(Debug)]
pub(crate) struct Jitter {
    state: u64,
}

impl Jitter {
    /// Seeded by the clock and the process.
    pub(crate) fn new() -> Self {
        Self { state: monotonic_ns() ^ u64::from(std::process::id()) << 32 }
    }

    /// `value` give or take up to 10 %, never 0 unless `value` is.
    pub(crate) fn around(&mut self, value: u64) -> u64 {
        let spread = value / 10;
        (value - spread).saturating_add(self.next() % (spread * 2 + 1))
    }

    /// A time, give or take up to 10 %.
    pub(crate) fn around_time(&mut self, value: Duration) -> Duration {
        Duration::from_millis(self.around(u64::try_from(value.as_millis()).unwrap_or(u64::MAX / 2)))
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_within_ten_percent_and_use_the_whole_range() {
        let mut jitter = Jitter { state: 1 };
        let values: Vec<u64> = (0..1000).map(|_| jitter.around(1000)).collect();
        assert!(values.iter().all(|value| (900..=1100).contains(value)));
        assert!(values.iter().min() < Some(&920) && values.iter().max() > Some(&1080));
    }

    #[test]
    fn the_largest_is_not_passed() {
        let mut jitter = Jitter { state: 1 };
        for value in [u64::MAX, u64::MAX - 1, u64::MAX / 11 * 10] {
            let least = (0..1000).map(|_| jitter.around(value)).min();
            assert!(least >= Some(value - value / 10), "{value}: {least:?}");
        }
    }

    #[test]
    fn small_values_stay_themselves() {
        let mut jitter = Jitter::new();
        for value in 0..10 {
            assert_eq!(jitter.around(value), value);
        }
    }
}
