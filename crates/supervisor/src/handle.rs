//! What others may ask of the supervisor: signal handlers, status pages, the control socket, the deadline watch.

use std::time::{Duration, SystemTime};

use howdah_sys::{Pid, Signal};
use howdah_wire::{Segment, WorkerPhase};
use tokio::sync::{oneshot, watch};

use crate::error::{ReloadError, StartError};
use crate::supervisor::{Mailbox, Notice};
use crate::tally::Counts;

/// Talks to the supervisor, from any thread. Clones talk to the same one.
#[derive(Clone)]
pub struct Handle {
    mailbox: Mailbox,
    segments: watch::Receiver<Segment>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

/// An answer on its way back.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// A question with the way back for its answer.
#[derive(Debug)]
pub(crate) enum Request {
    Ready(Reply<Result<(), StartError>>),
    Reload(Reply<Result<(), ReloadError>>),
    Stop { within: Grace, reply: Reply<()> },
    Doom { which: Doom, reply: Reply<()> },
    Resize { change: Resize, reply: Reply<usize> },
    Snapshot(Reply<Snapshot>),
    Signal { index: u16, pid: Option<Pid>, signal: Signal, reply: Reply<bool> },
    Replace(Damaged),
}

/// A segment in which something cannot be true.
pub(crate) struct Damaged {
    pub(crate) segment: Segment,
    pub(crate) what: &'static str,
}

impl std::fmt::Debug for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Damaged").field("what", &self.what).finish_non_exhaustive()
    }
}

/// Time for workers to leave when all is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    /// As configured.
    Usual,
    /// Less than that.
    Within(Duration),
}

/// What cannot be helped any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doom {
    /// There is no zygote, and there can be no other: no worker will be replaced.
    NoZygote,
    /// No worker is left, either.
    NoWorker,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Resize {
    By(i32),
    To(usize),
}

/// The supervisor's state at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Generation that serves.
    pub generation: u32,
    /// Since when it does; none when none does.
    pub serving_since: Option<SystemTime>,
    /// Process id of its zygote; none while that is dead.
    pub zygote: Option<Pid>,
    /// Those of all generations.
    pub zygotes: Vec<Pid>,
    /// Version of the perl that runs the application; empty when it is not known.
    pub perl: String,
    /// A new generation is loading or starting its workers.
    pub reloading: bool,
    /// Workers wanted.
    pub target: usize,
    /// Workers that are there, by index.
    pub workers: Vec<WorkerInfo>,
    /// What came and went.
    pub counts: Counts,
    /// Why nothing is forked at the moment, and until when; none when all is well.
    pub trouble: Option<String>,
}

/// One worker.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// Its cell.
    pub index: u16,
    /// Process id; none before the fork is reported.
    pub pid: Option<Pid>,
    /// Load of the application that it runs.
    pub generation: u32,
    /// What it is doing.
    pub phase: WorkerPhase,
    /// It has been asked to leave.
    pub draining: bool,
    /// Requests served.
    pub requests: u64,
    /// Requests after which it leaves; 0 for never.
    pub quota: u64,
    /// Slot that it serves.
    pub slot: Option<u32>,
    /// When it was asked for.
    pub started: SystemTime,
    /// CLOCK_MONOTONIC nanoseconds at which the current phase began.
    pub since: u64,
    /// Private memory in bytes when last measured; only with `max_memory`.
    pub memory: Option<u64>,
}

impl Handle {
    pub(crate) fn new(mailbox: Mailbox, segments: watch::Receiver<Segment>) -> Self {
        Self { mailbox, segments }
    }

    /// The segment that workers use now.
    #[must_use]
    pub fn segment(&self) -> Segment {
        *self.segments.borrow()
    }

    /// Has a damaged segment replaced, with all workers that use it. `what` was found there. It is logged, and done once.
    pub fn replace(&self, segment: Segment, what: &'static str) {
        let _ = self.mailbox.send(Notice::Request(Request::Replace(Damaged { segment, what })));
    }

    /// Waits until all workers of the first generation can serve.
    ///
    /// # Errors
    /// When they end before (an application that only loads in the workers and fails there), or the server stops.
    pub async fn ready(&self) -> Result<(), StartError> {
        self.ask(Request::Ready).await.unwrap_or(Err(StartError::Stopped))
    }

    /// Loads the application anew and moves requests over to it; returns when its workers are ready and the old ones
    /// drain. With a zygote from plackup the workers are replaced, the code stays. Requests that come during a reload
    /// are answered by one more after it.
    ///
    /// # Errors
    /// When the new code does not load or its workers do not start; then the old generation goes on.
    pub async fn reload(&self) -> Result<(), ReloadError> {
        self.ask(Request::Reload).await.unwrap_or(Err(ReloadError::Stopping))
    }

    /// Ends all workers and zygotes; returns when they are gone. Graceful: each finishes its current request, within
    /// `graceful_timeout`; otherwise they are killed. A second call with `graceful` false cuts a graceful stop short.
    ///
    /// Drained workers claim nothing more, so let the queue run empty before a graceful stop.
    pub async fn stop(&self, graceful: bool) {
        let within = if graceful { Grace::Usual } else { Grace::Within(Duration::ZERO) };
        let _ = self.ask(|reply| Request::Stop { within, reply }).await;
    }

    /// As a graceful [`Handle::stop`], when some of that time is over.
    pub async fn stop_within(&self, time: Duration) {
        let _ = self.ask(|reply| Request::Stop { within: Grace::Within(time), reply }).await;
    }

    /// Waits until the zygote is dead and nothing can start another: the workers that are left are the last.
    pub async fn doomed(&self) {
        self.wait_for(Doom::NoZygote).await;
    }

    /// Waits until these are gone, too.
    pub async fn deserted(&self) {
        self.wait_for(Doom::NoWorker).await;
    }

    async fn wait_for(&self, which: Doom) {
        if self.ask(|reply| Request::Doom { which, reply }).await.is_none() {
            // The supervisor has ended otherwise.
            std::future::pending::<()>().await;
        }
    }

    /// Changes the number of workers (TTIN, TTOU); returns the new number, at least 1.
    pub async fn resize(&self, by: i32) -> usize {
        self.ask(|reply| Request::Resize { change: Resize::By(by), reply }).await.unwrap_or(0)
    }

    /// Sets the number of workers; returns what became of it within the bounds.
    pub async fn set_workers(&self, count: usize) -> usize {
        self.ask(|reply| Request::Resize { change: Resize::To(count), reply }).await.unwrap_or(0)
    }

    /// What is there.
    pub async fn snapshot(&self) -> Snapshot {
        self.ask(Request::Snapshot).await.unwrap_or_default()
    }

    /// Sends `signal` to a worker, which is replaced when it dies of it. With `pid` only when the cell still belongs to
    /// that process. False when there is none.
    pub async fn kill_worker(&self, index: u16, pid: Option<Pid>, signal: Signal) -> bool {
        self.ask(|reply| Request::Signal { index, pid, signal, reply }).await.unwrap_or(false)
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(Notice::Request(request(reply))).ok()?;
        answer.await.ok()
    }
}
