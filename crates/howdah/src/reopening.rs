//! Opening a log anew, after its file was rotated: `log` and `access` begin it, `serve` asks how it went.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Time for a file to be opened anew.
const PATIENCE: Duration = Duration::from_secs(2);

/// A log that is being opened anew.
#[derive(Debug)]
pub(crate) struct Reopening {
    log: String,
    outcome: Receiver<Result<(), String>>,
    /// Until when that is waited for.
    end: Instant,
}

impl Reopening {
    /// `outcome` tells how it went with `log`.
    pub(crate) fn new(log: String, outcome: Receiver<Result<(), String>>) -> Self {
        Self { log, outcome, end: Instant::now() + PATIENCE }
    }

    /// Waits for it: which log it is, or what went wrong.
    pub(crate) fn wait(self) -> Result<String, String> {
        let log = self.log;
        match self.outcome.recv_timeout(self.end.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => Ok(log),
            Ok(Err(error)) => Err(format!("cannot open {log} anew: {error}; the old one goes on")),
            Err(_) => Err(format!("{log} is still being written: it will be opened anew when that goes on")),
        }
    }
}
