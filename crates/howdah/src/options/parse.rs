//! Reads the command line and the environment: what is to be done, and what is wrong with what was given.

use std::ffi::OsString;

use clap::FromArgMatches;
use clap::error::ErrorKind;
use clap_complete::Shell;

use super::command::{Cli, Command, command};
use super::environment::Inherited;
use super::find::{Form, Heap};
use super::inside::{Profile, Where};
use super::instance::Instance;
use super::serve::Serve;
use super::settings::Setting;
use super::top::Top;
use super::trace::Trace;
use super::{compat, environment, hints, settings, validate};
use crate::protocol::ControlRequest;

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
        request: ControlRequest,
        /// How to print the answer.
        form: Form,
    },
    /// Look at the heap of a worker.
    Heap(Heap),
    /// Watch a running server.
    Top(Top),
    /// Count who runs what.
    Trace(Trace),
    /// Tell where the time of workers goes.
    Profile(Profile),
    /// Tell what workers do now.
    Where(Where),
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
    /// What the environment has set of it.
    pub(crate) inherited: Inherited,
}

/// Reads the command line and the environment.
///
/// # Errors
/// Usage errors, and `--help` and `--version`, as clap reports them: print and exit by `Error::exit`.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, clap::Error> {
    let mut command = command();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(message) = environment::line_end() {
        return Err(command.error(ErrorKind::InvalidValue, message));
    }
    let matches = command
        .try_get_matches_from_mut(&arguments)
        .map_err(|error| hints::explain(error, &mut command, &arguments))?;
    let cli = Cli::from_arg_matches(&matches)?;
    let given = matches.subcommand().map_or(&matches, |(_, given)| given);
    let inherited = Inherited::of(&command, given);
    let finish = |mut serve: Serve| -> Result<Box<Serve>, clap::Error> {
        serve.prefer_command_line(given);
        serve.take_switches(given);
        validate::check(&serve, given)
            .map_err(|(kind, message)| command.clone().error(kind, inherited.named_in(&message)))?;
        Ok(Box::new(serve))
    };
    if let (None, Some(message)) = (&cli.command, hints::mistaken(&cli.serve, &command, given, &arguments)) {
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
        Some(Command::Status { instance, json }) => {
            Action::Ask { instance, request: ControlRequest::Status, form: Form::json_if(json) }
        }
        Some(Command::Reload { instance, pool }) => ask(instance, ControlRequest::Reload { pool }),
        Some(Command::Upgrade { instance }) => ask(instance, ControlRequest::Upgrade),
        Some(Command::Reopen { instance }) => ask(instance, ControlRequest::Reopen),
        Some(Command::Stop { instance, now }) => ask(instance, ControlRequest::Stop { now }),
        Some(Command::Workers { instance, pool, change }) => {
            ask(instance, ControlRequest::Workers { pool, change })
        }
        Some(Command::Leaks(leaks)) => {
            let (form, instance) = (leaks.form(), leaks.instance.clone());
            Action::Ask { instance, request: ControlRequest::Leaks(leaks.wish()), form }
        }
        Some(Command::Heap(heap)) => Action::Heap(heap),
        Some(Command::Top(top)) => Action::Top(top),
        Some(Command::Trace(trace)) => {
            validate::trace(&trace, given).map_err(|(kind, message)| command.clone().error(kind, message))?;
            Action::Trace(trace)
        }
        Some(Command::Profile(options)) => Action::Profile(options),
        Some(Command::Where(options)) => Action::Where(options),
        Some(Command::Man) => Action::Man,
        Some(Command::Completions { shell }) => Action::Completions(shell),
    };
    Ok(Parsed { action, warnings, inherited })
}

fn ask(instance: Instance, request: ControlRequest) -> Action {
    Action::Ask { instance, request, form: Form::Text }
}
