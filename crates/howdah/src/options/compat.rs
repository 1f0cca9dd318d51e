//! Names that other servers' users bring along.
//!
//! Names with the same meaning are aliases, declared beside the option itself. Here are the rest: options
//! whose wish is already granted (accepted in silence), options that Howdah has no use for (accepted with
//! a warning, so that an old start script still starts), and options whose absence would change what is
//! served (refused, with the way out). Beside them stand options of ours that have no effect without another.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

/// Accepted so that start scripts for plackup, Starman, Starlet, Gazelle and Feersum keep working.
#[derive(Debug, Clone, Args)]
pub(crate) struct Compat {
    #[arg(long, hide = true)]
    preload_app: bool,
    #[arg(long, hide = true)]
    keepalive: bool,
    #[arg(long, hide = true)]
    default_middleware: bool,
    #[arg(long, hide = true)]
    psgix_io: bool,
    // plackup makes `proctitle => ''` of Starman's --disable-proctitle.
    #[arg(long, hide = true)]
    proctitle: Option<String>,

    #[arg(short = 's', long, hide = true, value_name = "SERVER")]
    server: Option<String>,
    #[arg(short = 'L', long, hide = true, value_name = "LOADER")]
    loader: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    min_servers: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    max_servers: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    min_spare_servers: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    max_spare_servers: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    min_reqs_per_child: Option<String>,
    #[arg(long, hide = true, value_name = "SECONDS")]
    spawn_interval: Option<String>,
    #[arg(long, hide = true, value_name = "SECONDS")]
    err_respawn_interval: Option<String>,
    #[arg(long, hide = true, value_name = "SECONDS")]
    timeout: Option<String>,
    #[arg(long, hide = true, value_name = "SECONDS")]
    startup_timeout: Option<String>,
}

/// Accepted with a warning: the option, and why it has no effect.
pub(crate) const IGNORED: &[(&str, &str)] = &[
    ("loader", "the application is always loaded once before the fork; --no-preload loads it in each worker"),
    ("min-servers", "the least number of workers is set by --min-workers"),
    ("max-servers", "the most workers are set by --workers"),
    (
        "min-spare-servers",
        "workers come and go between --min-workers and --workers by how long requests wait",
    ),
    (
        "max-spare-servers",
        "workers come and go between --min-workers and --workers by how long requests wait",
    ),
    ("min-reqs-per-child", "--max-requests already varies by 10 % from worker to worker"),
    ("spawn-interval", "a new worker takes over before the old one leaves, so starts need no pause"),
    ("err-respawn-interval", "the pause before a failed worker is started again grows by itself"),
    (
        "timeout",
        "slow clients are bounded by --header-timeout, --min-body-rate, --write-timeout and --min-send-rate",
    ),
    ("startup-timeout", "the application may take its time to load"),
];

/// Refused, with the way out: the option and what to do instead.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("ssl", TLS),
    ("enable-ssl", TLS),
    ("h2", "leave it out: HTTP/2 is spoken, unless --http2 off is given"),
    ("reverse-proxy", "write --trusted-proxy ADDR: X-Forwarded-* of that proxy are believed"),
    (
        "max-uri-len",
        "bound the request line, in which method and version count, too: --max-request-line SIZE",
    ),
    ("child-exit", "name the code in the application: Howdah->worker_exit(sub { ... })"),
    ("hot-restart", "HUP reloads without stopping"),
];

/// Of no effect without another: the option, the other, and what that is for.
const NEEDING: &[(&str, &str, &str)] = &[
    ("slow-log-file", "slow-log", "--slow-log MS says which requests are slow"),
    ("access-log-format", "access-log", "--access-log TARGET says where requests are logged"),
    ("access-log-compat", "access-log", "--access-log TARGET says where requests are logged"),
];

/// Of no effect under plackup, which has loaded the application, and is what these are for.
const LOADERS: &[&str] =
    &["chdir", "eval", "include", "module", "no-default-middleware", "path", "perl", "reload", "reload-dir"];

const TLS: &str = "name the files of certificate and key: --tls-cert FILE --tls-key FILE";

/// A warning for each option given that has no effect.
pub(super) fn without_effect(given: &ArgMatches) -> Vec<String> {
    let asked = IGNORED.iter().filter(|(name, _)| is_given(given, name));
    let mut warnings: Vec<String> =
        asked.map(|(name, why)| format!("--{name} has no effect: {why}")).collect();
    let server = given.try_get_one::<String>("server").ok().flatten();
    if let Some(other) = server.filter(|name| !name.eq_ignore_ascii_case("howdah")) {
        let address = other.contains(['/', '@'])
            || other.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
        let meant = if address { format!("; to listen there write --listen {other}") } else { String::new() };
        warnings.push(format!("--server {other} has no effect: howdah serves the application itself{meant}"));
    }
    let alone = NEEDING.iter().filter(|(name, needed, _)| is_set(given, name) && !is_set(given, needed));
    warnings
        .extend(alone.map(|(name, needed, why)| format!("--{name} has no effect without --{needed}: {why}")));
    if is_given(given, "zygote-fd") {
        let late = LOADERS.iter().filter(|name| is_set(given, name));
        warnings.extend(late.map(|name| {
            format!("--{name} has no effect under plackup, which has loaded the application: tell plackup, or start howdah itself")
        }));
    }
    warnings.extend(lost_in_background(given));
    warnings
}

/// Logs on a standard output that is no more in the background.
fn lost_in_background(given: &ArgMatches) -> impl Iterator<Item = String> {
    let daemonizes = given.try_get_one("daemonize").ok().flatten() == Some(&true);
    let is_stdout =
        |name: &str| given.try_get_one::<String>(name).ok().flatten().is_some_and(|target| target == "-");
    let logs = [("access-log", "access_log"), ("slow-log-file", "slow_log_file")];
    let lost = logs.into_iter().filter(move |(_, id)| daemonizes && is_stdout(id));
    lost.map(|(name, _)| {
        format!("--{name} - has no effect with --daemonize, which closes standard output: name a file")
    })
}

/// Whether the command line has this option; commands without options have none.
fn is_given(given: &ArgMatches, name: &str) -> bool {
    source(given, name) == Some(ValueSource::CommandLine)
}

/// Whether that or the environment has it.
fn is_set(given: &ArgMatches, name: &str) -> bool {
    source(given, name).is_some_and(|source| source != ValueSource::DefaultValue)
}

fn source(given: &ArgMatches, name: &str) -> Option<ValueSource> {
    let id = name.replace('-', "_");
    matches!(given.try_contains_id(&id), Ok(true)).then(|| given.value_source(&id)).flatten()
}
