//! The head of a response, as bytes.

use howdah_http1::Version;
use howdah_http1::encode::status_line;

use crate::clock::Clock;
use crate::delivery::Framing;
use crate::request_id;
use crate::response::Head;

/// Sent as the Server field.
const SERVER: &[u8] = b"Server: Howdah\r\n";
/// 426, which says by Upgrade to what. Whoever sends that field says in Connection that it does (RFC 9110 7.8).
const UPGRADE_REQUIRED: u16 = 426;

/// What is to be said besides the lines of the application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saying<'a> {
    pub(crate) version: Version,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    /// Whether to send the Server field.
    pub(crate) server: bool,
    /// X-Request-Id; empty for none.
    pub(crate) id: &'a [u8],
    /// Seconds in Strict-Transport-Security (RFC 6797); none for no such field.
    pub(crate) hsts: Option<u64>,
}

/// Appends a head.
pub(crate) fn put(out: &mut Vec<u8>, head: &Head, clock: &Clock, saying: Saying<'_>) {
    status_line(out, saying.version, head.status);
    if !head.has.date {
        out.extend_from_slice(b"Date: ");
        clock.put_date(out);
        out.extend_from_slice(b"\r\n");
    }
    if !head.has.server && saying.server {
        out.extend_from_slice(SERVER);
    }
    if !head.has.request_id {
        request_id::put(out, saying.id);
    }
    if let Some(seconds) = saying.hsts.filter(|_| !head.names(b"strict-transport-security")) {
        put_hsts(out, seconds);
    }
    out.extend_from_slice(&head.lines);
    if !out.ends_with(b"\r\n") {
        // Written over while it was copied: what follows must be understood all the same.
        out.extend_from_slice(b"\r\n");
    }
    put_framing(out, saying.framing);
    if head.status == UPGRADE_REQUIRED && head.names(b"upgrade") {
        out.extend_from_slice(b"Connection: Upgrade\r\n");
    }
    put_connection(out, saying.version, saying.keep_alive);
    out.extend_from_slice(b"\r\n");
}

fn put_hsts(out: &mut Vec<u8>, seconds: u64) {
    out.extend_from_slice(b"Strict-Transport-Security: max-age=");
    out.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn put_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Length(length) | Framing::Empty(Some(length)) => {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Empty(None) | Framing::Close => {}
    }
}

/// Appends the Connection field when the version's default is not what is meant (RFC 9112 9.3).
fn put_connection(out: &mut Vec<u8>, version: Version, keep_alive: bool) {
    match (version, keep_alive) {
        (Version::Http11, false) => out.extend_from_slice(b"Connection: close\r\n"),
        (Version::Http10, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Has;

    #[test]
    fn a_head_has_what_the_application_left_out_and_ends_its_lines_in_any_case() {
        let clock = Clock::new();
        let put = |lines: &'static [u8], has: Has, saying: Saying<'_>| {
            let head = Head { status: 200, lines: lines.into(), content_length: None, has, close: false };
            let mut out = Vec::new();
            put(&mut out, &head, &clock, saying);
            String::from_utf8(out).unwrap()
        };
        let all = Has { date: true, server: true, request_id: true };
        let (version, framing) = (Version::Http11, Framing::Length(2));
        let saying = Saying { version, framing, keep_alive: true, server: true, id: b"me", hsts: None };
        assert_eq!(put(b"A: b\r\n", all, saying), "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\n");
        let whole = put(b"A: b\r\n", Has::default(), saying);
        for line in ["\r\nDate: ", "\r\nServer: Howdah\r\n", "\r\nX-Request-Id: me\r\n"] {
            assert!(whole.contains(line), "{whole}");
        }
        assert!(!put(b"", Has::default(), Saying { server: false, ..saying }).contains("Server"));
        for (status, lines, named) in [
            (426, &b"Upgrade: chat\r\n"[..], true),
            (426, b"X-Upgrade: chat\r\n", false),
            (200, b"Upgrade: chat\r\n", false),
        ] {
            let head = Head { status, lines: lines.into(), content_length: None, has: all, close: false };
            let mut out = Vec::new();
            super::put(&mut out, &head, &clock, saying);
            let said = String::from_utf8(out).unwrap();
            assert_eq!(said.contains("\r\nConnection: Upgrade\r\n"), named, "{said}");
        }
        for (keep_alive, version, framing, end) in [
            (
                false,
                Version::Http11,
                Framing::Chunked,
                "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
            ),
            (
                true,
                Version::Http10,
                Framing::Length(2),
                "Content-Length: 2\r\nConnection: keep-alive\r\n\r\n",
            ),
            (false, Version::Http10, Framing::Close, "A: b\r\n\r\n"),
            (true, Version::Http11, Framing::Empty(None), "A: b\r\n\r\n"),
        ] {
            let head = put(b"A: b", all, Saying { keep_alive, version, framing, ..saying });
            assert!(head.ends_with(end) && head.contains("\r\nA: b\r\n"), "{head:?} {end:?}");
        }
    }
}
