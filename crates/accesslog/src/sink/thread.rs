//! The sink's thread: sleeps until there are lines, lets them gather, writes them.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::counts::Counts;
use super::lane::{Lane, lock};
use super::options::Options;
use super::outlet::Outlet;
use super::pending::Pending;
use super::report::{Report, Stall};
use super::signal::{DATA, FULL, REOPEN, STOP, Signal};
use super::target::Target;

/// Time between two attempts at an outlet that refuses.
const RETRY: Duration = Duration::from_secs(1);
/// The same once the sink is to end.
const RETRY_AT_END: Duration = Duration::from_millis(50);
/// A pipe that has taken nothing for so long is told of: its reader is slow, or stopped.
const STILL: Duration = Duration::from_secs(1);
/// When a command has not read all, it is looked at again after so long: it may have died.
const LOOK: Duration = Duration::from_secs(1);
/// The same at the end, when it most likely just reads.
const LOOK_AT_END: Duration = Duration::from_millis(5);

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
    pub(super) stall: Stall,
    /// Why lines still go to the old file, when it could not be opened anew.
    pub(super) old_file: Mutex<Option<String>>,
    written: AtomicU64,
    /// Held while that is counted, so that whoever counts at the same time waits for all of it.
    given_up: Mutex<u64>,
    /// Lines that the thread has taken from the lanes and that have not arrived yet.
    in_hand: AtomicU64,
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            signal: Signal::default(),
            lanes: Mutex::default(),
            deadline: Mutex::default(),
            reopeners: Mutex::default(),
            stall: Stall::default(),
            old_file: Mutex::default(),
            written: AtomicU64::new(0),
            given_up: Mutex::default(),
            in_hand: AtomicU64::new(0),
        }
    }

    /// What is wrong, in words.
    pub(super) fn trouble(&self) -> Option<String> {
        let stalled = lock(&self.stall).as_ref().map(|why| format!("{why}; lines wait in memory"));
        let not_reopened =
            |why: &String| format!("it could not be opened anew: {why}; lines go to the old file");
        stalled.or_else(|| lock(&self.old_file).as_ref().map(not_reopened))
    }

    pub(super) fn counts(&self) -> Counts {
        let refused: u64 = lock(&self.lanes).iter().map(|lane| lane.dropped()).sum();
        Counts { written: self.written.load(Relaxed), dropped: refused + *lock(&self.given_up) }
    }

    /// Counts what still waits as given up; says how many lines that is. Nothing is taken after that. It may be called
    /// while the thread hangs in a write.
    pub(super) fn give_up(&self) -> u64 {
        let mut given_up = lock(&self.given_up);
        let lanes = lock(&self.lanes).clone();
        let end = |lane: &Arc<Lane>| {
            lane.close();
            Pending::new(lane.take(Vec::new())).lines_left()
        };
        let lines = self.in_hand.swap(0, Relaxed) + lanes.iter().map(end).sum::<u64>();
        *given_up += lines;
        lines
    }
}

pub(super) struct SinkThread {
    shared: Arc<Shared>,
    outlet: Outlet,
    pending: Pending,
    report: Report,
    /// The command was started, or tried, at this time.
    started: Instant,
    /// Since when a pipe has taken nothing.
    still: Option<Instant>,
    /// The file is to be opened anew, so that what the old one does not take now goes to the new one.
    reopening: bool,
}

