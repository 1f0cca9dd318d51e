//! The front's thread that asks the launchers and watches them: the only one that ever waits for one.
//!
//! Questions come one by one over a channel; whoever asks waits for the answer in a thread that may wait. A launcher
//! that works answers at once, so one that is silent for seconds has been stopped, or hangs: then the other is asked,
//! forks another in its place, and the silent one is killed. When both are silent, both stay: they may be continued.
//! What must not happen twice is only told to a launcher that has just answered, and never to a second one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SendError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::watch;

use super::line::{Answer, Failure, Line, PATIENCE, Question};
use crate::clock::monotonic_ns;
use crate::process::Pid;
use crate::wake::{drain_eventfd, eventfd, signal_eventfd};

/// Launchers to have.
const WANTED: usize = 2;
/// Each is knocked at so often, to find out that it has been stopped before it is needed.
const ROUND: Duration = Duration::from_secs(10);
/// From one fork of a launcher to the next, when they are many: launchers that die at once are not forked without end.
const REST: Duration = Duration::from_secs(1);
/// So many are forked without a rest, since one that is alone may be the next to die, and nobody replaces the last.
const AT_ONCE: u32 = 5;
/// A question that takes longer than this keeps others waiting in vain.
const LONG: Duration = Duration::from_secs(1);
/// Time for all to leave.
const TO_LEAVE: Duration = Duration::from_millis(500);

/// Whether processes can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is a launcher.
    Well,
    /// None answers: they have been stopped.
    Silent,
    /// None is left.
    Gone,
}

/// What becomes of launchers.
#[derive(Debug)]
pub enum News {
    /// This one has ended.
    Ended(Pid),
    /// This one does not answer.
    Silent(Pid),
    /// This one takes its place.
    Replaced(Pid),
    /// There can be no other at the moment.
    NotReplaced(io::Error),
    /// The whole.
    Condition(Condition),
}

/// Takes questions to the attendant, from any thread.
#[derive(Debug)]
pub(super) struct Desk {
    inbox: Sender<Wanted>,
    dismissals: Sender<SyncSender<()>>,
    wake: Arc<OwnedFd>,
    condition: watch::Receiver<Condition>,
    busy_since: Arc<AtomicU64>,
}

/// A question with the way back for its answer.
#[derive(Debug)]
struct Wanted {
    question: Question,
    until: Instant,
    reply: SyncSender<io::Result<Answer>>,
}

/// The thread.
pub(super) struct Attendant {
    lines: Vec<Line>,
    questions: Receiver<Wanted>,
    dismissals: Receiver<SyncSender<()>>,
    wake: Arc<OwnedFd>,
    condition: watch::Sender<Condition>,
    /// When the present question began, 0 when there is none.
    busy_since: Arc<AtomicU64>,
    report: Box<dyn Fn(News) + Send>,
    round_at: Instant,
    restore_at: Instant,
    /// When each fork so far will have had its rest.
    rested_at: Instant,
    patience: Duration,
    to_leave: Duration,
}

impl Desk {
    pub(super) fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.clone()
    }

    /// Asks a launcher and waits for the answer; not at all when it is known that none comes soon.
    ///
    /// # Errors
    /// BrokenPipe when no launcher is left, TimedOut when none answers in time; the launcher's otherwise.
    pub(super) fn ask(&self, question: Question, patience: Duration) -> io::Result<Answer> {
        if !question.is_deed() && self.is_stuck() {
            return Err(Condition::Silent.into());
        }
        let (reply, answer) = sync_channel(1);
        let wanted = Wanted { question, until: Instant::now() + patience, reply };
        self.inbox.send(wanted).map_err(|_| Condition::Gone)?;
        signal_eventfd(&*self.wake)?;
        answer.recv_timeout(patience).unwrap_or_else(|_| Err(Condition::Silent.into()))
    }

    /// Has the launchers leave, and waits until they are gone; not longer than that, if the attendant is busy.
    pub(super) fn dismiss(&self, patience: Duration) {
        let (gone, told) = sync_channel(1);
        if self.dismissals.send(gone).is_ok() && signal_eventfd(&*self.wake).is_ok() {
            let _ = told.recv_timeout(patience);
        }
    }

    fn is_stuck(&self) -> bool {
        let since = self.busy_since.load(SeqCst);
        since != 0 && Duration::from_nanos(monotonic_ns().saturating_sub(since)) > LONG
    }
}

impl From<Condition> for io::Error {
    fn from(condition: Condition) -> Self {
        match condition {
            Condition::Gone => Self::new(
                io::ErrorKind::BrokenPipe,
                "no launcher is left, which starts processes for the confined front: restart howdah",
            ),
            Condition::Silent | Condition::Well => Self::new(
                io::ErrorKind::TimedOut,
                "the launcher, which starts processes for the confined front, does not answer; it may have been stopped",
            ),
        }
    }
}

impl Attendant {
    /// # Errors
    /// EMFILE or ENFILE when there are no descriptors left.
    pub(super) fn new(lines: Vec<Line>, report: Box<dyn Fn(News) + Send>) -> io::Result<(Self, Desk)> {
        let ((inbox, questions), (leave, dismissals)) = (channel(), channel());
        let wake = Arc::new(eventfd()?);
        let (condition, seen) = watch::channel(Condition::Well);
        let busy_since = Arc::new(AtomicU64::new(0));
        let desk = Desk {
            inbox,
            dismissals: leave,
            wake: Arc::clone(&wake),
            condition: seen,
            busy_since: Arc::clone(&busy_since),
        };
        let now = Instant::now();
        let attendant = Self {
            lines,
            questions,
            dismissals,
            wake,
            condition,
            busy_since,
            report,
            round_at: now + ROUND,
            restore_at: now,
            rested_at: now,
            patience: PATIENCE,
            to_leave: TO_LEAVE,
        };
        Ok((attendant, desk))
    }

