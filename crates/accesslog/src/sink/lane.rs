//! The buffer between one front thread and the sink's thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::options::Options;
use super::signal;

/// Buffers above this size are given back after a stall instead of kept for the next batch.
const KEEP: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Lane {
    buffer: Mutex<Buffer>,
}

#[derive(Debug, Default)]
struct Buffer {
    text: Vec<u8>,
    dropped: u64,
    closed: bool,
}

impl Lane {
    /// Adds a line; says which flags the sink's thread must see.
    pub(super) fn push(&self, options: &Options, render: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let buffer = &mut *lock(&self.buffer);
        let before = buffer.text.len();
        if buffer.closed || before >= options.capacity {
            buffer.dropped += 1;
            return 0;
        }
        render(&mut buffer.text);
        let after = buffer.text.len();
        let first = if before == 0 && after > 0 { signal::DATA } else { 0 };
        let batch = if before < options.batch && after >= options.batch { signal::FULL } else { 0 };
        first | batch
    }

    /// Swaps the lines gathered so far for `empty`.
    pub(super) fn take(&self, mut empty: Vec<u8>) -> Vec<u8> {
        empty.clear();
        if empty.capacity() > KEEP {
            empty = Vec::new();
        }
        std::mem::swap(&mut lock(&self.buffer).text, &mut empty);
        empty
    }

    /// Lines from now on are dropped.
    pub(super) fn close(&self) {
        lock(&self.buffer).closed = true;
    }

    pub(super) fn dropped(&self) -> u64 {
        lock(&self.buffer).dropped
    }
}

/// A lock whose other holder panicked is as good as any: every state of the data is a valid one.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SMALL: Options =
        Options { what: "log", batch: 10, delay: Duration::ZERO, capacity: 20, report: Duration::ZERO };

    fn push(lane: &Lane, text: &str) -> u32 {
        lane.push(&SMALL, |out| out.extend_from_slice(text.as_bytes()))
    }

    #[test]
    fn the_thread_hears_of_the_first_line_and_of_the_one_that_makes_a_batch() {
        let lane = Lane::default();
        let both = signal::DATA | signal::FULL;
        // (line, what is raised, lines dropped so far)
        for (text, raised, dropped) in [
            ("", 0, 0),
            ("1234\n", signal::DATA, 0),
            ("678\n", 0, 0),
            ("\n", signal::FULL, 0),
            ("1234\n", 0, 0),
            ("678\n", 0, 0),
            ("more than there is room for\n", 0, 0),
            ("\n", 0, 1),
        ] {
            assert_eq!((push(&lane, text), lane.dropped()), (raised, dropped), "{text:?}");
        }
        assert_eq!(lane.take(Vec::new()).len(), 47);
        assert_eq!(push(&lane, "12345678\n"), signal::DATA);
        assert_eq!(lane.take(Vec::new()), b"12345678\n");
        assert_eq!(push(&lane, "123456789\n"), both);
    }

    #[test]
    fn a_lane_that_is_full_or_closed_takes_no_line() {
        let lane = Lane::default();
        push(&lane, "1234567890123456789\n");
        assert_eq!((push(&lane, "\n"), lane.dropped()), (0, 1));
        assert_eq!(lane.take(Vec::new()).len(), 20);
        lane.close();
        assert_eq!((push(&lane, "\n"), lane.dropped()), (0, 2));
        assert!(lane.take(Vec::new()).is_empty());
    }

    #[test]
    fn a_buffer_is_emptied_and_used_again_unless_a_stall_has_made_it_huge() {
        for (capacity, kept) in [(1 << 20, 1 << 20), ((1 << 20) + 1, 0)] {
            let lane = Lane::default();
            let mut old = Vec::with_capacity(capacity);
            old.extend_from_slice(b"written long ago\n");
            lane.take(old);
            let empty = lane.take(Vec::new());
            assert_eq!((empty.len(), empty.capacity()), (0, kept));
        }
    }
}
