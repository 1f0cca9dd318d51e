//! Apache::LogFormat::Compiler as judge of `Compat::Plack`, for values that need no escape (there we follow Apache).
//! Skipped when that module is not installed (`apt-get install libapache-logformat-compiler-perl`).

use std::process::Command;

use howdah_accesslog::{Compat, Kept, Record, Source, compile};

const FORMAT: &str = "%h %l %u %t \"%r\" %>s %<s %b %T %D %v %V %p %P %m %U %q %H %% %{%Y-%m-%d %H:%M:%S %z}t \
                      \"%{Referer}i\" \"%{X-Empty}i\" \"%{None}i\" \"%{Set-Cookie}o\" \"%{Content-Type}o\" \"%{None}o\"";

const JUDGE: &str = r#"
    use Apache::LogFormat::Compiler;
    my $env = { REMOTE_ADDR => '192.0.2.7', REMOTE_USER => $ARGV[1], REQUEST_METHOD => 'GET', SERVER_PORT => 5000,
        REQUEST_URI => '/app/x%20y?a=1', PATH_INFO => '/x y', QUERY_STRING => 'a=1', SERVER_PROTOCOL => 'HTTP/1.1',
        SERVER_NAME => 'judge', HTTP_HOST => 'Example.org:5000', HTTP_REFERER => 'http://r/', HTTP_X_EMPTY => '' };
    my $response = [200, ['Set-Cookie' => 'a=1', 'Set-Cookie' => 'b=2', 'Content-Type' => 'text/html; charset=utf-8']];
    print $$, "\n", Apache::LogFormat::Compiler->new($ARGV[0])->log_line($env, $response, 0, 2345678, 1792783207);
"#;

#[test]
fn the_same_request_gives_the_same_line() {
    for user in ["ann", ""] {
        let judge = Command::new("perl").args(["-e", JUDGE, FORMAT, user]).output();
        let Some(judge) = judge.ok().filter(|output| output.status.success()) else {
            eprintln!("skipped: perl with Apache::LogFormat::Compiler is not installed");
            return;
        };
        let said = String::from_utf8(judge.stdout).unwrap();
        let (pid, theirs) = said.split_once('\n').unwrap();
        let format = compile(FORMAT, Compat::Plack).unwrap();
        let kept = kept(&format, user);
        let mut ours = Vec::new();
        format.render(&record(&kept, pid.parse().unwrap()), &mut ours);
        assert_eq!(String::from_utf8(ours).unwrap(), theirs);
    }
}

fn kept(format: &howdah_accesslog::Format, user: &str) -> Kept {
    let mut kept = Kept::new();
    for (source, name, value) in [
        (Source::Environment, "REMOTE_USER", user),
        (Source::RequestHeader, "Referer", "http://r/"),
        (Source::RequestHeader, "X-Empty", ""),
        (Source::ResponseHeader, "Set-Cookie", "a=1"),
        (Source::ResponseHeader, "Set-Cookie", "b=2"),
        (Source::ResponseHeader, "Content-Type", "text/html; charset=utf-8"),
    ] {
        kept.offer(format.needs(), source, name.as_bytes(), value.as_bytes());
    }
    kept
}

fn record(kept: &Kept, pid: u32) -> Record<'_> {
    Record {
        method: b"GET",
        target: b"/app/x%20y?a=1",
        path: b"/app/x y",
        path_info: b"/x y",
        query: b"a=1",
        protocol: b"HTTP/1.1",
        status: 200,
        begin: 1_792_783_205_000_000_000,
        duration: 2_345_678_000,
        client: b"192.0.2.7",
        server_name: b"judge",
        server_port: 5000,
        host: b"Example.org:5000",
        pid,
        values: kept,
        ..Record::default()
    }
}
