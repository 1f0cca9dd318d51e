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
mod records;
mod outlet;
mod writer;
mod queue;
mod look;
mod terminal;
mod line;

use std::backtrace::BacktraceStatus;
use std::process::ExitCode;

use anyhow::Context;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use intake::Intake;
#[cfg(test)]
pub(crate) use outlet::is_ending;
pub(crate) use outlet::{deadline, finish, let_starter_go, reopen, settle, trouble};

use crate::options::logs::{Format, Level, Logs};
use crate::output::for_people;
use events::Events;
use look::{Look, look, rendered};
use outlet::write;

/// Starts the log on standard error, which becomes the file when one is given. Until [`Intake::start`] whoever says
/// something writes it.
///
/// # Errors
/// When the file cannot be opened for appending, or HOWDAH_LOG has what is no level.
pub(crate) fn start(logs: &Logs) -> anyhow::Result<()> {
    if let Some(path) = &logs.error_log {
        outlet::into_file(path)?;
    }
    let look = look::decide(logs.error_log_format);
    let filter = wanted(logs)?;
    tracing_subscriber::registry().with(filter).with(Events { look }).init();
    std::panic::set_hook(Box::new(say_panic));
    Ok(())
}

/// Why the log would not start: what HOWDAH_LOG has.
pub(crate) fn fault(logs: &Logs) -> Option<String> {
    wanted(logs).err().map(|error| format!("{error:#}"))
}

fn wanted(logs: &Logs) -> anyhow::Result<Targets> {
    let variable = std::env::var_os("HOWDAH_LOG").unwrap_or_default();
    filter(logs.log_level, &variable.to_string_lossy())
}

/// The variable is for those who look for something: it knows levels for each part of the program, and what it does not name is as ever.
fn filter(given: Option<Level>, variable: &str) -> anyhow::Result<Targets> {
    // What the `h2` crate has to say is of clients, who could fill the log by it: the front tells what matters of that. Whoever
    // writes HOWDAH_LOG may ask for it.
    let usual = Targets::new().with_default(LevelFilter::INFO).with_target("h2", LevelFilter::OFF);
    if let Some(level) = given {
        return with(usual, level.name());
    }
    let mut wishes = variable.split(',').map(str::trim).filter(|wish| !wish.is_empty());
    wishes.try_fold(usual, with).with_context(|| format!("HOWDAH_LOG={variable}"))
}

fn with(filter: Targets, wish: &str) -> anyhow::Result<Targets> {
    // No level at all would be one to the library, and so would a part without a name.
    let level = |word: &str| word.parse::<LevelFilter>().ok().filter(|_| !word.is_empty());
    let wider = match wish.rsplit_once('=') {
        Some((part, word)) => {
            level(word).filter(|_| !part.is_empty()).map(|level| filter.with_target(part, level))
        }
        None => level(wish).map(|level| filter.with_default(level)),
    };
    wider.with_context(|| {
        format!("{wish} is no level: say error, warn, info, debug, trace or off, or PART=LEVEL, as howdah_front=debug")
    })
}

/// Says something that is for the person who starts a server, in a log that is read by others as one of its lines.
pub(crate) fn announce(text: &str) {
    if is_for_others() {
        tracing::info!("{text}");
    } else {
        say(text);
    }
}

/// Tells why the program fails, and sees to it that it is read.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    failure(error);
    finish();
    ExitCode::FAILURE
}

fn failure(error: &anyhow::Error) {
    if is_for_others() {
        tracing::error!("{error:#}");
    } else {
        say(&format!("{error:#}"));
    }
    outlet::tell_starter(&format!("{error:#}"));
}

/// Says something to the person at the terminal.
pub(crate) fn say(text: &str) {
    write(for_people(&format!("howdah: {text}")).as_bytes());
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
    settle();
}

fn is_for_others() -> bool {
    outlet::is_file() || matches!(look(), Look::Lines(Format::Json) | Look::Journal(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_option_or_of_the_variable_for_each_part() {
        let shown = |given, variable| {
            filter(given, variable).map(|filter| filter.to_string()).map_err(|error| format!("{error:#}"))
        };
        for (given, variable, wanted) in [
            (None, "", "h2=off,info"),
            (None, "debug", "h2=off,debug"),
            (None, "howdah_front=debug", "howdah_front=debug,h2=off,info"),
            (None, "WARN, h2=trace ,", "h2=trace,warn"),
            (Some(Level::Warn), "howdah_front=debug", "h2=off,warn"),
        ] {
            assert_eq!(shown(given, variable).as_deref(), Ok(wanted), "{given:?} {variable}");
        }
        for variable in ["debugg", "howdah_front", "howdah_front=much", "=", "debug=", "[", "\u{fffd}"] {
            let refused = shown(None, variable).unwrap_err();
            let begin = format!("HOWDAH_LOG={variable}: {variable} is no level: say error");
            assert!(refused.starts_with(&begin), "{refused}");
        }
    }
}
