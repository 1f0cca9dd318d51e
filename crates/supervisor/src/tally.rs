//! What came and went since the start, for status pages and metrics. `reconcile` counts starts, `departure` ends,
//! `reload` reloads; `status` shows the counts to those who ask.

use std::collections::BTreeMap;

use howdah_sys::ExitKind;
use howdah_wire::Leave;

use crate::departure::{End, is_from_outside};
use crate::generation::Role;
use crate::supervisor::Supervisor;
use crate::worker::{Reason, Worker};

/// Why a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It died: of a signal of its own making, by an exit without a word, or with the memory that one had damaged.
    Crash,
    /// The application called exit.
    AppExit,
    /// It had served its number of requests.
    MaxRequests,
    /// It was old enough.
    MaxLifetime,
    /// It had grown too large.
    MaxMemory,
    /// The application asked for it (psgix.harakiri).
    Harakiri,
    /// It was stuck in a request.
    Deadline,
    /// A newer generation took over.
    Reload,
    /// Fewer workers are wanted.
    Resize,
    /// Somebody outside sent it a signal.
    Signal,
    /// The server ends.
    Stop,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workers started.
    pub spawns: u64,
    /// Workers ended.
    pub exits: BTreeMap<Cause, u64>,
    /// Reloads that were asked for and succeeded.
    pub reloads: u64,
    /// Reloads that were asked for and failed.
    pub failed_reloads: u64,
    /// Segments that were replaced because a worker had damaged them.
    pub replacements: u64,
}

impl Counts {
    pub(crate) fn exit(&mut self, cause: Cause) {
        *self.exits.entry(cause).or_default() += 1;
    }
}

impl Supervisor {
    /// Why we want a worker to go; none when we do not.
    pub(crate) fn wish(&self, worker: &Worker) -> Option<Cause> {
        let generation = self.generations.iter().find(|generation| generation.number == worker.generation);
        if self.shutdown.is_some() {
            Some(Cause::Stop)
        } else if self.damage.is_under_way() {
            Some(Cause::Crash)
        } else if let Some(retirement) = worker.retiring {
            Some(Cause::from(retirement.reason))
        } else if generation.is_some_and(|generation| generation.role == Role::Leaving) {
            Some(Cause::Reload)
        } else {
            worker.draining.then_some(Cause::Resize)
        }
    }
}

impl From<Reason> for Cause {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Quota => Self::MaxRequests,
            Reason::Lifetime => Self::MaxLifetime,
            Reason::Memory => Self::MaxMemory,
            Reason::Reload => Self::Reload,
        }
    }
}

impl End {
    /// A worker's own word counts first, then our wish. Those that leave or are killed by an order which is not the
    /// supervisor's own were stuck: that order comes with the deadline.
    pub(crate) fn cause(&self) -> Cause {
        match (self.leave, self.status) {
            (Leave::Quota, _) => Cause::MaxRequests,
            (Leave::Harakiri, _) => Cause::Harakiri,
            (Leave::Exit, _) => Cause::AppExit,
            (Leave::Drained, _) => self.wish.unwrap_or(Cause::Deadline),
            (Leave::Signal, _) => self.wish.unwrap_or(Cause::Signal),
            (Leave::Unsaid, ExitKind::Signaled(_)) if self.signalled.is_some() => {
                self.wish.unwrap_or(Cause::Deadline)
            }
            (Leave::Unsaid, ExitKind::Signaled(number)) if is_from_outside(number) => {
                self.wish.unwrap_or(Cause::Signal)
            }
            (Leave::Unsaid | Leave::Orphan, _) => Cause::Crash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::departure::tests::QUIET;
    use howdah_sys::Signal;

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
            (drained, Cause::Deadline),
            (End { wish: Some(Cause::Resize), ..drained }, Cause::Resize),
            (End { leave: Leave::Quota, wish: Some(Cause::Reload), ..drained }, Cause::MaxRequests),
            (End { leave: Leave::Exit, ..QUIET }, Cause::AppExit),
            (End { leave: Leave::Signal, ..drained }, Cause::Signal),
            (End { leave: Leave::Orphan, ..QUIET }, Cause::Crash),
        ];
        for (end, cause) in cases {
            assert_eq!(end.cause(), cause, "{end:?}");
        }
    }
}
