//! An error that repeats itself gets a line a second, and that line tells how often it was left out.
//!
//! Who has such an error keeps a gate for it, mostly a `static` beside the message:
//!
//! ```
//! use howdah_front::Repeated;
//!
//! static FULL: Repeated = Repeated::new();
//! if let Some(again) = FULL.pass() {
//!     tracing::error!("out of file descriptors: connections wait{again}");
//! }
//! ```
//!
//! Without one, a front thread in trouble would be busy with words, and the log full of one thing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Least time between two lines, in nanoseconds.
const PERIOD: u64 = 1_000_000_000;

/// A gate for one message. All threads may share it.
#[derive(Debug, Default)]
pub struct Repeated {
    /// When the next line may be written; 0 before the first.
    due: AtomicU64,
    held: AtomicU64,
}

/// How often the message was held back since its last line. To be printed at the end of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again(pub u64);

impl Repeated {
    /// An open gate.
    #[must_use]
    pub const fn new() -> Self {
        Self { due: AtomicU64::new(0), held: AtomicU64::new(0) }
    }

    /// Some when the message is to be logged now; none when it had a line within the last second.
    #[must_use]
    pub fn pass(&self) -> Option<Again> {
        self.pass_at(howdah_sys::monotonic_ns())
    }

    fn pass_at(&self, now: u64) -> Option<Again> {
        let due = self.due.load(Relaxed);
        // Of several threads that come at once, one has the line.
        if now < due || self.due.compare_exchange(due, now + PERIOD, Relaxed, Relaxed).is_err() {
            self.held.fetch_add(1, Relaxed);
            return None;
        }
        Some(Again(self.held.swap(0, Relaxed)))
    }
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            1 => f.write_str(" (once more since the last such line)"),
            times => write!(f, " ({times} times more since the last such line)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_line_a_second_and_tells_what_was_left_out() {
        let gate = Repeated::new();
        let start = 5 * PERIOD;
        let cases = [
            (0, Some("")),
            (1, None),
            (PERIOD - 1, None),
            (PERIOD, Some(" (2 times more since the last such line)")),
            (PERIOD + 1, None),
            (3 * PERIOD, Some(" (once more since the last such line)")),
            (9 * PERIOD, Some("")),
        ];
        for (after, expected) in cases {
            let said = gate.pass_at(start + after).map(|again| again.to_string());
            assert_eq!(said.as_deref(), expected, "after {after} ns");
        }
    }

    #[test]
    fn of_many_threads_one_has_the_line() {
        let gate = Repeated::new();
        let lines: Vec<Again> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..1000).filter_map(|_| gate.pass_at(1)).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let [Again(told)] = lines[..] else { panic!("{lines:?}") };
        // Others may have been held back before who has the line comes to telling of them.
        assert_eq!(told + gate.held.load(Relaxed), 7999);
    }
}
