//! The way out, added to clap's messages: what to write instead of other servers' options and commands, what a second
//! application may mean, and which variable brought a bad value.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, Error};

use super::serve::Serve;
use super::values::Time;
use super::{environment, foreign};

/// Completes a usage error; other messages pass unchanged.
pub(super) fn explain(mut error: Error, command: &mut Command, arguments: &[OsString]) -> Error {
    if let ErrorKind::UnknownArgument | ErrorKind::ArgumentConflict = error.kind()
        && let Some(message) = words(error.kind(), command, arguments)
    {
        return command.error(error.kind(), message);
    }
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => elsewhere(&invalid_argument(&error)),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            from_variable(&error, command).or_else(|| too_old(&invalid_argument(&error)))
        }
        ErrorKind::InvalidUtf8 => environment::not_utf8(),
        _ => None,
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedValue);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    } else if error.kind() == ErrorKind::UnknownArgument {
        // No application has a name that begins with a dash, and what is hidden is of no use to whoever looks for something.
        error.remove(ContextKind::Suggested);
        if suggests_hidden(&error, command) {
            error.remove(ContextKind::SuggestedArg);
        }
    }
    error
}

fn suggests_hidden(error: &Error, command: &Command) -> bool {
    let Some(ContextValue::String(suggested)) = error.get(ContextKind::SuggestedArg) else { return false };
    command.get_arguments().any(|arg| arg.is_hide_set() && is_named(arg, suggested))
}

/// What the words mean that are no options, where clap understands too little: `howdah start app.psgi`.
fn words(kind: ErrorKind, command: &Command, arguments: &[OsString]) -> Option<String> {
    const MORE: &str = "more";
    if let Some(message) = apart(arguments) {
        return Some(message);
    }
    let lenient = |command: Command| command.arg(Arg::new(MORE).num_args(1..)).ignore_errors(true);
    let named = |reader: Command, name: &str| reader.mut_subcommand(name, lenient);
    let mut reader = ["serve", "check"].into_iter().fold(lenient(super::command::command()), named);
    let matches = reader.try_get_matches_from_mut(arguments).ok()?;
    let (given, commanded) = matches.subcommand().map_or((&matches, false), |(_, given)| (given, true));
    let first = text(given, "app_file").next()?;
    let command_meant = (!commanded)
        .then(|| misplaced(command, &first, arguments).or_else(|| not_a_command(command, &first)))
        .flatten();
    command_meant.or_else(|| {
        let second = text(given, MORE).next().filter(|_| kind == ErrorKind::ArgumentConflict || commanded)?;
        Some(format!(
            "{second} is a second application beside {first}: mount it below a path of its own, as in --mount \
             /admin={second}, or start a howdah for each, told apart by --name"
        ))
    })
}

fn text<'a>(given: &'a ArgMatches, id: &str) -> impl Iterator<Item = String> + 'a {
    let values = given.try_get_raw(id).ok().flatten();
    values.into_iter().flatten().map(|value| value.to_string_lossy().into_owned())
}

/// Why the word in the place of the application is most likely none.
fn not_a_command(command: &Command, word: &str) -> Option<String> {
    let commands: Vec<&str> = commands(command).collect();
    let instead = foreign::instead_of_command(word, &commands)?;
    Some(format!("there is no command '{word}': {instead}"))
}

fn commands(command: &Command) -> impl Iterator<Item = &str> {
    command.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name)
}

/// What to write when the word in the place of the application is a command, behind options.
fn misplaced(command: &Command, word: &str, arguments: &[OsString]) -> Option<String> {
    let is_command = commands(command).any(|name| name == word);
    is_command.then(|| format!("the command comes first: {}", with_command_first(word, arguments)))
}

/// `howdah status --name shop` for `howdah --name shop status`.
fn with_command_first(word: &str, arguments: &[OsString]) -> String {
    let mut rest: Vec<_> = arguments.iter().skip(1).map(|argument| argument.to_string_lossy()).collect();
    // An option's value may be the same word, as in --name stop stop.
    if let Some(at) = rest.iter().rposition(|argument| argument == word) {
        rest.remove(at);
    }
    format!("howdah {word} {}", rest.join(" "))
}

/// The same for a command line in which clap finds nothing wrong. A file or module of that name is an application.
pub(super) fn mistaken(
    serve: &Serve,
    command: &Command,
    given: &ArgMatches,
    arguments: &[OsString],
) -> Option<String> {
    let word = text(given, "app_file").next()?;
    if let Some(message) = apart(arguments) {
        return Some(message);
    }
    let is_there = |dir: &str| {
        let dir = std::path::Path::new(dir);
        dir.join(&word).exists() || dir.join(format!("{word}.pm")).exists()
    };
    let library = std::env::var("PERL5LIB").unwrap_or_default();
    let mut dirs = serve.app.include.iter().map(String::as_str).chain(library.split(':')).chain(["."]);
    if dirs.any(is_there) {
        return None;
    }
    misplaced(command, &word, arguments).or_else(|| {
        let message = not_a_command(command, &word)?;
        Some(format!("{message} (howdah serve {word} loads a module of that name)"))
    })
}

/// What to write when the time of `--hsts` stands apart from it, in the place of the application.
fn apart(arguments: &[OsString]) -> Option<String> {
    let mut pairs = arguments.windows(2).filter(|pair| pair[0] == "--hsts");
    let time = pairs.find_map(|pair| pair[1].to_str().filter(|next| next.parse::<Time>().is_ok()))?;
    Some(format!("--hsts has its time behind an equals sign: write --hsts={time}"))
}

/// What to do instead of another server's option.
fn elsewhere(argument: &str) -> Option<String> {
    let name = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
    foreign::instead_of(name).map(str::to_owned)
}

/// Why there is no version of TLS for clients that speak none of these.
fn too_old(argument: &str) -> Option<String> {
    let tip = "no older TLS is spoken (RFC 8996): a proxy before the server can speak it to clients that have no other";
    argument.starts_with("--tls-min ").then(|| tip.to_owned())
}

/// The variable that a refused value came from.
fn from_variable(error: &Error, command: &Command) -> Option<String> {
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
    let argument = invalid_argument(error);
    let arg = command.get_arguments().find(|arg| is_named(arg, &argument))?;
    let variable = environment::variable(arg)?;
    let set = std::env::var(&variable).ok()?;
    set.contains(value.as_str()).then(|| environment::has(&variable))
}

/// Whether clap means this argument by `--max-queue <N>`, or `--hsts[=<TIME>]`.
fn is_named(arg: &Arg, shown: &str) -> bool {
    let name = shown.split([' ', '[']).next();
    arg.get_long().is_some_and(|long| name == Some(format!("--{long}").as_str()))
}

fn invalid_argument(error: &Error) -> String {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.clone(),
        _ => String::new(),
    }
}
