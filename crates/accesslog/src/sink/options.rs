//! How a sink gathers lines, as whoever opens it asks.

use std::time::Duration;

/// How lines are gathered.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What the error log calls it; default `access log`.
    pub what: &'static str,
    /// A writer's buffer of this many bytes is written without further delay; default 64 KiB.
    pub batch: usize,
    /// Longest time a line waits for others; default 100 ms.
    pub delay: Duration,
    /// Bytes that a writer may hold while the outlet stalls; default 8 MiB. Lines beyond it are dropped.
    pub capacity: usize,
    /// Time between two reports of dropped lines; default one minute.
    pub report: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            what: "access log",
            batch: 64 * 1024,
            delay: Duration::from_millis(100),
            capacity: 8 * 1024 * 1024,
            report: Duration::from_secs(60),
        }
    }
}
