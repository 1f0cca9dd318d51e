//! Words that people bring along from uWSGI, hypnotoad, Gunicorn and others, and what to write here instead. None of them is
//! accepted, since none means quite the same; names that do are aliases, beside the option itself.
//!
//! `hints` and `environment` look them up when something is unknown.

use super::compat::REFUSED;

const TLS: &str = "write --listen tls:ADDR --tls-cert FILE --tls-key FILE";
const LISTEN: &str = "write --listen ADDR, as in --listen :8080";
const PROTOCOL: &str =
    "only HTTP is spoken: --listen ADDR, and in nginx proxy_pass instead of uwsgi_pass or fastcgi_pass";
const WORKERS: &str = "write --workers N; each runs one request at a time";
const TIMEOUT: &str = "write --request-timeout TIME: the client gets 504, the worker is replaced";
const MEMORY: &str = "write --max-memory SIZE: a worker that has more for itself is replaced";
const MERCY: &str = "write --graceful-timeout TIME";
const ERRORS: &str = "write --error-log FILE; requests go to --access-log FILE";
const REQUESTS: &str =
    "write --access-log FILE, with --access-log-format; without it requests are not logged";
const FILE: &str = "there is no configuration file: give options, or variables such as HOWDAH_WORKERS=8";
const MASTER: &str = "leave it out: the front is always there and watches the workers";
const ALWAYS: &str = "leave it out: it is always so";
const IDLE: &str = "write --keepalive-timeout TIME for idle connections; --header-timeout and --write-timeout are for slow ones";
const CONNECTIONS: &str =
    "leave it out: connections cost no worker; --workers says how many requests may run";

const PROXY: &str = "write --trusted-proxy ADDR: X-Forwarded-* of that proxy are believed";
const GROWTH: &str =
    "leave it out: --min-workers N is where their number begins, and requests that wait raise it";
const STATIC: &str = "let the application serve files: -e 'enable \"Static\", path => qr{^/static}' app.psgi";
const STARTER: &str = "give it to start_server itself";
const MODE: &str = "write -E NAME, which Mojolicious takes for its mode";
const CHECK: &str = "run howdah check APP";
const HEAD: &str =
    "leave it out: the head of a request may have 64 KiB, and its first line --max-request-line SIZE";

