//! The commands of `howdah`, and which options each has.

use clap::{ArgAction, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use super::find::{Heap, Leaks};
use super::inside::{Profile, Where};
use super::instance::Instance;
use super::serve::Serve;
use super::top::Top;
use super::trace::Trace;
use super::{environment, guide, workers};
use crate::protocol::Change;

/// Application server for Perl web applications (PSGI)
///
/// Howdah keeps every connection in one native process, the front, and lets blocking Perl workers,
/// forked from a preloaded application, take complete requests from a shared queue.
#[derive(Debug, Parser)]
#[command(name = "howdah", version, long_version = long_version(), disable_version_flag = true)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true, max_term_width = 100)]
#[command(override_usage = "howdah [serve] [OPTIONS] [APP]\n       howdah check [OPTIONS] [APP]\n       \
    howdah status|top|where|profile|leaks|heap|trace [--name NAME]\n       \
    howdah reload|reopen|upgrade|stop|workers [--name NAME]")]
#[command(after_help = guide::SHORT, after_long_help = guide::long())]
pub(super) struct Cli {
    /// Print the version; the long option also what in the build is not a release's
    #[arg(short = 'V', long, short_alias = 'v', action = ArgAction::Version)]
    version: Option<bool>,

    #[command(flatten)]
    pub(super) serve: Serve,

    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// The version, and behind it what it was built with, if that is not what a release is built with.
fn long_version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match env!("HOWDAH_BUILT_WITH") {
        "" => String::from(version),
        settings => format!("{version} (not built as a release: {settings})"),
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve an application; what howdah does when no command is named
    #[command(override_usage = "howdah serve [OPTIONS] [APP]")]
    Serve(Box<Serve>),
    /// Compile an application and print the configuration it would be served with
    ///
    /// Takes the options of `serve`, and exits with 1 when a start would fail: with Perl's message when the application
    /// does not compile, and with the reason when there is no such user or group, a certificate or key does not fit, or a log or
    /// the --pid file cannot be written. It binds nothing, so an address that is taken shows at the start alone.
    #[command(override_usage = "howdah check [OPTIONS] [APP]")]
    Check(Box<Serve>),
    /// Print what a running server does
    ///
    /// Without --name and --control it lists all servers of the machine.
    Status {
        #[command(flatten)]
        instance: Instance,
        /// As one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Load a running server's applications anew, and wait for them
    ///
    /// Exits with 1 and Perl's message when the new code does not load; then the old goes on.
    Reload {
        #[command(flatten)]
        instance: Instance,
        /// The one that is mounted at this path [default: all]
        #[arg(long, value_name = "PATH")]
        pool: Option<String>,
    },
    /// Replace a running server by the program that is at its path now, and wait for it
    ///
    /// Exits with 1 and the reason when the new one does not come to serve; then the old goes on.
    Upgrade {
        #[command(flatten)]
        instance: Instance,
    },
    /// Open a running server's log files anew, after they were rotated
    ///
    /// Exits with 1 and the reason when one cannot be opened; then the old one goes on.
    Reopen {
        #[command(flatten)]
        instance: Instance,
    },
    /// Stop a running server, and wait until it is gone
    Stop {
        #[command(flatten)]
        instance: Instance,
        /// Cut running requests off
        #[arg(long)]
        now: bool,
    },
    /// Change a running server's number of workers
    ///
    /// A server has room for twice its --workers, but at least for 32. Who asks for more gets as many, and the exit status 1.
    Workers {
        #[command(flatten)]
        instance: Instance,
        /// Those of the application that is mounted at this path
        #[arg(long, value_name = "PATH")]
        pool: Option<String>,
        /// 4 for that many, +1 or -1 for more or fewer
        #[arg(value_name = "N", allow_hyphen_values = true)]
        change: Change,
    },
    /// Find objects that outlive their requests, in the workers of a running server
    ///
    /// The workers note for a while what is blessed, and where; what is left then is reported, by class, line and route.
    /// Nobody has to be restarted. It ends earlier when it is interrupted, or all these workers have left.
    Leaks(Leaks),
    /// Write the heap of a running worker into a file, or print what holds the objects of a class
    ///
    /// The worker forks between two requests and goes on; its child writes, in the format of Devel::MAT.
    Heap(Heap),
    /// Watch a running server live: rates, latencies, queue, workers and their requests
    ///
    /// Keys are told on its last line. --once prints one look as plain text.
    Top(Top),
    /// Count which processes run which programs, or make how many processes
    ///
    /// Those of a running server, or with --all of the machine: who (as the process was called before), what (the program,
    /// or the script that it is), and how often. Needs root.
    Trace(Trace),
    /// Tell what each worker does now: its request, the Perl code, what it waits for
    ///
    /// Looks from outside, without a word to the worker; needs the right to read its memory, which root has.
    Where(Where),
    /// Find where the time of requests goes: a flame graph, and the hottest subs, lines and routes
    ///
    /// Looks at the workers many times a second, from outside, as `howdah where` does once.
    Profile(Profile),
    /// Print the man page, in roff
    #[command(hide = true)]
    Man,
    /// Print a completion script
    #[command(hide = true)]
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
}

/// The whole command, with each option's environment variable.
pub(crate) fn command() -> clap::Command {
    let served = |command| environment::attach(workers::bounded(command));
    let serving = ["serve", "check"].into_iter();
    let command = serving.fold(served(Cli::command()), |command, name| command.mut_subcommand(name, served));
    let asking = [
        "status", "top", "reload", "reopen", "upgrade", "stop", "workers", "trace", "leaks", "heap", "where",
        "profile",
    ]
    .into_iter();
    asking.fold(command, |command, name| command.mut_subcommand(name, environment::attach_instance))
}
