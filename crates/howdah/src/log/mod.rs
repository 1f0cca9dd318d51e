//! The error log: what the front and the supervisor have to say, and what comes from Perl's standard error.
//!
//! ```text
//! front, supervisor ── tracing ── events ─────────────┐
//! zygote, workers ── pipe ── intake ── records ───────┴──> line ──> standard error, or the file of --error-log
//! ```
//!
//! `serve` starts it. Perl writes into a pipe, so a file can be opened anew for everybody at once, and nobody writes a
//! line that is not told where it comes from: `xs/errors.c` puts process and request before what goes to STDERR, and
//! what a C library or a child program writes is known by lacking that.

mod events;
mod intake;
mod line;
mod records;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf, absolute};
use std::sync::OnceLock;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use intake::Intake;
pub(crate) use line::{Format, Level};

use crate::options::logs::Logs;
use events::Events;

/// The file, when the log goes to one.
static FILE: OnceLock<PathBuf> = OnceLock::new();
/// How lines look; unset until the log is started.
static FORMAT: OnceLock<Format> = OnceLock::new();

/// Starts the log on standard error, which becomes the file when one is given.
///
/// # Errors
/// When the file cannot be opened for appending.
pub(crate) fn start(logs: &Logs) -> anyhow::Result<()> {
    if let Some(path) = &logs.error_log {
        open(path).with_context(|| format!("cannot open the error log {}", path.display()))?;
        let _ = FILE.set(absolute(path)?);
    }
    let format = logs.error_log_format;
    let _ = FORMAT.set(format);
    tracing_subscriber::registry().with(filter(logs)).with(Events { format }).init();
    Ok(())
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
        eprintln!("howdah: {text}");
    }
}

/// Tells why the program fails.
pub(crate) fn failure(error: &anyhow::Error) {
    if is_for_others() {
        tracing::error!("{error:#}");
    } else {
        eprintln!("howdah: {error:#}");
    }
}

fn is_for_others() -> bool {
    FILE.get().is_some() || FORMAT.get().is_some_and(|format| *format == Format::Json)
}

/// Opens the file anew, after rotation: which log it is, or what went wrong. None when there is no file.
pub(crate) fn reopen() -> Option<Result<String, String>> {
    let path = FILE.get()?;
    let log = format!("the error log {}", path.display());
    Some(match open(path) {
        Ok(()) => Ok(log),
        Err(error) => {
            let trouble = format!("cannot open {log} anew: {error}; the old one goes on");
            tracing::error!("{trouble}");
            Err(trouble)
        }
    })
}

/// Makes the file standard error.
fn open(path: &Path) -> io::Result<()> {
    let log = OpenOptions::new().create(true).append(true).open(path)?;
    Ok(rustix::stdio::dup2_stderr(&log)?)
}

/// Writes whole lines at once. A log that cannot be written is nobody's to tell.
fn write(lines: &[u8]) {
    if !lines.is_empty() {
        let _ = io::stderr().lock().write_all(lines);
    }
}