/// An option without its dashes, and the way out.
pub(super) const OPTIONS: &[(&str, &str)] = &[
    // uWSGI
    ("http", LISTEN),
    ("http-socket", LISTEN),
    ("https", TLS),
    ("https-socket", TLS),
    ("uwsgi-socket", PROTOCOL),
    ("fastcgi-socket", PROTOCOL),
    ("scgi-socket", PROTOCOL),
    ("protocol", PROTOCOL),
    ("abstract-socket", "write --listen unix:@NAME"),
    ("psgi", "name the application as an argument: howdah app.psgi"),
    ("uid", "write --user USER, by name or number"),
    ("gid", "write --group GROUP, by name or number"),
    ("master", MASTER),
    ("processes", WORKERS),
    ("threads", WORKERS),
    ("enable-threads", ALWAYS),
    ("cheaper", "write --min-workers N, below --workers"),
    ("cheaper-algo", GROWTH),
    ("cheaper-initial", GROWTH),
    ("cheaper-step", GROWTH),
    ("async", WORKERS),
    ("thunder-lock", "leave it out: the front accepts for all workers"),
    ("single-interpreter", "leave it out: a worker is a perl of its own"),
    ("harakiri", TIMEOUT),
    ("harakiri-verbose", "leave it out: the log has the request, and where in the Perl code it was"),
    ("http-timeout", IDLE),
    ("socket-timeout", IDLE),
    ("http-keepalive", "leave it out: connections are kept for --keepalive-timeout"),
    ("reload-on-rss", MEMORY),
    ("reload-on-as", MEMORY),
    ("evil-reload-on-rss", MEMORY),
    ("evil-reload-on-as", MEMORY),
    ("max-worker-lifetime", "write --max-lifetime TIME"),
    ("reload-mercy", MERCY),
    ("worker-reload-mercy", MERCY),
    ("pidfile", "write --pid FILE"),
    ("safe-pidfile", "write --pid FILE"),
    ("logto", ERRORS),
    ("logto2", ERRORS),
    ("logger", ERRORS),
    ("req-logger", REQUESTS),
    ("log-format", REQUESTS),
    ("logformat", REQUESTS),
    ("log-slow", "write --slow-log MS"),
    ("log-reopen", "run howdah reopen, or send USR1"),
    ("touch-logreopen", "run howdah reopen, or send USR1"),
    ("daemonize2", "write --daemonize, and --error-log FILE"),
    ("disable-logging", "leave it out: requests are logged only with --access-log"),
    ("chmod-socket", "write --socket-mode MODE"),
    ("chown-socket", "the socket belongs to whoever starts howdah; --socket-mode MODE says who may connect"),
    ("vacuum", "leave it out: the files of sockets and --pid are removed at the end"),
    ("die-on-term", "leave it out: TERM stops the server"),
    ("need-app", "leave it out: when the application does not load, howdah does not start"),
    ("lazy-apps", "write --no-preload"),
    ("lazy", "write --no-preload"),
    ("touch-reload", "run howdah reload, or send HUP; --reload watches the application's files"),
    ("stats", "run howdah status --json; --metrics-path is for Prometheus"),
    ("buffer-size", HEAD),
    ("log-x-forwarded-for", PROXY),
    ("post-buffering", "leave it out: a body is read before a worker is asked, a large one into --spool-dir"),
    ("limit-post", "write --max-body-size SIZE"),
    ("static-map", STATIC),
    ("check-static", STATIC),
    ("offload-threads", "leave it out: the front sends files and what clients read slowly"),
    ("perl-local-lib", "write -I DIR, or set PERL5LIB"),
    ("perl-auto-reload", "write --reload"),
    ("max-fd", "set it where howdah is started (ulimit -n, systemd's LimitNOFILE=)"),
    ("no-orphans", "leave it out: workers end with the server"),
    ("strict", "leave it out: what is unknown is refused"),
    ("memory-report", "run howdah status"),
    ("attach-daemon", "start it apart, by a unit of its own"),
    ("ini", FILE),
    ("xml", FILE),
    ("yaml", FILE),
    ("config", FILE),
    ("plugin", "leave it out: there are none"),
    ("plugins", "leave it out: there are none"),
    ("procname", "write --name NAME"),
    ("procname-prefix", "write --name NAME"),
    ("auto-procname", "leave it out: titles tell what processes do, unless --no-proctitle is given"),
    ("emperor", "start a howdah for each application, told apart by --name; deploy/ has systemd units"),
    // hypnotoad, and Mojolicious's prefork
    ("foreground", "leave it out: howdah stays in the foreground without -D"),
    ("f", "leave it out: howdah stays in the foreground without -D"),
    ("stop", "run howdah stop"),
    ("test", CHECK),
    ("t", "run howdah check APP; for a time limit write --request-timeout TIME"),
    ("mode", MODE),
    ("m", MODE),
    ("accepts", "write --max-requests N, which counts requests"),
    ("clients", CONNECTIONS),
    ("c", CONNECTIONS),
    ("requests", "write --keepalive-requests N; --max-requests is for a worker's"),
    ("inactivity-timeout", IDLE),
    ("i", IDLE),
    ("keep-alive-timeout", "write --keepalive-timeout TIME"),
    ("k", "write --keepalive-timeout TIME"),
    ("heartbeat-timeout", TIMEOUT),
    ("heartbeat-interval", TIMEOUT),
    ("spare", "leave it out: a new worker is ready before an old one leaves"),
    ("proxy", PROXY),
    ("w", WORKERS),
    ("P", "write --pid FILE"),
    // Gunicorn
    ("worker-class", WORKERS),
    ("worker-connections", CONNECTIONS),
    ("worker-tmp-dir", "write --spool-dir DIR for large bodies; nothing else is written there"),
    ("max-requests-jitter", "leave it out: the number varies by 10 % from worker to worker"),
    ("keep-alive", "write --keepalive-timeout TIME"),
    ("preload", "leave it out: the application is loaded before the fork, unless --no-preload is given"),
    ("certfile", TLS),
    ("keyfile", TLS),
    ("ca-certs", "write --tls-client-ca FILE"),
    ("access-logfile", REQUESTS),
    ("access-logformat", REQUESTS),
    ("log-file", ERRORS),
    ("error-logfile", ERRORS),
    ("capture-output", "leave it out: what the application writes to standard error is in the error log"),
    ("statsd-host", "write --metrics-path PATH, for Prometheus"),
    ("limit-request-fields", HEAD),
    ("limit-request-field_size", HEAD),
    ("forwarded-allow-ips", PROXY),
    ("proxy-allow-from", "write --proxy-protocol, with --trusted-proxy ADDR for whose word counts"),
    ("umask", "set it where howdah is started (umask, systemd's UMask=); --socket-mode MODE is for sockets"),
    ("check-config", CHECK),
    ("print-config", CHECK),
    ("initgroups", "leave it out: --user has the groups of that user"),
    ("reuse-port", "leave it out: the front accepts for all workers"),
    // start_server
    ("interval", STARTER),
    ("signal-on-hup", STARTER),
    ("signal-on-term", STARTER),
    // Others
    ("bind", LISTEN),
    ("b", "write --listen ADDR to listen there, --backlog N for the kernel's queue"),
    ("d", "write -D or --daemonize"),
];

