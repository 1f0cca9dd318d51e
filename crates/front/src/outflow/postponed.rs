//! Responses that wait for the next one, which is likely to be there soon, so that one write is enough for all of them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// Bytes of them that may wait.
pub(super) const MOST: usize = 16 * 1024;
/// How long the first of them waits at most.
const PATIENCE: Duration = Duration::from_millis(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Postponed {
    /// What is held of them. They count as sent.
    pub(super) bytes: usize,
    /// Since when, in monotonic nanoseconds.
    since: u64,
    patience: Pin<Box<Sleep>>,
}

impl Postponed {
    pub(super) fn new(now: u64) -> Self {
        Self { bytes: 0, since: now, patience: Box::pin(sleep(PATIENCE)) }
    }

    /// Whether no other response may wait with them.
    pub(super) fn is_late(&self, now: u64) -> bool {
        now.saturating_sub(self.since) >= PATIENCE.as_nanos() as u64
    }

    /// Resolves when they have waited for long enough.
    pub(super) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.patience.as_mut().poll(context)
    }
}
