//! How a worker ended: whose doing that was, and what the operator hears of it.

use std::time::Duration;

use howdah_sys::{ExitKind, Pid, Signal};
use howdah_wire::Leave;

use crate::counts::Cause;
use crate::pid::pid_number;

/// A worker that dies younger than this without having begun a request is part of a crash loop.
pub(crate) const YOUNG: Duration = Duration::from_secs(10);

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
    /// It was a thread of a host that died, as the log has been told.
    pub(crate) host_died: bool,
    pub(crate) asked: bool,
    /// Its zygote has not come to fork it, as far as it has told.
    pub(crate) unborn: bool,
    /// Why we wanted it to go, if we did.
    pub(crate) wish: Option<Cause>,
    pub(crate) signalled: Option<Signal>,
    pub(crate) up: bool,
    pub(crate) age: Duration,
}

impl End {
    /// A worker's own word counts first, then our wish. Those that leave or are killed by an order which is not the
    /// supervisor's own were stuck: that order comes with the deadline.
    pub(crate) fn cause(&self) -> Cause {
        match (self.leave, self.status) {
            (Leave::Quota, _) => Cause::MaxRequests,
            (Leave::Harakiri, _) => Cause::Harakiri,
            (Leave::Exit | Leave::Exec, _) => Cause::AppExit,
            (Leave::Drained, _) => self.wish.unwrap_or(Cause::Deadline),
            (Leave::Signal, _) => self.wish.unwrap_or(Cause::Signal),
            (Leave::Unsaid, ExitKind::Signaled(_)) if self.is_killed_by_us() => {
                self.wish.unwrap_or(Cause::Deadline)
            }
            (Leave::Unsaid, ExitKind::Signaled(number)) if is_from_outside(number) => {
                self.wish.unwrap_or(Cause::Signal)
            }
            (Leave::Unsaid, _) if self.is_given_up() => self.wish.unwrap_or(Cause::Crash),
            (Leave::Unsaid | Leave::Orphan, _) => Cause::Crash,
        }
    }

    /// It may have crashed before our signal came, or after one that only asked where it is stuck.
    fn is_killed_by_us(&self) -> bool {
        self.signalled.is_some_and(|ours| match self.status {
            ExitKind::Signaled(number) if ours == Signal::KILL => is_from_outside(number),
            ExitKind::Signaled(number) => number == ours.as_raw(),
            ExitKind::Exited(_) | ExitKind::Unknown => true,
        })
    }

    /// There never was one, and nobody wants it any more.
    fn is_given_up(&self) -> bool {
        self.unborn && self.asked
    }

    /// Its zygote could not fork it, and has said why.
    fn is_refused(&self) -> bool {
        self.unborn && matches!(self.status, ExitKind::Exited(_))
    }

    /// What is wrong when many end so.
    pub(crate) fn complaint(&self) -> String {
        match self.is_refused() {
            true => "workers cannot be started, as the log tells before".to_owned(),
            false => format!("workers end before they serve a request ({})", self.status),
        }
    }

    pub(crate) fn is_failure(&self) -> bool {
        let crashed = match self.status {
            // Whoever leaves before it is up, be it in order as by `exit` in a hook, would have the next one forked at once, and so on.
            _ if !self.up => true,
            ExitKind::Exited(status) => status != 0 || self.leave == Leave::Unsaid,
            // Somebody outside ends a healthy worker with these: that is no fault of the application.
            ExitKind::Signaled(number) => !is_from_outside(number),
            ExitKind::Unknown => false,
        };
        crashed && !self.host_died && !self.asked && self.requests == 0 && !self.serving && self.age < YOUNG
    }

