//! What the supervisor knows of one worker, beside what its cell says.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use howdah_sys::process::is_child;
use howdah_sys::{Moment, Pid, Signal};
use howdah_wire::WorkerCell;
use tokio::task::AbortHandle;

use crate::counts::Cause;
use crate::family::{Family, Relative};
use crate::link::Orders;
use crate::notice::{Mailbox, Notice};

/// Time to leave for a worker that was not ready yet: it has no request to finish, only perhaps a hook that hangs.
pub(crate) const UNREADY: Duration = Duration::from_secs(2);
/// A signal that did not end a worker is repeated after this time.
const AGAIN: Duration = Duration::from_secs(1);
/// A worker whose fork is not reported yet cannot be killed; look again after this time.
pub(crate) const NOT_YET: Duration = Duration::from_millis(20);

/// Why a worker is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It has nearly served its quota.
    Quota,
    /// It is old enough.
    Lifetime,
    /// It has grown too large.
    Memory,
    /// The operator wants fresh workers from the same zygote.
    Reload,
    /// It is to leave the next zygote behind.
    Refork,
}

impl Reason {
    /// Of its end.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Self::Quota => Cause::MaxRequests,
            Self::Lifetime => Cause::MaxLifetime,
            Self::Memory => Cause::MaxMemory,
            Self::Reload | Self::Refork => Cause::Reload,
        }
    }
}

/// A worker that leaves once its replacement is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retirement {
    pub(crate) reason: Reason,
    pub(crate) since: Instant,
}

/// What runs a worker.
#[derive(Debug)]
enum Body {
    /// A process of its own; a task waits for its end, if the kernel tells that.
    Process(Option<AbortHandle>),
    /// A thread of a host, which is told by these, and was first told then to kill it.
    Thread { host: Orders, killed: Option<Instant> },
}

/// One worker, from the wish for it to its death.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) generation: u32,
    // None until the zygote reports the fork.
    pub(crate) process: Option<Relative>,
    pub(crate) started: Instant,
    pub(crate) born: Moment,
    /// It has been seen ready.
    pub(crate) up: bool,
    pub(crate) retiring: Option<Retirement>,
    /// Asked to leave by its cell.
    pub(crate) draining: bool,
    /// Sent a signal by us.
    pub(crate) signalled: Option<Signal>,
    /// Killed then.
    pub(crate) kill_at: Option<Instant>,
    /// Its zygote is dead since then, so we wait for it ourselves.
    pub(crate) orphaned: Option<Instant>,
    /// Its process has ended then, says the kernel; the zygote has not said so yet.
    pub(crate) ended: Option<Instant>,
    body: Body,
    pub(crate) retires_at: Option<Instant>,
    /// Requests after which it leaves; 0 for never.
    pub(crate) quota: u64,
    /// Requests when last looked at, and when that was.
    pub(crate) seen: (u64, Instant),
    pub(crate) memory: Option<u64>,
}

impl Worker {
    pub(crate) fn new(generation: u32, lifetime: Option<Duration>, quota: u64) -> Self {
        let now = Instant::now();
        Self {
            generation,
            process: None,
            started: now,
            born: Moment::now(),
            up: false,
            retiring: None,
            draining: false,
            signalled: None,
            kill_at: None,
            orphaned: None,
            ended: None,
            body: Body::Process(None),
            retires_at: lifetime.map(|lifetime| now + lifetime),
            quota,
            seen: (0, now),
            memory: None,
        }
    }

    /// It is a thread of a host, which is told by these; none for a process of its own.
    pub(crate) fn in_host(mut self, host: Option<Orders>) -> Self {
        if let Some(host) = host {
            self.body = Body::Thread { host, killed: None };
        }
        self
    }

    /// It is a thread: it lives and dies with its host.
    pub(crate) fn is_thread(&self) -> bool {
        matches!(self.body, Body::Thread { .. })
    }

    /// When its host was first told to kill it.
    pub(crate) fn killed(&self) -> Option<Instant> {
        match self.body {
            Body::Thread { killed, .. } => killed,
            Body::Process(_) => None,
        }
    }

    /// Counts towards the number of workers wanted.
    pub(crate) fn stays(&self) -> bool {
        !self.draining && self.retiring.is_none()
    }

    /// Its end is our wish.
    pub(crate) fn was_asked(&self) -> bool {
        self.draining || self.signalled.is_some()
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.pid())
    }

    /// The zygote has forked it. From now on the kernel tells its end, too: a zygote that has been stopped reports none.
    pub(crate) fn forked(&mut self, index: u16, pid: Pid, family: &Family, mailbox: &Mailbox) {
        let process = family.know(pid);
        // Without a pidfd, or a descriptor to spare, the zygote's report must do.
        if let Body::Process(watch) = &mut self.body
            && let Some(Ok(end)) = process.end().map(howdah_sys::watch_readable)
        {
            let mailbox = mailbox.clone();
            let waits = tokio::spawn(async move {
                if end.readable().await.is_ok() {
                    let _ = mailbox.send(Notice::WorkerEnded { index, pid });
                }
            });
            *watch = Some(waits.abort_handle());
        }
        self.process = Some(process);
    }

    /// The cell's word for its process id, when the zygote died before it could report the fork. Anybody may have written
    /// there: it counts only for a child of ours, which orphans are, that nobody knows.
    pub(crate) fn learn_pid(&mut self, cell: &WorkerCell, family: &Family) {
        if self.process.is_none() && !self.is_thread() {
            let written = i32::try_from(cell.pid.load(SeqCst)).ok().and_then(Pid::from_raw);
            let orphan = written.filter(|&pid| !family.knows(pid) && is_child(pid));
            self.process = orphan.map(|pid| family.know(pid));
        }
    }

    /// Marks it for replacement, unless it is on its way already.
    pub(crate) fn retire(&mut self, reason: Reason, now: Instant) {
        if self.stays() {
            self.retiring = Some(Retirement { reason, since: now });
        }
    }

    /// Must be gone by `at`.
    pub(crate) fn limit(&mut self, at: Instant) {
        self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
    }

    /// Sends a signal; false when the process is not known or gone.
    pub(crate) fn signal(&mut self, signal: Signal) -> bool {
        let Some(process) = &self.process else { return false };
        let sent = match &mut self.body {
            Body::Process(_) => process.signal(signal).is_ok(),
            Body::Thread { host, killed } => {
                let sent = host.signal(signal);
                if sent && signal == Signal::KILL {
                    killed.get_or_insert_with(Instant::now);
                }
                sent
            }
        };
        // That one ends nobody.
        if sent && signal != Signal::URG {
            self.signalled = Some(signal);
        }
        sent
    }

    /// Kills it when its time is up. True when it was just now.
    pub(crate) fn enforce(&mut self, now: Instant) -> bool {
        if self.kill_at.is_none_or(|at| at > now) {
            return false;
        }
        let killed = self.signal(Signal::KILL);
        self.kill_at = Some(now + if killed { AGAIN } else { NOT_YET });
        killed
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Body::Process(Some(watch)) = &self.body {
            watch.abort();
        }
    }
}
