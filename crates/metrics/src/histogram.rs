//! Durations in fixed buckets, ten a decade from 1 µs to 100 s.
//!
//! The bounds are Renard's R10 series: equal steps of a quarter, near enough for percentiles within 12 %, and among
//! them are 1, 2.5 and 5 of each decade, so that the coarse buckets of Prometheus come out exact.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::recorder::bump;

const STEPS: [u64; 10] = [1000, 1250, 1600, 2000, 2500, 3150, 4000, 5000, 6300, 8000];
const DECADES: usize = 8;
/// Number of buckets; the last has no upper bound.
pub(crate) const BUCKETS: usize = STEPS.len() * DECADES + 2;
/// Upper bounds in nanoseconds, inclusive.
pub(crate) const BOUNDS: [u64; BUCKETS] = bounds();
/// For each number of significant bits, the first bucket that such a number can fall into.
const FIRST: [u8; 65] = first();

const fn bounds() -> [u64; BUCKETS] {
    let mut bounds = [u64::MAX; BUCKETS];
    let (mut at, mut decade) = (0, 1);
    while at < BUCKETS - 1 {
        bounds[at] = STEPS[at % STEPS.len()] * decade;
        at += 1;
        if at % STEPS.len() == 0 {
            decade *= 10;
        }
    }
    bounds
}

const fn first() -> [u8; 65] {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let least = 1_u64 << (bits - 1);
        let mut at = 0;
        while BOUNDS[at] < least {
            at += 1;
        }
        first[bits] = at as u8;
        bits += 1;
    }
    first
}

/// The bucket of a duration: a table look-up and at most four comparisons.
fn bucket(nanos: u64) -> usize {
    let bits = u64::BITS - nanos.leading_zeros();
    let mut at = usize::from(FIRST[bits as usize]);
    while nanos > BOUNDS[at] {
        at += 1;
    }
    at
}

/// A histogram that one thread fills and any thread reads.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    /// Nanoseconds.
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn record(&self, nanos: u64) {
        bump(&self.buckets[bucket(nanos)], 1);
        bump(&self.sum, nanos);
    }
}

/// What a histogram, or several together, held at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    buckets: [u64; BUCKETS],
    /// All durations together, in nanoseconds.
    pub sum: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sum: 0 }
    }
}

impl Distribution {
    /// Adds what `histogram` holds.
    pub(crate) fn add(&mut self, histogram: &Histogram) {
        for (total, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *total += bucket.load(Relaxed);
        }
        self.sum = self.sum.wrapping_add(histogram.sum.load(Relaxed));
    }

    /// Adds one duration in nanoseconds: for tests and samples.
    pub fn record(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.sum += nanos;
    }

    /// What has come since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut buckets = self.buckets;
        for (bucket, before) in buckets.iter_mut().zip(&earlier.buckets) {
            *bucket = bucket.saturating_sub(*before);
        }
        Self { buckets, sum: self.sum.wrapping_sub(earlier.sum) }
    }

    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How many were at most `nanos`; exact when that is a bound.
    #[must_use]
    pub fn at_most(&self, nanos: u64) -> u64 {
        self.buckets.iter().zip(BOUNDS).take_while(|(_, bound)| *bound <= nanos).map(|(count, _)| count).sum()
    }

    /// Mean in seconds; 0 when there are none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let count = self.count();
        if count == 0 { 0.0 } else { self.sum as f64 / 1e9 / count as f64 }
    }

    /// The duration in seconds below which the share `q` (0 to 1) lies, interpolated within its bucket, so within
    /// 12 % of the truth; 0 when there are none. Beyond 100 s it says 100 s.
    #[must_use]
    pub fn quantile(&self, q: f64) -> f64 {
        let mut left = q.clamp(0.0, 1.0) * self.count() as f64;
        for (at, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if left <= count {
                return within(at, left / count);
            }
            left -= count;
        }
        self.buckets.iter().rposition(|count| *count > 0).map_or(0.0, |at| within(at, 1.0))
    }
}

/// The duration in seconds at a share of a bucket.
fn within(at: usize, share: f64) -> f64 {
    let lower = if at == 0 { 0 } else { BOUNDS[at - 1] };
    let upper = if BOUNDS[at] == u64::MAX { lower } else { BOUNDS[at] };
    (lower as f64 + (upper - lower) as f64 * share) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MILLI: u64 = 1_000_000;

    fn of(durations: impl IntoIterator<Item = u64>) -> Distribution {
        let mut distribution = Distribution::default();
        durations.into_iter().for_each(|nanos| distribution.record(nanos));
        distribution
    }

    #[test]
    fn the_bounds_go_from_a_microsecond_to_a_hundred_seconds() {
        assert_eq!(BOUNDS[..4], [1000, 1250, 1600, 2000]);
        assert_eq!(BOUNDS[BUCKETS - 2..], [100_000_000_000, u64::MAX]);
        assert!(BOUNDS.is_sorted());
    }

    #[test]
    fn quantiles_of_a_known_set() {
        let distribution = of((1..=1000).map(|n| n * MILLI));
        for (q, expected) in [(0.5, 0.5), (0.9, 0.9), (0.99, 0.99), (1.0, 1.0)] {
            let found = distribution.quantile(q);
            assert!((found / expected - 1.0).abs() < 0.03, "{q}: {found}");
        }
        assert!((distribution.mean() - 0.5005).abs() < 1e-9);
        assert_eq!(distribution.at_most(250 * MILLI), 250);
        assert_eq!(distribution.count(), 1000);
    }

    #[test]
    fn nothing_and_the_extremes_are_no_surprise() {
        assert_eq!((Distribution::default().quantile(0.5), Distribution::default().mean()), (0.0, 0.0));
        assert!((of([u64::MAX / 2]).quantile(0.99) - 100.0).abs() < 1e-9);
        assert!(of([0]).quantile(0.5) <= 1e-6);
        assert_eq!(of([u64::MAX / 2]).at_most(u64::MAX - 1), 0);
    }

    #[test]
    fn a_difference_is_what_came_between() {
        let (early, late) = (of([MILLI, 2 * MILLI]), of([MILLI, 2 * MILLI, 50 * MILLI]));
        assert_eq!(late.since(&early), of([50 * MILLI]));
    }

    proptest! {
        #[test]
        fn a_duration_falls_between_its_bounds(nanos in any::<u64>(), small in 0_u64..200_000_000_000) {
            for nanos in [nanos, small] {
                let at = bucket(nanos);
                prop_assert!(nanos <= BOUNDS[at]);
                prop_assert!(at == 0 || nanos > BOUNDS[at - 1]);
            }
        }
    }
}
