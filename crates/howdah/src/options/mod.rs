//! The command line: every option is declared once, in the file of its group, with name, default, unit
//! and doc; `--help`, `man howdah`, the shell completions, the `HOWDAH_*` variables and `howdah check`
//! all come from that one declaration.
//!
//! `main` calls [`parse`] and gets what is to be done; `configure` turns [`Serve`] into the settings of
//! the front and of the supervisor.

pub(crate) mod app;
mod compat;
mod environment;
mod foreign;
pub(crate) mod guide;
mod hints;
pub(crate) mod instance;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod logs;
pub(crate) mod process;
pub(crate) mod settings;
pub(crate) mod status;
mod validate;
pub(crate) mod values;
pub(crate) mod workers;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use instance::Instance;
use settings::Setting;

use crate::control::protocol::{Change, Request};
use crate::top::Top;

/// Application server for Perl web applications (PSGI)
///
/// Howdah keeps every connection in one native process, the front, and lets blocking Perl workers,
/// forked from a preloaded application, take complete requests from a shared queue.
#[derive(Debug, Parser)]
#[command(name = "howdah", version, disable_version_flag = true, args_conflicts_with_subcommands = true)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
#[command(override_usage = "howdah [serve] [OPTIONS] [APP]\n       howdah check [OPTIONS] [APP]\n       \
    howdah status|top|reload|reopen|upgrade|stop|workers [--name NAME]")]
#[command(after_help = guide::SHORT, after_long_help = guide::long())]
struct Cli {
    /// Print the version
    #[arg(short = 'V', long, short_alias = 'v', action = ArgAction::Version)]
    version: Option<bool>,

    #[command(flatten)]
    serve: Serve,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve an application; what howdah does when no command is named
    #[command(override_usage = "howdah serve [OPTIONS] [APP]")]
    Serve(Box<Serve>),
    /// Compile an application and print the configuration it would be served with
    ///
    /// Takes the options of `serve`, binds nothing, and exits with 1 and Perl's message when the
    /// application does not compile.
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
    /// Load a running server's application anew, and wait for it
    ///
    /// Exits with 1 and Perl's message when the new code does not load; then the old goes on.
    Reload {
        #[command(flatten)]
        instance: Instance,
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
    Workers {
        #[command(flatten)]
        instance: Instance,
        /// 4 for that many, +1 or -1 for more or fewer
        #[arg(value_name = "N", allow_hyphen_values = true)]
        change: Change,
    },
    /// Watch a running server live: rates, latencies, queue, workers and their requests
    ///
    /// Keys are told on its last line. --once prints one look as plain text.
    Top(Top),
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

/// The options of `howdah serve` (and of `howdah check`), by group.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) app: app::App,
    #[command(flatten)]
    pub(crate) listen: listen::Listen,
    #[command(flatten)]
    pub(crate) workers: workers::Workers,
    #[command(flatten)]
    pub(crate) limits: limits::Limits,
    #[command(flatten)]
    pub(crate) logs: logs::Logs,
    #[command(flatten)]
    pub(crate) status: status::Status,
    #[command(flatten)]
    pub(crate) process: process::Process,
    #[command(flatten)]
    pub(crate) instance: Instance,
    #[command(flatten)]
    compat: compat::Compat,
}

impl Serve {
    /// The application, as messages call it.
    pub(crate) fn application(&self) -> &str {
        match self.app.name() {
            _ if self.process.zygote_fd.is_some() => "plackup's application",
            Some(name) => name,
            None => "the code of -e",
        }
    }
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Action {
    /// Serve the application.
    Serve(Box<Serve>),
    /// Compile the application and print these settings.
    Check(Box<Serve>, Vec<Setting>),
    /// Ask a running server.
    Ask {
        /// Which one.
        instance: Instance,
        /// For what.
        request: Request,
        /// Print the answer as JSON.
        json: bool,
    },
    /// Watch a running server.
    Top(Top),
    /// Print the man page.
    Man,
    /// Print a completion script.
    Completions(Shell),
}

/// What was asked for, and what the person who asked should know.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The thing to do.
    pub(crate) action: Action,
    /// Options without effect, unknown variables: one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Reads the command line and the environment.
///
/// # Errors
/// Usage errors, and `--help` and `--version`, as clap reports them: print and exit by `Error::exit`.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, clap::Error> {
    let mut command = command();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let matches = command
        .try_get_matches_from_mut(&arguments)
        .map_err(|error| hints::explain(error, &mut command, &arguments))?;
    let cli = Cli::from_arg_matches(&matches)?;
    let given = matches.subcommand().map_or(&matches, |(_, given)| given);
    let finish = |mut serve: Serve| -> Result<Box<Serve>, clap::Error> {
        serve.prefer_command_line(given);
        validate::check(&serve, given).map_err(|(kind, message)| command.clone().error(kind, message))?;
        Ok(Box::new(serve))
    };
    if let (None, Some(message)) = (&cli.command, hints::mistaken(&cli.serve, &command, given)) {
        return Err(command.error(ErrorKind::UnknownArgument, message));
    }
    let warnings = environment::unknown(&command).into_iter().chain(compat::without_effect(given)).collect();
    let action = match cli.command {
        None => Action::Serve(finish(cli.serve)?),
        Some(Command::Serve(serve)) => Action::Serve(finish(*serve)?),
        Some(Command::Check(serve)) => {
            let serve = finish(*serve)?;
            let settings = settings::effective(&serve, &command, given);
            Action::Check(serve, settings)
        }
        Some(Command::Status { instance, json }) => Action::Ask { instance, request: Request::Status, json },
        Some(Command::Reload { instance }) => ask(instance, Request::Reload),
        Some(Command::Upgrade { instance }) => ask(instance, Request::Upgrade),
        Some(Command::Reopen { instance }) => ask(instance, Request::Reopen),
        Some(Command::Stop { instance, now }) => ask(instance, Request::Stop { now }),
        Some(Command::Workers { instance, change }) => ask(instance, Request::Workers { change }),
        Some(Command::Top(top)) => Action::Top(top),
        Some(Command::Man) => Action::Man,
        Some(Command::Completions { shell }) => Action::Completions(shell),
    };
    Ok(Parsed { action, warnings })
}

fn ask(instance: Instance, request: Request) -> Action {
    Action::Ask { instance, request, json: false }
}

/// The whole command, with each option's environment variable.
pub(crate) fn command() -> clap::Command {
    let command = environment::attach(Cli::command());
    let serving = ["serve", "check"].into_iter();
    let command = serving.fold(command, |command, name| command.mut_subcommand(name, environment::attach));
    let asking = ["status", "top", "reload", "reopen", "upgrade", "stop", "workers"].into_iter();
    asking.fold(command, |command, name| command.mut_subcommand(name, environment::attach_instance))
}

#[cfg(test)]
mod nonsense;
#[cfg(test)]
mod tests;
