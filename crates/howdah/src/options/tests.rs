//! The command line as people write it. Variables of the environment are tested by t/00-unit, in
//! processes of their own.

use std::ffi::OsString;

use clap::error::ErrorKind;
use howdah_front::PagePath;

use super::{Action, Serve, command, parse};
use crate::protocol::{Change, ControlRequest};

fn arguments(line: &str) -> Vec<OsString> {
    std::iter::once("howdah").chain(line.split_whitespace()).map(OsString::from).collect()
}

/// Parses a line that serves code, so that no file is needed.
fn serve(line: &str) -> Serve {
    match parse(arguments(&format!("-e sub{{}} {line}"))).unwrap().action {
        Action::Serve(serve) => *serve,
        other => panic!("{other:?}"),
    }
}

fn refusal(line: &str) -> (ErrorKind, String) {
    let error = parse(arguments(line)).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn the_declarations_are_sound() {
    command().debug_assert();
}

#[test]
fn every_visible_option_has_help_and_a_group() {
    for arg in command().get_arguments().filter(|arg| !arg.is_hide_set()) {
        assert!(arg.get_help().is_some(), "{arg} has no help");
        let general = arg.is_positional() || ["help", "version"].contains(&arg.get_id().as_str());
        assert!(general || arg.get_help_heading().is_some(), "{arg} has no heading");
    }
}

#[test]
fn a_mount_has_the_servers_options_unless_it_has_its_own() {
    let line = "--workers 8 --min-workers 3 --max-requests 9 --request-timeout 5s \
        --mount /a=Some::App --mount /b=Some::App,workers=2,max-requests=0,request-timeout=0;/c=Some::App,max-queue=7";
    let pools = serve(line).pools();
    let seen = pools.iter().map(|pool| {
        let workers = &pool.workers;
        let counts = [workers.count(), workers.fewest(), workers.max_queue];
        (pool.name.as_str(), counts, workers.max_requests, pool.request_timeout.to_string())
    });
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("/", [8, 3, 1024], 9, "5s".to_owned()),
            ("/a", [8, 3, 1024], 9, "5s".to_owned()),
            ("/b", [2, 2, 1024], 0, "0".to_owned()),
            ("/c", [8, 3, 7], 9, "5s".to_owned()),
        ]
    );
}

#[test]
fn an_application_is_called_by_its_path() {
    for (line, names) in [
        ("", "/ "),
        ("--path /a/b/", "/a/b /a/b"),
        ("--path /a --mount /=Some::App", "/a /a, / "),
        ("--mount /a/=Some::App", "/ , /a /a"),
    ] {
        let pools = serve(line).pools();
        let seen = pools.iter().map(|pool| format!("{} {}", pool.name, pool.mount.as_deref().unwrap_or("")));
        assert_eq!(seen.collect::<Vec<_>>().join(", "), names, "{line}");
    }
}

#[test]
fn scripts_need_no_application_beside_them() {
    let pools = |line: &str| match parse(arguments(line)).unwrap().action {
        Action::Serve(serve) => serve.pools(),
        other => panic!("{other:?}"),
    };
    for (line, expected) in [
        ("--cgi /c=src", "/c CGI scripts of src (auto)"),
        ("--cgi /=src,mode=exec", "/ CGI scripts of src (exec)"),
        (
            "--cgi /a=src;/b=Cargo.toml --cgi-mode keep",
            "/a CGI scripts of src (keep), /b CGI scripts of Cargo.toml (keep)",
        ),
        ("--cgi /c=src --mount /a=Some::App", "/a Some::App, /c CGI scripts of src (auto)"),
        ("--cgi /c=src Some::App", "/ Some::App, /c CGI scripts of src (auto)"),
        ("--cgi /c=src --app Some::App", "/ Some::App, /c CGI scripts of src (auto)"),
        (
            "--cgi /c=options,mode=fork --chdir src -e sub{}",
            "/ the code of -e, /c CGI scripts of options (fork)",
        ),
        ("--cgi /=src --path /a -e sub{}", "/a the code of -e, / CGI scripts of src (auto)"),
    ] {
        let seen = pools(line).into_iter().map(|pool| format!("{} {}", pool.name, pool.application));
        assert_eq!(seen.collect::<Vec<_>>().join(", "), expected, "{line}");
    }
}

