//! Durations in fixed buckets, 32 for each doubling from 1 µs to 73 minutes, and the longest of them as it was.
//!
//! A bucket is a thirty-second of its doubling wide, so a percentile is within 3.2 % of the truth wherever in its
//! bucket that lies. The bounds of Prometheus' coarse buckets are no multiples of such steps: each divides the bucket
//! that it falls into, so that their counts come out exact.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::counter::bump;

/// Buckets of a doubling, as a power of two.
const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;
/// Nanoseconds by which a sum is counted once more: in single ones ten thousand connections that last are too much for a word in three weeks.
const SPAN: u64 = 1 << 32;
/// All below 2^10 ns are one bucket.
const LEAST_BITS: u32 = 10;
const DOUBLINGS: usize = 32;
/// Number of buckets; the last has no upper bound.
pub(crate) const BUCKETS: usize = 1 + DOUBLINGS * STEPS + MARKS.len() + 1;

/// Bounds of the buckets that Prometheus is shown, in nanoseconds: no two in one doubling.
pub(crate) const MARKS: [u64; 18] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
    50_000_000_000,
];

/// What the marks do to the buckets of a doubling.
#[derive(Clone, Copy, Debug)]
struct Doubling {
    /// Its first bucket.
    first: usize,
    /// The mark in it; none is above all.
    mark: u64,
}

/// From 2^10 ns on.
static TABLE: [Doubling; DOUBLINGS] = doublings();
/// Upper bounds in nanoseconds, inclusive.
static BOUNDS: [u64; BUCKETS] = bounds();

const fn doublings() -> [Doubling; DOUBLINGS] {
    let mut table = [Doubling { first: 0, mark: u64::MAX }; DOUBLINGS];
    let (mut at, mut marks) = (0, 0);
    while at < DOUBLINGS {
        table[at].first = 1 + at * STEPS + marks;
        if marks < MARKS.len() && MARKS[marks] <= 1 << (LEAST_BITS as usize + at + 1) {
            table[at].mark = MARKS[marks];
            marks += 1;
        }
        at += 1;
    }
    assert!(marks == MARKS.len(), "two marks in one doubling");
    table
}

const fn bounds() -> [u64; BUCKETS] {
    let mut bounds = [u64::MAX; BUCKETS];
    bounds[0] = 1 << LEAST_BITS;
    let (mut at, mut step) = (1, 0);
    while step < DOUBLINGS * STEPS {
        let (doubling, within) = (step / STEPS, step % STEPS);
        let upper = ((STEPS + within + 1) as u64) << (LEAST_BITS as usize + doubling - STEP_BITS as usize);
        if TABLE[doubling].mark > bounds[at - 1] && TABLE[doubling].mark < upper {
            bounds[at] = TABLE[doubling].mark;
            at += 1;
        }
        bounds[at] = upper;
        (at, step) = (at + 1, step + 1);
    }
    bounds
}

/// The bucket of a duration. Bounds belong to the bucket below them, hence the nanosecond less.
#[inline]
fn bucket(nanos: u64) -> usize {
    let below = nanos.saturating_sub(1);
    let bits = below.checked_ilog2().unwrap_or(0);
    let Some(doubling) = bits.checked_sub(LEAST_BITS) else { return 0 };
    let Some(Doubling { first, mark }) = TABLE.get(doubling as usize) else { return BUCKETS - 1 };
    let step = (below >> (bits - STEP_BITS)) as usize % STEPS;
    first + step + usize::from(nanos > *mark)
}

/// A histogram that one thread fills and any thread reads.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    /// Nanoseconds, less 2^64 as often as there have been so many, and how many spans that is in all.
    sum: AtomicU64,
    spans: AtomicU64,
    /// The longest of all.
    most: AtomicU64,
    /// The longest since somebody took it.
    peak: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        let buckets = [const { AtomicU64::new(0) }; BUCKETS];
        Self { buckets, sum: zero(), spans: zero(), most: zero(), peak: zero() }
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn record(&self, nanos: u64) {
        // Whoever sees it counted is to see it here, too.
        if nanos > self.peak.load(Relaxed) {
            self.peak.store(nanos, Relaxed);
            self.most.store(nanos.max(self.most.load(Relaxed)), Relaxed);
        }
        bump(&self.buckets[bucket(nanos)], 1);
        let sum = self.sum.load(Relaxed);
        let spans = nanos / SPAN + (sum % SPAN + nanos % SPAN) / SPAN;
        if spans > 0 {
            bump(&self.spans, spans);
        }
        self.sum.store(sum.wrapping_add(nanos), Relaxed);
    }

    /// All durations together, in nanoseconds. Who looks may find one of both words changed and not the other; the first is right, and the
    /// second need not be exact to tell how often it has begun anew.
    fn sum(&self) -> u128 {
        let about = u128::from(self.spans.load(Relaxed)) * u128::from(SPAN);
        let more = self.sum.load(Relaxed).wrapping_sub(about as u64).cast_signed();
        about.saturating_add_signed(more.into())
    }

    /// The longest since the last call. A shorter one that ends meanwhile may be forgotten.
    pub(crate) fn take_peak(&self) -> u64 {
        self.peak.swap(0, Relaxed)
    }
}

