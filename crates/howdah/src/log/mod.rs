//! The error log: what the front and the supervisor have to say, and what comes from Perl's standard error.
//!
//! ```text
//! front, supervisor ── tracing ── events ──────────────┐
//! zygote, workers ── pipe ── intake ── records ── line ┴── queue ── writer ──> standard error, or the file of --error-log
//! ```
//!
//! `serve` starts it. Perl writes into a pipe, so a file can be opened anew for everybody at once, and nobody writes a
//! line that is not told where it comes from: `xs/errors.c` puts process and request before what goes to STDERR, and
//! what a C library or a child program writes is known by lacking that.
//!
//! Whoever says something puts it into the queue and goes on; one thread writes, and may hang. So a log that nobody
//! reads keeps no request and no signal waiting, and the end of the process waits a second at most.

mod events;
mod intake;
mod line;
mod queue;
mod records;
mod terminal;
mod writer;

use std::backtrace::BacktraceStatus;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use intake::Intake;
pub(crate) use line::{Format, Level};

use crate::access::Reopening;
use crate::options::logs::Logs;
use events::Events;
use line::{Message, Source};
use queue::Queue;
use terminal::Look;
use writer::Writer;

/// How long the end of the process may take for the sake of logs, all together.
const LEAVING: Duration = Duration::from_secs(1);
/// What of it is for the error log alone, which tells what the others have lost.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Lines that are to be written.
static QUEUE: Queue = Queue::new();
/// The file, when the log goes to one.
static FILE: OnceLock<PathBuf> = OnceLock::new();
/// How lines look; unset until the log is started.
static LOOK: OnceLock<Look> = OnceLock::new();
/// When the process leaves, whatever its logs do.
static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// Starts the log on standard error, which becomes the file when one is given. Until [`begin_writing`] whoever says
/// something writes it.
///
/// # Errors
/// When the file cannot be opened for appending.
pub(crate) fn start(logs: &Logs) -> anyhow::Result<()> {
    if let Some(path) = &logs.error_log {
        writer::open(path).with_context(|| format!("cannot open the error log {}", path.display()))?;
        let _ = FILE.set(absolute(path)?);
    }
    let look = *LOOK.get_or_init(|| Look::here(logs.error_log_format));
    tracing_subscriber::registry().with(filter(logs)).with(Events { look }).init();
    std::panic::set_hook(Box::new(say_panic));
    Ok(())
}

/// Starts the thread that writes; nobody else does from now on.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn begin_writing() -> io::Result<()> {
    Writer::start(&QUEUE, FILE.get().map(PathBuf::as_path))
}

/// The variable is for those who look for something: it knows levels for each part of the program.
fn filter(logs: &Logs) -> EnvFilter {
    let given = logs.log_level.map(|level| EnvFilter::new(level.name()));
    given.or_else(|| EnvFilter::try_from_env("HOWDAH_LOG").ok()).unwrap_or_else(|| EnvFilter::new("info"))
}

/// Says something that is for the person who starts a server, in a log that is read by others as one of its lines.
pub(crate) fn announce(text: &str) {
    if is_for_others() {
        tracing::info!("{text}");
    } else {
        say(text);
    }
}

/// Tells why the program fails.
pub(crate) fn failure(error: &anyhow::Error) {
    if is_for_others() {
        tracing::error!("{error:#}");
    } else {
        say(&format!("{error:#}"));
    }
}

/// Says something to the person at the terminal.
pub(crate) fn say(text: &str) {
    write(format!("howdah: {text}\n").as_bytes());
}

/// As tracing does, from where that must not be used.
fn say_error(text: &str) {
    write(&rendered(Level::Error, text.as_bytes()));
}

/// The process may end right after that.
fn say_panic(panic: &std::panic::PanicHookInfo<'_>) {
    // Empty unless RUST_BACKTRACE asks for one.
    let backtrace = std::backtrace::Backtrace::capture();
    let trace = matches!(backtrace.status(), BacktraceStatus::Captured).then(|| format!("\n{backtrace}"));
    let trace = trace.unwrap_or_default();
    say_error(&format!("{panic}\nthis is a fault of howdah itself: please report it{trace}"));
    QUEUE.settle(Instant::now() + LEAVING);
}

fn rendered(level: Level, text: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    look().render(&Message { level, source: &Source::Front, text, fields: &[] }, &mut lines);
    lines
}

fn look() -> Look {
    LOOK.get().copied().unwrap_or(Look::Lines(Format::Text))
}

fn is_for_others() -> bool {
    FILE.get().is_some() || look() == Look::Lines(Format::Json)
}

/// Opens the file anew, after rotation. None when there is no file. How it went comes later.
pub(crate) fn reopen() -> Option<Reopening> {
    let path: &Path = FILE.get()?;
    let (reply, outcome) = sync_channel(1);
    QUEUE.reopen(reply);
    Some(Reopening::new(format!("the error log {}", path.display()), outcome))
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

/// The process ends: waits for what has been said to be written, within its time.
pub(crate) fn finish() {
    QUEUE.settle(end());
}

/// Waits for what has been said to be written, for a second at most.
pub(crate) fn settle() {
    QUEUE.settle(Instant::now() + LEAVING);
}

/// Never waits, once there is a thread that writes.
fn write(lines: &[u8]) {
    if lines.is_empty() {
        return;
    }
    if QUEUE.is_served() {
        QUEUE.offer(lines);
    } else {
        writer::write_directly(lines);
    }
}
