//! Field lines (RFC 9112 5) and what of them reaches the application.

mod common;
use common::{assert_refused, request, with_fields};
use howdah_http1::{FieldStore, Limits, RequestDecoder};

#[test]
fn a_bad_field_line_is_refused() {
    for (clause, what, line) in [
        ("RFC 9112 5.1", "space before the colon", "A : 1\r\n"),
        ("RFC 9112 5.1", "tab before the colon", "A\t: 1\r\n"),
        ("RFC 9112 5.1", "space before the colon of Host", "X: 1\r\nHost : a\r\n"),
        ("RFC 9112 5.2", "obs-fold by a space", "A: 1\r\n 2\r\n"),
        ("RFC 9112 5.2", "obs-fold by a tab", "A: 1\r\n\t2\r\n"),
        ("RFC 9112 5.2", "obs-fold of an empty value", "A:\r\n 2\r\n"),
        ("RFC 9112 5.2", "line of blanks", "A: 1\r\n \r\n"),
        ("RFC 9112 5", "no colon", "A\r\n"),
        ("RFC 9112 5", "line of one CR", "\r\r\n"),
        ("RFC 9110 5.1", "empty name", ": 1\r\n"),
        ("RFC 9110 5.1", "space in the name", "A B: 1\r\n"),
        ("RFC 9110 5.1", "separator in the name", "A(: 1\r\n"),
        ("RFC 9110 5.1", "separator first in the name", "\"A: 1\r\n"),
        ("RFC 9110 5.1", "control byte in the name", "A\x01: 1\r\n"),
        ("RFC 9110 5.1", "NUL in the name", "A\0: 1\r\n"),
        ("RFC 9110 5.1", "8-bit byte in the name", "\u{e9}: 1\r\n"),
        ("RFC 9112 2.2", "bare CR in the value", "A: 1\r2\r\n"),
        ("RFC 9112 2.2", "bare CR ends the value", "A: 1\r\r\n"),
        ("RFC 9112 2.2", "bare CR begins the value", "A:\r1\r\n"),
        ("RFC 9112 2.2", "bare LF ends the line", "A: 1\nB: 2\r\n"),
        ("RFC 9112 2.2", "bare LF ends an empty value", "A:\nB: 2\r\n"),
        ("RFC 9112 2.2", "bare LF ends the head", "A: 1\r\n\n"),
        ("RFC 9110 5.5", "NUL in the value", "A: 1\x002\r\n"),
        ("RFC 9110 5.5", "NUL begins the value", "A:\x00\r\n"),
        ("RFC 9110 5.5", "DEL in the value", "A: 1\x7f\r\n"),
        ("RFC 9110 5.5", "vertical tab in the value", "A: 1\x0b\r\n"),
        (
            "RFC 9110 5.5",
            "escape far into a long value",
            "A: 0123456789012345678901234567890123456789\x1b\r\n",
        ),
    ] {
        assert_refused(&Limits::default(), &[(clause, what, &with_fields(line), 400)]);
    }
}

#[test]
fn the_log_hears_the_rule_the_status_and_the_clause() {
    for (line, heard) in [
        (": 1\r\n", "field name is empty (400, RFC 9110 5.1)"),
        ("A : 1\r\n", "whitespace before the colon of a field (400, RFC 9112 5.1)"),
        ("A(: 1\r\n", "field name is not a token (400, RFC 9110 5.1)"),
    ] {
        let refusal = common::refusal(&with_fields(line), &Limits::default()).unwrap();
        assert_eq!(refusal.to_string(), heard);
    }
}

#[test]
fn every_byte_is_judged_by_the_grammar_at_every_place() {
    // RFC 9110 5.5 and 5.6.2; offsets up to 40 so that each vector width of httparse is met.
    for (byte, offset) in (0..=255u8).flat_map(|byte| (0..40).map(move |offset| (byte, offset))) {
        let value_ok = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        let name_ok = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let pad = vec![b'x'; offset];
        let value = [b"GET / HTTP/1.0\r\nA: ", pad.as_slice(), &[byte], b"z\r\n\r\n"].concat();
        let name = [b"GET / HTTP/1.0\r\n", pad.as_slice(), &[byte], b"z: 1\r\n\r\n"].concat();
        let accepted = |input: &[u8]| common::refusal(input, &Limits::default()).is_none();
        assert_eq!(accepted(&value), value_ok, "byte {byte:#x} at {offset} of a value");
        // A colon ends the name, and the rest is a value; not at offset 0.
        assert_eq!(
            accepted(&name),
            name_ok || (byte == b':' && offset > 0),
            "byte {byte:#x} at {offset} of a name"
        );
    }
}

