//! The error log: what the front and the supervisor have to say, and what Perl writes to its standard error.

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Starts the log on standard error, which becomes `file` when one is given, for Perl too.
///
/// # Errors
/// When the file cannot be opened for appending.
pub(crate) fn start(file: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = file {
        let log = OpenOptions::new().create(true).append(true).open(path);
        let log = log.with_context(|| format!("cannot open the error log {}", path.display()))?;
        rustix::stdio::dup2_stderr(&log)?;
    }
    let filter = EnvFilter::try_from_env("HOWDAH_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}
