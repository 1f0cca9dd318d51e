//! What the kernel tells of processes, and the order of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Within this time of its arrival nothing comes that was before it, even if the machine is busy: the kernel hands events over
/// by processor, and has been seen to tell a program 4 ms before the fork that made its process.
const HOLD: Duration = Duration::from_millis(50);

/// Names and paths come with it, or have to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A process was made; not a thread.
    Fork { parent: u32, child: u32, who: Option<String> },
    /// A process runs another program.
    Exec { pid: u32, who: Option<String>, path: Option<String> },
    /// A process has ended.
    Exit { pid: u32 },
    /// Some were lost.
    Lost,
}

/// Holds events until nothing can come that was before them.
#[derive(Debug)]
pub(crate) struct InOrder<T> {
    /// By when they were, in the kernel's nanoseconds; among the same by when they came.
    held: BTreeMap<(u64, u64), (Instant, T)>,
    come: u64,
}

impl<T> InOrder<T> {
    pub(crate) fn new() -> Self {
        Self { held: BTreeMap::new(), come: 0 }
    }

    /// It was `at` that time and has come `now`.
    pub(crate) fn put(&mut self, at: u64, now: Instant, event: T) {
        self.held.insert((at, self.come), (now, event));
        self.come += 1;
    }

    /// How long there is nothing to take, unless more comes.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        let (came, _) = self.held.first_key_value()?.1;
        Some((*came + HOLD).saturating_duration_since(now))
    }

    /// The next one that has been held for long enough.
    pub(crate) fn take(&mut self, now: Instant) -> Option<T> {
        if self.patience(now)? > Duration::ZERO {
            return None;
        }
        self.take_now()
    }

    /// The next one.
    pub(crate) fn take_now(&mut self) -> Option<T> {
        self.held.pop_first().map(|(_, (_, event))| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_in_the_order_in_which_they_were() {
        let start = Instant::now();
        let ms = |time| start + Duration::from_millis(time);
        let mut order = InOrder::new();
        assert_eq!((order.patience(start), order.take(start)), (None, None));
        order.put(200, ms(0), "exec");
        order.put(300, ms(1), "exit");
        order.put(100, ms(4), "fork");
        order.put(300, ms(5), "another at that moment");
        assert_eq!(order.take(ms(53)), None, "the first one came last");
        assert_eq!(order.patience(ms(53)), Some(Duration::from_millis(1)));
        let taken: Vec<_> = std::iter::from_fn(|| order.take(ms(54))).collect();
        assert_eq!(taken, ["fork", "exec", "exit"]);
        assert_eq!(order.patience(ms(60)), Some(Duration::ZERO));
        assert_eq!((order.take_now(), order.take_now()), (Some("another at that moment"), None));
    }
}
