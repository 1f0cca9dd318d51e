//! What others may ask of the supervisor: signal handlers, status pages, the control socket, the deadline watch.

use std::os::fd::OwnedFd;
use std::time::Duration;

use howdah_sys::{Pid, Signal};
use howdah_wire::Segment;
use tokio::sync::{oneshot, watch};

use crate::call::{Call, Damaged, Doom, Grace, Reply, Resize, Resized};
use crate::error::{ReloadError, StartError};
use crate::lease::Lease;
use crate::notice::{Mailbox, Notice};
use crate::snapshot::Snapshot;

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
        let _ = self.mailbox.send(Notice::Call(Call::Replace(Damaged { segment, what })));
    }

    /// Waits until all workers of the first generation can serve.
    ///
    /// # Errors
    /// When they end before (an application that only loads in the workers and fails there), or the server stops.
    pub async fn ready(&self) -> Result<(), StartError> {
        self.ask(Call::Ready).await.unwrap_or(Err(StartError::Stopped))
    }

    /// Loads the application anew and moves requests over to it; returns when its workers are ready and the old ones
    /// drain. With a zygote from plackup the workers are replaced, the code stays. Requests that come during a reload
    /// are answered by one more after it.
    ///
    /// # Errors
    /// When the new code does not load or its workers do not start; then the old generation goes on.
    pub async fn reload(&self) -> Result<(), ReloadError> {
        self.ask(Call::Reload).await.unwrap_or(Err(ReloadError::Stopping))
    }

    /// Ends all workers and zygotes; returns when they are gone. Graceful: each finishes its current request, within
    /// `graceful_timeout`; otherwise they are killed. A second call with `graceful` false cuts a graceful stop short.
    ///
    /// Drained workers claim nothing more, so let the queue run empty before a graceful stop.
    pub async fn stop(&self, graceful: bool) {
        let within = if graceful { Grace::Usual } else { Grace::Within(Duration::ZERO) };
        let _ = self.ask(|reply| Call::Stop { within, reply }).await;
    }

    /// As a graceful [`Handle::stop`], when some of that time is over.
    pub async fn stop_within(&self, time: Duration) {
        let _ = self.ask(|reply| Call::Stop { within: Grace::Within(time), reply }).await;
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
        if self.ask(|reply| Call::Doom { which, reply }).await.is_none() {
            // The supervisor has ended otherwise.
            std::future::pending::<()>().await;
        }
    }

    /// Changes the number of workers (TTIN, TTOU), within the bounds.
    pub async fn resize(&self, by: i32) -> Resized {
        self.ask(|reply| Call::Resize { change: Resize::By(by), reply }).await.unwrap_or_default()
    }

    /// Sets the number of workers, within the bounds.
    pub async fn set_workers(&self, count: usize) -> Resized {
        self.ask(|reply| Call::Resize { change: Resize::To(count), reply }).await.unwrap_or_default()
    }

    /// Starts one more worker, of another zygote that a second recipe starts ([`Source::Start`](crate::Source::Start)), which
    /// stays as long as the lease. Its number, when it is ready.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub async fn guest(&self) -> Result<(Lease, u16), String> {
        let (lease, token) = Lease::new(self.mailbox.clone());
        let worker = self.ask(|reply| Call::Guest { lease: token, reply }).await;
        let worker = worker.unwrap_or_else(|| Err("the server is stopping".to_owned()))?;
        Ok((lease, worker))
    }

    /// What is there.
    pub async fn snapshot(&self) -> Snapshot {
        self.ask(Call::Snapshot).await.unwrap_or_default()
    }

    /// Sends `signal` to a worker, which is replaced when it dies of it. With `pid` only when the cell still belongs to
    /// that process. False when there is none.
    pub async fn kill_worker(&self, index: u16, pid: Option<Pid>, signal: Signal) -> bool {
        self.ask(|reply| Call::Signal { index, pid, signal, reply }).await.unwrap_or(false)
    }

    /// What a worker says that was asked to leave the next zygote behind: the control socket of that, or why there is none.
    /// Whether it was asked is known here.
    pub fn leave_zygote(&self, worker: u16, outcome: Result<OwnedFd, String>) {
        let _ = self.mailbox.send(Notice::Call(Call::Heir { worker, outcome }));
    }

    async fn ask<T>(&self, call: impl FnOnce(Reply<T>) -> Call) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(Notice::Call(call(reply))).ok()?;
        answer.await.ok()
    }
}
