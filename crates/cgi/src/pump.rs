//! A script that runs, and the request that it answers: its output into the response, its errors into the log, until both
//! have come to an end. `exchange` starts it.
//!
//! One thread watches all of it: two pipes, the end of the process, orders from the front, and whether the client still wants
//! the response, which shared memory says without being asked. What the client does not take stays in the pipe, so the
//! script waits.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use howdah_sys::process::{signal_group, try_wait};
use howdah_sys::{ExitKind, Patience, Signal, futex_wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::reply::{BREATH, Flow, Reply};
use crate::say::{Errors, Level, Lines, Who};
use crate::seat::Seat;
use crate::start::{Mode, Running};

/// How often to look whether the client has left.
const LOOK: Duration = Duration::from_millis(250);
/// The same while the client is so slow that nothing can be read.
const LOOK_WHILE_FULL: Duration = Duration::from_millis(100);
/// Before TERM, when nobody wants the response: who is late is asked first where he stands, and a signal that ends a process
/// overtakes one that it would handle.
const TO_SAY: Duration = Duration::from_millis(250);
/// Between TERM and KILL, when the client has left.
const TO_LEAVE: Duration = Duration::from_secs(3);
/// A script that has closed its output is usually about to end: then it is known how.
const TO_END: Duration = Duration::from_millis(10);
/// To those that still have a script's output when it has ended, and from each time that something has come of them: a program that
/// it prints through has the last of it then, as by `open STDOUT, '| gzip'` in Perl, which waits for none. Others, that were to
/// go on by themselves and say nothing, keep no client for longer.
const TO_FOLLOW: Duration = Duration::from_secs(2);
/// What the log says of those who have not said anything for so long.
const HELD: &str = "a program that it has started still has its output, and has said nothing for two seconds: what comes now is lost; \
    have the script wait for it, or start it with >/dev/null";
/// To a process that is killed.
const TO_DIE: Duration = Duration::from_secs(2);
/// Reads in one go, so that nothing else is forgotten.
const READS: usize = 32;
/// Bytes of errors that are read at once.
const PIECE: usize = 8 * 1024;

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The response is complete, or there is none.
    Answered,
    /// The worker is to end at once, and says nothing more to the front.
    Killed,
}

/// See the module.
pub(crate) struct Pump<'p> {
    pub(crate) seat: &'p Seat,
    pub(crate) errors: &'p Errors,
    pub(crate) who: &'p Who,
    /// The script, as the log calls it.
    pub(crate) script: &'p [u8],
    pub(crate) process: Process,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) lines: Lines,
    pub(crate) ready: Ready,
}

/// What there is to be looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ready {
    bell: bool,
    stdout: bool,
    stderr: bool,
}

/// The script's process, and what was done to it.
pub(crate) struct Process {
    running: Running,
    /// It has ended, and been waited for.
    pub(crate) end: Option<ExitKind>,
    /// Sent TERM.
    ending: bool,
    /// When to send it.
    term_at: Option<Instant>,
    /// Until it is killed.
    patience: Option<Patience>,
    /// It has ended by itself: for those that may have the last of its output.
    following: Option<Patience>,
}

impl Process {
    pub(crate) fn new(running: Running) -> Self {
        Self { running, end: None, ending: false, term_at: None, patience: None, following: None }
    }

    /// To all of its group.
    fn signal(&mut self, signal: Signal) {
        if self.end.is_none() {
            self.ending |= signal == Signal::TERM;
            let _ = signal_group(self.running.pid, signal);
        }
    }

    /// Nobody waits for what it does.
    fn leave(&mut self) {
        self.following = None;
        if !self.ending {
            self.term_at.get_or_insert(Instant::now() + TO_SAY);
        }
    }

    /// The front wants to know what takes so long.
    fn ask(&mut self) {
        match self.running.mode {
            Mode::Exec => self.signal(Signal::TERM),
            // Its perl says it, as a Perl worker does, and has its group end by TERM.
            Mode::Fork if self.end.is_none() => {
                self.ending = true;
                self.term_at = self.term_at.map(|_| Instant::now() + TO_SAY);
                let _ = rustix::process::kill_process(self.running.pid, Signal::USR2);
            }
            Mode::Fork => {}
        }
    }

    fn enforce(&mut self) {
        if self.term_at.is_some_and(|at| at <= Instant::now()) {
            self.term_at = None;
            self.signal(Signal::TERM);
            self.patience.get_or_insert_with(|| Patience::new(TO_LEAVE));
        }
        if self.patience.as_mut().is_some_and(|patience| patience.look().is_zero()) {
            self.patience = None;
            self.signal(Signal::KILL);
        }
    }

