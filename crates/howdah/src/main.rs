//! The `howdah` command: reads the command line and hands over.
//!
//!     options     what may be asked for: every option declared once
//!     serve       runs the server until its end
//!     processes   what it may start, and the launcher that does
//!     launchers   tells what becomes of the launchers
//!     parts       ties the front and the supervisor together
//!     confine     gives up the rights that a front does not need
//!     estate      listeners, control socket, pid file: made, inherited or handed over
//!     signals     what signals mean
//!     control     the control socket, and the commands that use it
//!     operations  what an operator may do to a running server
//!     descriptors the limit of open files, and what of it is kept from clients
//!     deadline    replaces workers that are stuck
//!     access      the access log
//!     status      knows the state of the server and makes the pages that show it
//!     top         shows a running server live in a terminal
//!     watch       reloads when files change
//!     manager     what the service manager is told
//!     upgrade     replaces this program by a newer one; heir is the newer one's side
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
mod confine;
mod control;
mod deadline;
mod descriptors;
mod disconnect;
mod estate;
mod generate;
mod heir;
mod launchers;
mod locate;
mod log;
mod manager;
mod operations;
mod options;
mod parts;
mod pidfile;
mod processes;
mod serve;
mod signals;
mod status;
mod top;
mod upgrade;
mod watch;

use std::process::ExitCode;

use options::{Action, Parsed};

fn main() -> ExitCode {
    if let Some(code) = processes::be_launcher() {
        return code;
    }
    let Parsed { action, warnings } =
        options::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    for warning in warnings {
        log::say(&format!("warning: {warning}"));
    }
    let outcome = match action {
        Action::Serve(options) => serve::run(*options),
        Action::Check(options, settings) => check::run(&options, &settings),
        Action::Ask { instance, request, json } => control::client::run(&instance, request, json),
        Action::Top(top) => top::run(&top),
        Action::Man => generate::man(),
        Action::Completions(shell) => generate::completions(shell),
    };
    let code = outcome.unwrap_or_else(|error| failed(&error));
    log::finish();
    code
}

/// Tells why the command failed, and sees to it that it is read.
fn failed(error: &anyhow::Error) -> ExitCode {
    log::failure(error);
    log::finish();
    ExitCode::FAILURE
}
