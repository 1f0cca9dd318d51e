//! Connections that the workers of a pool have taken (`psgix.io`): each keeps one of them busy for as long as it lasts, so
//! there may be so many, on all front threads together, and no more.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// See the module.
#[derive(Debug)]
pub struct Upgrades {
    /// `--max-upgrades`.
    most: u64,
    open: AtomicU64,
    total: AtomicU64,
    refused: AtomicU64,
}

impl Upgrades {
    /// So many there may be at once.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self { most, open: AtomicU64::new(0), total: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// How many there may be.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Those that workers have now.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// All since the start.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Those that there was no room for.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// One more, if there may be.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Upgraded> {
        let more = |open| (open < self.most).then_some(open + 1);
        let entered = self.open.fetch_update(Relaxed, Relaxed, more).is_ok();
        let counted = if entered { &self.total } else { &self.refused };
        counted.fetch_add(1, Relaxed);
        entered.then(|| Upgraded(Arc::clone(self)))
    }
}

/// A worker has a connection as long as the value lives.
#[derive(Debug)]
pub(crate) struct Upgraded(Arc<Upgrades>);

impl Drop for Upgraded {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_may_be_and_each_makes_room_when_it_goes() {
        for most in 0..4 {
            let upgrades = Arc::new(Upgrades::new(most));
            let mut inside: Vec<_> = (0..5).map_while(|_| upgrades.enter()).collect();
            assert_eq!((inside.len() as u64, upgrades.open(), upgrades.refused()), (most, most, 1));
            if inside.pop().is_some() {
                assert_eq!(upgrades.open(), most - 1);
                inside.extend(upgrades.enter());
            }
            let total = if most == 0 { 0 } else { most + 1 };
            drop(inside);
            assert_eq!((upgrades.open(), upgrades.total(), upgrades.refused()), (0, total, 1));
        }
    }
}
