//! The writer of finished lines: `file`, `-` (standard output) or `|command`.
//!
//! ```text
//! front thread ── Writer ──> lane (a buffer) ──swap──> sink thread ──> Outlet: file, stdout or a command's stdin
//! ```
//!
//! A front thread holds its lane's lock while it renders a line into the lane; the sink's thread holds it only to swap
//! the full buffer for an empty one. So the front never waits for a disk or a pipe. When the outlet stalls, lines
//! gather in the lane up to [`Options::capacity`]; beyond it they are dropped, counted, and reported in the error log.
//! What a command leaves unread in its pipe when it dies goes to the next one.

mod thread;
mod report;
mod outlet;
mod command;
mod pipe;
mod pending;
mod target;
mod append;
mod links;
mod lane;
mod signal;
mod options;
mod counts;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

pub use append::{append_to, with_way_in, write_lines};
pub use command::Starter;
pub use counts::{Condition, Counts};
use lane::Lane;
pub use links::{misleads, open_to_write};
pub use options::Options;
pub use pending::Pending;
pub use target::Target;
use thread::{Shared, SinkThread};

/// An open log with its thread. Open it after the process has become a daemon: threads do not survive a fork.
#[derive(Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    done: Receiver<()>,
}

/// How long a sink that is dropped rather than closed waits for its outlet.
const PATIENCE: Duration = Duration::from_secs(1);
/// Of the time that a sink is given to end, so much is for the thread to say that it has.
const LAST: Duration = Duration::from_millis(100);

impl Sink {
    /// Opens `target` and starts the thread. A file is created with mode 0666 less the umask, and appended to.
    ///
    /// # Errors
    /// Of the system, when the file cannot be opened or the shell or the thread cannot be started.
    pub fn open(target: &Target, options: Options) -> io::Result<Self> {
        Self::open_by(target, options, Arc::new(command::start))
    }

    /// As [`Sink::open`], for a process that does not start commands by itself.
    ///
    /// # Errors
    /// As [`Sink::open`].
    pub fn open_by(target: &Target, options: Options, starter: Starter) -> io::Result<Self> {
        let outlet = outlet::Outlet::open(target, starter)?;
        let shared = Arc::new(Shared::new(options));
        let (tell, done) = sync_channel(1);
        let thread = SinkThread::new(target, outlet, Arc::clone(&shared));
        let body = move || {
            thread.run();
            let _ = tell.send(());
        };
        let handle = std::thread::Builder::new().name("access-log".into()).spawn(body)?;
        shared.signal.belongs_to(handle.thread().clone());
        Ok(Self { shared, done })
    }

    /// A writer for one front thread.
    #[must_use]
    pub fn writer(&self) -> Writer {
        let lane = Arc::new(Lane::default());
        lane::lock(&self.shared.lanes).push(Arc::clone(&lane));
        Writer { lane, shared: Arc::clone(&self.shared) }
    }

    /// Opens the file anew, after log rotation: lines from before go to the old file, none is lost. If the new one
    /// cannot be opened, the old one is kept and the error log tells. Commands and standard output go on as they are.
    /// What is returned tells how it went, once it has; nobody need read it.
    pub fn reopen(&self) -> Receiver<Result<(), String>> {
        let (reply, outcome) = sync_channel(1);
        lane::lock(&self.shared.reopeners).push(reply);
        self.shared.signal.raise(signal::REOPEN);
        outcome
    }

    /// Lines written and dropped so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Tells how it goes to whoever has it, also when the sink is closed.
    pub fn watch(&self) -> impl Fn() -> Condition + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || Condition { counts: shared.counts(), trouble: shared.trouble() }
    }

    /// Has the thread write what is left and end, without waiting for it: several sinks can end at once. Lines that
    /// come from now on are dropped.
    pub fn end_by(&self, deadline: Instant) {
        *lane::lock(&self.shared.deadline) = Some(deadline.checked_sub(LAST).unwrap_or(deadline));
        self.shared.signal.raise(signal::STOP);
    }

    /// Writes what is left and ends the thread, but waits no longer than `patience` for a stalled outlet; what then
    /// is left counts as dropped. A command sees the end of its input and gets the rest of the time to finish.
    pub fn close(self, patience: Duration) -> Counts {
        self.wait(Instant::now() + patience)
    }

    /// As [`Sink::close`], for several that end at once.
    pub fn wait(&self, deadline: Instant) -> Counts {
        self.end_by(deadline);
        let patience = deadline.saturating_duration_since(Instant::now());
        // A disk that hangs in the kernel must not keep the server from ending.
        if self.done.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            self.shared.give_up();
        }
        self.shared.counts()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if lane::lock(&self.shared.deadline).is_none() {
            self.wait(Instant::now() + PATIENCE);
        }
    }
}

/// Where one front thread puts its lines.
pub struct Writer {
    lane: Arc<Lane>,
    shared: Arc<Shared>,
}

impl Writer {
    /// Lets `render` append one line, or several, each with its line feed. Never waits for the outlet: when the
    /// buffer is full, `render` is not called and the line counts as dropped.
    pub fn line(&self, render: impl FnOnce(&mut Vec<u8>)) {
        let raised = self.lane.push(&self.shared.options, render);
        if raised != 0 {
            self.shared.signal.raise(raised);
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}
