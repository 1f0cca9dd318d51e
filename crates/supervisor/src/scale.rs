//! Between `--min-workers` and `--workers`: more workers while requests wait, fewer when workers idle.
//!
//! It reads the queue in shared memory ten times a second and asks the supervisor through its [`Handle`], as an
//! operator would; started by the binary when the two numbers differ.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::handle::Handle;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// A request that has waited for so long, in nanoseconds, wants another worker.
const TOO_LONG: u64 = 50_000_000;
/// Looks over which a worker must have been to spare before it is dismissed: ten seconds.
const IDLE_LOOKS: u32 = 100;
/// Looks to let new workers take effect before more are asked for.
const PAUSE: u32 = 3;

/// Scales until the supervisor is gone.
pub async fn scale(handle: Handle, bounds: RangeInclusive<usize>) {
    let mut policy = Policy::new(bounds);
    loop {
        tokio::time::sleep(LOOK).await;
        let segment = handle.segment();
        let queue = segment.queue();
        let waited = queue.oldest().map(|since| howdah_sys::monotonic_ns().saturating_sub(since));
        if let Some(workers) = policy.decide(waited.unwrap_or(0), queue.cells.sleepers() as usize)
            && handle.set_workers(workers).await.workers == 0
        {
            return;
        }
    }
}

/// What to do about one look after another.
#[derive(Debug)]
struct Policy {
    bounds: RangeInclusive<usize>,
    workers: usize,
    /// Looks since the number last changed.
    since: u32,
    /// Fewest idle workers over the looks counted in `calm`.
    spare: usize,
    calm: u32,
}

impl Policy {
    fn new(bounds: RangeInclusive<usize>) -> Self {
        let workers = *bounds.start();
        Self { bounds, workers, since: PAUSE, spare: usize::MAX, calm: 0 }
    }

    /// The new number of workers, when it is to change. `waited` is how long the oldest request has waited.
    fn decide(&mut self, waited: u64, idle: usize) -> Option<usize> {
        self.since += 1;
        self.spare = self.spare.min(idle);
        self.calm += 1;
        if waited >= TOO_LONG {
            self.rest();
            let more = self.workers + self.workers.div_ceil(4);
            return if self.since > PAUSE { self.change(more) } else { None };
        }
        if self.calm < IDLE_LOOKS {
            return None;
        }
        // Half of what was to spare all the time: the next ten seconds will tell about the rest.
        let fewer = self.workers - self.spare.div_ceil(2).min(self.workers);
        let dismiss = self.spare > 0;
        self.rest();
        if dismiss { self.change(fewer) } else { None }
    }

    fn rest(&mut self) {
        self.spare = usize::MAX;
        self.calm = 0;
    }

    fn change(&mut self, workers: usize) -> Option<usize> {
        let workers = workers.clamp(*self.bounds.start(), *self.bounds.end());
        let changed = workers != self.workers;
        self.workers = workers;
        self.since = 0;
        changed.then_some(workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(policy: &mut Policy, count: u32, waited: u64, idle: usize) -> Vec<usize> {
        (0..count).filter_map(|_| policy.decide(waited, idle)).collect()
    }

    #[test]
    fn waiting_requests_bring_workers_up_to_the_most_and_no_further() {
        let mut policy = Policy::new(2..=6);
        assert_eq!(looks(&mut policy, 30, TOO_LONG, 0), [3, 4, 5, 6]);
    }

    #[test]
    fn idle_workers_leave_by_halves_down_to_the_fewest() {
        let mut policy = Policy::new(2..=10);
        looks(&mut policy, 60, TOO_LONG, 0);
        assert_eq!(looks(&mut policy, IDLE_LOOKS, 0, 8), [6]);
        assert_eq!(looks(&mut policy, IDLE_LOOKS, 0, 4), [4]);
        assert_eq!(looks(&mut policy, 3 * IDLE_LOOKS, 0, 3), [2]);
    }

    #[test]
    fn a_load_that_uses_every_worker_now_and_then_keeps_them() {
        let mut policy = Policy::new(1..=4);
        looks(&mut policy, 40, TOO_LONG, 0);
        for _ in 0..5 {
            assert!(looks(&mut policy, IDLE_LOOKS - 1, 0, 3).is_empty());
            assert!(looks(&mut policy, 1, 0, 0).is_empty());
        }
    }

    #[test]
    fn a_short_wait_changes_nothing() {
        let mut policy = Policy::new(1..=4);
        assert!(looks(&mut policy, 1000, TOO_LONG - 1, 0).is_empty());
    }
}
