//! The error log: what the front and the supervisor have to say, and what Perl writes to its standard error.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::sync::OnceLock;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// The file, when the log goes to one.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Starts the log on standard error, which becomes `file` when one is given, for Perl too.
///
/// # Errors
/// When the file cannot be opened for appending.
pub(crate) fn start(file: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = file {
        open(path).with_context(|| format!("cannot open the error log {}", path.display()))?;
        let _ = FILE.set(absolute(path)?);
    }
    let filter = EnvFilter::try_from_env("HOWDAH_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(false)
        .with_writer(io::stderr)
        .init();
    Ok(())
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