#[test]
fn values_come_without_the_whitespace_around_them() {
    // RFC 9110 5.5
    let request = request(&with_fields("A: \t x y \t\r\nB:\r\nC: \r\nD:1\r\nE: caf\u{e9}\r\n"));
    let values: Vec<&str> = request.fields.iter().skip(1).map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["x y", "", "", "1", "caf\u{e9}"]);
}

#[test]
fn names_with_an_underscore_are_dropped() {
    // RFC 3875 4.1.18: X_User and X-User would be the same HTTP_X_USER.
    let request = request(&with_fields("X_User: root\r\nX-User: me\r\n_: 1\r\nContent_Length: 5\r\n"));
    let names: Vec<&str> = request.fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Host", "X-User"]);
}

#[test]
fn proxy_is_dropped_whatever_its_case() {
    // RFC 3875 4.1.18: it would be HTTP_PROXY, a variable of the environment that chooses a proxy.
    for name in ["Proxy", "proxy", "PROXY", "pRoXy"] {
        let request =
            request(&with_fields(&format!("{name}: http://evil.example/\r\nProxy-Authorization: b\r\n")));
        let names: Vec<&str> = request.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Host", "Proxy-Authorization"]);
    }
}

#[test]
fn a_name_as_long_as_one_that_the_server_knows_is_any_other_name() {
    // Host, Proxy, Expect, Upgrade, Connection, Content-Type, Content-Length, Transfer-Encoding
    let names = [
        "From",
        "Range",
        "Accept",
        "Referer",
        "User-Agent",
        "X-Powered-By",
        "Accept-Charset",
        "If-Modified-Since",
    ];
    let lines: String = names.iter().map(|name| format!("{name}: close\r\n{name}: close\r\n")).collect();
    let request = request(&with_fields(&lines));
    let shown: Vec<&str> = request.fields.iter().skip(1).step_by(2).map(|(name, _)| name.as_str()).collect();
    assert_eq!(shown, names);
    assert!(request.keep_alive && !request.upgrade);
}

#[test]
fn a_second_content_type_is_refused() {
    // RFC 9110 5.3 and 8.3
    for lines in [
        "Content-Type: text/plain\r\nContent-Type: text/html\r\n",
        "Content-Type: text/plain\r\nX: y\r\ncontent-type: text/plain\r\n",
        "CONTENT-TYPE:\r\nContent-Type: a/b\r\n",
    ] {
        assert_refused(&Limits::default(), &[("RFC 9110 8.3", lines, &with_fields(lines), 400)]);
    }
    assert_eq!(request(&with_fields("Content-Type: a/b, c/d\r\nX-Content-Type: e/f\r\n")).fields.len(), 3);
}

#[test]
fn fields_keep_their_order_and_repetition() {
    // RFC 9110 5.3
    let request = request(&with_fields("A: 1\r\nB: 2\r\na: 3\r\nContent-Length: 0\r\n"));
    let names: Vec<&str> = request.fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Host", "A", "B", "a", "Content-Length"]);
}

#[test]
fn transfer_encoding_is_not_shown() {
    // The body reaches the application without it.
    let request = request(&with_fields("Transfer-Encoding: chunked\r\nTE: trailers\r\n"));
    let names: Vec<&str> = request.fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Host", "TE"]);
}

#[test]
fn the_number_of_fields_to_come_is_known() {
    // The authority of the target takes the place of a Host that is not there.
    for (target, count) in [("/", 2), ("http://a/", 3)] {
        let input = format!("GET {target} HTTP/1.0\r\nA: 1\r\nB: 2\r\n\r\n");
        let mut store = FieldStore::new();
        let mut decoder = RequestDecoder::new(&Limits::default());
        let mut fields = decoder.decode(input.as_bytes(), &mut store).unwrap().unwrap().fields();
        for left in (0..count).rev() {
            assert_eq!(fields.len(), left + 1, "{target}");
            assert!(fields.next().is_some());
        }
        assert_eq!((fields.len(), fields.next()), (0, None), "{target}");
    }
}
