//! Opens the access log that the options ask for, and makes each front thread's end of it.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::Context;
use howdah_accesslog::{Compat, Format, Options, Sink, Target, compile};
use howdah_front::AccessLog;

use crate::options::Serve;
use crate::options::logs::{Logs, Meaning};
use crate::status::LineCounter;

/// Time for the last lines to be written when the server ends, and for a file to be opened anew.
const PATIENCE: Duration = Duration::from_secs(2);

/// An open access log.
#[derive(Debug)]
pub(crate) struct Access {
    format: Format,
    target: Target,
    sink: Sink,
}

/// An access log that is being opened anew.
#[derive(Debug)]
pub(crate) struct Reopening {
    target: String,
    outcome: Receiver<Result<(), String>>,
}

impl Reopening {
    /// Waits for it: which log it is, or what went wrong.
    pub(crate) fn wait(self) -> Result<String, String> {
        let log = format!("the access log {}", self.target);
        match self.outcome.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Ok(log),
            Ok(Err(error)) => Err(format!("cannot open {log} anew: {error}; the old one goes on")),
            Err(_) => Err(format!("{log} is still being written: it will be opened anew when that goes on")),
        }
    }
}

impl Access {
    /// Opens the log; none when none is asked for.
    ///
    /// # Errors
    /// When the format is malformed or the target cannot be opened.
    pub(crate) fn open(options: &Serve) -> anyhow::Result<Option<Self>> {
        let Some(target) = &options.logs.access_log else { return Ok(None) };
        let format = format(&options.logs)?;
        let target = Target::parse(target);
        let sink = Sink::open(&target, Options::default())
            .with_context(|| format!("cannot open the access log {target}"))?;
        Ok(Some(Self { format, target, sink }))
    }

    /// A front thread's end.
    pub(crate) fn log(&self) -> AccessLog {
        AccessLog::new(self.format.clone(), self.sink.writer())
    }

    /// For the status page.
    pub(crate) fn lines(&self) -> LineCounter {
        Box::new(self.sink.counter())
    }

    /// Opens the file anew. How it went comes later.
    pub(crate) fn reopen(&self) -> Reopening {
        Reopening { target: self.target.to_string(), outcome: self.sink.reopen() }
    }

    /// Writes what is left.
    pub(crate) fn close(self) {
        let counts = self.sink.close(PATIENCE);
        if counts.dropped > 0 {
            tracing::error!(
                "{} lines of the access log are lost, {} are written",
                counts.dropped,
                counts.written
            );
        }
    }
}

/// Compiles the format, so that a mistake in it is found before anything is started.
///
/// # Errors
/// The column and the way out.
pub(crate) fn format(logs: &Logs) -> anyhow::Result<Format> {
    let compat = match logs.access_log_compat {
        Meaning::Apache => Compat::Apache,
        Meaning::Plack => Compat::Plack,
    };
    compile(&logs.access_log_format, compat).context("--access-log-format")
}