    /// Until the process ends, or the launchers are dismissed.
    pub(super) fn run(mut self) {
        loop {
            self.wait();
            if let Ok(gone) = self.dismissals.try_recv() {
                self.dismiss();
                let _ = gone.send(());
                return;
            }
            self.step();
        }
    }

    /// Each leaves when its socket is closed. One that was stopped does not, and is not left behind.
    fn dismiss(&mut self) {
        let until = Instant::now() + self.to_leave;
        let leaving: Vec<_> = self.lines.drain(..).map(Line::close).collect();
        leaving.iter().for_each(|process| process.end_by(until));
    }

    fn step(&mut self) {
        self.lines.iter_mut().for_each(Line::look);
        self.publish();
        while let Ok(wanted) = self.questions.try_recv() {
            self.see_to(&wanted);
        }
        if self.round_at <= Instant::now() {
            self.round_at = Instant::now() + ROUND;
            self.go_round();
        }
        self.restore();
        self.publish();
    }

    /// Until there is a question, news of a launcher, or it is time for a round.
    fn wait(&self) {
        let mut wanted = vec![PollFd::new(&*self.wake, PollFlags::IN)];
        wanted.extend(self.lines.iter().map(|line| PollFd::new(line.socket(), PollFlags::IN)));
        let restores = self.lines.iter().any(Line::is_well) && !self.is_whole();
        let next = if restores { self.round_at.min(self.restore_at) } else { self.round_at };
        let left = next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        // Interrupted, it looks around in vain.
        let _ = poll(&mut wanted, Timespec::try_from(left).ok().as_ref());
        let _ = drain_eventfd(&*self.wake);
    }

    fn see_to(&mut self, wanted: &Wanted) {
        if wanted.until > Instant::now() {
            let outcome = self.ask(&wanted.question);
            // Before whoever asked looks for the reason.
            self.publish();
            // Whoever asked may have lost patience, and does not know what was started.
            if let Err(SendError(Ok(answer))) = wanted.reply.send(outcome) {
                answer.undo();
            }
        }
    }

    fn ask(&mut self, question: &Question) -> io::Result<Answer> {
        for at in 0..self.lines.len() {
            if !self.lines[at].is_well() {
                continue;
            }
            let there = if question.is_deed() { self.knock(at) } else { Ok(()) };
            match there {
                Ok(()) => {}
                Err(Failure::Refused(error)) => return Err(error),
                Err(_) => continue,
            }
            match self.ask_one(at, question) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Refused(error)) => return Err(error),
                // It may have been done, and is not to be done again.
                Err(failure) if question.is_deed() => return Err(failure.into()),
                Err(_) => {}
            }
        }
        Err(self.judge().into())
    }

    fn knock(&mut self, at: usize) -> Result<(), Failure> {
        self.ask_one(at, &Question::knock()).map(drop)
    }

    fn ask_one(&mut self, at: usize, question: &Question) -> Result<Answer, Failure> {
        self.busy_since.store(monotonic_ns(), SeqCst);
        let outcome = self.lines[at].ask(question, self.patience);
        self.busy_since.store(0, SeqCst);
        if let Err(Failure::Silent) = &outcome {
            (self.report)(News::Silent(self.lines[at].pid()));
        }
        outcome
    }

    /// Those that are silent already will be heard when they answer.
    fn go_round(&mut self) {
        for at in 0..self.lines.len() {
            if self.lines[at].is_well() {
                let _ = self.knock(at);
            }
        }
    }

    /// Has one that is well fork another for each that is not.
    fn restore(&mut self) {
        let now = Instant::now();
        let Some(well) = self.lines.iter().position(Line::is_well) else { return };
        if self.is_whole() || self.restore_at > now {
            return;
        }
        self.rested_at = self.rested_at.max(now) + REST;
        self.restore_at = self.rested_at.checked_sub(REST * (AT_ONCE - 1)).unwrap_or(now);
        match self.lines[well].double() {
            Ok(line) => {
                (self.report)(News::Replaced(line.pid()));
                self.lines.iter().filter(|line| !line.is_well()).for_each(Line::end);
                self.lines.retain(Line::is_well);
                self.lines.push(line);
            }
            Err(error) => {
                self.restore_at = now + ROUND;
                (self.report)(News::NotReplaced(error));
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.lines.iter().filter(|line| line.is_well()).count() >= WANTED
    }

    fn judge(&self) -> Condition {
        if self.lines.iter().any(Line::is_well) {
            Condition::Well
        } else if self.lines.iter().all(Line::is_gone) {
            Condition::Gone
        } else {
            Condition::Silent
        }
    }

    fn publish(&mut self) {
        for line in self.lines.extract_if(.., |line| line.is_gone()) {
            (self.report)(News::Ended(line.pid()));
        }
        let condition = self.judge();
        if self.condition.send_replace(condition) != condition {
            (self.report)(News::Condition(condition));
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
