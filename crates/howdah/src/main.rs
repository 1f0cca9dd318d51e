//! The `howdah` command: reads the command line and hands over.
//!
//! It is read from here down: a file uses those that stand below it.
//!
//!     serve       runs the server until its end
//!     announce    says that requests are welcome, and where
//!     parts       ties the front and the applications together
//!     application one application: its shared memory, its supervisor and who watch its workers
//!     processes   what it may start, and the launcher that does
//!     launchers   tells what becomes of the launchers
//!     upgrade     replaces this program by a newer one
//!     confine     gives up the rights that a front does not need
//!     check       compiles the application, looks for what a start needs, and prints the effective configuration
//!     descriptors the limit of open files, and what of it is kept from clients
//!     stack       the limit of the stack
//!     endpoints   listeners, control socket, pid file: made, inherited or handed over
//!     handover    the newer program's side of an upgrade
//!     pidfile     the file that says which process to signal
//!     signals     what signals mean
//!     watch       reloads when files change
//!     deadline    replaces workers that are stuck
//!     disconnect  interrupts workers whose client has left
//!     top         shows a running server live in a terminal; without_top is there when that is not built
//!     trace       counts who runs which programs
//!     inside      looks into the workers of a running server
//!     over        when a command that looks for a while ends
//!     control     the control socket, and the commands that use it
//!     findings    what an operator asks the workers
//!     operations  what an operator may do to a running server
//!     pools       the applications that run, asked one by one or together
//!     inquiry     asks workers, and takes what they answer
//!     manager     what the service manager is told
//!     configure   turns options into the settings of both
//!     scripts     turns options into what runs CGI scripts
//!     spool       whether large bodies find a place
//!     perl        finds perl and Howdah's own Perl modules
//!     access      the access log
//!     status      knows the state of the server and makes the pages that show it
//!     tls         certificates: loaded, read anew, handed over
//!     acme        certificates: ordered from an authority when they are due
//!     log         the error log
//!     reopening   a log that is opened anew
//!     generate    man page and completions from the declarations of options
//!     options     what may be asked for: every option declared once
//!     output      what commands print
//!     directory   that of a path, and whether something could be made there
//!     shortage    what to raise where the system gives no more
//!     protocol    what is said on the control socket
//!     wish        what somebody wants of the running server
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is the program; its output is for people"
)]

mod serve;
mod announce;
mod parts;
mod application;
mod processes;
mod launchers;
mod upgrade;
mod confine;
mod check;
mod descriptors;
mod stack;
mod socket_files;
mod endpoints;
mod handover;
mod pidfile;
mod signals;
mod watch;
mod deadline;
mod disconnect;
#[cfg_attr(not(feature = "top"), path = "without_top.rs")]
mod top;
mod trace;
mod inside;
mod over;
mod control;
mod findings;
mod operations;
mod pools;
mod inquiry;
mod manager;
mod configure;
mod scripts;
mod spool;
mod perl;
mod access;
mod status;
mod tls;
mod acme;
mod log;
mod reopening;
mod generate;
mod options;
mod output;
mod directory;
mod shortage;
mod protocol;
mod wish;

/// The snapshot of which the tests of every rendering are made.
#[cfg(test)]
#[path = "../../metrics/tests/common/mod.rs"]
mod fixture;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use howdah_sys::Allocator;
use options::{Action, Parsed};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    howdah_sys::process::forget_inherited_signals();
    if let Err(error) = stack::suffice() {
        return log::failed(&error);
    }
    if let Some(code) = processes::be_launcher().or_else(processes::be_host) {
        return code;
    }
    let Parsed { action, warnings, inherited } = match options::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(answer) => return tell(&answer),
    };
    for warning in warnings {
        log::say(&format!("warning: {warning}"));
    }
    let outcome = match action {
        Action::Serve(options) => serve::run(*options, &inherited),
        Action::Check(options, settings) => {
            check::run(&options, &settings, &inherited).map_err(shortage::crowded)
        }
        Action::Ask { instance, request, form } => control::client::run(&instance, &request, form),
        Action::Heap(heap) => control::heap::run(&heap),
        Action::Top(top) => top::run(&top),
        Action::Trace(trace) => trace::run(&trace),
        Action::Profile(options) if options.nytprof => control::nytprof::run(&options),
        Action::Profile(options) => inside::profile::run(&options),
        Action::Where(options) => inside::now::run(&options),
        Action::Man => generate::man(),
        Action::Completions(shell) => generate::completions(shell),
    };
    let code =
        outcome.map_err(shortage::short_of_files).unwrap_or_else(|error| log::failed(&inherited.told(error)));
    log::finish();
    code
}

/// A mistake in the command line, or the help that was asked for, which must have been printed for a status of 0.
fn tell(answer: &clap::Error) -> ExitCode {
    match answer.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if !answer.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            log::failed(&anyhow::Error::from(error).context(output::WHERE))
        }
        _ => ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(1)),
    }
}
