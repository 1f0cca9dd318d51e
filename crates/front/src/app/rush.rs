//! How many requests of a pool have waited at once: between two looks of the status, once a second, a queue can fill and be empty again.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// See the module.
#[derive(Debug, Default)]
pub struct Rush(AtomicU64);

impl Rush {
    /// So many wait now. One look at what is seldom written, unless they are more than ever since the last [`Rush::take`].
    pub(crate) fn note(&self, waiting: u64) {
        if waiting > self.0.load(Relaxed) {
            self.0.fetch_max(waiting, Relaxed);
        }
    }

    /// Most that have waited at once since this was last asked.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_of_all_threads_is_kept_until_it_is_taken() {
        let rush = Rush::default();
        [3, 17, 0, 5].into_iter().for_each(|waiting| rush.note(waiting));
        assert_eq!((rush.take(), rush.take()), (17, 0));
        rush.note(2);
        assert_eq!(rush.take(), 2);
    }
}
