//! A record that has a value for everything, and ways to render it.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's panic is its report")]

use howdah_accesslog::{Compat, ConnectionState, Format, Kept, Record, Source, compile};

/// Values for all needs of a format.
pub(crate) fn kept(format: &Format) -> Kept {
    let mut kept = Kept::new();
    let values: [(Source, &[u8], &[u8]); 19] = [
        (Source::RequestHeader, b"Referer", b"http://x/\"q\""),
        (Source::RequestHeader, b"user-agent", b"curl/8\\1"),
        (Source::RequestHeader, b"X-Twice", b"one"),
        (Source::RequestHeader, b"x-twice", b"two"),
        (Source::RequestHeader, b"X-Empty", b""),
        (Source::RequestHeader, b"Cookie", b"a=1; sid = x=y ; empty="),
        (Source::RequestHeader, b"Cookie", b"late=z"),
        (Source::ResponseHeader, b"Content-Type", b"text/html; charset=utf-8"),
        (Source::ResponseHeader, b"Content-Disposition", b"attachment; filename=a"),
        (Source::ResponseHeader, b"Set-Cookie", b"a=1"),
        (Source::ResponseHeader, b"Set-Cookie", b"b=2"),
        (Source::ResponseHeader, b"X-Empty", b""),
        (Source::ResponseHeader, b"Vary", b"Accept"),
        (Source::ResponseHeader, b"Vary", b"Cookie"),
        (Source::RequestTrailer, b"Digest", b"abc"),
        (Source::ResponseTrailer, b"Server-Timing", b"t;dur=1"),
        (Source::Environment, b"REMOTE_USER", b"ann"),
        (Source::Environment, b"app.note", b"n\n"),
        (Source::Environment, b"EMPTY", b""),
    ];
    for (source, name, value) in values {
        kept.offer(format.needs(), source, name, value);
    }
    kept
}

pub(crate) fn full(kept: &Kept) -> Record<'_> {
    Record {
        method: b"GET",
        target: b"/app/caf%C3%A9?q=1%20\"",
        path: "/app/café".as_bytes(),
        path_info: "/café".as_bytes(),
        query: b"q=1%20\"",
        protocol: b"HTTP/1.1",
        status: 200,
        body_bytes: 1000,
        bytes_in: 300,
        bytes_out: 1200,
        begin: 1_792_783_205_012_345_678,
        duration: 2_345_678_901,
        first_byte: Some(1_500_000),
        queue: Some(250_000),
        run: Some(1_100_000),
        send: Some(900_000),
        client: b"192.0.2.7",
        client_port: 40_000,
        peer: b"10.0.0.1",
        local: b"10.0.0.2",
        local_port: 8443,
        server_name: b"app.example",
        server_port: 443,
        host: b"WWW.Example.org:8443",
        keepalive: 3,
        connection: ConnectionState::KeepAlive,
        pid: 4321,
        tid: 4322,
        worker: Some(5),
        generation: 2,
        request_id: b"req-1",
        values: kept,
        ..Record::default()
    }
}

/// A line without its line feed.
pub(crate) fn line(format: &Format, record: &Record<'_>) -> String {
    let mut out = Vec::new();
    format.render(record, &mut out);
    assert_eq!(out.pop(), Some(b'\n'));
    String::from_utf8(out).expect("a line is ASCII")
}

pub(crate) fn show(format: &str, compat: Compat, change: impl FnOnce(&mut Record<'_>)) -> String {
    let format = compile(format, compat).unwrap();
    let kept = kept(&format);
    let mut record = full(&kept);
    change(&mut record);
    line(&format, &record)
}
