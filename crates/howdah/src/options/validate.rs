//! Checks across options, and which of command line and environment wins where options belong together.

use std::path::Path;

use clap::ArgMatches;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use howdah_front::Address;

use super::cgi::Mode;
use super::listener::Named;
use super::pools::Pool;
use super::serve::Serve;
use super::tls::Tls;
use super::trace::Trace;
use crate::directory::unseen;

type Fault = (ErrorKind, String);

/// Finds combinations that make no sense.
pub(super) fn check(serve: &Serve, given: &ArgMatches) -> Result<(), Fault> {
    // Before the applications, which are looked for in that of --chdir.
    directories(serve)?;
    if serve.process.zygote_fd.is_none() {
        application(serve, given)?;
        mounts(serve)?;
        scripts(serve)?;
    } else {
        under_plackup(serve)?;
    }
    listeners(serve, given)?;
    privileges(serve)?;
    if serve.workers.fewest_exceeds() {
        return conflict("--min-workers is above --workers: lower the one or raise the other");
    }
    reforks(serve)?;
    logs(serve)
}

/// Clap would not have --all beside a name that the environment has for all commands.
pub(super) fn trace(trace: &Trace, given: &ArgMatches) -> Result<(), Fault> {
    match ["name", "control"].iter().find(|id| trace.all && on_command_line(given, id)) {
        Some(id) => conflict(&format!(
            "--all cannot be used with --{id}: the one is the whole machine, the other a server"
        )),
        None => Ok(()),
    }
}

fn under_plackup(serve: &Serve) -> Result<(), Fault> {
    let options = [("--mount", !serve.app.mount.is_empty()), ("--cgi", !serve.cgi.cgi.is_empty())];
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => conflict(&format!(
            "{option} does not work under plackup, which has loaded the one application: start howdah itself"
        )),
        None => Ok(()),
    }
}

fn listeners(serve: &Serve, given: &ArgMatches) -> Result<(), Fault> {
    let requests = serve.listen.listeners();
    let pages: Vec<_> = serve.status.listeners().cloned().collect();
    let and = |more: &[Named]| [requests.as_slice(), more].concat();
    let redirects: Vec<_> = serve.tls.redirects().cloned().collect();
    let fault = serve
        .tls
        .fault(&serve.listen, &pages, |id| is_given(given, id))
        .or_else(|| serve.proxies.fault(&and(&redirects), serve.status.listeners()))
        .or_else(|| given_twice("", &and(&redirects)))
        .or_else(|| given_twice("--status-listen ", &pages))
        .or_else(|| included(&[&and(&redirects)[..], &pages].concat()))
        .or_else(|| serve.listen.mode_fault(serve.status.listeners()))
        .or_else(|| serve.status.fault(&requests));
    fault.map_or(Ok(()), |fault| conflict(&fault))
}

fn privileges(serve: &Serve) -> Result<(), Fault> {
    let needs_root = [("--user", serve.process.user.is_some()), ("--group", serve.process.group.is_some())];
    match needs_root.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if !is_root() => {
            conflict(&format!("{option} needs root: start howdah as root, or leave the option out"))
        }
        _ => Ok(()),
    }
}

fn logs(serve: &Serve) -> Result<(), Fault> {
    if let Some(fault) = serve.logs.fault() {
        return Err((ErrorKind::InvalidValue, fault));
    }
    serve.logs.format().map(drop).map_err(|error| (ErrorKind::InvalidValue, format!("{error:#}")))
}

fn directories(serve: &Serve) -> Result<(), Fault> {
    directory("--chdir", serve.app.chdir.as_deref())?;
    let root = serve.cgi.document_root.as_deref().map(|root| serve.absolute(root));
    directory("--document-root", root.as_deref())?;
    directory("--spool-dir", serve.limits.spool_dir.as_deref())
}

