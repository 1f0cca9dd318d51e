//! Finds the perl that runs the application, and Howdah's own Perl modules for it.
//!
//! `serve` and `check` start from [`Perl::find`]; the supervisor gets the program and the directories.
//! The modules are looked for in `HOWDAH_PERL5LIB`, in the checkout that the program was built in, and in
//! the place where `make install` and local::lib put them; where none of these is there, they are
//! installed as CPAN clients do and perl's own @INC has them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, Output};

use anyhow::{Context, bail};
use howdah_sys::privileges::Identity;
use howdah_sys::shortage::what_to_raise;

/// A perl and the directories of Howdah's modules.
#[derive(Debug, Clone)]
pub(crate) struct Perl {
    /// Absolute path of the interpreter.
    pub(crate) program: PathBuf,
    /// Directories for `-I`. perl adds those for its version and architecture by itself. They hold nothing
    /// but Howdah, so that standing before PERL5LIB they hide no other module.
    pub(crate) library: Vec<PathBuf>,
}

impl Perl {
    /// The perl asked for, or the first in PATH, with the modules that belong to this program.
    ///
    /// # Errors
    /// There is no such program; the message names what was looked for.
    pub(crate) fn find(asked: Option<&Path>) -> anyhow::Result<Self> {
        let asked = asked.unwrap_or_else(|| "perl".as_ref());
        let program = program(asked, env::var_os("PATH"))?;
        let own = env::current_exe().context("cannot tell where the howdah program is")?;
        let library = library(env::var_os("HOWDAH_PERL5LIB"), &own.canonicalize().unwrap_or(own))?;
        Ok(Self { program, library })
    }

    /// Arguments that put Howdah's modules into @INC.
    pub(crate) fn include(&self) -> Vec<OsString> {
        let flag = |dir: &PathBuf| {
            let mut flag = OsString::from("-I");
            flag.push(dir);
            flag
        };
        self.library.iter().map(flag).collect()
    }

    /// `perl -I...`, to be completed, by whom it is to be run.
    pub(crate) fn command(&self, identity: Option<&Identity>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.include());
        identity.iter().for_each(|identity| identity.give(&mut command));
        command
    }

    /// Loads the compiled module once, so that one that was built for another perl is reported in plain
    /// words before anything depends on it. Costs the start of one perl, by whom the application is run.
    ///
    /// # Errors
    /// The modules are missing or do not fit this perl, its debugger would wait for an answer that nobody can give, or it
    /// is told to have handles that change bytes.
    pub(crate) fn probe(&self, identity: Option<&Identity>) -> anyhow::Result<()> {
        // Of any program that is started without it one hears that the program is not there.
        if let Err(error) = File::open("/dev/null") {
            if what_to_raise(&error).is_some() {
                return Err(error).context("cannot open /dev/null");
            }
            bail!(
                "cannot open /dev/null: {error}; a container or a chroot needs it: mknod -m 666 /dev/null c 1 3, in there"
            );
        }
        refuse_prompts(env::var_os("PERL5OPT"), env::var_os("PERLDB_OPTS").as_deref())?;
        refuse_layers(env::var_os("PERLIO"))?;
        // A debugger that PERL5OPT starts is to ask nobody here.
        let mut command = self.command(identity);
        command.env("PERLDB_OPTS", "NonStop=1");
        let run = command.args(["-MHowdah::XS", "-e", "print 1"]).output();
        let whose = if identity.is_some() { " as --user or --group says" } else { "" };
        let output = run.with_context(|| format!("cannot run {}{whose}", self.program.display()))?;
        if output.status.success() && output.stdout == b"1" {
            return Ok(());
        }
        bail!("{}", self.misfit(&output, whose))
    }

    fn misfit(&self, output: &Output, whose: &str) -> String {
        let said = String::from_utf8_lossy(&output.stderr);
        let perl = self.program.display();
        let places: Vec<String> = self.library.iter().map(|dir| dir.display().to_string()).collect();
        let options = env::var_os("PERL5OPT").filter(|options| !options.is_empty());
        let options = options.map(|options| format!("PERL5OPT={} counts for it, too.\n", options.display()));
        let places = if places.is_empty() { "perl's own @INC".to_owned() } else { places.join(" and ") };
        format!(
            "{perl}{whose} cannot load Howdah's Perl modules (looked for in {places}).\n\
             They are missing, must not be read, or were built for another perl: build them with this one (perl Build.PL && ./Build && \
             ./Build install), or name the perl that they were built for by --perl.\n\
             {}perl said: {}",
            options.unwrap_or_default(),
            said.trim_end()
        )
    }
}

