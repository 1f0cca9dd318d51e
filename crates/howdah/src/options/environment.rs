//! `HOWDAH_*`: one variable for each option, named by rule so that none can be forgotten.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use howdah_sys::activation::UPGRADE;

use super::foreign;

const PREFIX: &str = "HOWDAH_";

/// Variables that are not options: where things are, what is logged, and what zygotes are told.
const OWN: &[&str] =
    &["HOWDAH_PERL5LIB", "HOWDAH_BIN", "HOWDAH_LOG", "HOWDAH_ZYGOTE", "HOWDAH_CHECK", UPGRADE];

/// Gives each visible option its variable, and `--env` its old one.
pub(super) fn attach(command: Command) -> Command {
    let command = command.mut_args(|arg| match variable(&arg) {
        Some(name) if matches!(arg.get_action(), ArgAction::SetTrue) => {
            arg.env(name).hide_env(true).value_parser(switch)
        }
        // A negative number is then a bad value, with its reason, and not an unknown option.
        Some(name) => arg.env(name).hide_env(true).allow_negative_numbers(true),
        None => arg,
    });
    match std::env::var("PLACK_ENV") {
        Ok(name) if !name.is_empty() => command.mut_arg("env", |arg| arg.default_value(name)),
        _ => command,
    }
}

/// What a switch's variable may say: the words that clap takes, with a message that names them.
fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "y" | "yes" | "t" | "true" | "on" => Ok(true),
        "0" | "n" | "no" | "f" | "false" | "off" => Ok(false),
        _ => Err("a switch is on or off: write 1 or 0".to_owned()),
    }
}

/// Gives the commands that talk to a server the variables that say which. Their options are few: no group of the server's
/// has them in its place.
pub(super) fn attach_instance(command: Command) -> Command {
    let named = |arg: Arg| variable(&arg).map_or(arg.clone(), |name| arg.env(name).hide_env(true));
    command.mut_arg("name", named).mut_arg("control", named).mut_args(|arg| arg.help_heading(None::<&str>))
}

/// `HOWDAH_MAX_QUEUE` for `--max-queue`.
pub(super) fn variable(arg: &Arg) -> Option<String> {
    let switch = matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
    let long = arg.get_long().filter(|_| !arg.is_hide_set() && !switch)?;
    Some(format!("{PREFIX}{}", long.to_ascii_uppercase().replace('-', "_")))
}

/// The options that variables have set: whoever is told of one that is wrong looks for it on the command line.
#[derive(Debug, Default)]
pub(crate) struct Inherited(Vec<(String, String)>);

impl Inherited {
    pub(super) fn of(command: &Command, given: &ArgMatches) -> Inherited {
        let is_set = |arg: &&Arg| {
            let mut ids = given.ids();
            ids.any(|id| id == arg.get_id())
                && given.value_source(arg.get_id().as_str()) == Some(ValueSource::EnvVariable)
        };
        let option = |arg: &Arg| Some((format!("--{}", arg.get_long()?), variable(arg)?));
        Inherited(command.get_arguments().filter(is_set).filter_map(option).collect())
    }

    /// An error, with the variables of the options that it names.
    pub(crate) fn told(&self, error: anyhow::Error) -> anyhow::Error {
        let message = format!("{error:#}");
        let told = self.named_in(&message);
        if told == message { error } else { anyhow::anyhow!(told) }
    }

    /// The same for a message.
    pub(crate) fn named_in(&self, message: &str) -> String {
        let is_named = |option: &String| {
            message.split(|at: char| !at.is_ascii_alphanumeric() && at != '-').any(|word| word == option)
        };
        let named = self.0.iter().filter(|(option, _)| is_named(option)).map(|(_, variable)| has(variable));
        let named: Vec<_> = named.collect();
        if named.is_empty() { message.to_owned() } else { format!("{message} ({})", named.join(", ")) }
    }
}

/// What the environment has in a variable.
pub(super) fn has(variable: &str) -> String {
    let value = std::env::var_os(variable).unwrap_or_default();
    format!("the environment has {variable}={}", value.display())
}

/// A warning for each `HOWDAH_*` variable that sets nothing. Other programs have no business with these names, so it is
/// most likely a mistake; but a program that sets one for itself is not kept from starting.
pub(super) fn unknown(command: &Command) -> Vec<String> {
    let known: Vec<(String, &Arg)> =
        command.get_arguments().filter_map(|arg| Some((variable(arg)?, arg))).collect();
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let is_known = |name: &String| known.iter().any(|(other, _)| other == name);
    let strange =
        set.filter(|name| name.starts_with(PREFIX) && !OWN.contains(&name.as_str()) && !is_known(name));
    let mut strange: Vec<String> = strange.collect();
    strange.sort();
    strange
        .iter()
        .map(|name| format!("{name} is not a variable of Howdah's: {}", way_out(name, &known)))
        .collect()
}

/// The variable that is no text, where clap speaks of arguments alone.
pub(super) fn not_utf8() -> Option<String> {
    let named = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut strange = named.filter(|(name, value)| name.starts_with(PREFIX) && value.to_str().is_none());
    strange.next().map(|(name, _)| has(&name))
}

/// The complaint about a variable with the end of a line as Windows writes it, which no message shows.
pub(super) fn line_end() -> Option<String> {
    let ends = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
        value.as_encoded_bytes().ends_with(b"\r").then_some(name)
    };
    let name = std::env::vars_os().find_map(ends)?;
    Some(format!(
        "{name} ends in a carriage return: the file that sets it has lines as Windows writes them, make them plain \
         (sed -i 's/\\r$//' FILE)"
    ))
}

/// What to set instead.
fn way_out(name: &str, known: &[(String, &Arg)]) -> String {
    let own = name.trim_start_matches(PREFIX);
    let option = own.to_ascii_lowercase().replace('_', "-");
    let by_alias =
        known.iter().find(|(_, arg)| arg.get_all_aliases().unwrap_or_default().contains(&&*option));
    if let Some((variable, _)) = by_alias {
        return format!("write {variable}");
    }
    let names =
        known.iter().map(|(variable, _)| variable.trim_start_matches(PREFIX)).chain(["LOG", "PERL5LIB"]);
    if let Some(instead) = foreign::instead_of(&option) {
        return instead.to_owned();
    }
    match foreign::nearest(own, names) {
        Some(meant) => format!("did you mean {PREFIX}{meant}?"),
        None => "it sets nothing; howdah --help lists the options, each of which has a variable".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{variable, way_out};

    #[test]
    fn an_unknown_variable_is_told_with_the_one_that_was_meant() {
        let command = crate::options::command();
        let known: Vec<_> = command.get_arguments().filter_map(|arg| Some((variable(arg)?, arg))).collect();
        for (name, way) in [
            ("HOWDAH_WROKERS", "did you mean HOWDAH_WORKERS?"),
            ("HOWDAH_MAXQUEUE", "did you mean HOWDAH_MAX_QUEUE?"),
            ("HOWDAH_LOGS", "did you mean HOWDAH_LOG?"),
            ("HOWDAH_MAX_WORKERS", "write HOWDAH_WORKERS"),
            ("HOWDAH_PID_FILE", "write HOWDAH_PID"),
            ("HOWDAH_ENABLE_SSL", "name the files of certificate and key"),
            ("HOWDAH_HARAKIRI", "write --request-timeout"),
            ("HOWDAH_COLOUR_OF_THE_CAMEL", "it sets nothing"),
            ("HOWDAH_", "it sets nothing"),
        ] {
            let told = way_out(name, &known);
            assert!(told.starts_with(way), "{name}: {told}");
        }
    }
}