#[test]
fn a_mount_at_the_root_needs_no_other_application() {
    for (line, expected) in [
        ("--mount /=Some::App", "Some::App: / Some::App"),
        ("--mount /a=Some::App;/=Other::App", "applications: /a Some::App, / Other::App"),
        ("--mount /=Some::App --cgi /c=src", "CGI scripts: / Some::App, /c CGI scripts of src (auto)"),
        ("--mount /=Some::App --path /a -e sub{}", "the code of -e: /a the code of -e, / Some::App"),
        ("--mount /a=Some::App Other::App", "Other::App: / Other::App, /a Some::App"),
    ] {
        let Action::Serve(serve) = parse(arguments(line)).unwrap().action else { panic!("{line}") };
        let pools = serve.pools();
        let seen = pools.iter().map(|pool| format!("{} {}", pool.name, pool.application));
        let seen = format!("{}: {}", serve.application(), seen.collect::<Vec<_>>().join(", "));
        assert_eq!(seen, expected, "{line}");
    }
    for (line, tip) in [
        ("--chdir src --mount /a=Some::App", "no application src/app.psgi: name a .psgi file"),
        ("--chdir src --mount /a=Some::App", "if there is to be none but those of --mount, mount one at /"),
        ("--chdir src --path /b --mount /=Some::App", "no application src/app.psgi: name a .psgi file"),
        ("--mount /=Some::App Other::App", "--mount /: Other::App is there already"),
    ] {
        let (_, message) = refusal(line);
        assert!(message.contains(tip), "{line}: {message}");
    }
    let (_, message) = refusal("--chdir src nowhere.psgi --mount /a=Some::App");
    assert!(!message.contains("--mount"), "{message}");
}

#[test]
fn scripts_have_the_servers_options_where_these_concern_them() {
    let line = "--workers 8 --min-workers 3 --max-requests 9 --max-queue 50 --request-timeout 5s --cgi-index index.cgi \
        --cgi /a=src --cgi /b=src,workers=2,max-queue=7,request-timeout=1m,index=a.pl,index=b.pl --cgi /c=src,mode=keep";
    let pools = serve(line).pools();
    let seen = pools[1..].iter().map(|pool| {
        let workers = &pool.workers;
        let counts = [workers.count(), workers.fewest(), workers.max_queue];
        let index = pool.cgi.as_ref().unwrap().index.join(" ");
        (pool.name.as_str(), counts, workers.max_requests, pool.request_timeout.to_string(), index)
    });
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("/a", [16, 16, 50], 0, "5s".to_owned(), "index.cgi".to_owned()),
            ("/b", [2, 2, 7], 0, "1m".to_owned(), "a.pl b.pl".to_owned()),
            ("/c", [8, 3, 50], 9, "5s".to_owned(), "index.cgi".to_owned()),
        ]
    );
}

#[test]
fn scripts_that_cannot_be_served_are_refused_in_words() {
    for (line, words) in [
        (
            "--cgi /c=nowhere",
            "--cgi /c: there is no nowhere: name the directory of the scripts, or one script",
        ),
        ("--cgi /c=src;/c/=src", "--cgi /c is given twice: mount one of the two elsewhere"),
        ("--cgi /=src -e sub{}", "--cgi /: the code of -e is there already"),
        ("--cgi /a=src --mount /a=Some::App -e sub{}", "--cgi /a: Some::App is there already"),
        ("--cgi /a=src --zygote-fd 5", "--cgi does not work under plackup"),
        ("--cgi /a=src --document-root /no/where", "--document-root /no/where: there is no such directory"),
        (
            "--cgi /a=src --cgi-preload /no/where.pl",
            "--cgi /a: --cgi-preload /no/where.pl: there is no such file",
        ),
        ("--cgi /a=src,mode=keep,preload=/no/where.pl", "--cgi-preload /no/where.pl: there is no such file"),
        ("--cgi /a=src --cgi-mode fast", "invalid value 'fast' for '--cgi-mode <MODE>'"),
        ("--cgi /a=src --cgi-env HTTP_PROXY=x", "HTTP_PROXY is for the server to set, from the request"),
        ("--cgi /a=src --cgi-pass A,PATH_INFO", "PATH_INFO is for the server to set"),
        ("--cgi /a=src --cgi-index a/b", "write index.cgi"),
    ] {
        let (_, message) = refusal(line);
        assert!(message.contains(words), "{line}: {message}");
    }
}