/// Perl's debugger stops each perl at its first statement, and asks on a terminal, which the application has not, unless
/// the debugger's own options say something else.
fn refuse_prompts(perl_options: Option<OsString>, debugger_options: Option<&OsStr>) -> anyhow::Result<()> {
    let perl_options = perl_options.unwrap_or_default();
    let debugs = perl_options.to_string_lossy().split_whitespace().any(|word| matches!(word, "-d" | "-dt"));
    if debugs && debugger_options.is_none() {
        bail!(
            "PERL5OPT={} has perl's debugger stop the application before its first statement, where it has no terminal: \
             set PERLDB_OPTS=NonStop=1, and write $DB::single = 1; where it is to stop",
            perl_options.display()
        );
    }
    Ok(())
}

/// `:crlf` takes the carriage returns out of files that are sent, and puts some into what kept scripts print; below `:stdio`
/// there is no place to find out whose lines those of the error log are.
///
/// # Errors
/// With such layers in PERLIO.
pub(crate) fn refuse_layers(layers: Option<OsString>) -> anyhow::Result<()> {
    let layers = layers.unwrap_or_default();
    let names = layers.to_string_lossy();
    let refused = names.split([':', ' ']).find(|name| matches!(*name, "crlf" | "stdio"));
    if let Some(name) = refused {
        let why = if name == "crlf" {
            "takes carriage returns out of the files that the application sends"
        } else {
            "leaves the lines of the error log without process and request"
        };
        bail!(
            "PERLIO={names} {why}: unset PERLIO, and give a handle that is to have layers its own by open or binmode"
        );
    }
    Ok(())
}

