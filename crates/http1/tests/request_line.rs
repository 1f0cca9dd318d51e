//! Request line: method, target, version, and the empty lines before it.

mod common;
use common::{assert_refused, events, request, with_target};
use howdah_http1::{Limits, Version};

#[test]
fn a_bad_request_line_is_refused() {
    assert_refused(
        &Limits::default(),
        &[
            ("RFC 9112 3.1", "no method", b" / HTTP/1.1\r\n", 400),
            ("RFC 9112 3.1", "method with a separator", b"GE(T / HTTP/1.1\r\n", 400),
            ("RFC 9112 3.1", "method with a control byte", b"G\x01T / HTTP/1.1\r\n", 400),
            ("RFC 9112 3.1", "method with an 8-bit byte", b"G\xc3\xa4T / HTTP/1.1\r\n", 400),
            ("RFC 9112 3.1", "tab after the method", b"GET\t/ HTTP/1.1\r\n", 400),
            ("RFC 9112 3.1", "method alone", b"GET\r\n", 400),
            ("RFC 9112 3.1", "a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00", 400),
            ("RFC 9112 3", "method of 33 bytes", b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG", 501),
            ("RFC 9112 3", "HTTP/0.9", b"GET /\r\n", 400),
            ("RFC 9112 3", "no target", b"GET HTTP/1.1\r\n", 400),
            ("RFC 9112 3.2", "two spaces before the target", b"GET  / HTTP/1.1\r\n", 400),
            ("RFC 9112 3.2", "two spaces after the target", b"GET /  HTTP/1.1\r\n", 400),
            ("RFC 9112 3.2", "space in the target", b"GET /a b HTTP/1.1\r\n", 400),
            ("RFC 9112 2.3", "space after the version", b"GET / HTTP/1.1 \r\n", 400),
            ("RFC 9112 2.3", "CR before the line end", b"GET / HTTP/1.1\r\r\n", 400),
            ("RFC 9112 2.2", "bare LF", b"GET / HTTP/1.1\n", 400),
            ("RFC 9110 9.3.6", "CONNECT", b"CONNECT a:443 HTTP/1.1\r\n", 501),
        ],
    );
}

#[test]
fn only_http_1_is_spoken() {
    assert_refused(
        &Limits::default(),
        &[
            ("RFC 9112 2.3", "name in lower case", b"GET / http/1.1\r\n", 400),
            ("RFC 9112 2.3", "other name", b"GET / HTTPS/1.1\r\n", 400),
            ("RFC 9112 2.3", "no minor version", b"GET / HTTP/1\r\n", 400),
            ("RFC 9112 2.3", "two-digit minor version", b"GET / HTTP/1.10\r\n", 400),
            ("RFC 9112 2.3", "letter for a digit", b"GET / HTTP/1.x\r\n", 400),
            ("RFC 9110 15.6.6", "the preface of HTTP/2", b"PRI * HTTP/2.0\r\n", 505),
            ("RFC 9110 15.6.6", "HTTP/0.9 by number", b"GET / HTTP/0.9\r\n", 505),
            ("RFC 9110 15.6.6", "HTTP/3.0", b"GET / HTTP/3.0\r\n", 505),
        ],
    );
}

#[test]
fn later_minor_versions_count_as_1_1() {
    // RFC 9110 2.5
    for (version, expected) in [("1.0", Version::Http10), ("1.1", Version::Http11), ("1.2", Version::Http11)]
    {
        let input = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
        assert_eq!(request(input.as_bytes()).version, expected);
    }
}

#[test]
fn unknown_methods_reach_the_application() {
    // RFC 9110 9.1
    for method in ["GET", "get", "PATCH", "X-!#$%&'*+.^_`|~09", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF"] {
        assert_eq!(request(&with_target(method, "/")).method, method);
    }
}

#[test]
fn two_empty_lines_before_the_request_line_are_skipped() {
    // RFC 9112 2.2
    for empty in ["", "\r\n", "\r\n\r\n"] {
        let input = format!("{empty}GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(request(input.as_bytes()).len, input.len());
    }
    assert_refused(
        &Limits::default(),
        &[
            ("RFC 9112 2.2", "three empty lines", b"\r\n\r\n\r\nGET / HTTP/1.1\r\n", 400),
            ("RFC 9112 2.2", "LF first", b"\nGET / HTTP/1.1\r\n", 400),
            ("RFC 9112 2.2", "CR first", b"\rGET / HTTP/1.1\r\n", 400),
            ("RFC 9112 2.2", "CR CR LF first", b"\r\r\nGET / HTTP/1.1\r\n", 400),
        ],
    );
}

#[test]
fn pipelined_requests_come_in_order() {
    // RFC 9112 9.3.2
    let one = b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    let two = b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
    let all = [one.as_slice(), two, one].concat();
    let targets: Vec<String> = events(&all, &Limits::default())
        .into_iter()
        .filter_map(|event| match event {
            common::transcript::Event::Head(request) => Some(request.target),
            _ => None,
        })
        .collect();
    assert_eq!(targets, ["/1", "/2", "/1"]);
}

#[test]
fn a_reset_decoder_forgets_half_a_head() {
    let mut decoder = howdah_http1::RequestDecoder::new(&Limits::default());
    let mut store = howdah_http1::FieldStore::new();
    assert!(decoder.decode(b"GET /half HTTP/1.1\r\nHos", &mut store).unwrap().is_none());
    decoder.reset();
    let head = decoder.decode(b"GET /whole HTTP/1.1\r\nHost: a\r\n\r\n", &mut store).unwrap().unwrap();
    assert_eq!(head.path, b"/whole");
}