/// What a histogram, or several together, held at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// Outside, since it is large and handed about.
    buckets: Box<[u64; BUCKETS]>,
    /// All durations together, in nanoseconds.
    pub sum: u128,
    /// The longest, in nanoseconds.
    pub most: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), sum: 0, most: 0 }
    }
}

impl Distribution {
    /// Adds what `histogram` holds.
    pub(crate) fn add(&mut self, histogram: &Histogram) {
        for (total, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *total += bucket.load(Relaxed);
        }
        self.sum += histogram.sum();
        self.most = self.most.max(histogram.most.load(Relaxed));
    }

    /// Adds one duration in nanoseconds: for tests and samples.
    pub fn record(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.sum += u128::from(nanos);
        self.most = self.most.max(nanos);
    }

    /// What has come since `earlier`, of which the longest took `most`.
    #[must_use]
    pub fn since(&self, earlier: &Self, most: u64) -> Self {
        let mut buckets = self.buckets.clone();
        for (bucket, before) in buckets.iter_mut().zip(earlier.buckets.iter()) {
            *bucket = bucket.saturating_sub(*before);
        }
        Self { buckets, sum: self.sum.saturating_sub(earlier.sum), most }
    }

    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How many were at most `nanos`; exact when that is a bound.
    #[must_use]
    pub fn at_most(&self, nanos: u64) -> u64 {
        self.buckets
            .iter()
            .zip(&BOUNDS)
            .take_while(|(_, bound)| **bound <= nanos)
            .map(|(count, _)| count)
            .sum()
    }