    /// Tells the operator: routine in debug, the application's doing as warning, crashes as error.
    pub(crate) fn log(&self, worker: u16, pid: Option<Pid>, generation: u32) {
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
            Leave::Exec => {
                tracing::warn!(
                    worker,
                    pid,
                    requests,
                    "worker left: the application executed another program"
                );
            }
            Leave::Orphan => tracing::warn!(worker, pid, requests, "worker left: it took the front for dead"),
            // The server stops at once, as it has said, and that costs nobody anything.
            Leave::Unsaid if self.is_killed_by_us() && self.hurried && !self.serving => {
                tracing::debug!(worker, pid, generation, requests, "worker was killed as asked ({status})");
            }
            Leave::Unsaid if self.is_killed_by_us() => {
                tracing::warn!(
                    worker,
                    pid,
                    generation,
                    requests,
                    "worker was killed as asked{doing} ({status})"
                );
            }
            Leave::Unsaid if self.host_died => {
                tracing::debug!(worker, pid, generation, requests, "worker died with its host{doing}");
            }
            Leave::Unsaid if self.is_given_up() => {
                tracing::debug!(worker, generation, "a worker that was not forked yet is given up");
            }
            Leave::Unsaid if self.is_refused() => {
                tracing::debug!(worker, generation, "a worker could not be forked");
            }
            Leave::Unsaid => {
                let hint = self.hint();
                tracing::error!(worker, pid, generation, requests, "worker died{doing}: {status}{hint}");
            }
        }
    }

    fn hint(&self) -> &'static str {
        match self.status {
            ExitKind::Exited(_) if !self.up => "; its own words, if any, are above",
            status => status.hint(),
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

fn is_from_outside(signal: i32) -> bool {
    [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].iter().any(|s| s.as_raw() == signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: End = End {
        leave: Leave::Unsaid,
        status: ExitKind::Exited(1),
        requests: 0,
        serving: false,
        hurried: false,
        host_died: false,
        asked: false,
        unborn: false,
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
        for leave in [Leave::Exit, Leave::Signal] {
            assert!(End { leave, status: ExitKind::Exited(0), ..QUIET }.is_failure(), "{leave:?}");
        }
        assert!(End { up: true, ..QUIET }.is_failure());
        assert!(End { up: true, status: ExitKind::Signaled(11), ..QUIET }.is_failure());
    }

    #[test]
    fn a_worker_that_could_not_be_forked_has_not_died() {
        let refused = End { unborn: true, ..QUIET };
        assert!(refused.is_failure(), "the next one has to wait");
        for (end, dies) in
            [(refused, false), (End { status: ExitKind::Unknown, ..refused }, true), (QUIET, true)]
        {
            assert_eq!(end.complaint().contains("end before they serve"), dies, "{end:?}");
        }
    }

    #[test]
    fn leaving_in_order_or_by_foreign_hand_is_none() {
        let cases = [
            End { asked: true, ..QUIET },
            End { requests: 1, ..QUIET },
            End { serving: true, status: ExitKind::Signaled(11), ..QUIET },
            End { age: Duration::from_secs(60), ..QUIET },
            End { up: true, status: ExitKind::Signaled(9), ..QUIET },
            End { leave: Leave::Signal, status: ExitKind::Exited(0), up: true, ..QUIET },
        ];
        for end in cases {
            assert!(!end.is_failure(), "{end:?}");
        }
    }

    #[test]
    fn each_end_has_its_cause() {
        let killed = End { status: ExitKind::Signaled(9), ..QUIET };
        let ours = End { signalled: Some(Signal::KILL), ..killed };
        let drained = End { leave: Leave::Drained, status: ExitKind::Exited(0), ..QUIET };
        let cases = [
            (QUIET, Cause::Crash),
            (End { status: ExitKind::Signaled(11), ..QUIET }, Cause::Crash),
            (End { status: ExitKind::Signaled(11), wish: Some(Cause::Stop), ..QUIET }, Cause::Crash),
            (killed, Cause::Signal),
            (ours, Cause::Deadline),
            (End { wish: Some(Cause::Reload), ..ours }, Cause::Reload),
            (End { status: ExitKind::Signaled(11), ..ours }, Cause::Crash),
            (End { status: ExitKind::Signaled(2), ..ours }, Cause::Deadline),
            (End { signalled: Some(Signal::USR2), ..killed }, Cause::Signal),
            (End { status: ExitKind::Signaled(12), signalled: Some(Signal::USR2), ..QUIET }, Cause::Deadline),
            (drained, Cause::Deadline),
            (End { wish: Some(Cause::Resize), ..drained }, Cause::Resize),
            (End { leave: Leave::Quota, wish: Some(Cause::Reload), ..drained }, Cause::MaxRequests),
            (End { leave: Leave::Exit, ..QUIET }, Cause::AppExit),
            (End { leave: Leave::Exec, ..QUIET }, Cause::AppExit),
            (End { leave: Leave::Signal, ..drained }, Cause::Signal),
            (End { leave: Leave::Orphan, ..QUIET }, Cause::Crash),
            (End { unborn: true, status: ExitKind::Unknown, ..QUIET }, Cause::Crash),
            (End { unborn: true, asked: true, wish: Some(Cause::Reload), ..QUIET }, Cause::Reload),
        ];
        for (end, cause) in cases {
            assert_eq!(end.cause(), cause, "{end:?}");
        }
    }
}