    /// How long nothing need be done to it.
    fn due(&mut self) -> Option<Duration> {
        let term = self.term_at.map(|at| at.saturating_duration_since(Instant::now()));
        term.into_iter().chain(self.patience.as_mut().map(Patience::look)).min()
    }

    /// It has ended. Of one that was to end nobody is left behind: its number is its group's until it is waited for.
    fn bury(&mut self) {
        if self.ending {
            self.signal(Signal::KILL);
        }
        if self.end.is_none() {
            self.end = try_wait(self.running.pid).unwrap_or(Some(ExitKind::Unknown));
            let by_itself = !self.ending && matches!(self.end, Some(ExitKind::Exited(_)));
            self.following = by_itself.then(|| Patience::new(TO_FOLLOW));
        }
    }

    /// Whether what comes from now on is nothing of the script's. What is there already is, however late we look.
    fn is_over(&mut self, more: impl Fn() -> bool) -> bool {
        let late = |patience: &mut Patience| patience.look().is_zero() && !more();
        self.end.is_some() && self.following.as_mut().is_none_or(late)
    }

    /// Who has its output has said something.
    fn hear(&mut self) {
        self.following = self.following.take().map(|_| Patience::new(TO_FOLLOW));
    }

    /// Waits for its end, so long at most.
    fn wait(&mut self, time: Duration) {
        let mut fds = [PollFd::new(&self.running.pidfd, PollFlags::IN)];
        if self.end.is_none() && poll(&mut fds, Timespec::try_from(time).ok().as_ref()) == Ok(1) {
            self.bury();
        }
    }
}

