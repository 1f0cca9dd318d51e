//! Opens the logs of requests that the options ask for, the access log and the slow-request log, and makes each front
//! thread's end of them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use howdah_accesslog::{Compat, Condition, Format, Options, SLOW, Sink, Source, Target, Writer, compile};
use howdah_front::{AccessLog, SlowLog};
use howdah_sys::launcher::Job;
use howdah_wire::Segment;

use crate::log;
use crate::options::Serve;
use crate::reopening::Reopening;
use crate::status::LogWatch;

/// What a log is called, and the option that asks for it.
const ACCESS: (&str, &str) = ("access log", "--access-log");
const SLOW_FILE: (&str, &str) = ("slow-request log", "--slow-log-file");

/// The commands of piped logs, and what starts them.
pub(crate) type Commands = Vec<(String, Job)>;

/// Open logs of requests.
#[derive(Debug)]
pub(crate) struct Access {
    log: Option<Output>,
    /// From when on a request is slow.
    slow: Option<Duration>,
    /// None for the error log.
    slow_file: Option<Output>,
}

/// A log that is open.
#[derive(Debug)]
struct Output {
    /// What it is called.
    what: &'static str,
    format: Format,
    target: Target,
    sink: Sink,
}

impl Access {
    /// Opens the logs; none when none are asked for. `commands` start those of piped logs.
    ///
    /// # Errors
    /// When the format is malformed or a target cannot be opened.
    pub(crate) fn open(options: &Serve, commands: &Commands) -> anyhow::Result<Option<Self>> {
        let logs = &options.logs;
        let (slow, log) = (logs.slow_log.limit(), logs.access_log.as_deref());
        let log = log.map(|target| Output::open(ACCESS, target, logs.format()?, commands)).transpose()?;
        let slow_file = logs.slow_log_file.as_deref().filter(|_| slow.is_some());
        let slow_file = slow_file
            .map(|target| Output::open(SLOW_FILE, target, compile(SLOW, Compat::Apache)?, commands))
            .transpose()?;
        // Not `then_some`: to drop one ends the time of all logs.
        Ok((log.is_some() || slow.is_some()).then(|| Self { log, slow, slow_file }))
    }

    /// A front thread's end of the access log.
    pub(crate) fn log(&self) -> Option<AccessLog> {
        self.log.as_ref().map(Output::end).map(|(format, writer)| AccessLog::new(format, writer))
    }

    /// A front thread's end of the slow-request log.
    pub(crate) fn slow_log(&self) -> Option<SlowLog> {
        self.slow.map(|least| SlowLog::new(least, self.slow_file.as_ref().map(Output::end)))
    }

    /// Has workers report those variables of the env that lines have. Before there are any.
    ///
    /// # Errors
    /// When they are too many, which the options have been refused for.
    pub(crate) fn ask_for_variables(&self, segment: Segment) -> anyhow::Result<()> {
        let Some(Output { format, .. }) = &self.log else { return Ok(()) };
        let variables = format.needs().of(Source::Environment).map(|need| need.1);
        segment.ask_for(variables).ok().context("--access-log-format has more variables than fit")
    }

    /// Of the access log, for the status page.
    pub(crate) fn watch(&self) -> Option<LogWatch> {
        self.log.as_ref().map(Output::watch)
    }

    /// Of the slow-request log.
    pub(crate) fn watch_slow(&self) -> Option<LogWatch> {
        self.slow_file.as_ref().map(Output::watch)
    }

    /// Opens the files anew; there are none behind commands and standard output. How it went comes later.
    pub(crate) fn reopen(&self) -> Vec<Reopening> {
        let files = self.outputs().filter(|output| matches!(output.target, Target::File(_)));
        files.map(Output::reopen).collect()
    }

    fn outputs(&self) -> impl Iterator<Item = &Output> {
        self.log.iter().chain(&self.slow_file)
    }
}

/// Writes what is left, in the time that the process has for that.
impl Drop for Access {
    fn drop(&mut self) {
        let deadline = log::deadline();
        self.outputs().for_each(|output| output.sink.end_by(deadline));
        self.outputs().for_each(|output| output.close(deadline));
    }
}

impl Output {
    fn open(
        (what, option): (&'static str, &str),
        target: &str,
        format: Format,
        commands: &Commands,
    ) -> anyhow::Result<Self> {
        let target = Target::parse(target);
        let sink = open(what, &target, commands);
        let sink = sink.with_context(|| format!("{option}: cannot open {target}"))?;
        Ok(Self { what, format, target, sink })
    }

    fn end(&self) -> (Format, Writer) {
        (self.format.clone(), self.sink.writer())
    }

    /// The trouble names the log and its target.
    fn watch(&self) -> LogWatch {
        let (name, condition) = (format!("{} {}", self.what, self.target), self.sink.watch());
        Box::new(move || {
            let Condition { counts, trouble } = condition();
            Condition { counts, trouble: trouble.map(|why| format!("{name}: {why}")) }
        })
    }

    fn reopen(&self) -> Reopening {
        Reopening::new(format!("the {} {}", self.what, self.target), self.sink.reopen())
    }

    fn close(&self, deadline: Instant) {
        let counts = self.sink.wait(deadline);
        if counts.dropped > 0 {
            tracing::error!(
                "{} lines of the {} are lost, {} are written",
                counts.dropped,
                self.what,
                counts.written
            );
        }
    }
}

fn open(what: &'static str, target: &Target, commands: &Commands) -> std::io::Result<Sink> {
    let options = Options { what, ..Options::default() };
    let Target::Command(wanted) = target else { return Sink::open(target, options) };
    let job = commands.iter().find(|(command, _)| command == wanted).map(|(_, job)| job.clone());
    let start = move |_: &str, input: OwnedFd| {
        let job = job.as_ref().ok_or(std::io::ErrorKind::NotFound)?;
        job.start(None, Some(input.as_fd()), Vec::new()).map(|pid| pid.as_raw_pid().unsigned_abs())
    };
    Sink::open_by(target, options, Arc::new(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Action, parse};

    #[test]
    fn a_server_without_such_logs_has_not_begun_to_end() {
        let line = ["howdah", "-e", "sub{}"].map(Into::into);
        let Action::Serve(options) = parse(line).unwrap().action else { panic!("another action") };
        assert!(Access::open(&options, &Vec::new()).unwrap().is_none());
        assert!(!log::is_ending());
    }
}
