//! What responses hold for their clients, over all front threads: so much in memory, so much in files, and no more,
//! however many clients read slowly.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::config::Config;

/// So many responses may fill their `--response-buffer` at once. Those of further slow clients go to a file at once.
const FULL_BUFFERS: u64 = 64;

/// See the module. One for all threads.
#[derive(Debug)]
pub struct Stock {
    pub(crate) memory: Budget,
    pub(crate) files: Budget,
}

impl Stock {
    /// With the bounds that the operator has set, and nothing taken.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let buffer = config.response_buffer as u64;
        Self {
            memory: Budget::new(buffer.saturating_mul(FULL_BUFFERS)),
            files: Budget::new(config.response_spool),
        }
    }

    /// Bytes that may lie in memory.
    #[must_use]
    pub fn memory_limit(&self) -> u64 {
        self.memory.most
    }

    /// Bytes that lie in files now.
    #[must_use]
    pub fn spooled(&self) -> u64 {
        self.files.taken.load(Relaxed)
    }

    /// Bytes that may.
    #[must_use]
    pub fn spool_limit(&self) -> u64 {
        self.files.most
    }
}

/// Bytes that are handed out up to a bound.
#[derive(Debug)]
pub(crate) struct Budget {
    taken: AtomicU64,
    most: u64,
}

impl Budget {
    fn new(most: u64) -> Self {
        Self { taken: AtomicU64::new(0), most }
    }

    /// Takes `bytes`. False when so many are not left; then none are taken.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= self.most);
        self.taken.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn a_budget_hands_out_all_it_has_and_no_more() {
        let budget = Budget::new(10);
        assert!(budget.take(7));
        assert!(!budget.take(4));
        assert!(budget.take(3));
        assert!(!budget.take(1));
        budget.give(7);
        assert!(budget.take(7));
        assert!(!budget.take(u64::MAX), "no sum wraps");
    }
}
