//! The slow-request log: requests that took longer than `--slow-log`, and where their time went.
//!
//! `records` asks of each finished request whether it concerns this log, one comparison, and hands over its record. A
//! line goes to a file of its own, or to the error log; there only so many a second, because in a bad hour every
//! request is slow, and a front thread that writes errors serves nobody.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use howdah_accesslog::{Format, Record, Writer};

/// Lines in the error log for each second and front thread.
const MOST: u64 = 20;

/// The slow-request log of a front thread.
pub struct SlowLog {
    /// From this many nanoseconds on a request is slow.
    least: u64,
    file: Option<(Format, Writer)>,
    /// Slow requests of the present second.
    seen: Cell<u64>,
}

impl SlowLog {
    /// A log of requests that take `least` or longer: into `file`, or the error log.
    #[must_use]
    pub fn new(least: Duration, file: Option<(Format, Writer)>) -> Self {
        Self { least: least.as_nanos() as u64, file, seen: Cell::new(0) }
    }

    /// Whether a request of so many nanoseconds is slow.
    pub(crate) fn concerns(&self, duration: u64) -> bool {
        duration >= self.least
    }

    /// Logs a slow request.
    pub(crate) fn tell(&self, record: &Record<'_>) {
        if let Some((format, writer)) = &self.file {
            return writer.line(|out| format.render(record, out));
        }
        self.seen.set(self.seen.get() + 1);
        if self.seen.get() <= MOST {
            warn(record);
        }
    }

    /// Once a second: says how many were left out.
    pub(crate) fn next_second(&self) {
        let more = self.seen.take().saturating_sub(MOST);
        if more > 0 {
            tracing::warn!("{more} more requests were slow; --slow-log-file has room for all");
        }
    }
}

fn warn(record: &Record<'_>) {
    let micros = |time: Option<u64>| time.map(|nanos| nanos / 1000);
    tracing::warn!(
        request_id = %record.request_id.escape_ascii(),
        status = record.status,
        bytes = record.bytes_out,
        total_us = record.duration / 1000,
        queue_us = micros(record.queue),
        run_us = micros(record.run),
        send_us = micros(record.send),
        pid = record.pid,
        "slow request: {} {}",
        record.method.escape_ascii(),
        record.target.escape_ascii(),
    );
}

impl fmt::Debug for SlowLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowLog").field("least", &self.least).finish_non_exhaustive()
    }
}
