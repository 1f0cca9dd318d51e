//! What a handler yields. It knows no protocol: how a body is delimited, and whether the connection goes on, is the
//! business of whoever sends it.

use std::borrow::Cow;
use std::os::fd::OwnedFd;

use crate::capacity::Permit;
use crate::fault::Fault;
use crate::slots::Ring;

/// 101 (Switching Protocols).
pub(crate) const SWITCHING: u16 = 101;

/// Something that a handler has for the protocol.
#[derive(Debug)]
pub(crate) enum Event {
    /// The response. Of a [`Body::Ring`] more may come.
    Response(Response),
    /// What is at this path and query is to answer instead.
    Redirect(Vec<u8>),
    /// An interim response, to be sent before it.
    Interim { status: u16, lines: Vec<u8> },
    /// The application wants the client's connection.
    Takeover,
    /// It has had the connection, and is through.
    Detached,
    /// It is time to look whether the client is still there.
    Look,
    /// There is no response.
    Fault(Fault),
}

/// A response, or its beginning.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body: Body,
}

/// Its head, without what the protocol says by itself.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Field lines, each with its CRLF.
    pub(crate) lines: Cow<'static, [u8]>,
    /// Content-Length as the handler gave it.
    pub(crate) content_length: Option<u64>,
    /// Fields that are among the lines, so that nobody adds another.
    pub(crate) has: Has,
    /// The connection is not to be used for another request.
    pub(crate) close: bool,
}

impl Head {
    /// Whether a field of that name, in lower case, is among the lines.
    pub(crate) fn names(&self, name: &[u8]) -> bool {
        self.lines.split(|&byte| byte == b'\n').any(|line| {
            line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
                && line.get(name.len()) == Some(&b':')
        })
    }
}

/// Fields that we would add.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Has {
    pub(crate) date: bool,
    pub(crate) server: bool,
    pub(crate) request_id: bool,
}

/// Where the body is.
#[derive(Debug)]
pub(crate) enum Body {
    Bytes(Cow<'static, [u8]>),
    /// With a worker that writes it, behind the head's lines, which come first in the ring; of so many bytes when all of
    /// them are there.
    Ring(Ring, Option<u64>),
    File(BodyFile),
}

/// A file that a worker has sent.
#[derive(Debug)]
pub(crate) struct BodyFile {
    pub(crate) file: OwnedFd,
    pub(crate) length: u64,
    pub(crate) ring: Ring,
    pub(crate) permit: Permit,
}

impl Body {
    /// Its length, when that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Ring(_, whole) => *whole,
            Self::File(file) => Some(file.length),
        }
    }
}

impl Response {
    /// A few words of our own.
    pub(crate) fn plain(status: u16, lines: &[&str], words: String) -> Self {
        let lines = lines.iter().flat_map(|line| [line.as_bytes(), b"\r\n"]).collect::<Vec<_>>().concat();
        // What we say by ourselves has never borne our name.
        let has = Has { server: true, ..Has::default() };
        let content_length = Some(words.len() as u64);
        let head = Head { status, lines: lines.into(), content_length, has, close: false };
        Self { head, body: Body::Bytes(words.into_bytes().into()) }
    }

    /// What a client gets in the place of an answer.
    pub(crate) fn refusal(fault: Fault) -> Self {
        let status = fault.status();
        let words = format!("{status} {}\n", howdah_http1::encode::reason(status));
        let retry: &[&str] = if status == 503 {
            &["Content-Type: text/plain", "Retry-After: 1"]
        } else {
            &["Content-Type: text/plain"]
        };
        Self::plain(status, retry, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_its_status_and_when_to_come_again() {
        for (fault, lines, words) in [
            (Fault::WorkerLost, "Content-Type: text/plain\r\n", "502 Bad Gateway\n"),
            (Fault::QueueFull, "Content-Type: text/plain\r\nRetry-After: 1\r\n", "503 Service Unavailable\n"),
        ] {
            let response = Response::refusal(fault);
            assert_eq!((response.head.status, &*response.head.lines), (fault.status(), lines.as_bytes()));
            assert_eq!(response.body.length(), Some(words.len() as u64));
            assert!(matches!(&response.body, Body::Bytes(bytes) if **bytes == *words.as_bytes()));
        }
    }

    #[test]
    fn the_length_of_a_body_is_known_when_all_of_it_is_there() {
        for (body, length) in
            [(Body::Bytes(b"four"[..].into()), Some(4)), (Body::Bytes(b""[..].into()), Some(0))]
        {
            assert_eq!(body.length(), length);
        }
    }
}
