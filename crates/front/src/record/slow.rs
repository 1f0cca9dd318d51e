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

#[cfg(test)]
mod tests {
    use howdah_accesslog::{Compat, Options, Sink, Target, compile};

    use super::*;
    use crate::sample::heard::heard;

    fn slow() -> Record<'static> {
        let (method, target): (&[u8], &[u8]) = (b"GET", b"/a\x01");
        let (queue, run) = (Some(2_000), Some(3_999));
        Record {
            method,
            target,
            status: 200,
            bytes_out: 9,
            duration: 5_000,
            queue,
            run,
            pid: 7,
            ..Record::default()
        }
    }

    #[test]
    fn a_request_is_slow_that_takes_as_long_as_was_set_or_longer() {
        let log = SlowLog::new(Duration::from_micros(5), None);
        assert_eq!([4_999, 5_000, 5_001].map(|duration| log.concerns(duration)), [false, true, true]);
    }

    #[test]
    fn the_error_log_has_so_many_a_second_and_then_how_many_more_there_were() {
        let log = SlowLog::new(Duration::ZERO, None);
        let lines = heard(|| (0..MOST + 2).for_each(|_| log.tell(&slow())));
        assert_eq!(lines.len() as u64, MOST);
        let line = &lines[0];
        for part in [
            "WARN slow request: GET /a\\x01",
            "status=200",
            "bytes=9",
            "total_us=5",
            "queue_us=2",
            "run_us=3",
            "pid=7",
        ] {
            assert!(line.contains(part), "{line} has no {part}");
        }
        let more = "WARN 2 more requests were slow; --slow-log-file has room for all";
        assert_eq!(heard(|| log.next_second()), [more]);
        assert_eq!(heard(|| log.next_second()), [""; 0]);
        assert_eq!(heard(|| log.tell(&slow())).len(), 1, "the next second has lines again");
    }

    #[test]
    fn a_file_has_them_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("slow");
        let sink = Sink::open(&Target::File(path.clone()), Options::default()).unwrap();
        let format = compile("%m %s", Compat::Apache).unwrap();
        let log = SlowLog::new(Duration::ZERO, Some((format, sink.writer())));
        let lines = heard(|| {
            (0..MOST + 2).for_each(|_| log.tell(&slow()));
            log.next_second();
        });
        assert_eq!(lines, [""; 0]);
        sink.close(Duration::from_secs(30));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "GET 200\n".repeat(MOST as usize + 2));
    }
}