#[test]
fn listeners_add_up() {
    for (line, addresses) in [
        ("", "127.0.0.1:5000"),
        ("-p 8080", ":8080"),
        ("-o 127.0.0.1", "127.0.0.1:5000"),
        ("-o ::1 -p 0", "[::1]:0"),
        ("-o [::1]", "[::1]:5000"),
        ("-S app.sock", "app.sock"),
        ("-S /run/x.sock", "/run/x.sock"),
        ("-S @app", "unix:@app"),
        ("-l unix:@app,:80", "unix:@app :80"),
        ("-l :80 -l /run/x.sock,[::1]:81", ":80 /run/x.sock [::1]:81"),
        ("-l :80 -p 81", ":80 :81"),
        (
            "-l /run/x.sock,mode=660,:80,backlog=5 -S /run/y.sock",
            "/run/x.sock,mode=0660 :80,backlog=5 /run/y.sock",
        ),
    ] {
        assert_eq!(
            serve(line).listen.listeners().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            addresses,
            "{line}"
        );
    }
}

#[test]
fn other_servers_names_are_aliases() {
    for line in ["--workers 7", "--max-workers 7", "--nproc=7", "--pre-fork 7"] {
        assert_eq!(serve(line).workers.count(), 7, "{line}");
    }
    for line in ["--max-requests 9", "--max-reqs-per-child 9", "--max-requests-per-worker 9"] {
        assert_eq!(serve(line).workers.max_requests, 9, "{line}");
    }
    for line in ["--keepalive-requests 3", "--max-keepalive-reqs 3", "--max-connection-reqs 3"] {
        assert_eq!(serve(line).limits.keepalive_requests, 3, "{line}");
    }
    for line in ["--http2-streams 5", "--max-h2-concurrent-streams 5"] {
        assert_eq!(serve(line).http2.http2_streams, 5, "{line}");
    }
    assert_eq!(serve("--read-timeout 3").limits.header_timeout, "3s".parse().unwrap());
    assert_eq!(serve("--pid-file /x").process.pid, Some("/x".into()));
}

/// What people are told of their options; variables of the test's own environment are not the test's.
fn warnings(line: &str) -> Vec<String> {
    let all = parse(arguments(line)).unwrap().warnings.into_iter();
    all.filter(|warning| !warning.starts_with("HOWDAH_")).collect()
}

#[test]
fn what_is_on_by_itself_is_put_off_by_a_word() {
    for (word, is_on) in [
        ("on", true),
        ("Yes", true),
        ("1", true),
        ("true", true),
        ("off", false),
        ("NO", false),
        ("0", false),
    ] {
        let serve = serve(&format!("--http2 {word} --share-cpu {word}"));
        assert_eq!((serve.http2.http2, serve.workers.share_cpu), (is_on, is_on), "{word}");
    }
    for option in ["--http2", "--share-cpu"] {
        let (_, message) = refusal(&format!("-e sub{{}} {option} maybe"));
        assert!(
            message.contains("invalid value 'maybe'") && message.contains("[possible values: on, off]"),
            "{message}"
        );
    }
}

#[test]
fn a_request_line_has_room_and_fits_a_head() {
    for (line, bytes) in [
        ("", 8192),
        ("--max-request-line 64", 64),
        ("--max-request-line 64k", 65536),
        ("--limit-request-line 4094", 4094),
    ] {
        assert_eq!(serve(line).limits.max_request_line.0, bytes, "{line}");
    }
    for size in ["0", "63", "65537", "1m", "long"] {
        let (kind, message) = refusal(&format!("-e sub{{}} --max-request-line {size}"));
        assert_eq!(kind, ErrorKind::ValueValidation, "{size}");
        assert!(message.contains("not a size"), "{message}");
    }
}

#[test]
fn options_without_effect_are_accepted_with_a_warning() {
    let told = warnings("-e sub{} --spawn-interval 1 --loader Delayed -s Starman");
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.iter().any(|warning| warning.contains("--spawn-interval has no effect")));
    let silent = warnings("-e sub{} --preload-app --keepalive --default-middleware -s Howdah");
    assert_eq!(silent, [] as [String; 0]);
}

