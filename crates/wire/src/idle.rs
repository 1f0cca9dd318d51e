//! Which workers sleep, and which of them to wake.
//!
//! A worker sets its bit, looks at the queue once more, and only then sleeps on its futex. Whoever wants to wake a
//! worker must first win its bit, so two front threads never spend two wake-ups on one worker. Of several sleepers
//! the one that has worked last is chosen: its caches are warm, and the others can stay asleep.

use crate::layout::{QueueCells, WorkerCell};
use crate::queue::Queue;
use crate::sync::Ordering::SeqCst;

impl QueueCells {
    /// The worker says that it is about to sleep. `order` is since when it has had nothing to do: it is the higher, the later
    /// that was.
    pub fn enter_idle(&self, worker: u16, cell: &WorkerCell, order: u64) {
        cell.wake.store(0, SeqCst);
        cell.idle_order.store(order, SeqCst);
        self.idle[word(worker)].fetch_or(bit(worker), SeqCst);
    }

    /// The worker is awake again, or will not sleep after all; or it is dead.
    pub fn leave_idle(&self, worker: u16) {
        self.idle[word(worker)].fetch_and(!bit(worker), SeqCst);
    }

    /// Number of workers asleep.
    #[must_use]
    pub fn sleepers(&self) -> u32 {
        self.idle.iter().map(|word| word.load(SeqCst).count_ones()).sum()
    }

    /// Picks the most recent sleeper and marks it woken. The caller wakes the futex in its cell.
    #[must_use]
    pub fn pick_sleeper(&self, workers: &[WorkerCell]) -> Option<u16> {
        loop {
            let worker = self.latest_sleeper(workers)?;
            if self.mark_woken(worker, &workers[worker as usize]) {
                return Some(worker);
            }
        }
    }

    /// Marks one worker woken. True when it slept: the caller wakes the futex in its cell.
    #[must_use]
    pub fn mark_woken(&self, worker: u16, cell: &WorkerCell) -> bool {
        let slept = self.idle[word(worker)].fetch_and(!bit(worker), SeqCst) & bit(worker) != 0;
        if slept {
            cell.wake.store(1, SeqCst);
        }
        slept
    }

    fn latest_sleeper(&self, workers: &[WorkerCell]) -> Option<u16> {
        let mut latest = None;
        for (index, word) in self.idle.iter().enumerate().take(workers.len().div_ceil(64)) {
            let mut bits = word.load(SeqCst);
            while bits != 0 {
                let worker = index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let order = workers.get(worker).map(|cell| cell.idle_order.load(SeqCst));
                latest = latest.max(order.map(|order| (order, worker as u16)));
            }
        }
        latest.map(|(_, worker)| worker)
    }
}

impl Queue<'_> {
    /// After `enter_idle`: true when there is nothing to do and the worker may sleep on its futex while it reads 0.
    #[must_use]
    pub fn may_sleep(&self, cell: &WorkerCell) -> bool {
        !self.has_entry() && !cell.must_leave()
    }
}

fn word(worker: u16) -> usize {
    worker as usize / 64
}

fn bit(worker: u16) -> u64 {
    1 << (worker % 64)
}
