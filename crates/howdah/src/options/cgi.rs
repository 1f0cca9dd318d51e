//! `--cgi PATH=DIR|FILE[,OPTION=VALUE]...`: CGI scripts, as a pool of their own.
//!
//! Its options are those of a mount that concern it, and how the scripts are run. What holds for all scripts of the server
//! stands beside it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use howdah_cgi::spec::is_module;

use super::limits::Limits;
use super::mounts;
use super::workers::Workers;

/// What a mount of scripts may have, beside `mode`, `index` and `preload`.
const OPTIONS: [&str; 3] = ["workers", "max-queue", "request-timeout"];

/// How scripts are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// `fork` for scripts whose #! line names a perl, `exec` for all others
    Auto,
    /// A process for each request: any language
    Exec,
    /// As exec, but forked from a perl that has compiled the script
    Fork,
    /// Compiled once and called in a worker, as ModPerl::Registry does
    Keep,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()).as_str(),
        )
    }
}

/// What holds for the scripts of all mounts.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Application")]
pub(crate) struct Cgi {
    /// CGI scripts below PATH, in a directory or one alone (repeatable)
    ///
    /// As PATH=DIR[,OPTION=VALUE]..., as in /cgi-bin=/usr/lib/cgi-bin,workers=8, or PATH=FILE for one script that has all
    /// requests below PATH. With it no other application is needed. OPTION is one of mode, index, preload, workers (scripts
    /// that run at a time, 16 if not given), max-queue and request-timeout. Several may be joined by semicolons.
    #[arg(long, value_name = "PATH=DIR", value_delimiter = ';')]
    pub(crate) cgi: Vec<Scripts>,

    /// How scripts are run
    #[arg(long, hide_short_help = true, value_name = "MODE", default_value = "auto")]
    pub(crate) cgi_mode: Mode,

    /// Variable for all scripts (repeatable)
    ///
    /// Those that say what was requested are the server's own.
    #[arg(long, hide_short_help = true, value_name = "NAME=VALUE")]
    pub(crate) cgi_env: Vec<Variable>,

    /// Variable of the server's own environment that scripts have, too (repeatable)
    ///
    /// PATH is passed on in any case. HTTP_AUTHORIZATION has the field Authorization passed on, which is otherwise kept from
    /// scripts. Several may be joined by commas.
    #[arg(long, hide_short_help = true, value_name = "NAME", value_delimiter = ',')]
    pub(crate) cgi_pass: Vec<Passed>,

    /// Script that answers for a directory (repeatable)
    ///
    /// Several may be joined by commas; the first that is there answers. Without it a directory is 403.
    #[arg(long, hide_short_help = true, value_name = "NAME", value_delimiter = ',', value_parser = index)]
    pub(crate) cgi_index: Vec<String>,

    /// Module or file that is loaded before scripts are compiled (repeatable)
    ///
    /// What a forked script loads when it is first used, each request loads anew; here it is loaded once. A module's name, or a
    /// file's with a slash, as in ./startup.pl. Modes fork and keep. Several may be joined by commas.
    #[arg(long, hide_short_help = true, value_name = "MODULE|FILE", value_delimiter = ',', value_parser = preload)]
    pub(crate) cgi_preload: Vec<String>,

    /// DOCUMENT_ROOT, and what PATH_TRANSLATED lies below [default: the directory of the scripts]
    #[arg(long, hide_short_help = true, value_name = "DIR")]
    pub(crate) document_root: Option<PathBuf>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Scripts {
    /// As that of a mount.
    pub(crate) path: String,
    /// Their directory, or the one script.
    pub(crate) root: PathBuf,
    mode: Option<Mode>,
    index: Vec<String>,
    preload: Vec<String>,
    given: ArgMatches,
}

impl Scripts {
    /// How these are run: its own word, or the server's.
    pub(super) fn mode(&self, all: &Cgi) -> Mode {
        self.mode.unwrap_or(all.cgi_mode)
    }

    /// Scripts that answer for a directory: its own, or the server's.
    pub(super) fn index(&self, all: &Cgi) -> Vec<String> {
        if self.index.is_empty() { all.cgi_index.clone() } else { self.index.clone() }
    }

    /// What is loaded before its scripts: its own list, or the server's.
    pub(super) fn preload<'a>(&'a self, all: &'a Cgi) -> &'a [String] {
        if self.preload.is_empty() { &all.cgi_preload } else { &self.preload }
    }

