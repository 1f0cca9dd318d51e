//! `HOWDAH_*`: one variable for each option, named by rule so that none can be forgotten.

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command};
use howdah_sys::activation::UPGRADE;

const PREFIX: &str = "HOWDAH_";

/// Variables that are not options: where things are, what is logged, and what zygotes are told.
const OWN: &[&str] =
    &["HOWDAH_PERL5LIB", "HOWDAH_BIN", "HOWDAH_LOG", "HOWDAH_ZYGOTE", "HOWDAH_CHECK", UPGRADE];

/// Gives each visible option its variable, and `--env` its old one.
pub(super) fn attach(command: Command) -> Command {
    let command = command.mut_args(|arg| match variable(&arg) {
        Some(name) if matches!(arg.get_action(), ArgAction::SetTrue) => {
            arg.env(name).hide_env(true).value_parser(BoolishValueParser::new())
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

/// Gives the commands that talk to a server the variables that say which.
pub(super) fn attach_instance(command: Command) -> Command {
    let named = |arg: Arg| variable(&arg).map_or(arg.clone(), |name| arg.env(name).hide_env(true));
    command.mut_arg("name", named).mut_arg("control", named)
}

/// `HOWDAH_MAX_QUEUE` for `--max-queue`.
pub(super) fn variable(arg: &Arg) -> Option<String> {
    let switch = matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
    let long = arg.get_long().filter(|_| !arg.is_hide_set() && !switch)?;
    Some(format!("{PREFIX}{}", long.to_ascii_uppercase().replace('-', "_")))
}

/// A warning for each `HOWDAH_*` variable that is nearly, but not quite, an option's.
pub(super) fn misspelt(command: &Command) -> Vec<String> {
    let known: Vec<String> = command.get_arguments().filter_map(variable).collect();
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let strange =
        set.filter(|name| name.starts_with(PREFIX) && !OWN.contains(&name.as_str()) && !known.contains(name));
    strange
        .filter_map(|name| {
            nearest(&name, &known)
                .map(|meant| format!("{name} is not a variable of Howdah's; did you mean {meant}?"))
        })
        .collect()
}

/// The known name that a slip of the hand could have turned into this one.
fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let own = |name: &str| name.trim_start_matches(PREFIX).to_owned();
    let alike = |other: &str| strsim::normalized_damerau_levenshtein(&own(name), &own(other));
    let scored = known.iter().map(|other| (alike(other), other));
    scored.filter(|(score, _)| *score >= 0.75).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_misspelt_variable_finds_its_neighbour_and_a_foreign_one_does_not() {
        let known = ["HOWDAH_WORKERS".to_owned(), "HOWDAH_MAX_QUEUE".to_owned()];
        assert_eq!(nearest("HOWDAH_WROKERS", &known), Some(&known[0]));
        assert_eq!(nearest("HOWDAH_MAXQUEUE", &known), Some(&known[1]));
        assert_eq!(nearest("HOWDAH_BENCH_SECONDS", &known), None);
        assert_eq!(nearest("HOWDAH_BIN", &["HOWDAH_PID".to_owned()]), None);
    }
}
