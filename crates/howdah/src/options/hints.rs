//! The way out, added to clap's messages: what to do instead of an option that only other servers have,
//! and which variable brought a bad value.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

use super::{compat, environment};

/// Completes a usage error; other messages pass unchanged.
pub(super) fn explain(mut error: Error, command: &Command) -> Error {
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => elsewhere(&invalid_argument(&error)),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => from_variable(&error, command),
        _ => None,
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// What to do instead of another server's option.
fn elsewhere(argument: &str) -> Option<String> {
    let name = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
    compat::REFUSED.iter().find(|(refused, _)| *refused == name).map(|(_, instead)| (*instead).to_owned())
}

/// The variable that a refused value came from.
fn from_variable(error: &Error, command: &Command) -> Option<String> {
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
    let argument = invalid_argument(error);
    let arg = command.get_arguments().find(|arg| is_named(arg, &argument))?;
    let variable = environment::variable(arg)?;
    let set = std::env::var(&variable).ok()?;
    set.contains(value.as_str()).then(|| format!("the environment has {variable}={set}"))
}

/// Whether clap means this argument by `--max-queue <N>`.
fn is_named(arg: &Arg, shown: &str) -> bool {
    arg.get_long().is_some_and(|long| shown.split_whitespace().next() == Some(format!("--{long}").as_str()))
}

fn invalid_argument(error: &Error) -> String {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.clone(),
        _ => String::new(),
    }
}