#[test]
fn options_that_need_another_are_told_without_it() {
    for (line, told) in [
        ("--slow-log-file /x", "--slow-log-file has no effect without --slow-log: --slow-log MS says"),
        ("--slow-log-file /x --slow-log 100", ""),
        ("--slow-log-file /x --slow-log 0", ""),
        (
            "--access-log-format common",
            "--access-log-format has no effect without --access-log: --access-log TARGET",
        ),
        ("--access-log-compat plack", "--access-log-compat has no effect without --access-log"),
        ("--access-log-format common --access-log -", ""),
        ("--access-log - --daemonize", "--access-log - has no effect with --daemonize, which closes"),
        ("--slow-log 1 --slow-log-file - -D", "--slow-log-file - has no effect with --daemonize"),
        ("--access-log /x --daemonize", ""),
        ("--zygote-fd 5 --chdir /", "--chdir has no effect under plackup, which has loaded the application"),
        ("", ""),
    ] {
        let warnings = warnings(&format!("-e sub{{}} {line}")).join("|");
        assert!(warnings.starts_with(told) && warnings.is_empty() == told.is_empty(), "{line}: {warnings}");
    }
}

#[test]
fn unknown_options_are_refused_with_the_way_out() {
    for (line, tip) in [
        ("--wokers 3", "--workers"),
        ("--enable-ssl", "name the files of certificate and key"),
        ("--child-exit code", "worker_exit"),
    ] {
        let (kind, message) = refusal(line);
        assert_eq!(kind, ErrorKind::UnknownArgument, "{line}");
        assert!(message.contains(tip), "{message}");
    }
}

#[test]
fn words_of_other_servers_are_answered_with_ours() {
    for (line, tip) in [
        // uWSGI
        ("--http :8080 app.psgi", "write --listen ADDR"),
        ("--http-socket :8080 --psgi app.psgi", "write --listen ADDR"),
        ("-e sub{} --master", "leave it out: the front"),
        ("-e sub{} --processes 4", "write --workers N"),
        ("-e sub{} --harakiri=30", "write --request-timeout TIME"),
        ("-e sub{} --uid www-data", "write --user USER"),
        ("-e sub{} --gid www-data", "write --group GROUP"),
        ("-e sub{} --pidfile /x", "write --pid FILE"),
        ("-e sub{} --chmod-socket=660", "write --socket-mode MODE"),
        ("-e sub{} --reload-on-rss 200", "write --max-memory SIZE"),
        ("--ini shop.ini", "HOWDAH_WORKERS=8"),
        ("check -e sub{} --harakiri 3", "write --request-timeout TIME"),
        // hypnotoad
        ("-f app.psgi", "without -D"),
        ("-s app.psgi --stop", "run howdah stop"),
        ("-w 4 -e sub{}", "write --workers N"),
        ("-e sub{} --accepts 1000", "write --max-requests N"),
        ("-e sub{} --inactivity-timeout 3", "--keepalive-timeout TIME"),
        ("-e sub{} --preload", "leave it out"),
        ("-e sub{} --certfile=a.pem", "--tls-cert FILE"),
        ("-e sub{} --umask 007", "UMask="),
        ("-e sub{} --thunder-lock", "leave it out: the front accepts"),
        ("-e sub{} --cheaper-algo spare", "--min-workers N"),
        ("-m production app.psgi", "write -E NAME"),
        ("-e sub{} --interval=5", "give it to start_server"),
        // Commands that there are not
        ("stats", "there is no command 'stats': did you mean howdah status?"),
        ("stats --json", "did you mean howdah status?"),
        ("start app.psgi", "there is no command 'start': howdah APP serves an application"),
        ("-D start app.psgi", "there is no command 'start'"),
        ("start", "(howdah serve start loads a module of that name)"),
        ("restart --name shop", "howdah reload loads the application anew"),
        ("help", "howdah --help"),
        // Commands behind their options
        ("--name shop status", "the command comes first: howdah status --name shop\n"),
        ("--name stop stop --now", "the command comes first: howdah stop --name stop --now"),
        ("--name shop workers +1", "the command comes first: howdah workers --name shop +1"),
        ("--workers 3 check app.psgi", "the command comes first: howdah check --workers 3 app.psgi"),
        ("-l :80 serve app.psgi", "the command comes first: howdah serve -l :80 app.psgi"),
        // A value that belongs behind an equals sign
        ("--hsts 30m app.psgi", "--hsts has its time behind an equals sign: write --hsts=30m"),
        ("--hsts 30m", "write --hsts=30m"),
        ("check --hsts 30m app.psgi", "write --hsts=30m"),
        // Numbers of commands
        ("workers 99999999999999999999", "too large: no server has so many workers"),
        ("workers +99999999999999999999", "too large: no server has so many workers"),
        ("workers x", "write a number such as 4"),
        ("leaks --requests 0", "'--requests <N>': not a whole number of 1 or more"),
        ("leaks --workers 600", "'--workers <N>': not a whole number from 1 to 512"),
        ("heap --worker x", "'--worker <N>': not a whole number from 0 to 1023"),
        ("where --worker 1024", "'--worker <N>': not a whole number from 0 to 1023"),
        ("profile --hz 5000", "'--hz <N>': not a whole number from 1 to 2000"),
        // More than one application
        ("a.psgi b.psgi", "b.psgi is a second application beside a.psgi"),
        ("serve a.psgi b.psgi", "b.psgi is a second application beside a.psgi"),
        ("-l :80 a.psgi --workers 3 b.psgi c.psgi", "b.psgi is a second application beside a.psgi"),
        // Listeners as URLs
        ("-e sub{} -l http://*:8080", "a listener has no http://, write :8080"),
        ("-e sub{} -l http://127.0.0.1:3000/?reuse=1", "write 127.0.0.1:3000"),
        ("-e sub{} -l http://[::1]:3000", "write [::1]:3000"),
        ("-e sub{} -l http://localhost", "write localhost:80"),
        ("-e sub{} -l http+unix://%2Frun%2Fapp.sock", "write unix:/run/app.sock"),
        ("-e sub{} -l https://*:443", "--listen tls::443 needs a certificate: name one by --tls-cert"),
        ("-e sub{} -l tcp://:80", "a listener has no tcp://, write :80"),
    ] {
        let (_, message) = refusal(line);
        assert!(message.contains(tip), "{line}: {message}");
    }
    assert!(warnings("-e sub{} -s :3031")[0].contains("write --listen :3031"));
}