/// What to do instead of an option of another server.
pub(super) fn instead_of(name: &str) -> Option<&'static str> {
    REFUSED.iter().chain(OPTIONS).find(|(other, _)| *other == name).map(|(_, instead)| *instead)
}

/// A command that people expect, and the one that there is.
const COMMANDS: &[(&str, &str)] = &[
    ("start", "howdah APP serves an application, in the background with -D"),
    ("run", "howdah APP serves an application"),
    ("daemon", "howdah APP serves an application, in the background with -D"),
    ("prefork", "howdah APP serves an application, by --workers N processes"),
    ("psgi", "howdah APP serves an application"),
    (
        "restart",
        "howdah reload loads the application anew, howdah upgrade replaces the program; neither loses a request",
    ),
    ("graceful", "howdah reload loads the application anew, howdah stop stops gracefully"),
    ("quit", "howdah stop stops a server"),
    ("kill", "howdah stop --now stops a server at once"),
    ("shutdown", "howdah stop stops a server"),
    ("ps", "howdah status shows what runs"),
    ("list", "howdah status shows what runs"),
    ("ls", "howdah status shows what runs"),
    ("info", "howdah status shows what runs"),
    ("scale", "howdah workers N changes the number of workers"),
    ("rotate", "howdah reopen opens the log files anew"),
    ("test", "howdah check APP compiles an application and shows the configuration"),
    ("configtest", "howdah check APP compiles an application and shows the configuration"),
    ("config", "howdah check APP compiles an application and shows the configuration"),
    ("help", "howdah --help tells all"),
    ("version", "howdah --version prints it"),
];

/// What somebody wants who writes this word for a command; `commands` are those that there are.
pub(super) fn instead_of_command(word: &str, commands: &[&str]) -> Option<String> {
    if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
        return None;
    }
    let known = COMMANDS.iter().find(|(other, _)| *other == word).map(|(_, instead)| (*instead).to_owned());
    known.or_else(|| Some(format!("did you mean howdah {}?", nearest(word, commands.iter().copied())?)))
}

/// The known name that a slip of the hand could have turned into this one.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|other| (strsim::normalized_damerau_levenshtein(name, other), other));
    scored.filter(|(score, _)| *score >= 0.75).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::command;

    fn ours() -> Vec<String> {
        let mut command = command();
        command.build();
        let long = |arg: &clap::Arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long().into_iter().chain(aliases).map(str::to_owned).collect::<Vec<_>>()
        };
        let all = [&command].into_iter().chain(command.get_subcommands());
        all.flat_map(clap::Command::get_arguments).flat_map(long).collect()
    }

    #[test]
    fn what_is_recommended_exists() {
        let ours = ours();
        let instead = OPTIONS.iter().chain(COMMANDS).map(|(_, instead)| *instead);
        for word in instead.flat_map(str::split_whitespace) {
            let word = word.trim_end_matches([',', ';', ':']);
            if let Some(name) = word.strip_prefix("--") {
                assert!(ours.iter().any(|own| own == name), "{word}");
            }
        }
    }

    #[test]
    fn no_answer_hides_an_option_or_a_command_of_ours() {
        let ours = ours();
        let serving = command();
        for (name, _) in REFUSED.iter().chain(OPTIONS) {
            let own = serving.get_arguments().any(|arg| arg.get_long() == Some(name));
            let short =
                serving.get_arguments().any(|arg| arg.get_short().map(String::from).as_deref() == Some(name));
            assert!(!own && !short, "--{name}");
        }
        for (name, _) in COMMANDS {
            assert!(serving.find_subcommand(name).is_none(), "{name}");
        }
        assert!(ours.len() > 40);
    }

    #[test]
    fn words_near_a_command_find_it_and_modules_do_not() {
        let commands = ["status", "reload", "stop", "workers"];
        for (word, part) in [
            ("stats", "howdah status?"),
            ("relaod", "howdah reload?"),
            ("start", "-D"),
            ("worker", "howdah workers?"),
        ] {
            assert!(instead_of_command(word, &commands).is_some_and(|text| text.contains(part)), "{word}");
        }
        for word in ["Stats", "MyApp", "app", "catalyst", "app.psgi", ""] {
            assert_eq!(instead_of_command(word, &commands), None, "{word}");
        }
    }
}
