//! `--mount PATH=FILE[,OPTION=VALUE]...`: an application beside the first.
//!
//! Its options are those of the server under the same names, read by the same declarations; what is not given is the
//! server's. `pools` puts the two together.

use std::str::FromStr;

use clap::builder::Resettable;
use clap::error::ContextKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::limits::Limits;
use super::workers::Workers;

/// What may differ from one application to another.
const OPTIONS: [&str; 9] = [
    "workers",
    "min-workers",
    "max-requests",
    "max-lifetime",
    "max-memory",
    "refork",
    "max-queue",
    "max-upgrades",
    "request-timeout",
];

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    /// As PATH_INFO has it, decoded, without a slash at its end; `/` for all that is mounted nowhere else.
    pub(crate) path: String,
    /// A .psgi file, or a module.
    pub(crate) app: String,
    given: ArgMatches,
}

impl Mount {
    /// Puts its own options in the place of the server's.
    pub(super) fn apply(&self, workers: &mut Workers, limits: &mut Limits) -> Result<(), clap::Error> {
        workers.update_from_arg_matches(&self.given)?;
        limits.update_from_arg_matches(&self.given)
    }

    /// Whether this one is its own.
    pub(super) fn has(&self, id: &str) -> bool {
        self.given.contains_id(id)
    }
}

impl FromStr for Mount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, rest) = text.split_once('=').unwrap_or((text, ""));
        let path = parse_path(path, "=FILE")?;
        let mut words = rest.split(',');
        let app =
            words.next().filter(|app| !app.is_empty()).ok_or("write PATH=FILE, as in /admin=admin.psgi")?;
        if app.contains('=') {
            return Err(format!("'{app}' has an equals sign, {RENAME}"));
        }
        let options = words.map(parse_option).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { path, app: app.to_owned(), given: read(&options)? })
    }
}

const RENAME: &str = "as no file of a mount may: give it another name, such as that of a link";

/// A path as PATH_INFO has it; `behind` it stands that in what is to be written.
pub(super) fn parse_path(text: &str, behind: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("a path begins with a slash: write /{text}{behind}"));
    }
    if text.contains('%') {
        return Err("write the path decoded, as the application sees it: without %".to_owned());
    }
    let path = text.strip_suffix('/').unwrap_or(text);
    let odd = |segment: &str| ["", ".", ".."].contains(&segment);
    if path.split('/').skip(1).any(odd) || path.contains(|c: char| c.is_control() || "?#".contains(c)) {
        return Err(format!("'{text}' is no path that a request could have: write one such as /admin"));
    }
    Ok(if path.is_empty() { "/".to_owned() } else { path.to_owned() })
}

/// Name and value.
fn parse_option(word: &str) -> Result<(&str, &str), String> {
    let Some((name, value)) = word.split_once('=') else {
        return Err(format!(
            "'{word}' is no OPTION=VALUE; and if it belongs to the file's name, that has a comma, {RENAME}"
        ));
    };
    if OPTIONS.contains(&name) {
        return Ok((name, value));
    }
    let (last, others) = OPTIONS.split_last().unwrap_or((&"", &[]));
    Err(format!("'{name}' is none of the options that a mount may have: {} and {last}", others.join(", ")))
}

/// By the declarations of the server's options, of which the defaults are left out.
pub(super) fn read(options: &[(&str, &str)]) -> Result<ArgMatches, String> {
    for (at, (name, _)) in options.iter().enumerate() {
        if options[..at].iter().any(|(other, _)| other == name) {
            return Err(format!("{name} is given twice: leave one out"));
        }
    }
    let command = Command::new("mount").no_binary_name(true).disable_help_flag(true);
    let command = Limits::augment_args_for_update(Workers::augment_args_for_update(command));
    let command = command.mut_args(|arg| arg.default_value(Resettable::Reset));
    let words = options.iter().map(|(name, value)| format!("--{name}={value}"));
    command.try_get_matches_from(words).map_err(|error| {
        // The whole mount is shown before this, and may have several options.
        let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let (option, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
        let option = option.trim_start_matches('-').split(' ').next().unwrap_or_default();
        let why = std::error::Error::source(&error).map(|why| format!("{option}={value}: {why}"));
        why.unwrap_or_else(|| {
            error.to_string().trim_start_matches("error: ").lines().next().unwrap_or_default().to_owned()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_a_path_and_a_file_and_options() {
        for (text, path, app) in [
            ("/admin=admin.psgi", "/admin", "admin.psgi"),
            ("/admin/=a b.psgi", "/admin", "a b.psgi"),
            ("/=./site", "/", "./site"),
            ("/a/b=My::App,workers=2,max-memory=1g", "/a/b", "My::App"),
            ("/caf\u{e9}=x", "/caf\u{e9}", "x"),
        ] {
            let mount: Mount = text.parse().unwrap();
            assert_eq!((&*mount.path, &*mount.app), (path, app), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused_with_the_way_out() {
        for (text, words) in [
            ("", "begins with a slash"),
            ("admin=x.psgi", "write /admin=FILE"),
            ("http://x/=x.psgi", "begins with a slash"),
            ("/admin", "write PATH=FILE"),
            ("/admin=", "write PATH=FILE"),
            ("/admin=,workers=1", "write PATH=FILE"),
            ("//=x", "no path"),
            ("/a//b=x", "no path"),
            ("/a/../b=x", "no path"),
            ("/a?b=x", "no path"),
            ("/a%20b=x", "decoded"),
            ("/a=b=c.psgi", "'b=c.psgi' has an equals sign"),
            ("/a=b,c.psgi", "has a comma"),
            ("/a=x,", "no OPTION=VALUE"),
            ("/a=x,wokers=1", "'wokers' is none of the options that a mount may have: workers, "),
            ("/a=x,max-body-size=1", "'max-body-size' is none"),
            ("/a=x,max-queue=7,workers=0", "workers=0: not a whole number from 1"),
            ("/a=x,max-memory=lots", "not a size"),
            ("/a=x,workers=1,workers=2", "workers is given twice"),
        ] {
            let error = text.parse::<Mount>().unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
