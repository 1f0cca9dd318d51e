//! A worker is gone: why, and what follows from it.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use howdah_sys::{ExitKind, Pid, Signal};
use howdah_wire::Leave;

use crate::error::{ReloadError, StartError};
use crate::event::{Event, Recovery};
use crate::generation::Role;
use crate::pool::leave_of;
use crate::reconcile::pid_number;
use crate::supervisor::{Startup, Supervisor};
use crate::tally::Cause;
use crate::worker::{Reason, Worker};

/// A worker that dies younger than this without having begun a request is part of a crash loop.
const YOUNG: Duration = Duration::from_secs(10);
/// Failures in a row after which a reload is given up.
const ENOUGH: u32 = 3;

/// What is known of a worker's end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) leave: Leave,
    pub(crate) status: ExitKind,
    pub(crate) requests: u64,
    /// It was serving a request.
    pub(crate) serving: bool,
    /// The server stops at once.
    pub(crate) hurried: bool,
    pub(crate) asked: bool,
    /// Why we wanted it to go, if we did.
    pub(crate) wish: Option<Cause>,
    pub(crate) signalled: Option<Signal>,
    pub(crate) up: bool,
    pub(crate) age: Duration,
}

impl Supervisor {
    /// A worker's process has ended.
    pub(crate) fn departed(&mut self, index: u16, pid: Option<Pid>, status: ExitKind) {
        let (Some(worker), Some(cell)) = (self.pool.get(index), self.pool.cell(index)) else { return };
        // A zygote that was stopped reports the end of one whose cell has another worker by now. Of each worker it reports
        // the fork first.
        if pid.is_some() && worker.pid() != pid {
            return;
        }
        let requests = cell.requests.load(SeqCst);
        let leave = leave_of(cell);
        let end = End {
            leave,
            status,
            requests,
            serving: cell.slot.load(SeqCst) != 0 && leave == Leave::Unsaid,
            hurried: self.stops_at_once(),
            asked: worker.was_asked(),
            wish: self.wish(worker),
            signalled: worker.signalled,
            up: worker.up || requests > 0,
            age: worker.started.elapsed(),
        };
        let Some(worker) = self.pool.vacate(index) else { return };
        self.counts.exit(end.cause());
        end.log(index, pid.or(worker.pid()), worker.generation);
        let done = Recovery::new(index, self.mailbox.clone());
        let _ = self.events.send(Event::WorkerGone { index, status, done });
        self.judge(&worker, end);
    }

    /// A worker that ends before it serves anything makes the next one wait, and may fail a start or a reload.
    fn judge(&mut self, worker: &Worker, end: End) {
        if !end.is_failure() || self.shutdown.is_some() {
            return;
        }
        let Some(generation) = self.generation_mut(worker.generation) else { return };
        let reason = format!("workers end before they serve a request ({})", end.status);
        let (number, role, proven) = (generation.number, generation.role, generation.proven);
        let wait = generation.crashes.failed(worker.started, Instant::now(), reason.clone());
        let hopeless = !proven || generation.crashes.failures() >= ENOUGH;
        if let Some(wait) = wait {
            tracing::error!("{reason}; the next is started in {:.1} s", wait.as_secs_f64());
        }
        match role {
            Role::Filling if hopeless => self.reload_failed(number, &ReloadError::Workers(end.status)),
            Role::Serving if hopeless => self.fail_first_workers(proven, end.status),
            _ => {}
        }
    }

    fn fail_first_workers(&mut self, proven: bool, status: ExitKind) {
        if let (false, Startup::Waiting(replies)) = (proven, &mut self.startup) {
            for reply in replies.drain(..) {
                let _ = reply.send(Err(StartError::Workers(status)));
            }
        }
        if self.program.is_some() {
            return;
        }
        // With a zygote from plackup a reload only replaces workers: those still there stay.
        for (_, _, worker) in self.pool.workers_mut() {
            worker.retiring = worker.retiring.filter(|retirement| retirement.reason != Reason::Reload);
        }
        self.answer_reload(&Err(ReloadError::Workers(status)));
    }
}

