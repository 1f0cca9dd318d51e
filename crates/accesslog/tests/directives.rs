//! Every directive, as a table: what it prints of one request.

mod common;

use common::show;
use howdah_accesslog::{Compat, ConnectionState, Record};

const APACHE: &[(&str, &str)] = &[
    ("%%", "%"),
    ("100%% %s", "100% 200"),
    ("%h", "192.0.2.7"),
    ("%a", "192.0.2.7"),
    ("%{c}a", "10.0.0.1"),
    ("%{c}h", "10.0.0.1"),
    ("%A", "10.0.0.2"),
    ("%l", "-"),
    ("%u", "ann"),
    ("%{sec}t", "1792783205"),
    ("%{begin:sec}t", "1792783205"),
    ("%{end:sec}t", "1792783207"),
    ("%{msec}t", "1792783205012"),
    ("%{usec}t", "1792783205012345"),
    ("%{msec_frac}t", "012"),
    ("%{usec_frac}t", "012345"),
    ("%{end:msec_frac}t", "358"),
    ("%{end:usec_frac}t", "358024"),
    ("%{%s}t", "1792783205"),
    ("%{end:%s}t", "1792783207"),
    ("%r", r#"GET /app/caf%C3%A9?q=1%20\" HTTP/1.1"#),
    ("%<r %>r", r#"GET /app/caf%C3%A9?q=1%20\" HTTP/1.1 GET /app/caf%C3%A9?q=1%20\" HTTP/1.1"#),
    ("%m", "GET"),
    ("%U", r"/app/caf\xc3\xa9"),
    ("%q", r#"?q=1%20\""#),
    ("%H", "HTTP/1.1"),
    ("%s %>s %<s", "200 200 200"),
    ("%b %B", "1000 1000"),
    ("%I %O %S", "300 1200 1500"),
    ("%D", "2345678"),
    ("%T %{s}T %{ms}T %{us}T %{MS}T", "2 2 2345 2345678 2345"),
    ("%v", "app.example"),
    ("%V", "www.example.org"),
    ("%p %{canonical}p %{local}p %{remote}p", "443 443 8443 40000"),
    ("%P %{pid}P %{tid}P %{hextid}P", "4321 4321 4322 10e2"),
    ("%{Referer}i", r#"http://x/\"q\""#),
    ("%{User-agent}i", r"curl/8\\1"),
    ("%{x-twice}i", "one, two"),
    ("%{X-Empty}i", ""),
    ("%{X-Missing}i", "-"),
    ("%{Content-Type}o", "text/html"),
    ("%{Content-Disposition}o", "attachment; filename=a"),
    ("%{set-cookie}o", "a=1, b=2"),
    ("%{vary}o", "Accept"),
    ("%{X-Empty}o", ""),
    ("%{X-Missing}o", "-"),
    ("%{Digest}^ti", "abc"),
    ("%{Server-Timing}^to", "t;dur=1"),
    ("%{Missing}^to", "-"),
    ("%{app.note}e", r"n\n"),
    ("%{EMPTY}e", ""),
    ("%{empty}e", "-"),
    ("%{sid}C", "x=y"),
    ("%{A}C", "1"),
    ("%{late}C", "z"),
    ("%{empty}C", "-"),
    ("%{other}C", "-"),
    ("%X", "+"),
    ("%k", "3"),
    ("%L", "req-1"),
    ("%{c}L", "-"),
    ("%f %R", "- -"),
    ("%^FB", "1500"),
    ("%{queue}n %{run}n %{send}n", "250 1100 900"),
    ("%{worker}n %{generation}n %{request-id}n", "5 2 req-1"),
    ("%{any-other}n", "-"),
    ("%200s %!200s", "200 -"),
    ("%!200,304{Referer}i", "-"),
    ("%200,304{User-agent}i", r"curl/8\\1"),
    ("%400,501{User-agent}i", "-"),
    ("%{User-agent}200,400i", r"curl/8\\1"),
    ("%!s", "200"),
    (r"a\tb\n\\n\x%%", "a\tb\n\\n\\x%"),
    (r#"\"%m\""#, r#""GET""#),
    ("é %m", "é GET"),
];

#[test]
fn every_directive_of_apache() {
    for (format, expected) in APACHE {
        assert_eq!(show(format, Compat::Apache, |_| {}), *expected, "{format}");
    }
}

/// Where Apache::LogFormat::Compiler differs, or croaks (then Apache's meaning stands).
const PLACK: &[(&str, &str)] = &[
    ("%U", r"/caf\xc3\xa9"),
    ("%V", "WWW.Example.org:8443"),
    ("%v", "app.example"),
    ("%{%s}t", "[1792783207]"),
    ("%{begin:%s}t", "[1792783205]"),
    ("%b", "1000"),
    ("%T %D", "2 2345678"),
    ("%{Content-Type}o", "text/html; charset=utf-8"),
    ("%{Set-Cookie}o", "a=1"),
    ("%{X-Empty}i %{X-Empty}o", "- -"),
    ("%{X-Twice}i", "one, two"),
    ("%>s %P %u %p", "200 4321 ann 443"),
    ("%I %{sid}C", "300 x=y"),
];

#[test]
fn where_plack_differs() {
    for (format, expected) in PLACK {
        assert_eq!(show(format, Compat::Plack, |_| {}), *expected, "{format}");
    }
}

#[test]
fn a_time_is_that_of_the_begin_or_of_the_end_by_the_format_and_by_its_word() {
    let [begin, end] = ["%t", "%{end}t"].map(|format| show(format, Compat::Apache, |_| {}));
    assert!(begin.contains(":05 ") && end.contains(":07 "), "{begin} {end}");
    assert_eq!(show("%{begin}t %{end}t", Compat::Apache, |_| {}), format!("{begin} {end}"));
    assert_eq!(show("%{begin}t %{end}t %t", Compat::Plack, |_| {}), format!("{begin} {end} {end}"));
}

#[test]
fn what_is_not_there_is_a_dash() {
    let nothing = |record: &mut Record<'_>| *record = Record::default();
    let cases = [
        ("%h %a %A %u %m %U %H %s %b %v %V %p %{remote}p %P %{tid}P", "- - - - - - - - - - - - - - -"),
        ("%r", "-"),
        ("[%q]", "[]"),
        ("%B %I %O %S %D %T %k %X", "0 0 0 0 0 0 0 -"),
        ("%^FB %{queue}n %{worker}n %L", "- - - -"),
    ];
    for (format, expected) in cases {
        assert_eq!(show(format, Compat::Apache, nothing), expected, "{format}");
    }
    assert_eq!(show("%b", Compat::Plack, nothing), "0");
}

#[test]
fn an_unparsable_request_shows_the_line_that_came() {
    let garbage = |record: &mut Record<'_>| {
        *record = Record { line: b"\x16\x03\x01\" 200", status: 400, ..Record::default() };
    };
    assert_eq!(show("\"%r\" %>s", Compat::Apache, garbage), r#""\x16\x03\x01\" 200" 400"#);
}

#[test]
fn a_lone_question_mark_is_a_query_for_apache_alone() {
    let lone = |record: &mut Record<'_>| (record.target, record.query) = (b"/x?", b"");
    assert_eq!(show("[%q]", Compat::Apache, lone), "[?]");
    assert_eq!(show("[%q]", Compat::Plack, lone), "[]");
}

#[test]
fn the_asterisk_form_has_its_path() {
    for target in ["*", "http://example.org"] {
        let asterisk = |record: &mut Record<'_>| (record.target, record.path) = (target.as_bytes(), b"");
        assert_eq!(show("%U", Compat::Apache, asterisk), "*", "{target}");
    }
}

#[test]
fn a_user_without_a_name_is_a_pair_of_quotes() {
    let format = howdah_accesslog::compile("%u", Compat::Apache).unwrap();
    let mut kept = howdah_accesslog::Kept::new();
    kept.set(0, b"");
    assert_eq!(common::line(&format, &Record { values: &kept, ..Record::default() }), r#""""#);
    for (preset, shown) in [("ltsv", "\tuser:\t"), ("json", r#""user":"","#)] {
        let format = howdah_accesslog::compile(preset, Compat::Apache).unwrap();
        let line = common::line(&format, &Record { values: &kept, ..Record::default() });
        assert!(line.contains(shown), "{line}");
    }
}

#[test]
fn the_virtual_host_is_the_hosts_name_alone() {
    for (host, expected) in
        [("", "app.example"), ("A.b", "a.b"), ("a:1", "a"), ("[::1]", "::1"), ("[::1]:8", "::1")]
    {
        assert_eq!(show("%V", Compat::Apache, |record| record.host = host.as_bytes()), expected);
    }
    assert_eq!(show("%V", Compat::Plack, |record| record.host = b""), "app.example");
}

#[test]
fn the_connection_states() {
    for (state, expected) in
        [(ConnectionState::Aborted, "X"), (ConnectionState::KeepAlive, "+"), (ConnectionState::Close, "-")]
    {
        assert_eq!(show("%X", Compat::Apache, |record| record.connection = state), expected);
    }
}

#[test]
fn common_and_combined_are_the_well_known_lines() {
    let tail = r#""GET /app/caf%C3%A9?q=1%20\" HTTP/1.1" 200 1000"#;
    let common = show("common", Compat::Apache, |_| {});
    assert!(common.starts_with("192.0.2.7 - ann [2") && common.contains("/Oct/2026:"), "{common}");
    assert!(common.ends_with(tail), "{common}");
    let combined = show("combined", Compat::Apache, |_| {});
    assert!(combined.ends_with(&format!(r#"{tail} "http://x/\"q\"" "curl/8\\1""#)), "{combined}");
}