/// An address that is among them twice. The kernel finds another port each time that it chooses one.
fn given_twice(option: &str, named: &[Named]) -> Option<String> {
    let is_fixed = |address: &Address| !matches!(address, Address::Any(0) | Address::Host(_, 0));
    let is_twice = |at: usize, address: &Address| named[..at].iter().any(|other| other.address == *address);
    let mut all = named.iter().map(|named| &named.address).enumerate();
    let twice = all.find(|(at, address)| is_fixed(address) && is_twice(*at, address));
    twice.map(|(_, address)| {
        format!("{option}{address} is given twice: leave one out, or name another address")
    })
}

fn included(named: &[Named]) -> Option<String> {
    let pairs = named.iter().flat_map(|every| named.iter().map(move |one| (&every.address, &one.address)));
    let (every, one) = pairs.into_iter().find(|(every, one)| every.includes(one))?;
    Some(format!("{one} is among the addresses of {every}: leave one out, or name another port"))
}

/// A worker that becomes the zygote shares what it has with all that come.
fn reforks(serve: &Serve) -> Result<(), Fault> {
    for pool in serve.pools().iter().filter(|pool| !pool.workers.reforks().is_empty()) {
        let whose = if pool.name == "/" { String::new() } else { format!(" of {}", pool.name) };
        if let Some(number) = pool.workers.unreachable_refork() {
            return conflict(&format!(
                "--refork {number}{whose} is never reached: --max-requests replaces each worker before; raise that or lower \
                 the number"
            ));
        }
        if serve.app.no_preload {
            return conflict(&format!(
                "--refork{whose} and --no-preload exclude each other: an application that each worker must load for itself \
                 is not to be shared"
            ));
        }
        if serve.app.leak_report {
            return conflict(
                "--refork and --leak-report exclude each other: the report is of what each worker does by itself",
            );
        }
    }
    Ok(())
}

fn application(serve: &Serve, given: &ArgMatches) -> Result<(), Fault> {
    if on_command_line(given, "app") && on_command_line(given, "app_file") {
        return conflict("the application is named twice, by --app and as an argument: leave one out");
    }
    let Some(name) = serve.app() else { return Ok(()) };
    // With --path, a mount at the root would not do either.
    let only_mounts = serve.app.named().is_none() && !serve.app.mount.is_empty() && serve.app.path.is_none();
    let by_option = if serve.app.is_by_option() { "--app: " } else { "" };
    existing(serve, name).map_err(|(kind, message)| match only_mounts {
        true => (kind, format!("{message}; if there is to be none but those of --mount, mount one at /")),
        false => (kind, format!("{by_option}{message}")),
    })
}

fn mounts(serve: &Serve) -> Result<(), Fault> {
    let pools = serve.pools();
    let first = usize::from(serve.has_first());
    for (at, mount) in serve.app.mount.iter().enumerate() {
        let option = format!("--mount {}", mount.path);
        unique(&option, &pools, first + at, serve.has_first())?;
        existing(serve, &mount.app).map_err(|(kind, message)| (kind, format!("{option}: {message}")))?;
        if mount.has("min_workers") && pools[first + at].workers.fewest_exceeds() {
            return conflict(&format!(
                "{option}: min-workers is above workers: lower the one or raise the other"
            ));
        }
    }
    Ok(())
}

fn scripts(serve: &Serve) -> Result<(), Fault> {
    let pools = serve.pools();
    let first = pools.len() - serve.cgi.cgi.len();
    for (at, scripts) in serve.cgi.cgi.iter().enumerate() {
        let option = format!("--cgi {}", scripts.path);
        unique(&option, &pools, first + at, serve.has_first())?;
        let root = serve.absolute(&scripts.root);
        let shown = scripts.root.display();
        if let Some(why) = unseen(&root) {
            return Err((ErrorKind::Io, format!("{option}: {shown} {why}")));
        }
        if !root.exists() {
            let message =
                format!("{option}: there is no {shown}: name the directory of the scripts, or one script");
            return Err((ErrorKind::Io, message));
        }
        let pool = pools[first + at].cgi.as_ref().filter(|cgi| cgi.mode != Mode::Exec);
        let mut files = pool.into_iter().flat_map(|cgi| &cgi.preload).filter(|what| what.contains('/'));
        if let Some(file) = files.find(|file| !Path::new(file).exists()) {
            let why = unseen(file.as_ref()).unwrap_or_else(|| "there is no such file".to_owned());
            return Err((ErrorKind::Io, format!("{option}: --cgi-preload {file}: {why}")));
        }
    }
    Ok(())
}