impl End {
    fn is_failure(&self) -> bool {
        let crashed = match self.status {
            ExitKind::Exited(status) => status != 0 || self.leave == Leave::Unsaid,
            // Somebody outside ends a healthy worker with these: that is no fault of the application.
            ExitKind::Signaled(number) => !self.up || !is_from_outside(number),
            ExitKind::Unknown => !self.up,
        };
        crashed && !self.asked && self.requests == 0 && !self.serving && self.age < YOUNG
    }

    /// Tells the operator: routine in debug, the application's doing as warning, crashes as error.
    fn log(&self, worker: u16, pid: Option<Pid>, generation: u32) {
        let (pid, requests, status) = (pid_number(pid), self.requests, self.status);
        let doing = if self.serving { " while it served a request" } else { "" };
        match self.leave {
            Leave::Drained | Leave::Quota | Leave::Harakiri => {
                let why = routine(self.leave);
                tracing::debug!(worker, pid, generation, requests, "worker left: {why}");
            }
            Leave::Signal => {
                tracing::info!(worker, pid, generation, requests, "worker left on a TERM or QUIT signal");
            }
            Leave::Exit => {
                tracing::warn!(worker, pid, requests, "worker left: the application called exit ({status})");
            }
            Leave::Orphan => tracing::warn!(worker, pid, requests, "worker left: it took the front for dead"),
            // The server stops at once, as it has said, and that costs nobody anything.
            Leave::Unsaid if self.signalled.is_some() && self.hurried && !self.serving => {
                tracing::debug!(worker, pid, generation, requests, "worker was killed as asked ({status})");
            }
            Leave::Unsaid if self.signalled.is_some() => {
                tracing::warn!(
                    worker,
                    pid,
                    generation,
                    requests,
                    "worker was killed as asked{doing} ({status})"
                );
            }
            Leave::Unsaid => {
                let hint = self.hint();
                tracing::error!(worker, pid, generation, requests, "worker died{doing}: {status}{hint}");
            }
        }
    }

    fn hint(&self) -> &'static str {
        match self.status {
            ExitKind::Signaled(9) => "; killed from outside, perhaps for lack of memory (see dmesg)",
            ExitKind::Exited(_) if !self.up => "; its own words, if any, are above",
            _ => "",
        }
    }
}

fn routine(leave: Leave) -> &'static str {
    match leave {
        Leave::Quota => "it has served its number of requests (--max-requests)",
        Leave::Harakiri => "the application asked for it (psgix.harakiri)",
        _ => "it was asked to",
    }
}

pub(crate) fn is_from_outside(signal: i32) -> bool {
    [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].iter().any(|s| s.as_raw() == signal)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const QUIET: End = End {
        leave: Leave::Unsaid,
        status: ExitKind::Exited(1),
        requests: 0,
        serving: false,
        hurried: false,
        asked: false,
        wish: None,
        signalled: None,
        up: false,
        age: Duration::from_millis(50),
    };

    #[test]
    fn dying_before_the_first_request_is_a_failure() {
        for status in
            [ExitKind::Exited(1), ExitKind::Exited(0), ExitKind::Signaled(11), ExitKind::Signaled(9)]
        {
            assert!(End { status, ..QUIET }.is_failure(), "{status}");
        }
        assert!(End { up: true, ..QUIET }.is_failure());
        assert!(End { up: true, status: ExitKind::Signaled(11), ..QUIET }.is_failure());
    }

    #[test]
    fn leaving_in_order_or_by_foreign_hand_is_none() {
        let cases = [
            End { asked: true, ..QUIET },
            End { requests: 1, ..QUIET },
            End { serving: true, status: ExitKind::Signaled(11), ..QUIET },
            End { age: Duration::from_secs(60), ..QUIET },
            End { up: true, status: ExitKind::Signaled(9), ..QUIET },
            End { leave: Leave::Signal, status: ExitKind::Exited(0), ..QUIET },
        ];
        for end in cases {
            assert!(!end.is_failure(), "{end:?}");
        }
    }
}