    /// Puts its own options in the place of the server's.
    pub(super) fn apply(&self, workers: &mut Workers, limits: &mut Limits) -> Result<(), clap::Error> {
        workers.update_from_arg_matches(&self.given)?;
        limits.update_from_arg_matches(&self.given)
    }
}

impl FromStr for Scripts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, rest) = text.split_once('=').unwrap_or((text, ""));
        let path = mounts::parse_path(path, "=DIR")?;
        let mut words = rest.split(',');
        let root = words.next().filter(|root| !root.is_empty());
        let root =
            root.ok_or("write PATH=DIR, as in /cgi-bin=/usr/lib/cgi-bin, or PATH=FILE for one script")?;
        let options = words.map(option).collect::<Result<Vec<_>, _>>()?;
        let (own, shared): (Vec<_>, Vec<_>) =
            options.into_iter().partition(|(name, _)| !OPTIONS.contains(name));
        let (index, preload) = (Vec::new(), Vec::new());
        let mut scripts =
            Self { path, root: root.into(), mode: None, index, preload, given: mounts::read(&shared)? };
        own.into_iter().try_for_each(|(name, value)| scripts.set(name, value))?;
        Ok(scripts)
    }
}

impl Scripts {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "index" => self.index.push(index(value)?),
            "preload" => self.preload.push(preload(value)?),
            _ => self.set_mode(value)?,
        }
        Ok(())
    }

    fn set_mode(&mut self, value: &str) -> Result<(), String> {
        let mode = Mode::from_str(value, false)
            .map_err(|_| format!("'{value}' is no mode: write auto, exec, fork or keep"))?;
        match self.mode.replace(mode) {
            Some(_) => Err("mode is given twice: leave one out".to_owned()),
            None => Ok(()),
        }
    }
}

/// Name and value.
fn option(word: &str) -> Result<(&str, &str), String> {
    let way_out = "give it another name, such as that of a link";
    let (name, value) = word.split_once('=').ok_or_else(|| {
        format!("'{word}' is no OPTION=VALUE; and if it belongs to the directory's name, that has a comma: {way_out}")
    })?;
    let known = ["mode", "index", "preload"].contains(&name) || OPTIONS.contains(&name);
    let none = || {
        format!(
            "'{name}' is none of the options that scripts may have: mode, index, preload, workers, max-queue and request-timeout"
        )
    };
    known.then_some((name, value)).ok_or_else(none)
}

/// The name of a file in any directory.
fn index(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('.') || text.contains('/') {
        return Err("an index is the name of a script, without its directory: write index.cgi".to_owned());
    }
    Ok(text.to_owned())
}

/// The name of a module, or of a file.
fn preload(text: &str) -> Result<String, String> {
    if text.contains('/') || is_module(text) {
        return Ok(text.to_owned());
    }
    Err(format!("'{text}' is no name of a module: write Template::Config, or a file as ./startup.pl"))
}

