//! The way out for lines: into the queue once there is a thread that writes, before that to standard error at once. It
//! keeps the time that the end of the process may take for the sake of logs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf, absolute};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::queue::Queue;
use super::writer::{self, Writer};
use crate::output::for_people;
use crate::reopening::Reopening;

/// How long the end of the process may take for the sake of logs, all together.
const LEAVING: Duration = Duration::from_secs(1);
/// What of it is for the error log alone, which tells what the others have lost.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Lines that are to be written.
static QUEUE: Queue = Queue::new();
/// The file, when the log goes to one.
static FILE: OnceLock<PathBuf> = OnceLock::new();
/// What was standard error before the log became a file, until the process has started.
static STARTER: Mutex<Option<OwnedFd>> = Mutex::new(None);
/// When the process leaves, whatever its logs do.
static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// Makes the file standard error. What that was is kept for [`tell_starter`].
///
/// # Errors
/// When it cannot be opened for appending.
pub(super) fn into_file(path: &Path) -> anyhow::Result<()> {
    let before = rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3).ok();
    let known = before.as_ref().and_then(inode);
    writer::open(path).with_context(|| format!("--error-log: cannot open {}", path.display()))?;
    let _ = FILE.set(absolute(path)?);
    // A process that takes over from another begins with that one's log.
    *STARTER.lock().unwrap_or_else(PoisonError::into_inner) = before.filter(|_| known != inode(io::stderr()));
    Ok(())
}

fn inode(file: impl AsFd) -> Option<(u64, u64)> {
    rustix::fs::fstat(file).ok().map(|file| (file.st_dev, file.st_ino))
}

/// Tells whoever has started the process why it fails, if its log is a file, as long as it starts.
pub(super) fn tell_starter(reason: &str) {
    let starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Some(starter), Some(log)) = (starter, FILE.get()) {
        let text = format!("howdah: {reason}\nhowdah: the error log {} may tell more\n", log.display());
        writer::write_directly(&starter, for_people(&text).as_bytes());
    }
}

/// The process has started: what it says from now on is for its log.
pub(crate) fn let_starter_go() {
    drop(STARTER.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Lines go to a file, not to whoever has started the process.
pub(super) fn is_file() -> bool {
    FILE.get().is_some()
}

/// Starts the thread that writes; nobody else does from now on.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn begin_writing() -> io::Result<()> {
    Writer::start(&QUEUE, FILE.get().map(PathBuf::as_path))
}

/// Never waits, once there is a thread that writes.
pub(super) fn write(lines: &[u8]) {
    if lines.is_empty() {
        return;
    }
    if QUEUE.is_served() {
        QUEUE.offer(lines);
    } else {
        writer::write_directly(io::stderr(), lines);
    }
}

/// The same for lines of which none is to be lost: waits for room.
pub(super) fn write_patiently(lines: &[u8]) {
    QUEUE.offer_patiently(lines);
}

/// Opens the file anew, after rotation. None when there is no file. How it went comes later.
pub(crate) fn reopen() -> Option<Reopening> {
    let path: &Path = FILE.get()?;
    let (reply, outcome) = sync_channel(1);
    QUEUE.reopen(reply);
    Some(Reopening::new(format!("the error log {}", path.display()), outcome))
}

/// What is wrong with this log, which cannot tell by itself.
pub(crate) fn trouble() -> Option<String> {
    let file = FILE.get().map(|path| format!(" {}", path.display())).unwrap_or_default();
    QUEUE.trouble().map(|trouble| format!("error log{file}: {trouble}"))
}

/// Until when the other logs may be waited for, now that the process ends. Who asks first sets the time.
pub(crate) fn deadline() -> Instant {
    end() - LAST_WORDS
}

fn end() -> Instant {
    *DEADLINE.get_or_init(|| {
        let end = Instant::now() + LEAVING;
        QUEUE.end_by(end);
        end
    })
}

/// Whether the time of the logs runs out.
#[cfg(test)]
pub(crate) fn is_ending() -> bool {
    DEADLINE.get().is_some()
}

/// The process ends: waits for what has been said to be written, within its time.
pub(crate) fn finish() {
    QUEUE.settle(end());
}

/// Waits for what has been said to be written, for a second at most.
pub(crate) fn settle() {
    QUEUE.settle(Instant::now() + LEAVING);
}
