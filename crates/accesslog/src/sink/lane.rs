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
