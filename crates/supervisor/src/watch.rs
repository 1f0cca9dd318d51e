//! When what changes without any news is looked at again: the workers' counters, and their memory.

use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::config::Config;

/// Time from one measurement of memory to the next.
pub(crate) const MEMORY_LOOKS: Duration = Duration::from_secs(2);

/// When to look again, for each thing that is looked at.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) quota_at: Option<Instant>,
    /// Requests a second of the worker that was busiest of late.
    pub(crate) pace: f64,
    /// None while it is measured, too.
    pub(crate) memory_at: Option<Instant>,
    /// The log has been told that it cannot be looked at.
    pub(crate) told_hidden: bool,
    /// Of which generation workers that have served nothing have more than they may, how much, and when the next one is replaced.
    pub(crate) born_large: Option<(u32, u64, Backoff)>,
}

impl Watch {
    pub(crate) fn new(config: &Config) -> Self {
        let now = Instant::now();
        Self {
            quota_at: (config.max_requests > 0).then_some(now),
            pace: 0.0,
            memory_at: config.max_memory.map(|_| now + MEMORY_LOOKS),
            told_hidden: false,
            born_large: None,
        }
    }
}