/// That no other pool has the path of one.
fn unique(option: &str, pools: &[Pool], at: usize, has_first: bool) -> Result<(), Fault> {
    let Some(other) = pools[..at].iter().position(|other| other.name == pools[at].name) else {
        return Ok(());
    };
    let (other, is_first) = (&pools[other], other == 0 && has_first);
    if is_first || other.cgi.is_some() != pools[at].cgi.is_some() {
        return conflict(&format!(
            "{option}: {} is there already: mount one of the two elsewhere, or leave it out",
            other.application
        ));
    }
    conflict(&format!("{option} is given twice: mount one of the two elsewhere, or leave it out"))
}

fn existing(serve: &Serve, name: &str) -> Result<(), Fault> {
    let path = serve.app.chdir.as_deref().unwrap_or_else(|| ".".as_ref()).join(name);
    if is_module(name) || (path.exists() && !path.is_dir()) {
        return Ok(());
    }
    let shown = path.strip_prefix(".").unwrap_or(&path).display().to_string();
    let shown = if name.is_empty() { "without a name" } else { &shown };
    if let Some(why) = unseen(&path) {
        return Err((ErrorKind::Io, format!("the application {shown} {why}")));
    }
    let message = format!(
        "there is no application {shown}: name a .psgi file, or a module by its bare name, or give code by -e"
    );
    Err((ErrorKind::Io, message))
}

/// plackup's rule: a name of letters, digits, `_` and `:` is a module's.
fn is_module(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':')
}

fn directory(option: &str, path: Option<&Path>) -> Result<(), Fault> {
    match path {
        Some(path) if !path.is_dir() => {
            let why = unseen(path).unwrap_or_else(|| "there is no such directory".to_owned());
            Err((ErrorKind::Io, format!("{option} {}: {why}", path.display())))
        }
        _ => Ok(()),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn conflict<T>(message: &str) -> Result<T, Fault> {
    Err((ErrorKind::ArgumentConflict, message.to_owned()))
}

fn on_command_line(given: &ArgMatches, id: &str) -> bool {
    given.value_source(id) == Some(ValueSource::CommandLine)
}

/// Whether that or the environment has it.
fn is_given(given: &ArgMatches, id: &str) -> bool {
    given.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue)
}

impl Serve {
    /// `HOWDAH_HSTS` may be a switch, since it cannot be there without a value.
    pub(super) fn take_switches(&mut self, given: &ArgMatches) {
        if given.value_source("hsts") == Some(ValueSource::EnvVariable) {
            let word = given.get_raw("hsts").and_then(|mut values| values.next());
            self.tls.hsts = match word.and_then(|word| word.to_str()) {
                Some("0") => None,
                Some("1") => Tls::default_hsts(),
                _ => self.tls.hsts,
            };
        }
    }

    /// Listeners and applications named on the command line replace those of the environment; host and
    /// port are one listener, so each keeps the other.
    pub(super) fn prefer_command_line(&mut self, given: &ArgMatches) {
        let inherited = |id: &str| given.value_source(id) == Some(ValueSource::EnvVariable);
        let pair = on_command_line(given, "host") || on_command_line(given, "port");
        if !pair && !on_command_line(given, "listen") && !on_command_line(given, "socket") {
            return;
        }
        if inherited("listen") {
            self.listen.listen.clear();
        }
        if inherited("socket") {
            self.listen.socket = None;
        }
        if !pair {
            self.listen.host = None;
            self.listen.port = None;
        }
    }
}
