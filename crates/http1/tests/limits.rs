//! Bounds, at the last byte allowed and at the first beyond it.

mod common;
use common::transcript::{Event, transcript};
use common::{SMALL, assert_refused, chunked, events, refusal};
use howdah_http1::{Limits, Reject};

const TOO_LONG: &str = "RFC 9112 3";
const TOO_LARGE: &str = "RFC 6585 5";

fn first_refusal_at(input: &[u8], limits: &Limits) -> Option<usize> {
    (0..=input.len())
        .find(|&len| transcript(&input[..len], limits, []).iter().any(|e| matches!(e, Event::Reject(_))))
}

#[test]
fn the_request_line_is_bounded_without_its_crlf() {
    let fits = format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(40 - 14));
    let over = format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(41 - 14));
    assert_eq!(refusal(fits.as_bytes(), &SMALL), None);
    assert_refused(&SMALL, &[(TOO_LONG, "request line of 41 bytes", over.as_bytes(), 414)]);
    let empty_first = format!("\r\n\r\n{fits}");
    assert_eq!(refusal(empty_first.as_bytes(), &SMALL), None);
}

#[test]
fn a_long_request_line_is_refused_before_its_end() {
    let endless = format!("GET /{}", "a".repeat(100));
    assert_refused(&SMALL, &[(TOO_LONG, "endless request line", endless.as_bytes(), 414)]);
    assert_eq!(first_refusal_at(endless.as_bytes(), &SMALL), Some(42));
}

#[test]
fn a_default_request_line_has_8192_bytes() {
    for (len, expected) in [(8192, None), (8193, Some(414))] {
        let input = format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(len - 14));
        let status = transcript(input.as_bytes(), &Limits::default(), []).iter().find_map(rejected);
        assert_eq!(status.map(|reject| reject.status), expected);
    }
}

fn rejected(event: &Event) -> Option<Reject> {
    match event {
        Event::Reject(reject) => Some(*reject),
        _ => None,
    }
}

#[test]
fn the_head_is_bounded_with_its_empty_line() {
    let head = |len: usize| format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "a".repeat(len - 23)).into_bytes();
    assert_eq!(head(120).len(), 120);
    assert_eq!(refusal(&head(120), &SMALL), None);
    assert_refused(&SMALL, &[(TOO_LARGE, "head of 121 bytes", &head(121), 431)]);
    assert_eq!(first_refusal_at(&head(500), &SMALL), Some(120));
}

#[test]
fn the_fields_are_counted_also_when_dropped() {
    assert_eq!(refusal(b"GET / HTTP/1.0\r\nA:\r\nB_:\r\nC:\r\n\r\n", &SMALL), None);
    let over = b"GET / HTTP/1.0\r\nA:\r\nB_:\r\nC:\r\nD:\r\n\r\n";
    assert_refused(&SMALL, &[(TOO_LARGE, "four fields", over, 431)]);
}

#[test]
fn default_fields_number_128() {
    for (count, accepted) in [(16, true), (17, true), (128, true), (129, false)] {
        let input = format!("GET / HTTP/1.0\r\n{}\r\n", "A: 1\r\n".repeat(count));
        match events(input.as_bytes(), &Limits::default()).remove(0) {
            Event::Head(request) => assert!(accepted && request.fields.len() == count),
            event => assert!(!accepted && rejected(&event).is_some_and(|reject| reject.status == 431)),
        }
    }
}

#[test]
fn limits_may_be_raised() {
    let limits = Limits { fields: 1000, ..Limits::default() };
    let input = format!("GET / HTTP/1.0\r\n{}\r\n", "A: 1\r\n".repeat(500));
    assert_eq!(refusal(input.as_bytes(), &limits), None);
}

#[test]
fn a_body_too_large_is_refused_at_the_head_or_at_its_chunk() {
    let declared = |n: u64| format!("POST / HTTP/1.0\r\nContent-Length: {n}\r\n\r\n").into_bytes();
    assert_eq!(refusal(&declared(10), &SMALL), None);
    let body = Limits { body: 10, ..Limits::default() };
    assert_refused(
        &body,
        &[
            ("RFC 9110 15.5.14", "Content-Length over the limit", &declared(11), 413),
            ("RFC 9110 15.5.14", "one chunk over the limit", &chunked("b\r\n"), 413),
            ("RFC 9110 15.5.14", "chunks over the limit", &chunked("6\r\nabcdef\r\n5\r\n"), 413),
            ("RFC 9110 15.5.14", "the largest chunk", &chunked("ffffffffffffffff\r\n"), 413),
            ("RFC 9110 15.5.14", "with an extension", &chunked("b;x\r\n"), 413),
        ],
    );
    assert_eq!(refusal(&chunked("5\r\nabcde\r\n5\r\nabcde\r\n0\r\n\r\n"), &body), None);
}

#[test]
fn chunk_extensions_and_trailers_are_bounded() {
    let extension = |n: usize| chunked(&format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(n - 1)));
    assert_eq!(refusal(&extension(120), &SMALL), None);
    let spread = chunked(&"1;xxxxxxxxx\r\na\r\n".repeat(100));
    let many = chunked("0\r\nA:\r\nB:\r\nC:\r\nD:\r\n\r\n");
    let trailer = |n: usize| chunked(&format!("0\r\nA:{}\r\n\r\n", "x".repeat(n - 6)));
    assert_eq!(refusal(&trailer(120), &SMALL), None);
    let limits = Limits { body: 1000, ..SMALL };
    assert_refused(
        &limits,
        &[
            ("RFC 9112 7.1.1", "one long extension", &extension(121), 413),
            ("RFC 9112 7.1.1", "many extensions", &spread, 413),
            (TOO_LARGE, "trailers of 121 bytes", &trailer(121), 431),
            (TOO_LARGE, "four trailers", &many, 431),
        ],
    );
}

#[test]
fn absurd_limits_do_no_harm() {
    let input = b"POST /abc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n";
    for n in [0, 1, 2, 3, 20, 21, 22, usize::MAX] {
        let limits = Limits { request_line: n, head: n, fields: n, body: n as u64 };
        events(input, &limits);
        events(input, &Limits { request_line: 8192, ..limits });
        events(input, &Limits { head: 65_536, ..limits });
    }
}
