//! The sink's thread: sleeps until there are lines, lets them gather, writes them.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lane::{Lane, lock};
use super::outlet::Outlet;
use super::pending::Pending;
use super::report::Report;
use super::signal::{DATA, FULL, REOPEN, STOP, Signal};
use super::target::Target;
use super::{Counts, Options};

/// Time between two attempts at an outlet that refuses.
const RETRY: Duration = Duration::from_secs(1);
/// The same once the sink is to end.
const RETRY_AT_END: Duration = Duration::from_millis(50);

/// What the thread, the sink and its writers have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) signal: Signal,
    pub(super) lanes: Mutex<Vec<Arc<Lane>>>,
    /// When the thread must be through, once it is told to end.
    pub(super) deadline: Mutex<Option<Instant>>,
    /// Those who wait for the file to be opened anew.
    pub(super) reopeners: Mutex<Vec<SyncSender<Result<(), String>>>>,
    written: AtomicU64,
    given_up: AtomicU64,
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            signal: Signal::default(),
            lanes: Mutex::default(),
            deadline: Mutex::default(),
            reopeners: Mutex::default(),
            written: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let refused: u64 = lock(&self.lanes).iter().map(|lane| lane.dropped()).sum();
        Counts { written: self.written.load(Relaxed), dropped: refused + self.given_up.load(Relaxed) }
    }
}

pub(super) struct SinkThread {
    shared: Arc<Shared>,
    outlet: Outlet,
    pending: Pending,
    report: Report,
    /// The command was started, or tried, at this time.
    started: Instant,
}

impl SinkThread {
    pub(super) fn new(target: &Target, outlet: Outlet, shared: Arc<Shared>) -> Self {
        let report = Report::new(target.to_string(), shared.options.report);
        Self { shared, outlet, pending: Pending::default(), report, started: Instant::now() }
    }

    pub(super) fn run(mut self) {
        while !self.shared.signal.has(STOP) {
            self.gather();
            self.turn();
        }
        self.end();
    }

    /// Sleeps until there is something to do, then a little longer for more to come.
    fn gather(&self) {
        let (signal, options) = (&self.shared.signal, &self.shared.options);
        if self.pending.is_done() {
            signal.wait(DATA | FULL | REOPEN | STOP, None);
            signal.wait(FULL | REOPEN | STOP, Some(Instant::now() + options.delay));
        }
    }

    /// Writes everything gathered so far, and opens the file anew if asked to.
    fn turn(&mut self) {
        let reopen = self.shared.signal.has(REOPEN);
        self.shared.signal.clear(DATA | FULL | REOPEN);
        let flows = self.write_all();
        let dropped = self.shared.counts().dropped;
        self.report.drops(dropped);
        if flows {
            self.report.flows(dropped);
        }
        if reopen {
            self.reopen();
        } else if !flows {
            self.shared.signal.wait(REOPEN | STOP, Some(Instant::now() + RETRY));
        }
    }

    /// Empties the lanes one by one. False when the outlet refuses.
    fn write_all(&mut self) -> bool {
        if !self.write_pending() {
            return false;
        }
        let lanes = lock(&self.shared.lanes).clone();
        lanes.iter().all(|lane| {
            let text = lane.take(std::mem::take(&mut self.pending.text));
            self.pending = Pending::new(text);
            self.write_pending()
        })
    }

    fn write_pending(&mut self) -> bool {
        while !self.pending.is_done() {
            match self.outlet.write(self.pending.rest()) {
                Ok(bytes) => self.advance(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A slow pipe: it has had its wait.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let dropped = self.shared.counts().dropped;
                    self.report.drops(dropped);
                    if self.shared.signal.has(STOP) {
                        return false;
                    }
                }
                Err(error) => {
                    self.report.stalled(&error);
                    if !self.restart() {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn advance(&mut self, bytes: usize) {
        let lines = self.pending.advance(bytes);
        self.shared.written.fetch_add(lines, Relaxed);
    }

    /// Gives a command that has died one more chance a second, from the beginning of the current line.
    fn restart(&mut self) -> bool {
        if !self.outlet.can_restart() || self.started.elapsed() < RETRY {
            return false;
        }
        self.started = Instant::now();
        self.pending.rewind();
        self.outlet.restart().map_err(|error| self.report.stalled(&error)).is_ok()
    }

    /// What could not get out goes to the new file; the old one must not keep half a line.
    fn reopen(&mut self) {
        self.untear();
        let outcome = self.outlet.reopen().map_err(|error| {
            self.report.not_reopened(&error);
            error.to_string()
        });
        for reply in lock(&self.shared.reopeners).drain(..) {
            // Most do not wait for it.
            let _ = reply.try_send(outcome.clone());
        }
    }

    fn untear(&mut self) {
        let torn = self.pending.torn();
        if torn > 0 && self.outlet.take_back(torn) {
            self.pending.rewind();
        }
    }

    /// Writes what is left, as long as there is time. Lines that come now are late.
    fn end(mut self) {
        let lanes = lock(&self.shared.lanes).clone();
        lanes.iter().for_each(|lane| lane.close());
        let deadline = lock(&self.shared.deadline).unwrap_or_else(Instant::now);
        while !self.write_all() && Instant::now() < deadline {
            std::thread::sleep(RETRY_AT_END);
        }
        self.untear();
        let waiting: u64 = lanes.iter().map(|lane| Pending::new(lane.take(Vec::new())).lines_left()).sum();
        let left = self.pending.lines_left() + waiting;
        self.shared.given_up.fetch_add(left, Relaxed);
        self.report.gave_up(left);
        self.outlet.finish(deadline);
    }
}
