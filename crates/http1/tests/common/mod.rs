//! Tables of cases, each tried with the input whole and byte by byte.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::panic, reason = "the panic of a test is its report")]

pub mod transcript;

use howdah_http1::{Limits, Reject};
use transcript::{Event, Request, transcript};

/// A row: clause, what is wrong, the bytes, the status to answer with.
pub type Refusal<'a> = (&'a str, &'a str, &'a [u8], u16);

pub const SMALL: Limits = Limits { request_line: 40, head: 120, fields: 3, body: 10 };

/// The events of `input`, which must not depend on how it is split.
pub fn events(input: &[u8], limits: &Limits) -> Vec<Event> {
    let whole = transcript(input, limits, []);
    let drip = transcript(input, limits, 0..input.len());
    assert_eq!(whole, drip, "whole and byte by byte differ for {:?}", String::from_utf8_lossy(input));
    whole
}

/// The only request of `input`, which must be nothing else.
pub fn request(input: &[u8]) -> Request {
    match events(input, &Limits::default()).as_slice() {
        [Event::Head(request), ..] => request.clone(),
        other => panic!("no request in {:?}: {other:?}", String::from_utf8_lossy(input)),
    }
}

/// Why `input` is refused.
pub fn refusal(input: &[u8], limits: &Limits) -> Option<Reject> {
    events(input, limits).into_iter().find_map(|event| match event {
        Event::Reject(reject) => Some(reject),
        _ => None,
    })
}

pub fn assert_refused(limits: &Limits, cases: &[Refusal<'_>]) {
    for (clause, what, input, status) in cases {
        let reject = refusal(input, limits).unwrap_or_else(|| panic!("{what} is accepted"));
        assert_eq!((reject.status, reject.clause), (*status, *clause), "{what}: {reject}");
    }
}

/// A request with these field lines besides Host.
pub fn with_fields(fields: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
}

/// A request with this target, and a fitting Host.
pub fn with_target(method: &str, target: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// A chunked request with this body.
pub fn chunked(body: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into_bytes()
}