    /// Mean in seconds; 0 when there are none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let count = self.count();
        if count == 0 { 0.0 } else { self.sum as f64 / 1e9 / count as f64 }
    }

    /// The longest in seconds; 0 when there are none.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.most as f64 / 1e9
    }

    /// The duration in seconds below which the share `q` (0 to 1) lies, interpolated within its bucket; 0 when there
    /// are none. From 1 µs to 73 minutes it is within 3.2 % of the truth.
    #[must_use]
    pub fn quantile(&self, q: f64) -> f64 {
        let mut left = q.clamp(0.0, 1.0) * self.count() as f64;
        for (at, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if left <= count {
                return self.within(at, left / count);
            }
            left -= count;
        }
        self.max()
    }

    /// The duration in seconds at a share of a bucket, of which nothing is above the longest of all.
    fn within(&self, at: usize, share: f64) -> f64 {
        let lower = if at == 0 { 0 } else { BOUNDS[at - 1] };
        let upper = BOUNDS[at].min(self.most).max(lower);
        (lower as f64 + (upper - lower) as f64 * share) / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const MILLI: u64 = 1_000_000;
    /// 2^42 ns.
    const LONGEST: u64 = 1 << (LEAST_BITS as usize + DOUBLINGS);

    fn of(durations: impl IntoIterator<Item = u64>) -> Distribution {
        let mut distribution = Distribution::default();
        durations.into_iter().for_each(|nanos| distribution.record(nanos));
        distribution
    }

    #[test]
    fn the_bounds_go_from_a_microsecond_to_73_minutes_by_steps_of_a_thirty_second() {
        assert_eq!(BOUNDS[..3], [1024, 1056, 1088]);
        assert_eq!(BOUNDS[BUCKETS - 2..], [LONGEST, u64::MAX]);
        for pair in BOUNDS[..BUCKETS - 1].windows(2) {
            assert!(pair[0] < pair[1] && (pair[1] - pair[0]) * 32 <= pair[0], "{pair:?}");
        }
        assert!(MARKS.iter().all(|mark| BOUNDS.contains(mark)));
    }

    #[test]
    fn quantiles_of_a_known_set() {
        let distribution = of((1..=1000).map(|n| n * MILLI));
        for (q, expected) in [(0.5, 0.5), (0.9, 0.9), (0.99, 0.99), (1.0, 1.0)] {
            let found = distribution.quantile(q);
            assert!((found / expected - 1.0).abs() < 0.01, "{q}: {found}");
        }
        assert!((distribution.mean() - 0.5005).abs() < 1e-9);
        assert!((distribution.max() - 1.0).abs() < 1e-9);
        assert_eq!(distribution.at_most(250 * MILLI), 250);
        assert_eq!(distribution.count(), 1000);
    }

    #[test]
    fn nothing_and_the_extremes_are_no_surprise() {
        let none = Distribution::default();
        assert_eq!((none.quantile(0.5), none.mean(), none.max()), (0.0, 0.0, 0.0));
        let endless = of([u64::MAX / 2]);
        assert!((endless.quantile(1.0) - endless.max()).abs() < 1.0 && endless.max() > 9e9);
        assert_eq!(endless.at_most(u64::MAX - 1), 0);
        assert!(of([0]).quantile(0.5) <= 1e-6);
        assert!((of([7 * MILLI]).quantile(1.0) - 0.007).abs() < 1e-9, "one alone is known exactly");
    }

    #[test]
    fn a_difference_is_what_came_between() {
        let (early, late) = (of([MILLI, 2 * MILLI]), of([MILLI, 2 * MILLI, 50 * MILLI]));
        assert_eq!(late.since(&early, 50 * MILLI), of([50 * MILLI]));
    }

    #[test]
    fn the_sum_has_room_for_ten_thousand_connections_that_last_for_years() {
        let (year, histogram) = (365 * 86_400 * 1000 * MILLI, Histogram::default());
        (0..10_000).for_each(|_| histogram.record(2 * year));
        let mut total = Distribution::default();
        for threads in 1..=2_u32 {
            total.add(&histogram);
            assert_eq!(total.sum / u128::from(year), u128::from(threads) * 20_000);
            assert!((total.mean() / (2.0 * 365.0 * 86_400.0) - 1.0).abs() < 1e-6, "{}", total.mean());
        }
    }

    /// Durations of every order of magnitude.
    fn duration() -> impl Strategy<Value = u64> {
        (LEAST_BITS..42, 0.0..1.0)
            .prop_map(|(bits, share)| ((1.0 + share) * 2_f64.powi(bits.cast_signed())) as u64)
    }

    proptest! {
        #[test]
        fn a_duration_falls_between_its_bounds(nanos in any::<u64>(), small in 0_u64..LONGEST, at in 0..BUCKETS) {
            for nanos in [nanos, small, BOUNDS[at], BOUNDS[at].saturating_add(1)] {
                let at = bucket(nanos);
                prop_assert!(nanos <= BOUNDS[at]);
                prop_assert!(at == 0 || nanos > BOUNDS[at - 1]);
            }
        }

        #[test]
        fn a_percentile_is_within_the_promise(
            mut durations in vec(duration(), 1..300),
            narrow in vec(9_000_000_u64..11_000_000, 0..300),
            percent in 0.0..=100.0
        ) {
            durations.extend(narrow);
            let distribution = of(durations.iter().copied());
            durations.sort_unstable();
            for q in [percent / 100.0, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let rank = (q * durations.len() as f64).ceil().max(1.0) as usize;
                let (truth, found) = (durations[rank - 1] as f64 / 1e9, distribution.quantile(q));
                prop_assert!((found / truth - 1.0).abs() <= 0.032, "{q}: {found} for {truth}");
            }
        }

        #[test]
        fn the_longest_is_the_longest(durations in vec(any::<u64>(), 1..50), later in vec(0_u64..LONGEST, 0..50)) {
            let histogram = Histogram::default();
            durations.iter().for_each(|nanos| histogram.record(*nanos));
            let (all, most) = (|| durations.iter().chain(&later).copied(), durations.iter().copied().max());
            prop_assert_eq!(Some(histogram.take_peak()), most);
            later.iter().for_each(|nanos| histogram.record(*nanos));
            prop_assert_eq!(histogram.take_peak(), later.iter().copied().max().unwrap_or(0));
            let mut total = Distribution::default();
            total.add(&histogram);
            prop_assert_eq!(Some(total.most), all().max());
            prop_assert_eq!(total.sum, all().map(u128::from).sum::<u128>());
            prop_assert!(total.quantile(0.99) <= total.max());
        }
    }
}
