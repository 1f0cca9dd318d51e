//! The `howdah` command: reads the command line and hands over.
//!
//!     options     what may be asked for: every option declared once
//!     serve       ties the front and the supervisor together and runs them
//!     deadline    replaces workers that are stuck
//!     access      the access log
//!     signals     what signals mean
//!     log, pidfile
//!     check       compiles the application and prints the effective configuration
//!     configure   turns options into the settings of both
//!     locate      finds perl and Howdah's own Perl modules
//!     generate    man page and completions from the same declarations
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is the program; its output is for people"
)]

mod access;
mod check;
mod configure;
mod deadline;
mod generate;
mod locate;
mod log;
mod options;
mod pidfile;
mod serve;
mod signals;

use std::process::ExitCode;

use options::{Action, Parsed};

fn main() -> ExitCode {
    let Parsed { action, warnings } =
        options::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    for warning in warnings {
        eprintln!("howdah: warning: {warning}");
    }
    let outcome = match action {
        Action::Serve(options) => serve::run(*options),
        Action::Check(options, settings) => check::run(&options, &settings),
        Action::Man => generate::man(),
        Action::Completions(shell) => generate::completions(shell),
    };
    outcome.unwrap_or_else(|error| failed(&error))
}

/// Tells why the command failed.
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("howdah: {error:#}");
    ExitCode::FAILURE
}
