//! What the error log hears of an access log in trouble: at its begin, once per period, and at its end.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lane::lock;

/// Why lines do not get out, while they do not. Others may look at it.
pub(super) type Stall = Arc<Mutex<Option<String>>>;

/// The trouble of one sink.
#[derive(Debug)]
pub(super) struct Report {
    /// What it is called.
    log: String,
    period: Duration,
    stall: Stall,
    /// Drops already told, and when.
    told: u64,
    told_at: Option<Instant>,
}

impl Report {
    /// `stall` is where it tells why lines do not get out.
    pub(super) fn new(log: String, period: Duration, stall: Stall) -> Self {
        Self { log, period, stall, told: 0, told_at: None }
    }

    /// The outlet refuses lines.
    pub(super) fn stalled(&mut self, error: &io::Error) {
        if self.why().is_none() {
            let log = &self.log;
            tracing::error!("{log}: {error}; its lines wait in memory and are tried again every second");
            *lock(&self.stall) = Some(error.to_string());
        }
    }

    fn why(&self) -> Option<String> {
        lock(&self.stall).clone()
    }

    /// Lines get out.
    pub(super) fn flows(&mut self, dropped: u64) {
        if lock(&self.stall).take().is_some() {
            let log = &self.log;
            tracing::warn!("{log} is written again; lines dropped so far: {dropped}");
            (self.told, self.told_at) = (dropped, None);
        }
    }

    /// Tells of drops, but not more often than once per period.
    pub(super) fn drops(&mut self, dropped: u64) {
        let due = self.told_at.is_none_or(|at| at.elapsed() >= self.period);
        if dropped > self.told && due {
            let (log, new) = (&self.log, dropped - self.told);
            let why = self.why().unwrap_or_else(|| "lines come faster than it takes them".to_owned());
            tracing::error!("{log}: {new} lines dropped: {why}");
            (self.told, self.told_at) = (dropped, Some(Instant::now()));
        }
    }

    pub(super) fn not_reopened(&self, error: &io::Error) {
        let log = &self.log;
        tracing::error!("{log} cannot be opened anew: {error}; lines go to the old file");
    }

    /// The sink ends with lines that nobody took.
    pub(super) fn gave_up(&self, lines: u64) {
        if lines > 0 {
            let log = &self.log;
            tracing::error!("{log}: {lines} lines could not be written before the end");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn heard(period: Duration, tell: impl FnOnce(&mut Report)) -> Vec<String> {
        let page = Page::default();
        let writer = page.clone();
        let subscriber =
            tracing_subscriber::fmt().with_writer(move || writer.clone()).without_time().with_ansi(false);
        let mut report = Report::new("access log x.log".into(), period, Stall::default());
        tracing::subscriber::with_default(subscriber.finish(), || tell(&mut report));
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn a_full_disk_is_told_once_drops_once_per_period_and_the_end_once() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let lines = heard(Duration::from_secs(60), |report| {
            for dropped in [0, 5, 9] {
                report.stalled(&full);
                report.drops(dropped);
            }
            report.flows(9);
            report.flows(9);
        });
        let expected = [
            "access log x.log: no storage space; its lines wait in memory and are tried again every second",
            "access log x.log: 5 lines dropped: no storage space",
            "access log x.log is written again; lines dropped so far: 9",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn each_period_tells_the_new_drops() {
        let lines =
            heard(Duration::ZERO, |report| [3, 3, 10].into_iter().for_each(|dropped| report.drops(dropped)));
        let expected = [
            "access log x.log: 3 lines dropped: lines come faster than it takes them",
            "access log x.log: 7 lines dropped: lines come faster than it takes them",
        ];
        assert_eq!(lines, expected);
    }
}