/// Where shells look when nothing has told them: some service managers start programs without PATH.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Resolves the name of a program as the shell does.
fn program(asked: &Path, path: Option<OsString>) -> anyhow::Result<PathBuf> {
    if asked.components().count() > 1 || asked.is_absolute() {
        if !is_executable(asked) {
            let why = asked.metadata().err().map_or_else(String::new, |error| format!(": {error}"));
            bail!("{} is no program that can be run{why}: name a perl by --perl", asked.display());
        }
        return Ok(absolute(asked)?);
    }
    // An empty element would be the present directory, and nothing at all is one.
    let path = path.filter(|path| !path.is_empty()).unwrap_or_else(|| USUAL_PATH.into());
    let found = env::split_paths(&path).map(|dir| dir.join(asked)).find(|file| is_executable(file));
    match found {
        Some(file) => Ok(absolute(file)?),
        None => bail!(
            "there is no {} in PATH ({}): install perl, or name one by --perl",
            asked.display(),
            path.display()
        ),
    }
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The first place that has Howdah's modules; empty when they must be in @INC.
fn library(named: Option<OsString>, own: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if let Some(named) = named.filter(|list| !list.is_empty()) {
        return env::split_paths(&named).map(|dir| Ok(absolute(dir)?)).collect();
    }
    let bin = own.parent().unwrap_or_else(|| "/".as_ref());
    let up = bin.parent().unwrap_or(bin);
    let checkout = if up.ends_with("target") { up.parent().unwrap_or(up) } else { up };
    let places = [
        // bin/howdah of a checkout, and its target/release/howdah.
        vec![checkout.join("blib/lib"), checkout.join("blib/arch")],
        // `make install`, then local::lib and Carton.
        vec![up.join("lib/howdah/perl5")],
        vec![up.join("lib/perl5")],
    ];
    Ok(places.into_iter().find(|dirs| dirs.iter().any(|dir| has_howdah(dir))).unwrap_or_default())
}

/// Whether a directory holds Howdah.pm, itself or in its part for some perl's version and architecture.
fn has_howdah(dir: &Path) -> bool {
    dir.join("Howdah.pm").is_file() || subdirectories(dir).iter().any(|sub| has_below(sub))
}

fn has_below(dir: &Path) -> bool {
    dir.join("Howdah.pm").is_file() || subdirectories(dir).iter().any(|sub| sub.join("Howdah.pm").is_file())
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn found(files: &[&str], exe: &str) -> Vec<PathBuf> {
        let root = tree(files);
        let dirs = library(None, &root.path().join(exe)).unwrap();
        dirs.iter().map(|dir| dir.strip_prefix(root.path()).unwrap().to_owned()).collect()
    }

    #[test]
    fn modules_stand_beside_the_program() {
        let blib = [PathBuf::from("blib/lib"), PathBuf::from("blib/arch")];
        for (files, exe, dirs) in [
            (["blib/lib/Howdah.pm"], "bin/howdah", &blib[..]),
            (["blib/lib/Howdah.pm"], "target/release/howdah", &blib),
            (["lib/howdah/perl5/Howdah.pm"], "bin/howdah", &["lib/howdah/perl5".into()]),
            (["lib/howdah/perl5/5.36.0/x86_64/Howdah.pm"], "bin/howdah", &["lib/howdah/perl5".into()]),
            (["lib/perl5/x86_64/Howdah.pm"], "bin/howdah", &["lib/perl5".into()]),
            (["lib/perl5/Other.pm"], "bin/howdah", &[]),
            (["blib/lib/Howdah.pm"], "usr/bin/howdah", &[]),
        ] {
            assert_eq!(found(&files, exe), dirs, "{files:?} {exe}");
        }
    }

    #[test]
    fn howdah_perl5lib_comes_first_and_becomes_absolute() {
        let dirs = library(Some("/one:two".into()), Path::new("/bin/howdah")).unwrap();
        assert_eq!(dirs[0], Path::new("/one"));
        assert!(dirs[1].is_absolute() && dirs[1].ends_with("two"));
    }

    #[test]
    fn a_debugger_that_would_ask_is_refused() {
        for (perl, debugger, refused) in [
            (None, None, false),
            (Some("-Mstrict -w"), None, false),
            (Some("-d:NYTProf"), None, false),
            (Some("-MDevel::Cover=-d"), None, false),
            (Some("-d"), Some("NonStop=1"), false),
            (Some("-d"), None, true),
            (Some("-w -dt"), None, true),
        ] {
            let said = refuse_prompts(perl.map(Into::into), debugger.map(OsStr::new));
            assert_eq!(said.is_err(), refused, "{perl:?} {debugger:?}");
        }
    }

    #[test]
    fn perl_is_taken_from_path_or_from_the_name_given() {
        let root = tree(&["bin/notes"]);
        std::os::unix::fs::symlink("/bin/sh", root.path().join("bin/perl")).unwrap();
        let path = Some(root.path().join("bin").into_os_string());
        assert_eq!(program("perl".as_ref(), path.clone()).unwrap(), root.path().join("bin/perl"));
        assert!(program("notes".as_ref(), path.clone()).unwrap_err().to_string().contains("--perl"));
        for none in [None, Some("".into())] {
            assert!(program("sh".as_ref(), none.clone()).unwrap().is_absolute(), "{none:?}");
            let refused = program("Cargo.toml".as_ref(), none).unwrap_err().to_string();
            assert!(refused.contains("(/usr/local/bin:/usr/bin:/bin)"), "{refused}");
        }
        assert!(program("/no/such/perl".as_ref(), path).unwrap_err().to_string().contains("/no/such/perl"));
    }
}