#[test]
fn what_is_like_nothing_gets_no_tip_that_leads_astray() {
    for line in ["check -e sub{} --verion", "-e sub{} --async-loops", "-e sub{} --net_server-arg x"] {
        let (_, message) = refusal(line);
        assert!(message.contains("unexpected argument '--"), "{message}");
        assert!(!message.contains("tip:") && message.contains("--help"), "{message}");
    }
}

#[test]
fn a_module_that_is_named_like_no_command_is_served() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("stats.pm"), "").unwrap();
    for line in ["serve stats", "-a stats", "MyApp", &format!("-I{} stats", dir.path().display())] {
        assert!(matches!(parse(arguments(line)).unwrap().action, Action::Serve(_)), "{line}");
    }
}

#[test]
fn bad_values_are_named_with_the_way_out() {
    for (line, parts) in [
        ("--max-body-size lots", ["lots", "--max-body-size", "64k"]),
        ("--header-timeout soon", ["soon", "--header-timeout", "500ms"]),
        ("--socket-mode rw", ["rw", "--socket-mode", "0666"]),
        ("--workers 0", ["0", "--workers", "from 1"]),
        ("-p 70000", ["70000", "--port", "65535"]),
        ("-p http", ["'http'", "--port", "a whole number from 0 to 65535"]),
        ("--path shop", ["'shop'", "--path", "write /shop"]),
        ("--path /a%20b", ["/a%20b", "--path", "decoded"]),
        ("--path /a/../b", ["/a/../b", "--path", "such as /admin"]),
        ("-M ./startup.pl", ["./startup.pl", "--module", "Some::Module"]),
        ("--module=", ["''", "--module", "Some::Module"]),
        ("-l app.sock", ["app.sock", "--listen", "path with a slash"]),
        ("-e sub{} -l :443:ssl", ["--listen", "tls::443", "--tls-cert"]),
        ("-l unix:@", ["unix:@", "--listen", "unix:@NAME"]),
        ("-l :80,mode=660", [":80", "--listen", "a Unix socket that has a file"]),
        ("--status-listen /s,colour=red", ["colour", "--status-listen", "backlog=N"]),
        ("-S @", ["@", "--socket", "unix:@NAME"]),
        ("-l :99999", ["':99999'", "--listen", "a port is a number from 0 to 65535"]),
        ("-e sub{} --access-log |", ["'|'", "--access-log", "a path"]),
        ("-e sub{} --slow-log-file |$", ["'|$'", "--slow-log-file", "COMMAND"]),
        ("-l [::1]:65536", ["[::1]:65536", "--listen", "from 0 to 65535"]),
    ] {
        let (_, message) = refusal(line);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for (line, part) in [
        ("-e sub{} --socket-mode 660", "needs a Unix socket"),
        ("-e sub{} --metrics-path /s --status-path /s", "two pages have the path /s"),
        (
            "-e sub{} --metrics-path /server-status --status-listen :81",
            "two pages have the path /server-status",
        ),
        ("-e sub{} --socket-mode 660 -l unix:@app", "unix:@app, an abstract socket, which has no file"),
        ("-e sub{} --socket-mode 660 -l unix:@app -S /run/x.sock", "has no file and no permissions"),
        ("-e sub{} -l :81 --status-listen :81", "one of its own"),
        ("-e sub{} -l :81 -l :81,backlog=5", ":81 is given twice: leave one out"),
        ("-e sub{} -l /run/x.sock -S /run/x.sock", "/run/x.sock is given twice"),
        ("-e sub{} -l 127.0.0.1:81 -l *:81", "127.0.0.1:81 is among the addresses of :81: leave one out"),
        ("-e sub{} -l :81 --status-listen [::1]:81", "[::1]:81 is among the addresses of :81"),
        ("-e sub{} --status-listen :81,:82,:81", "--status-listen :81 is given twice"),
        ("-a Foo Bar", "named twice"),
        ("-e sub{} --proxy-protocol", "none is: name them by --trusted-proxy"),
        ("-e sub{} -l :81,proxy-protocol", "--listen :81,proxy-protocol takes the word"),
        (
            "-e sub{} --trusted-proxy unix --status-listen :81,proxy-protocol",
            "come without a proxy: leave proxy-protocol out",
        ),
        ("-e sub{} --acme a.example --tls-client-ca ca.pem", "choose --acme-challenge http-01"),
        ("-e sub{} --hsts=1h", "or have one issued by --acme NAME"),
        ("-e sub{} --acme *.a.example", "a wildcard cannot be proven"),
        (
            "-e sub{} --acme-email me@a.example",
            "--acme-email needs a name to get a certificate for: give one by --acme NAME",
        ),
        ("-e sub{} --acme a.example --acme-eab-kid k", "--acme-eab-kid needs the key that belongs to it"),
        ("-e sub{} --acme a.example --acme-eab-key-file k", "--acme-eab-key-file needs the identifier"),
        ("-e sub{} --max-requests 18446744073709551616", "'--max-requests <N>': too large"),
        ("-e sub{} --acme a.example --acme-directory http://a.example", "begins with https://"),
        ("-e sub{} --chdir /no/such", "no such directory"),
        ("nowhere.psgi --chdir /no/such", "--chdir /no/such: there is no such directory"),
        ("no-such.psgi", "no application no-such.psgi"),
    ] {
        let (_, message) = refusal(line);
        assert!(message.contains(part), "{line}: {message}");
    }
}

/// What is asked of TLS and would not be done is refused: whoever asks for certificates of clients is not to serve everybody.
#[test]
fn options_of_tls_are_refused_where_nothing_comes_of_them() {
    const CERTIFICATE: &str = "needs a certificate: name one by --tls-cert FILE";
    const CLIENTS: &str =
        "--tls-client needs authorities whose certificates count: name them by --tls-client-ca FILE";
    const NOBODY: &str = "--tls-client-ca asks nobody: no listener speaks TLS";
    const ACME: &str = "give one by --acme NAME";
    for (line, refused) in [
        ("--tls-cert c", ""),
        ("--tls-cert c --tls-key k --tls-min 1.3 --hsts --redirect-to-https :80", ""),
        ("--tls-cert c --tls-client-ca a", ""),
        ("--tls-cert c --tls-client-ca a --tls-client optional", ""),
        ("--acme a.example --tls-client-ca a --tls-client optional", ""),
        ("--acme a.example --tls-client-ca a --acme-challenge http-01", ""),
        ("--tls-cert c -l :443,/run/a", ""),
        ("--tls-cert c -l tls:/run/a", ""),
        ("--tls-cert c -l /run/a --status-listen tls::81", ""),
        // Bounds of what there may be.
        ("--tls-handshakes 9 --tls-handshake-timeout 1s", ""),
        ("--tls-cert c --tls-client required", CLIENTS),
        ("--tls-cert c --tls-client optional", CLIENTS),
        ("--acme a.example --tls-client required", CLIENTS),
        ("--tls-client required", CLIENTS),
        ("--tls-client-ca a", CERTIFICATE),
        ("--tls-client-ca a --tls-client required", CERTIFICATE),
        ("--tls-min 1.3", CERTIFICATE),
        ("--hsts", CERTIFICATE),
        ("--redirect-to-https :80", CERTIFICATE),
        ("-l tls::443", CERTIFICATE),
        ("--status-listen tls::81", CERTIFICATE),
        ("--tls-key k", "there are 0 --tls-cert and 1 --tls-key"),
        ("--acme a.example --tls-key k", "there are 0 --tls-cert and 1 --tls-key"),
        // Nobody sees them, which is no reason not to serve.
        ("--tls-cert c -S /run/a", ""),
        ("--acme a.example -l /run/a", ""),
        ("--tls-cert c -l tls:/run/a --tls-client-ca a", ""),
        ("--tls-cert c -S /run/a --tls-client-ca a", NOBODY),
        ("--tls-cert c -l /run/a --redirect-to-https :80 --tls-client-ca a", NOBODY),
        ("--tls-cert c -l unix:@a --status-listen :81 --tls-client-ca a", NOBODY),
        ("--acme a.example -l /run/a --tls-client-ca a --tls-client optional", NOBODY),
        ("--acme-directory https://a.example", ACME),
        ("--tls-cert c --acme-challenge http-01", ACME),
        ("--tls-cert c --acme-dir /a", ACME),
    ] {
        let outcome = parse(arguments(&format!("-e sub{{}} {line}")));
        let told = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(told.contains(refused) && told.is_empty() == refused.is_empty(), "{line}: {told}");
    }
}

#[test]
fn what_cannot_be_looked_for_is_told_with_the_systems_reason() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    std::fs::write(format!("{dir}/file"), "").unwrap();
    std::os::unix::fs::symlink("loop", format!("{dir}/loop")).unwrap();
    for (line, option) in [
        ("{}", "the application {} "),
        ("--app {}", "--app: the application {} "),
        ("-e sub{} --mount /a={}", "--mount /a: the application {} "),
        ("-e sub{} --chdir {}", "--chdir {}: "),
        ("-e sub{} --document-root {}", "--document-root {}: "),
        ("-e sub{} --spool-dir {}", "--spool-dir {}: "),
        ("--cgi /c={}", "--cgi /c: {} "),
        ("--cgi /c=src,mode=keep,preload={}", "--cgi /c: --cgi-preload {}: "),
    ] {
        for (name, reason) in [("file/x", "Not a directory"), ("loop", "Too many levels of symbolic links")] {
            let path = format!("{dir}/{name}");
            let (_, message) = refusal(&line.replace("{}", &path));
            let told = option.replace("{}", &path) + "cannot be looked for: " + reason;
            assert!(message.contains(&told), "{line}: {message}");
        }
    }
}

