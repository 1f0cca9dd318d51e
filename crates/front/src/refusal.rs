//! Answers that the front gives by itself. Whose fault it is decides status, log level and what becomes of the
//! connection, here and nowhere else.

use howdah_http1::encode::reason;
use howdah_http1::{Reject, Version};
use howdah_metrics::Failure;

use crate::request_id;
use crate::thread::here;

/// Why a request gets no answer from the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client broke a rule of the protocol. Where its next request would begin is not known.
    Rejected(Reject),
    /// The client was too slow.
    Timeout(&'static str),
    /// The request's fields do not fit a slot.
    TooLarge,
    /// As many requests wait as may.
    Overload,
    /// The body could not be kept: no space, no descriptor.
    NoSpool,
    /// The worker died (502), exited (500), failed (500) or took too long (504) without an answer, or that was a file
    /// for which no descriptor is left (503).
    NoAnswer(u16),
}

impl Refusal {
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Rejected(reject) => reject.status,
            Self::Timeout(_) => 408,
            Self::TooLarge => 431,
            Self::Overload | Self::NoSpool => 503,
            Self::NoAnswer(status) => status,
        }
    }

    /// What it counts as.
    pub(crate) fn failure(self) -> Failure {
        match self.status() {
            503 if self != Self::Overload => Failure::Resources,
            408 => Failure::ReadTimeout,
            413 | 414 | 431 => Failure::TooLarge,
            400..=499 | 501 | 505 => Failure::BadRequest,
            502 => Failure::WorkerLost,
            503 => Failure::QueueFull,
            504 => Failure::Deadline,
            _ => Failure::Application,
        }
    }

    /// True when the request was read to its end, so the connection can be used for another one.
    pub(crate) fn may_continue(self) -> bool {
        matches!(self, Self::TooLarge | Self::Overload | Self::NoAnswer(_))
    }

    /// Tells the log, at a level that follows from whose fault it is: a client's faults are for whoever looks for them.
    pub(crate) fn log(self, peer: &str) {
        match self {
            Self::Rejected(reject) => tracing::debug!(peer, "refused a request: {reject}"),
            Self::Timeout(what) => {
                tracing::debug!(peer, "gave up on a slow client: {what} took too long (408)");
            }
            Self::TooLarge => tracing::debug!(peer, "refused a request: its fields do not fit a slot (431)"),
            Self::Overload => here().count_overload(),
            Self::NoSpool | Self::NoAnswer(_) => {} // whoever knows more has told
        }
    }

    /// Appends the whole response, with the request's `id` if there is one; gives the length of its head.
    pub(crate) fn put(
        self,
        out: &mut Vec<u8>,
        version: Version,
        keep_alive: bool,
        with_body: bool,
        id: &[u8],
    ) -> usize {
        let start = out.len();
        let status = self.status();
        let body = format!("{status} {}\n", reason(status));
        howdah_http1::encode::status_line(out, version, status);
        out.extend_from_slice(b"Date: ");
        here().clock.put_date(out);
        out.extend_from_slice(b"\r\nContent-Type: text/plain\r\nContent-Length: ");
        out.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
        out.extend_from_slice(if status == 503 { b"\r\nRetry-After: 1\r\n" } else { b"\r\n" });
        request_id::put(out, id);
        put_connection(out, version, keep_alive);
        out.extend_from_slice(b"\r\n");
        let head = out.len() - start;
        if with_body {
            out.extend_from_slice(body.as_bytes());
        }
        head
    }
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Self {
        Self::Rejected(reject)
    }
}

/// Appends the Connection field when the version's default is not what is meant (RFC 9112 9.3).
pub(crate) fn put_connection(out: &mut Vec<u8>, version: Version, keep_alive: bool) {
    match (version, keep_alive) {
        (Version::Http11, false) => out.extend_from_slice(b"Connection: close\r\n"),
        (Version::Http10, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        _ => {}
    }
}
