//! What is written about requests, and where.

use std::path::PathBuf;

use anyhow::Context;
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use howdah_accesslog::{Compat, Source, Target, compile};
use howdah_wire::{REPORT_MOST, report_names};

use super::values::{Time, millis};

/// The logs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct Logs {
    /// Where each request is logged: a file, - or "|COMMAND"
    ///
    /// Lines are written in batches, at most a tenth of a second late; workers have no part in it. USR1 opens the
    /// file anew after rotation.
    #[arg(long, value_name = "TARGET")]
    pub(crate) access_log: Option<String>,

    /// Apache's, or combined, common, ltsv, json
    #[arg(long, value_name = "FORMAT", default_value = "combined")]
    pub(crate) access_log_format: String,

    /// Whose meaning a directive has where two differ
    ///
    /// apache is Apache httpd's; plack is that of Apache::LogFormat::Compiler, which Plack's AccessLog uses.
    #[arg(long, value_name = "WHOSE", default_value = "apache", hide_short_help = true)]
    pub(crate) access_log_compat: Meaning,

    /// Log requests that take this long, in milliseconds
    ///
    /// A line says how long the request waited, ran and was sent. It counts from the request's first byte to the
    /// response's last; also as 2s, 1m. 0 logs none.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = millis, hide_short_help = true)]
    pub(crate) slow_log: Time,

    /// Where slow requests are logged, instead of the error log: a file, - or "|COMMAND"
    #[arg(long, value_name = "TARGET", hide_short_help = true)]
    pub(crate) slow_log_file: Option<String>,

    /// Give requests no X-Request-Id
    ///
    /// A client's id is taken over when it is 1 to 128 letters, digits and ._~:+/=@- ; otherwise one is made. The
    /// application finds it as HTTP_X_REQUEST_ID, and it is sent back. With this option the field has no meaning.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_request_id: bool,

    /// File for errors, instead of standard error
    ///
    /// Warnings and errors of the application go there too.
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(error_file))]
    pub(crate) error_log: Option<PathBuf>,

    /// How its lines look
    ///
    /// Each line says when, how grave, which process and, of a worker, which request. With json it is an object. On a
    /// terminal text is shorter, and a message of several lines says it once.
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_short_help = true)]
    pub(crate) error_log_format: Format,

    /// Least level of the server's own messages in it [default: info]
    ///
    /// What the application says is always there, whatever its level. HOWDAH_LOG does the same where this is not given, and knows levels
    /// for parts of the server: howdah_front=debug.
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    pub(crate) log_level: Option<Level>,
}

/// A file by one of the names that mean something else for other logs would hardly be found.
fn error_file(path: PathBuf) -> Result<PathBuf, String> {
    match path.as_os_str().as_encoded_bytes() {
        b"-" => Err("errors go to standard error where no file is named: leave it out".to_owned()),
        [b'|', ..] => {
            Err("it takes a file and no command: leave it out, and write  2>&1 | COMMAND".to_owned())
        }
        _ => Ok(path),
    }
}

/// See [`Logs::access_log_compat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Meaning {
    Apache,
    Plack,
}

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

impl Logs {
    /// Compiles the format, so that a mistake in it is found before anything is started.
    ///
    /// # Errors
    /// The column and the way out.
    pub(crate) fn format(&self) -> anyhow::Result<howdah_accesslog::Format> {
        let compat = match self.access_log_compat {
            Meaning::Apache => Compat::Apache,
            Meaning::Plack => Compat::Plack,
        };
        let format = compile(&self.access_log_format, compat).context("--access-log-format")?;
        let variables = format.needs().of(Source::Environment).map(|need| need.1);
        report_names(variables).ok().with_context(|| {
            format!("--access-log-format has more variables than fit: {REPORT_MOST} different %{{NAME}}e of 255 letters, 1000 in all")
        })?;
        Ok(format)
    }

    /// What is no place for a log.
    pub(super) fn fault(&self) -> Option<String> {
        let given = [("--access-log", &self.access_log), ("--slow-log-file", &self.slow_log_file)];
        let empty = |target: &str| match Target::parse(target) {
            Target::Command(command) => command.is_empty(),
            Target::File(path) => path.as_os_str().is_empty(),
            Target::Stdout => false,
        };
        let (option, target) = given
            .into_iter()
            .find_map(|(option, target)| Some((option, target.as_deref().filter(|it| empty(it))?)))?;
        Some(format!(
            "{option} '{target}' names neither a file nor a command: give a path, - or \"|COMMAND\""
        ))
    }

    /// Where logs of requests go.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let slow = self.slow_log_file.as_deref().filter(|_| self.slow_log.limit().is_some());
        self.access_log.as_deref().into_iter().chain(slow).map(Target::parse).collect()
    }
}