impl Pump<'_> {
    /// Moves the response until it has ended.
    pub(crate) fn respond(&mut self, reply: &mut Reply<'_>, tell: impl Fn(&Reply<'_>)) -> Outcome {
        loop {
            if self.obey() == Outcome::Killed {
                return Outcome::Killed;
            }
            if reply.work.is_abandoned() {
                reply.drop_rest();
                self.process.leave();
            }
            let flow = self.read(reply);
            if self.ready.stderr {
                self.read_errors();
            }
            match flow {
                Flow::End => break,
                Flow::Fault(why) => return self.fault(reply, &why),
                Flow::Full => {
                    reply.publish();
                    tell(reply);
                    // What a slow client takes of the time is not that of those who follow.
                    let rest = self.process.following.as_mut().map(Patience::left);
                    wait_for_room(reply);
                    self.process.following = rest.map(Patience::new);
                    self.poll(Some(Duration::ZERO), false);
                    self.ready.stdout = true;
                    continue;
                }
                Flow::More(_) | Flow::Drained => {}
            }
            if reply.due().is_some_and(|at| at <= Instant::now()) && reply.publish() {
                tell(reply);
            }
            match flow {
                Flow::More(_) => self.poll(Some(Duration::ZERO), true),
                _ if reply.is_fresh() => {
                    self.poll(Some(BREATH), false);
                    self.ready.stdout = true;
                }
                _ => {
                    let patience = self.patience(reply);
                    self.poll(Some(patience), true);
                }
            }
        }
        self.finish(reply)
    }

    /// Reads what there is, but not for ever. `End` when nothing more of the script's own can come.
    fn read(&mut self, reply: &mut Reply<'_>) -> Flow {
        let before = reply.came;
        let flow = self.read_some(reply);
        if reply.came > before {
            self.process.hear();
        }
        flow
    }

    fn read_some(&mut self, reply: &mut Reply<'_>) -> Flow {
        let Some(stdout) = &self.stdout else { return Flow::End };
        if !self.ready.stdout && self.process.end.is_none() {
            return Flow::Drained;
        }
        let there = || rustix::io::ioctl_fionread(stdout).map_or(0, |left| left as usize);
        let whole = self.process.end.is_some_and(|end| !reply.is_awaited(end));
        let over = whole || self.process.is_over(|| there() > 0);
        // So much there is by now; what comes then is of those it has left behind. Where there is nothing, a read tells whether
        // there are any.
        let mut left = if over { there().max(1) } else { usize::MAX };
        for _ in 0..READS {
            match reply.read(stdout, left) {
                Flow::More(length) => left -= length,
                Flow::Drained if over => {
                    if !whole && self.process.following.is_some() {
                        self.say(Level::Warn, HELD);
                    }
                    left = 0;
                }
                other => return other,
            }
        }
        Flow::More(0)
    }

    /// The last of the response.
    fn finish(&mut self, reply: &mut Reply<'_>) -> Outcome {
        self.stdout = None;
        self.process.wait(TO_END);
        let killed = matches!(self.process.end, Some(ExitKind::Signaled(_)));
        match reply.end(killed) {
            Some(why) => self.fault(reply, &why),
            None => Outcome::Answered,
        }
    }

    fn fault(&mut self, reply: &mut Reply<'_>, why: &str) -> Outcome {
        self.stdout = None;
        // What it has to say of it comes first.
        self.process.wait(TO_END);
        self.read_all_errors();
        // Of one that was told to end, because nobody waits for it, it is no fault.
        if !reply.work.is_abandoned() {
            self.say(Level::Error, why);
        }
        // By PIPE it dies of ours, who have closed its output.
        let killed =
            matches!(self.process.end, Some(ExitKind::Signaled(signal)) if signal != Signal::PIPE.as_raw());
        reply.fail(if killed { 502 } else { 500 });
        Outcome::Answered
    }

    /// The response is out; the script may go on working, and nobody hears of it but for the log.
    pub(crate) fn wait_for_end(&mut self) -> Outcome {
        while self.process.end.is_none() {
            if self.obey() == Outcome::Killed {
                return Outcome::Killed;
            }
            if self.ready.stderr {
                self.read_errors();
            }
            let due = self.process.due();
            self.poll(due, false);
        }
        self.read_all_errors();
        if let Some(rest) = self.lines.end() {
            self.errors.say(Level::Warn, self.who, &rest);
        }
        match self.process.end {
            Some(ExitKind::Exited(0)) | None => {}
            Some(_) if self.process.ending => {}
            Some(end) => self.say(Level::Warn, &format!("it ended with {end}")),
        }
        Outcome::Answered
    }

    fn say(&self, level: Level, what: &str) {
        self.errors.say(level, self.who, &[self.script, b": ", what.as_bytes(), b"\n"].concat());
    }

    /// What the front wants.
    fn obey(&mut self) -> Outcome {
        if self.seat.is_killed() {
            self.process.ending = true;
            self.process.signal(Signal::KILL);
            self.process.wait(TO_DIE);
            self.read_all_errors();
            return Outcome::Killed;
        }
        if std::mem::take(&mut self.ready.bell) && self.seat.is_asked() {
            self.process.ask();
        }
        self.process.enforce();
        Outcome::Answered
    }

    /// Reads once. How many bytes there were.
    fn read_errors(&mut self) -> usize {
        let Some(stderr) = &self.stderr else { return 0 };
        let mut piece = [0; PIECE];
        match rustix::io::read(stderr, &mut piece) {
            Ok(0) => self.stderr = None,
            Ok(length) => {
                if let Some(lines) = self.lines.take(&piece[..length]) {
                    self.errors.say(Level::Warn, self.who, &lines);
                }
                return length;
            }
            Err(_) => {}
        }
        0
    }

    /// Reads what there is by now: those that the script has left behind may write on for ever.
    fn read_all_errors(&mut self) {
        let Some(stderr) = &self.stderr else { return };
        let mut left = rustix::io::ioctl_fionread(stderr).map_or(0, |left| left as usize);
        while left > 0 {
            match self.read_errors() {
                0 => break,
                length => left = left.saturating_sub(length),
            }
        }
    }

    /// How long nothing need be looked at.
    fn patience(&mut self, reply: &Reply<'_>) -> Duration {
        let reply = reply.due().map(|at| at.saturating_duration_since(Instant::now()));
        reply.into_iter().chain(self.process.due()).fold(LOOK, Duration::min)
    }

    /// Sleeps until something happens, so long at most.
    fn poll(&mut self, wait: Option<Duration>, wants_output: bool) {
        let Self { seat, process, stdout, stderr, .. } = self;
        let stdout = stdout.as_ref().filter(|_| wants_output).map(AsFd::as_fd);
        let pidfd = process.end.is_none().then(|| process.running.pidfd.as_fd());
        let wanted = [Some(seat.bell.as_fd()), stdout, stderr.as_ref().map(AsFd::as_fd), pidfd];
        let there = wanted.into_iter().flatten();
        let mut fds: Vec<_> = there.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let found = poll(&mut fds, wait.as_ref()).is_ok();
        let mut fds = fds.iter();
        // Of what is not there, nothing is ready.
        let [bell, stdout, stderr, ended] =
            wanted.map(|fd| fd.is_some() && fds.next().is_some_and(|fd| found && !fd.revents().is_empty()));
        self.ready = Ready { bell, stdout, stderr };
        if ended {
            self.process.bury();
        }
    }
}

fn wait_for_room(reply: &Reply<'_>) {
    let word: &AtomicU32 = reply.work.room_word();
    if let Some(seen) = reply.work.wait_for_room() {
        futex_wait(word, seen, LOOK_WHILE_FULL);
    }
}
