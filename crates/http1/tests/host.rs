//! Host (RFC 9110 7.2, RFC 9112 3.2).

mod common;
use common::{assert_refused, request};
use howdah_http1::Limits;

fn with_host(lines: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\n{lines}\r\n").into_bytes()
}

#[test]
fn host_must_be_there_once() {
    assert_refused(
        &Limits::default(),
        &[
            ("RFC 9112 3.2", "no Host", b"GET / HTTP/1.1\r\n\r\n", 400),
            ("RFC 9112 3.2", "no Host, absolute-form", b"GET http://a/ HTTP/1.1\r\n\r\n", 400),
            ("RFC 9112 3.2", "Host twice", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("RFC 9112 3.2", "same Host twice", b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", 400),
            ("RFC 9112 3.2", "Host twice in HTTP/1.0", b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            ("RFC 9112 3.2", "bad Host, absolute-form", b"GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            ("RFC 9112 3.2", "bad Host in HTTP/1.0", b"GET / HTTP/1.0\r\nHost: a/b\r\n\r\n", 400),
            ("RFC 9112 3.3", "empty Host", b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
            ("RFC 9112 3.3", "Host of blanks", b"GET / HTTP/1.1\r\nHost:  \t\r\n\r\n", 400),
            ("RFC 9112 3.3", "empty Host, asterisk-form", b"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", 400),
        ],
    );
}

#[test]
fn host_may_be_missing_or_empty_where_the_target_or_version_allows() {
    assert_eq!(request(b"GET / HTTP/1.0\r\n\r\n").authority, "");
    assert_eq!(request(b"GET / HTTP/1.0\r\nHost:\r\n\r\n").authority, "");
    assert_eq!(request(b"GET http://b/ HTTP/1.1\r\nHost:\r\n\r\n").authority, "b");
}

#[test]
fn valid_hosts_are_accepted() {
    for host in [
        "example.org",
        "EXAMPLE.org.",
        "a:80",
        "a:",
        "a:00080",
        "a:65535",
        "127.0.0.1:5000",
        "a_b-c.~",
        "[::1]",
        "[::ffff:1.2.3.4]:80",
        "[2001:db8::1]:",
        "[v1.a:b]",
        "%C3%A4.org",
        "!$&'()*+,;=",
    ] {
        assert_eq!(request(&with_host(&format!("Host: \t{host} \r\n"))).authority, host);
    }
}

#[test]
fn invalid_hosts_are_refused() {
    for host in [
        ":80",
        "a b",
        "a/b",
        "a?b",
        "a#b",
        "a@b",
        "me:pw@a",
        "a:80:81",
        "a:-1",
        "a:+1",
        "a:8x",
        "a:65536",
        "a:99999999999999999999",
        "[::1",
        "::1",
        "[::1]x",
        "[::1]80",
        "[]",
        "[1.2.3.4]",
        "[fe80::1%25eth0]",
        "[v1.]",
        "[v.a]",
        "[vg.a]",
        "%",
        "%4",
        "%zz",
        "\"a\"",
        "a\\b",
        "<a>",
        "h\u{e9}",
        "a\tb",
    ] {
        let input = with_host(&format!("Host: {host}\r\n"));
        assert_refused(&Limits::default(), &[("RFC 9112 3.2", host, &input, 400)]);
    }
}
