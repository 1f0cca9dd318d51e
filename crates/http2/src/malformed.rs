//! Every rule that the head of a request can break, in one list: words for the log, and clause.

use std::fmt;

/// Why a request is malformed (RFC 9113 8.1.1): its stream is to be reset by `PROTOCOL_ERROR`, and nobody hears of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The rule that was broken, for the log.
    pub reason: &'static str,
    /// Where that rule is written, such as `RFC 9113 8.2.2`.
    pub clause: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.clause)
    }
}

impl std::error::Error for Malformed {}

const fn rule(reason: &'static str, clause: &'static str) -> Malformed {
    Malformed { reason, clause }
}

// Pseudo-header fields
pub(crate) const SCHEME: Malformed = rule("scheme is neither http nor https", "RFC 9113 8.3.1");
pub(crate) const NO_SCHEME: Malformed = rule("request without :scheme", "RFC 9113 8.3.1");
pub(crate) const NO_PATH: Malformed = rule("request without :path", "RFC 9113 8.3.1");
pub(crate) const PATH: Malformed = rule("path begins with no / and is no *", "RFC 9113 8.3.1");
pub(crate) const PROTOCOL: Malformed = rule(":protocol in another method than CONNECT", "RFC 8441 4");
pub(crate) const CONNECT: Malformed = rule(":scheme or :path in a CONNECT without :protocol", "RFC 9113 8.5");
pub(crate) const TWO_HOSTS: Malformed = rule(":authority and Host disagree", "RFC 9113 8.3.1");
pub(crate) const PSEUDO_BYTES: Malformed =
    rule("space or control byte in a pseudo-header field", "RFC 9113 8.2.1");

// Fields
pub(crate) const NAME: Malformed = rule("field name is no token in lower case", "RFC 9113 8.2.1");
pub(crate) const VALUE: Malformed = rule("control byte in a field value", "RFC 9113 8.2.1");
pub(crate) const EDGE: Malformed = rule("field value begins or ends with whitespace", "RFC 9113 8.2.1");
pub(crate) const OF_CONNECTION: Malformed = rule("field of a connection of HTTP/1", "RFC 9113 8.2.2");
pub(crate) const LENGTH: Malformed = rule("Content-Length in a request for a tunnel", "RFC 9110 9.3.6");
pub(crate) const TE: Malformed = rule("TE other than trailers", "RFC 9113 8.2.2");
