//! Body framing as the head declares it (RFC 9112 6), and the fields of the connection.

mod common;
use common::{assert_refused, request, with_fields};
use howdah_http1::{Framing, Limits};

#[test]
fn a_doubtful_length_is_refused() {
    for (clause, what, lines) in [
        ("RFC 9110 8.6", "sign", "Content-Length: +5\r\n"),
        ("RFC 9110 8.6", "minus", "Content-Length: -5\r\n"),
        ("RFC 9110 8.6", "empty", "Content-Length:\r\n"),
        ("RFC 9110 8.6", "hexadecimal", "Content-Length: 0x5\r\n"),
        ("RFC 9110 8.6", "fraction", "Content-Length: 5.0\r\n"),
        ("RFC 9110 8.6", "blank inside", "Content-Length: 5 5\r\n"),
        ("RFC 9110 8.6", "list of equal ones", "Content-Length: 5, 5\r\n"),
        ("RFC 9110 8.6", "list of different ones", "Content-Length: 5, 6\r\n"),
        ("RFC 9110 8.6", "2^64", "Content-Length: 18446744073709551616\r\n"),
        ("RFC 9110 8.6", "thirty digits", "Content-Length: 100000000000000000000000000000\r\n"),
        ("RFC 9112 6.3", "different ones", "Content-Length: 5\r\nContent-Length: 6\r\n"),
        ("RFC 9112 6.3", "equal ones", "Content-Length: 5\r\nContent-Length: 5\r\n"),
        ("RFC 9112 6.3", "with chunked", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        ("RFC 9112 6.3", "with chunked before", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
        ("RFC 9112 6.3", "with an unknown coding", "Transfer-Encoding: x\r\nContent-Length: 5\r\n"),
    ] {
        assert_refused(&Limits::default(), &[(clause, what, &with_fields(lines), 400)]);
    }
}

#[test]
fn any_coding_but_one_final_chunked_is_refused() {
    for (clause, value, status) in [
        ("RFC 9112 6.1", "gzip", 501),
        ("RFC 9112 6.1", "gzip, chunked", 501),
        ("RFC 9112 6.1", "identity", 501),
        ("RFC 9112 6.1", "xchunked", 501),
        ("RFC 9112 6.1", "gzip;level=9, chunked", 501),
        ("RFC 9112 7.1", "chunked, chunked", 400),
        ("RFC 9112 7.1", "chunked\r\nTransfer-Encoding: chunked", 400),
        ("RFC 9112 7.1", "gzip, chunked, chunked", 400),
        ("RFC 9112 6.3", "chunked, gzip", 400),
        ("RFC 9112 6.3", "chunked\r\nTransfer-Encoding: identity", 400),
        ("RFC 9112 6.3", "", 400),
        ("RFC 9112 6.3", ",", 400),
        ("RFC 9112 7.1", "chunked;a=b", 400),
        ("RFC 9112 7", "chunked gzip", 400),
        ("RFC 9112 7", "\"chunked\"", 400),
        ("RFC 9112 7", ";chunked", 400),
    ] {
        let input = with_fields(&format!("Transfer-Encoding: {value}\r\n"));
        assert_refused(&Limits::default(), &[(clause, value, &input, status)]);
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_refused(&Limits::default(), &[("RFC 9112 6.1", "chunked in HTTP/1.0", old, 400)]);
}

#[test]
fn framing_follows_the_fields() {
    // RFC 9112 6.3
    for (lines, framing) in [
        ("", Framing::None),
        ("Content-Length: 0\r\n", Framing::Length(0)),
        ("content-LENGTH: 0042\r\n", Framing::Length(42)),
        ("Transfer-Encoding: chunked\r\n", Framing::Chunked),
        ("transfer-encoding: Chunked\r\n", Framing::Chunked),
        ("Transfer-Encoding: , chunked ,\r\n", Framing::Chunked),
    ] {
        assert_eq!(request(&with_fields(lines)).framing, framing, "{lines}");
    }
}

#[test]
fn persistence_follows_version_and_connection() {
    // RFC 9112 9.3
    for (version, connection, keep_alive) in [
        ("1.1", "X: y", true),
        ("1.1", "Connection: close", false),
        ("1.1", "Connection: Keep-Alive, CLOSE", false),
        ("1.1", "Connection: close, foo", false),
        ("1.1", "Connection: foo\r\nConnection: close", false),
        ("1.1", "Connection: closed", true),
        ("1.0", "X: y", false),
        ("1.0", "Connection: keep-alive", true),
        ("1.0", "Connection: foo ,Keep-Alive", true),
        ("1.0", "Connection: keep-alive, foo", true),
        ("1.0", "Connection: keep-alive, close", false),
    ] {
        let input = format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n\r\n");
        assert_eq!(request(input.as_bytes()).keep_alive, keep_alive, "{version} {connection}");
    }
}

#[test]
fn what_follows_an_upgrade_to_another_protocol_may_be_no_request() {
    for (lines, upgrade) in [
        ("Connection: Upgrade", false),
        ("Upgrade: websocket", true),
        ("Upgrade: WebSocket\r\nConnection: upgrade", true),
        ("Upgrade: h2c", false),
        ("Upgrade: ,H2C ,", false),
        ("Upgrade: h2c, xwebsocket", true),
        ("Upgrade: h2c\r\nUpgrade: foo/1", true),
        ("Upgrade: foo/1\r\nUpgrade: h2c", true),
        ("Upgrade:", false),
    ] {
        let input = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
        let request = request(input.as_bytes());
        assert_eq!((request.upgrade, request.keep_alive), (upgrade, true), "{lines}");
    }
}

#[test]
fn the_only_expectation_is_100_continue() {
    // RFC 9110 10.1.1
    for (version, lines, expect) in [
        ("1.1", "Content-Length: 5\r\nExpect: 100-continue", true),
        ("1.1", "Transfer-Encoding: chunked\r\nExpect: 100-Continue", true),
        ("1.1", "Expect: 100-continue", false),
        ("1.1", "Content-Length: 0\r\nExpect: 100-continue", false),
        ("1.0", "Content-Length: 5\r\nExpect: 100-continue", false),
        ("1.0", "Expect: tea", false),
        ("1.1", "Expect:", false),
    ] {
        let input = format!("POST / HTTP/{version}\r\nHost: a\r\n{lines}\r\n\r\n");
        assert_eq!(request(input.as_bytes()).expect_continue, expect, "{version} {lines}");
    }
    for expectation in ["tea", "100-continue, tea", "100-continue=1", "200-ok"] {
        let input = with_fields(&format!("Content-Length: 5\r\nExpect: {expectation}\r\n"));
        assert_refused(&Limits::default(), &[("RFC 9110 10.1.1", expectation, &input, 417)]);
    }
}
