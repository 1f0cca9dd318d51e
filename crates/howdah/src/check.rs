//! `howdah check`: compiles the application as a zygote would and by the same user, and each Perl script of CGI, looks for what
//! else a start needs, and prints the configuration.
//!
//! Perl's own messages go to stderr as they come; the table goes to stdout, one option a line.

mod perl_scripts;
mod surroundings;

use std::io;
use std::process::{ExitCode, Stdio};

use anyhow::Context;
use howdah_sys::privileges::{self, Identity};

use crate::descriptors;
use crate::options::cgi::Mode;
use crate::options::pools::Pool;
use crate::options::settings::Setting;
use crate::options::{Inherited, Serve};
use crate::output;
use crate::perl::Perl;
use perl_scripts::Findings;

/// Loads the application in a process of its own; the variable keeps quotes and names out of the code. An application that
/// ends perl, or becomes another program, has not been loaded, whatever the status: it is [`LOADED`] only behind all that is
/// run here. This END was there before the application's and runs after them. Kept scripts are loaded if all of them are.
const LOAD: &str = "my $loaded; END { $? = $loaded ? 86 : $? == 86 ? 1 : $? } \
    my %spec = Howdah::ZygoteSpec->read(delete $ENV{HOWDAH_CHECK}); \
    Howdah::Loader->enter(%spec); Howdah::Loader->load(%spec); \
    exit 1 if Howdah::CGI::Keep->can('failed') && Howdah::CGI::Keep->failed; $loaded = 1";
/// The exit status of perl when the application is loaded.
const LOADED: i32 = 86;

/// Prints the settings, and whether the application compiles and could be started: exit status 0 or 1.
pub(crate) fn run(options: &Serve, settings: &[Setting], inherited: &Inherited) -> anyhow::Result<ExitCode> {
    // As a start does, and as the application will find it.
    descriptors::raise_limit();
    let faults = surroundings::faults(options);
    let doubts = surroundings::doubts(options);
    doubts.iter().chain(&faults).for_each(|fault| eprintln!("howdah: {}", inherited.named_in(fault)));
    let perl = Perl::find(options.app.perl.as_deref())?;
    let Ok(identity) = options.process.identity() else {
        // That has been told. Nobody else is to run the application's code.
        return Ok(ExitCode::FAILURE);
    };
    perl.probe(identity.as_ref())?;
    let pools = options.pools();
    let loaded = pools.iter().map(|pool| is_loaded(options, pool, &perl, identity.as_ref()));
    let loaded: Vec<bool> = loaded.collect::<anyhow::Result<_>>()?;
    if pools.iter().any(|pool| pool.cgi.is_some()) {
        become_user(options)?;
    }
    let found: Vec<_> =
        pools.iter().map(|pool| look_at(options, pool, &perl)).collect::<anyhow::Result<_>>()?;
    let compiled = found.into_iter().collect::<Option<Vec<_>>>();
    let compiled = compiled.filter(|_| faults.is_empty() && !loaded.contains(&false));
    let Some(compiled) = compiled else {
        return Ok(ExitCode::FAILURE);
    };
    let library = perl.library.iter().map(|dir| format!("Howdah's Perl modules: {}", dir.display()));
    let lines: String = compiled.into_iter().chain(library).map(|line| line + "\n").collect();
    output::write(lines + "\n" + &table(settings))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether there is an application that loads, or one that need not. What is wrong with one is told.
fn is_loaded(options: &Serve, pool: &Pool, perl: &Perl, identity: Option<&Identity>) -> anyhow::Result<bool> {
    if pool.cgi.is_some() && !is_kept(pool) {
        return Ok(true);
    }
    let what = match compile(options, pool, perl, identity)? {
        Some(LOADED) => return Ok(true),
        Some(0) => "ends perl while it is loaded (exit status 0)",
        _ if is_kept(pool) => "do not all compile: see the messages above",
        _ => "does not compile: see perl's message above",
    };
    eprintln!("howdah: {} {what}", pool.application);
    Ok(false)
}

fn is_kept(pool: &Pool) -> bool {
    pool.cgi.as_ref().is_some_and(|cgi| cgi.mode == Mode::Keep)
}

/// From now on files are those that scripts can read.
fn become_user(options: &Serve) -> anyhow::Result<()> {
    let process = &options.process;
    privileges::become_user(process.user.as_deref(), process.group.as_deref()).map_err(anyhow::Error::msg)
}

/// What compiles, in a sentence. None when a script does not, which was told then.
fn look_at(options: &Serve, pool: &Pool, perl: &Perl) -> anyhow::Result<Option<String>> {
    let Some(spec) = options.scripts_of(pool, perl) else {
        return Ok(Some(format!("{} compiles with {}", pool.application, perl.program.display())));
    };
    let findings = Findings::of(&spec, !is_kept(pool))
        .with_context(|| format!("cannot look at {}", spec.root.display()))?;
    findings.doubts.iter().for_each(|doubt| eprintln!("howdah: {doubt}"));
    findings.bad.iter().for_each(|bad| eprintln!("howdah: {bad}"));
    let compiles = findings.bad.is_empty();
    Ok(compiles.then(|| format!("{} compile: {}", pool.application, findings.counted())))
}

/// The status with which perl exits; none when a signal ends it.
fn compile(
    options: &Serve,
    pool: &Pool,
    perl: &Perl,
    identity: Option<&Identity>,
) -> anyhow::Result<Option<i32>> {
    let mut command = perl.command(identity);
    command.args(["-MHowdah::Loader", "-MHowdah::ZygoteSpec", "-e", LOAD]);
    command.env("HOWDAH_CHECK", options.zygote(pool).encode(None));
    // What the application prints while it loads must not mix with the table.
    command.stdin(Stdio::null()).stdout(io::stderr());
    let status = command.status().with_context(|| format!("cannot run {}", perl.program.display()))?;
    Ok(status.code())
}

/// Names, values and origins in columns.
fn table(settings: &[Setting]) -> String {
    let width = |of: fn(&Setting) -> &str| settings.iter().map(|s| of(s).chars().count()).max().unwrap_or(0);
    let (names, values) = (width(|s| &s.name), width(|s| &s.value).min(40));
    settings.iter().map(|s| format!("{:names$}  {:values$}  {}\n", s.name, s.value, s.origin)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned() {
        let row = |name: &str, value: &str, origin: &str| Setting {
            name: name.into(),
            value: value.into(),
            origin: origin.into(),
        };
        let text = table(&[row("workers", "4", "default"), row("pid", "/run/x.pid", "HOWDAH_PID")]);
        assert_eq!(text, "workers  4           default\npid      /run/x.pid  HOWDAH_PID\n");
    }
}