impl SinkThread {
    pub(super) fn new(target: &Target, outlet: Outlet, shared: Arc<Shared>) -> Self {
        let Options { what, report, .. } = shared.options;
        let report = Report::new(format!("{what} {target}"), report, Arc::clone(&shared.stall));
        Self {
            shared,
            outlet,
            pending: Pending::default(),
            report,
            started: Instant::now(),
            still: None,
            reopening: false,
        }
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
            let look = self.outlet.is_unread().then(|| Instant::now() + LOOK);
            signal.wait(DATA | FULL | REOPEN | STOP, look);
            signal.wait(FULL | REOPEN | STOP, Some(Instant::now() + options.delay));
        }
    }

    /// Writes everything gathered so far, and opens the file anew if asked to.
    fn turn(&mut self) {
        self.reopening = self.shared.signal.lower(DATA | FULL | REOPEN) & REOPEN != 0;
        let flows = self.write_all();
        let dropped = self.shared.counts().dropped;
        self.report.drops(dropped);
        if flows && self.outlet.is_taken() {
            self.report.flows(dropped);
        }
        if self.reopening {
            self.reopen();
        } else if !flows {
            self.shared.signal.wait(REOPEN | STOP, Some(Instant::now() + RETRY));
        }
    }

    /// Empties the lanes one by one. False when the outlet refuses.
    fn write_all(&mut self) -> bool {
        if !self.take_over() || !self.write_pending() {
            return false;
        }
        let lanes = lock(&self.shared.lanes).clone();
        lanes.iter().all(|lane| {
            let text = lane.take(std::mem::take(&mut self.pending.text));
            self.pending = Pending::new(text);
            self.shared.in_hand.fetch_add(self.pending.lines_left(), Relaxed);
            self.write_pending()
        })
    }

    /// What a command that has died did not read is for the next one. False when there is none yet.
    fn take_over(&mut self) -> bool {
        self.look(0);
        match self.outlet.refuse_if_left() {
            Ok(()) => true,
            Err(error) => {
                self.report.stalled(&error);
                self.restart()
            }
        }
    }

    fn write_pending(&mut self) -> bool {
        while !self.pending.is_done() {
            match self.outlet.write(self.pending.rest()) {
                Ok(bytes) => self.advance(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.waited();
                    if self.reopening || self.shared.signal.has(STOP | REOPEN) {
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

    /// A slow pipe: it has had its wait.
    fn waited(&mut self) {
        let since = *self.still.get_or_insert_with(Instant::now);
        if since.elapsed() >= STILL {
            self.report.stalled(&io::Error::new(ErrorKind::TimedOut, "nobody reads it"));
        }
        let dropped = self.shared.counts().dropped;
        self.report.drops(dropped);
    }

    fn advance(&mut self, bytes: usize) {
        self.still = None;
        let written = self.pending.advance(bytes);
        self.look(written);
    }

    /// Counts the lines that have arrived, of those that were written since the last look.
    fn look(&mut self, written: u64) {
        let lines = self.outlet.arrived(written);
        self.arrived(lines);
    }

    fn arrived(&self, lines: u64) {
        self.shared.written.fetch_add(lines, Relaxed);
        // Nothing is left to take from when it was given up meanwhile.
        let less = |left: u64| Some(left.saturating_sub(lines));
        let _ = self.shared.in_hand.fetch_update(Relaxed, Relaxed, less);
    }

    /// Gives a command that has died one more chance a second, from the first line that it has not read whole.
    fn restart(&mut self) -> bool {
        if !self.outlet.can_restart() || self.started.elapsed() < RETRY {
            return false;
        }
        self.started = Instant::now();
        self.look(0);
        match self.outlet.restart() {
            Ok(unread) => {
                self.pending.put_back(unread);
                true
            }
            Err(error) => {
                self.report.stalled(&error);
                false
            }
        }
    }

    /// What could not get out goes to the new file; the old one must not keep half a line.
    fn reopen(&mut self) {
        self.untear();
        let outcome = self.outlet.reopen().map_err(|error| {
            self.report.not_reopened(&error);
            error.to_string()
        });
        *lock(&self.shared.old_file) = outcome.clone().err();
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

    /// Writes what it can. None when all has arrived, or else how long to wait with the next attempt.
    fn pause_at_end(&mut self) -> Option<Duration> {
        if !self.write_all() {
            return Some(RETRY_AT_END);
        }
        self.outlet.is_unread().then_some(LOOK_AT_END)
    }

    /// Writes what is left, as long as there is time. Lines that come now are late.
    fn end(mut self) {
        let lanes = lock(&self.shared.lanes).clone();
        lanes.iter().for_each(|lane| lane.close());
        let deadline = lock(&self.shared.deadline).unwrap_or_else(Instant::now);
        while let Some(pause) = self.pause_at_end()
            && Instant::now() < deadline
        {
            std::thread::sleep(pause);
        }
        self.untear();
        let lines = self.outlet.bequeathed();
        self.arrived(lines);
        self.report.gave_up(self.shared.give_up());
        self.outlet.finish(deadline);
    }
}