#[test]
fn a_command_may_be_left_out_or_named() {
    for line in ["-e sub{}", "serve -e sub{}"] {
        assert!(matches!(parse(arguments(line)).unwrap().action, Action::Serve(_)), "{line}");
    }
    assert!(matches!(parse(arguments("check -e sub{}")).unwrap().action, Action::Check(..)));
    assert!(matches!(parse(arguments("man")).unwrap().action, Action::Man));
}

#[test]
fn a_file_named_like_a_command_is_reached_by_its_path() {
    let (_, message) = refusal("./check");
    assert!(message.contains("no application check"), "{message}");
    match parse(arguments("serve check")).unwrap().action {
        Action::Serve(serve) => assert_eq!(serve.app(), Some("check")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn code_may_wrap_an_application() {
    let both = serve("MyApp");
    assert_eq!((both.app(), both.app.eval.as_deref()), (Some("MyApp"), Some("sub{}")));
    assert_eq!(serve("").app(), None);
}

#[test]
fn lists_are_split_as_their_users_write_them() {
    let serve = serve("-I lib:t/lib -Ilocal -MFoo=a,b -M Bar");
    assert_eq!(serve.app.include, ["lib", "t/lib", "local"]);
    assert_eq!(serve.app.module, ["Foo=a,b", "Bar"]);
}

#[test]
fn commands_for_a_running_server_say_which_and_what() {
    for (line, name, request) in [
        ("status", "howdah", ControlRequest::Status),
        ("reload --name shop", "shop", ControlRequest::Reload { pool: None }),
        ("reopen", "howdah", ControlRequest::Reopen),
        ("stop --now", "howdah", ControlRequest::Stop { now: true }),
        ("reload --pool /a", "howdah", ControlRequest::Reload { pool: Some("/a".to_owned()) }),
        ("workers -1 --name shop", "shop", ControlRequest::Workers { pool: None, change: Change::By(-1) }),
        ("workers 4", "howdah", ControlRequest::Workers { pool: None, change: Change::To(4) }),
    ] {
        match parse(arguments(line)).unwrap().action {
            Action::Ask { instance, request: asked, .. } => {
                assert_eq!((instance.name(), asked), (name, request), "{line}");
            }
            other => panic!("{other:?}"),
        }
    }
    for (line, way) in
        [("workers 0", "at least 1 worker is kept"), ("workers +0", "+1 or -1"), ("workers x", "+1 or -1")]
    {
        let (_, message) = refusal(line);
        assert!(message.contains(way), "{line}: {message}");
    }
}

#[test]
fn the_server_shows_what_is_asked_for() {
    for (line, pages) in [
        ("", ""),
        ("--status-path /server-status", "/server-status"),
        ("--status-listen :81", "(/server-status) (/metrics)"),
        ("--status-listen :81 --no-status", "(/metrics)"),
        ("--status-listen :81 --metrics-path /m", "(/server-status) /m"),
        ("--status-listen :81 --status-path /s", "/s (/metrics)"),
        ("--status-path /s --no-status", ""),
        ("--status-listen :81 --no-status --metrics-path /m", "/m"),
        ("--no-status --metrics-path /metrics", "/metrics"),
        ("--status-path /s --health-path /h --ready-path /r --metrics-path /m", "/s /m /h /r"),
        ("--no-status --health-path /server-status", "/server-status"),
    ] {
        let show = |it: PagePath| if it.only_apart { format!("({})", it.path) } else { it.path };
        let paths: Vec<_> = serve(line).status.pages().into_iter().map(show).collect();
        assert_eq!(paths.join(" "), pages, "{line}");
    }
    let allowed =
        |line: &str| serve(line).status.status_allow.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(allowed(""), ["127.0.0.0/8", "::1/128"]);
    assert_eq!(
        allowed("--status-allow 10.0.0.0/8,::1 --status-allow unix"),
        ["10.0.0.0/8", "::1/128", "unix"]
    );
}

#[test]
fn reforks_are_numbers_that_workers_reach() {
    for (line, numbers) in [
        ("", vec![]),
        ("--refork 0", vec![]),
        ("--refork 50", vec![50]),
        ("--refork 50,500,5000 --max-requests 10000", vec![50, 500, 5000]),
    ] {
        assert_eq!(serve(line).workers.reforks(), numbers, "{line}");
    }
    for (line, words) in [
        ("-e sub{} --refork 50,0", "not a list of numbers: write one such as 500"),
        ("-e sub{} --refork often", "not a list of numbers"),
        ("-e sub{} --refork 900 --max-requests 1000", "--refork 900 is never reached"),
        ("-e sub{} --refork 50 --no-preload", "--refork and --no-preload exclude each other"),
        ("-e sub{} --refork 50 --leak-report", "--refork and --leak-report exclude each other"),
    ] {
        let (_, message) = refusal(line);
        assert!(message.contains(words), "{line}: {message}");
    }
}

#[test]
fn scripts_are_not_reforked_and_a_mount_may_have_its_own_numbers() {
    let serve = serve("--refork 50 --mount /a=Carp,refork=5+10 --mount /b=Carp --cgi /c=/tmp,mode=keep");
    let reforks: Vec<_> = serve.pools().iter().map(|pool| pool.workers.reforks()).collect();
    assert_eq!(reforks, [vec![50], vec![5, 10], vec![50], vec![]]);
}
