//! A distribution of durations as pages show it: without its thousand buckets.

use serde::{Deserialize, Serialize};

use crate::histogram::{Distribution, MARKS};
use crate::history::Quantiles;

/// Durations since the start, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Durations {
    /// How many, and how long they are.
    #[serde(flatten)]
    pub quantiles: Quantiles,
    /// All together.
    pub sum: f64,
    /// How many took no longer than each of the bounds in the metrics, from 100 µs to 50 s.
    pub at_most: Vec<u64>,
}

impl From<&Distribution> for Durations {
    fn from(distribution: &Distribution) -> Self {
        Self {
            quantiles: Quantiles::from(distribution),
            sum: distribution.sum as f64 / 1e9,
            at_most: MARKS.iter().map(|mark| distribution.at_most(*mark)).collect(),
        }
    }
}

impl Durations {
    /// The bounds in seconds, and how many took no longer.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        MARKS.iter().map(|mark| *mark as f64 / 1e9).zip(self.at_most.iter().copied())
    }
}
