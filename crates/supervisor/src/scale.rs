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

/// Scales until the supervisor is gone, from the number that there is: an operator may have set another.
pub async fn scale(handle: Handle, bounds: RangeInclusive<usize>) {
    let mut policy = Policy::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let segment = handle.segment();
        let queue = segment.queue();
        let waited = queue.oldest().map(|since| howdah_sys::monotonic_ns().saturating_sub(since));
        let Some(wish) = policy.decide(waited.unwrap_or(0), queue.cells.sleepers() as usize) else {
            continue;
        };
        let workers = handle.resize(0).await.workers;
        if workers == 0 {
            return;
        }
        let wanted = wish.from(workers, &bounds);
        if wanted != workers {
            handle.set_workers(wanted).await;
        }
    }
}

/// What is to become of the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    More,
    /// So many were idle all the time.
    Fewer(usize),
}

impl Wish {
    /// The number that follows, within the bounds. One beyond them is an operator's, and is not taken further away.
    fn from(self, workers: usize, bounds: &RangeInclusive<usize>) -> usize {
        match self {
            Self::More => (workers + workers.div_ceil(4)).min(workers.max(*bounds.end())),
            // Half of them: the next ten seconds will tell about the rest.
            Self::Fewer(spare) => workers.saturating_sub(spare.div_ceil(2)).max(workers.min(*bounds.start())),
        }
    }
}

/// What to do about one look after another.
#[derive(Debug)]
struct Policy {
    /// Looks since more were last asked for.
    since: u32,
    /// Fewest idle workers over the looks counted in `calm`.
    spare: usize,
    calm: u32,
}

impl Policy {
    fn new() -> Self {
        Self { since: PAUSE, spare: usize::MAX, calm: 0 }
    }

    /// What is wanted, if anything. `waited` is how long the oldest request has waited.
    fn decide(&mut self, waited: u64, idle: usize) -> Option<Wish> {
        self.since += 1;
        self.spare = self.spare.min(idle);
        self.calm += 1;
        if waited >= TOO_LONG {
            self.rest();
            return self.wish(self.since > PAUSE, Wish::More);
        }
        if self.calm < IDLE_LOOKS {
            return None;
        }
        let spare = self.spare;
        self.rest();
        self.wish(spare > 0, Wish::Fewer(spare))
    }

    fn rest(&mut self) {
        self.spare = usize::MAX;
        self.calm = 0;
    }

    fn wish(&mut self, due: bool, wish: Wish) -> Option<Wish> {
        if due {
            self.since = 0;
        }
        due.then_some(wish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that workers come to, from `workers` on.
    fn looks(
        policy: &mut Policy,
        workers: &mut usize,
        bounds: RangeInclusive<usize>,
        (count, waited, idle): (u32, u64, usize),
    ) -> Vec<usize> {
        let mut changes = Vec::new();
        for wish in (0..count).filter_map(|_| policy.decide(waited, idle)) {
            let before = std::mem::replace(workers, wish.from(*workers, &bounds));
            if before != *workers {
                changes.push(*workers);
            }
        }
        changes
    }

    #[test]
    fn the_number_follows_the_load_within_bounds_and_from_where_it_is() {
        let (load, calm) = ((60, TOO_LONG, 0), |looks, idle| (looks * IDLE_LOOKS, 0, idle));
        for (from, bounds, then, expected) in [
            (2, 2..=6, load, vec![3, 4, 5, 6]),
            (10, 2..=10, calm(1, 8), vec![6]),
            (6, 2..=10, calm(1, 4), vec![4]),
            (4, 2..=10, calm(3, 3), vec![2]),
            // Set by hand: as if the load had brought it there.
            (5, 1..=10, load, vec![7, 9, 10]),
            (5, 1..=10, calm(1, 4), vec![3]),
            // Above the most: no more by load, which takes none away either, and fewer when they are idle.
            (9, 1..=3, load, vec![]),
            (9, 1..=3, calm(2, 6), vec![6, 3]),
            // Below the fewest: it stays while it does, and grows by load.
            (1, 3..=6, calm(2, 1), vec![]),
            (1, 3..=6, load, vec![2, 3, 4, 5, 6]),
        ] {
            let (mut policy, mut workers) = (Policy::new(), from);
            assert_eq!(
                looks(&mut policy, &mut workers, bounds.clone(), then),
                expected,
                "{from} in {bounds:?}, {then:?}"
            );
        }
    }

    #[test]
    fn a_load_that_uses_every_worker_now_and_then_keeps_them() {
        let mut policy = Policy::new();
        for _ in 0..5 {
            assert!((1..IDLE_LOOKS).all(|_| policy.decide(0, 3).is_none()));
            assert_eq!(policy.decide(0, 0), None);
        }
    }

    #[test]
    fn a_short_wait_changes_nothing() {
        let mut policy = Policy::new();
        assert!((0..1000).all(|_| policy.decide(TOO_LONG - 1, 0).is_none()));
    }
}
