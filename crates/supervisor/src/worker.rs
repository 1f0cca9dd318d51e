//! What the supervisor knows of one worker, beside what its cell says.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use howdah_sys::{Moment, Patience, Pid, Signal};
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
const NOT_YET: Duration = Duration::from_millis(20);
/// Time for a host to end a script, and the worker with it.
const TO_KILL: Duration = Duration::from_secs(5);

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
    /// A thread of a host, which is told by these, and has so long to kill it once it was told to.
    Thread { host: Orders, to_kill: Option<Patience> },
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
    /// It has been seen to leave: its hooks run.
    pub(crate) leaving: bool,
    /// Sent a signal by us.
    pub(crate) signalled: Option<Signal>,
    /// Until it is killed.
    patience: Option<Patience>,
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
            leaving: false,
            signalled: None,
            patience: None,
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
            self.body = Body::Thread { host, to_kill: None };
        }
        self
    }

    /// It is a thread: it lives and dies with its host.
    pub(crate) fn is_thread(&self) -> bool {
        matches!(self.body, Body::Thread { .. })
    }

    /// Its host was told to kill it, and has had the time for that.
    pub(crate) fn has_deaf_host(&mut self) -> bool {
        self.time_to_kill().is_some_and(|patience| patience.look().is_zero())
    }

    fn time_to_kill(&mut self) -> Option<&mut Patience> {
        match &mut self.body {
            Body::Thread { to_kill, .. } => to_kill.as_mut(),
            Body::Process(_) => None,
        }
    }

    /// Counts towards the number of workers wanted.
    pub(crate) fn stays(&self) -> bool {
        !self.draining && !self.leaving && self.retiring.is_none()
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
    /// there: it counts only for a child of ours, which orphans are, that nobody knows, and that the zygote's user runs.
    pub(crate) fn learn_pid(&mut self, cell: &WorkerCell, family: &Family, user: Option<u32>) {
        if self.process.is_none() && !self.is_thread() {
            let written = i32::try_from(cell.pid.load(SeqCst)).ok().and_then(Pid::from_raw);
            let orphan = written.filter(|&pid| family.has_orphan(pid, user));
            self.process = orphan.map(|pid| family.know(pid));
        }
    }

    /// Marks it for replacement, unless it is on its way already.
    pub(crate) fn retire(&mut self, reason: Reason, now: Instant) {
        if self.stays() {
            self.retiring = Some(Retirement { reason, since: now });
        }
    }

    /// Must be gone in this time, if not sooner.
    pub(crate) fn limit(&mut self, time: Duration) {
        if self.patience.as_mut().is_none_or(|patience| patience.left() > time) {
            self.patience = Some(Patience::new(time));
        }
    }

    /// Sends a signal; false when the process is not known or gone.
    pub(crate) fn signal(&mut self, signal: Signal) -> bool {
        let Some(process) = &self.process else { return false };
        let sent = match &mut self.body {
            Body::Process(_) => process.signal(signal).is_ok(),
            Body::Thread { host, to_kill } => {
                let sent = host.signal(signal);
                if sent && signal == Signal::KILL {
                    to_kill.get_or_insert_with(|| Patience::new(TO_KILL));
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
    pub(crate) fn enforce(&mut self) -> bool {
        if self.patience.as_mut().is_none_or(|patience| !patience.look().is_zero()) {
            return false;
        }
        let killed = self.signal(Signal::KILL);
        self.patience = Some(Patience::new(if killed { AGAIN } else { NOT_YET }));
        killed
    }

    /// It would be killed, if its process were known.
    pub(crate) fn is_overdue(&mut self) -> bool {
        self.patience.as_mut().is_some_and(|patience| patience.left() <= NOT_YET)
    }

    /// After how long to look at that again.
    pub(crate) fn next_look(&mut self) -> Option<Duration> {
        let to_kill = self.time_to_kill().map(Patience::look).filter(|wait| !wait.is_zero());
        to_kill.into_iter().chain(self.patience.as_mut().map(Patience::look)).min()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Body::Process(Some(watch)) = &self.body {
            watch.abort();
        }
    }
}
