//! The head of a response: how its body is delimited (RFC 9112 6.3), and the bytes of the head.

use howdah_http1::encode::status_line;
use howdah_http1::{Version, body_allowed};
use howdah_wire::{RESPONSE_HAS_DATE, RESPONSE_HAS_REQUEST_ID, RESPONSE_HAS_SERVER};

use crate::refusal::put_connection;
use crate::request_id;
use crate::thread::here;

/// Sent as the Server field.
const SERVER: &[u8] = b"Server: Howdah\r\n";

/// How the end of a response is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body; a length is told all the same when known.
    Empty(Option<u64>),
    /// By Content-Length.
    Length(u64),
    /// By chunks.
    Chunked,
    /// By the end of the connection, for HTTP/1.0.
    Close,
}

impl Framing {
    /// `given` is the application's Content-Length, `known` the length of the body when all of it is there.
    pub(crate) fn choose(
        version: Version,
        is_head: bool,
        status: u16,
        given: Option<u64>,
        known: Option<u64>,
    ) -> Self {
        let method: &[u8] = if is_head { b"HEAD" } else { b"GET" };
        if !body_allowed(method, status) {
            // 1xx and 204 must not have the field (RFC 9110 8.6).
            return Self::Empty(if status == 304 || is_head && status != 204 && status >= 200 {
                given
            } else {
                None
            });
        }
        match (given.or(known), version) {
            (Some(length), _) => Self::Length(length),
            (None, Version::Http11) => Self::Chunked,
            (None, Version::Http10) => Self::Close,
        }
    }
}

/// What the head says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseHead {
    pub(crate) version: Version,
    pub(crate) status: u16,
    /// RESPONSE_ flags of the worker.
    pub(crate) flags: u32,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
}

impl ResponseHead {
    /// Appends it; `lines` are the application's fields as the worker wrote them, `id` is the request's or empty.
    pub(crate) fn put(&self, out: &mut Vec<u8>, lines: &[u8], id: &[u8]) {
        let thread = here();
        status_line(out, self.version, self.status);
        if self.flags & RESPONSE_HAS_DATE == 0 {
            out.extend_from_slice(b"Date: ");
            thread.clock.put_date(out);
            out.extend_from_slice(b"\r\n");
        }
        if self.flags & RESPONSE_HAS_SERVER == 0 && thread.config.server_header {
            out.extend_from_slice(SERVER);
        }
        if self.flags & RESPONSE_HAS_REQUEST_ID == 0 {
            request_id::put(out, id);
        }
        out.extend_from_slice(lines);
        if !out.ends_with(b"\r\n") {
            // Written over while it was copied: what follows must be understood all the same.
            out.extend_from_slice(b"\r\n");
        }
        self.put_framing(out);
        put_connection(out, self.version, self.keep_alive);
        out.extend_from_slice(b"\r\n");
    }

    fn put_framing(&self, out: &mut Vec<u8>) {
        match self.framing {
            Framing::Length(length) | Framing::Empty(Some(length)) => {
                out.extend_from_slice(b"Content-Length: ");
                out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::Empty(None) | Framing::Close => {}
        }
    }
}