/// A variable and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as in TZ=UTC")?;
        check_name(name)?;
        if is_servers(name) || name.starts_with("HTTP_") {
            return Err(format!("{name} is for the server to set, from the request: leave it out"));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// The name of a variable that is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passed(pub(crate) String);

impl FromStr for Passed {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        check_name(name)?;
        let secret = ["HTTP_AUTHORIZATION", "HTTP_PROXY_AUTHORIZATION"].contains(&name);
        if name.starts_with("HTTP_") && !secret || is_servers(name) {
            return Err(format!("{name} is for the server to set, from the request: leave it out"));
        }
        Ok(Self(name.to_owned()))
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_name = |(at, byte): (usize, u8)| {
        byte.is_ascii_alphabetic() || byte == b'_' || at > 0 && byte.is_ascii_digit()
    };
    if name.is_empty() || !name.bytes().enumerate().all(is_name) {
        return Err(format!("'{name}' is no name of a variable: that has letters, digits and _"));
    }
    Ok(())
}

/// What each request says itself.
fn is_servers(name: &str) -> bool {
    const NAMES: [&str; 20] = [
        "CONTENT_LENGTH",
        "CONTENT_TYPE",
        "DOCUMENT_ROOT",
        "GATEWAY_INTERFACE",
        "PATH_INFO",
        "PATH_TRANSLATED",
        "QUERY_STRING",
        "REMOTE_ADDR",
        "REMOTE_HOST",
        "REMOTE_PORT",
        "REQUEST_METHOD",
        "REQUEST_SCHEME",
        "REQUEST_URI",
        "SCRIPT_FILENAME",
        "SCRIPT_NAME",
        "SERVER_NAME",
        "SERVER_PORT",
        "SERVER_PROTOCOL",
        "SERVER_SOFTWARE",
        "UNIQUE_ID",
    ];
    NAMES.contains(&name)
}

/// The directory of scripts, for one its own.
pub(crate) fn directory(root: &Path) -> &Path {
    if root.is_dir() { root } else { root.parent().unwrap_or(root) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_scripts_is_a_path_and_a_place_and_options() {
        for (text, path, root, mode, index) in [
            ("/cgi-bin=/usr/lib/cgi-bin", "/cgi-bin", "/usr/lib/cgi-bin", None, &[][..]),
            ("/gitweb=a b.cgi", "/gitweb", "a b.cgi", None, &[]),
            ("/=.", "/", ".", None, &[]),
            ("/old/=x=y,mode=keep", "/old", "x=y", Some(Mode::Keep), &[]),
            ("/a=x,index=i.cgi,mode=exec,index=j.pl", "/a", "x", Some(Mode::Exec), &["i.cgi", "j.pl"]),
            ("/a=x,workers=3,max-queue=9,request-timeout=5m", "/a", "x", None, &[]),
        ] {
            let scripts: Scripts = text.parse().unwrap();
            assert_eq!(
                (&*scripts.path, scripts.root.to_str().unwrap(), scripts.mode),
                (path, root, mode),
                "{text}"
            );
            assert_eq!(scripts.index, index, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused_with_the_way_out() {
        for (text, words) in [
            ("", "begins with a slash"),
            ("cgi-bin=x", "write /cgi-bin=DIR"),
            ("/cgi-bin", "write PATH=DIR"),
            ("/cgi-bin=,mode=exec", "write PATH=DIR"),
            ("/a%20b=x", "decoded"),
            ("/a/../b=x", "no path"),
            ("/a=b,c", "has a comma: give it another name"),
            ("/a=x,mode=fast", "'fast' is no mode: write auto, exec, fork or keep"),
            ("/a=x,mode=EXEC", "'EXEC' is no mode"),
            ("/a=x,mode=exec,mode=fork", "mode is given twice"),
            ("/a=x,workers=1,workers=2", "workers is given twice"),
            ("/a=x,workers=0", "workers=0: not a whole number from 1"),
            ("/a=x,request-timeout=soon", "not a time"),
            ("/a=x,index=", "write index.cgi"),
            ("/a=x,index=sub/x.cgi", "write index.cgi"),
            ("/a=x,index=..", "write index.cgi"),
            ("/a=x,preload=", "'' is no name of a module"),
            ("/a=x,preload=startup.pl", "write Template::Config, or a file as ./startup.pl"),
            ("/a=x,max-memory=1g", "'max-memory' is none of the options that scripts may have: mode, "),
        ] {
            let error = text.parse::<Scripts>().unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn variables_have_names_and_are_not_the_servers() {
        for (text, expected) in [
            ("TZ=UTC", Ok(("TZ", "UTC"))),
            ("A_1=b=c,d;e", Ok(("A_1", "b=c,d;e"))),
            ("EMPTY=", Ok(("EMPTY", ""))),
            ("HTTPS=on", Ok(("HTTPS", "on"))),
            ("TZ", Err("write NAME=VALUE")),
            ("=x", Err("no name of a variable")),
            ("1A=x", Err("no name of a variable")),
            ("A-B=x", Err("'A-B' is no name of a variable")),
            ("HTTP_PROXY=x", Err("HTTP_PROXY is for the server to set")),
            ("SCRIPT_NAME=x", Err("SCRIPT_NAME is for the server to set")),
        ] {
            match (text.parse::<Variable>(), expected) {
                (Ok(variable), Ok(expected)) => assert_eq!((&*variable.name, &*variable.value), expected),
                (Err(error), Err(words)) => assert!(error.contains(words), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        for (name, is_good) in [
            ("TZ", true),
            ("HTTP_AUTHORIZATION", true),
            ("HTTP_PROXY", false),
            ("HTTP_COOKIE", false),
            ("PATH_INFO", false),
            ("A=b", false),
            ("", false),
        ] {
            assert_eq!(name.parse::<Passed>().is_ok(), is_good, "{name}");
        }
    }
}
