//! Every rule a request can break, in one list: status, words for the log, clause.
//!
//! The other modules return these constants and decide nothing else about an error.

use std::fmt;

/// Why a request is refused: the client's fault, to be answered with `status`; the connection must
/// be closed after the answer because its framing can no longer be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject {
    /// Status code to answer with.
    pub status: u16,
    /// The rule that was broken, for the log.
    pub reason: &'static str,
    /// Where that rule is written, such as `RFC 9112 5.1`.
    pub clause: &'static str,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.reason, self.status, self.clause)
    }
}

impl std::error::Error for Reject {}

const fn rule(status: u16, reason: &'static str, clause: &'static str) -> Reject {
    Reject { status, reason, clause }
}

// Lines
pub(crate) const BARE_LF: Reject = rule(400, "line ends in LF without CR", "RFC 9112 2.2");
pub(crate) const BARE_CR: Reject = rule(400, "CR without LF", "RFC 9112 2.2");
pub(crate) const EMPTY_LINES: Reject =
    rule(400, "more than two empty lines before the request line", "RFC 9112 2.2");

// Request line
pub(crate) const METHOD: Reject = rule(400, "method is not a token followed by a space", "RFC 9112 3.1");
pub(crate) const LONG_METHOD: Reject = rule(501, "method is longer than any known one", "RFC 9112 3");
pub(crate) const LONG_LINE: Reject = rule(414, "request line is too long", "RFC 9112 3");
pub(crate) const NO_VERSION: Reject = rule(400, "request line has no HTTP version", "RFC 9112 3");
pub(crate) const BAD_VERSION: Reject = rule(400, "malformed HTTP version", "RFC 9112 2.3");
pub(crate) const VERSION: Reject = rule(505, "HTTP version is not 1.x", "RFC 9110 15.6.6");
pub(crate) const CONNECT: Reject = rule(501, "CONNECT is for proxies", "RFC 9110 9.3.6");

// Request target
pub(crate) const TARGET_BYTES: Reject =
    rule(400, "space, control or 8-bit byte in the request target", "RFC 9112 3.2");
pub(crate) const FRAGMENT: Reject = rule(400, "fragment in the request target", "RFC 9110 7.1");
pub(crate) const TARGET: Reject =
    rule(400, "request target is neither a path nor an http or https URI", "RFC 9112 3.2");
pub(crate) const ASTERISK: Reject = rule(400, "request target * without OPTIONS", "RFC 9112 3.2.4");
pub(crate) const AUTHORITY: Reject = rule(400, "invalid authority in the request target", "RFC 9110 4.2.1");

// Field lines
pub(crate) const HEAD_SIZE: Reject = rule(431, "head is too large", "RFC 6585 5");
pub(crate) const FIELD_COUNT: Reject = rule(431, "head has too many fields", "RFC 6585 5");
pub(crate) const FOLD: Reject = rule(400, "field line begins with whitespace (obs-fold)", "RFC 9112 5.2");
pub(crate) const NO_COLON: Reject = rule(400, "field line without a colon", "RFC 9112 5");
pub(crate) const EMPTY_NAME: Reject = rule(400, "field name is empty", "RFC 9110 5.1");
pub(crate) const NAME_SPACE: Reject = rule(400, "whitespace before the colon of a field", "RFC 9112 5.1");
pub(crate) const FIELD_NAME: Reject = rule(400, "field name is not a token", "RFC 9110 5.1");
pub(crate) const FIELD_VALUE: Reject = rule(400, "control byte in a field value", "RFC 9110 5.5");
pub(crate) const REPEATED_TYPE: Reject = rule(400, "repeated Content-Type", "RFC 9110 8.3");

// Host
pub(crate) const NO_HOST: Reject = rule(400, "request without Host", "RFC 9112 3.2");
pub(crate) const REPEATED_HOST: Reject = rule(400, "repeated Host", "RFC 9112 3.2");
pub(crate) const HOST: Reject = rule(400, "invalid Host", "RFC 9112 3.2");
pub(crate) const EMPTY_HOST: Reject = rule(400, "empty Host names no authority", "RFC 9112 3.3");

// Framing
pub(crate) const LENGTH: Reject = rule(400, "Content-Length is not a decimal number", "RFC 9110 8.6");
pub(crate) const LENGTH_OVERFLOW: Reject = rule(400, "Content-Length overflows 64 bits", "RFC 9110 8.6");
pub(crate) const REPEATED_LENGTH: Reject = rule(400, "repeated Content-Length", "RFC 9112 6.3");
pub(crate) const LENGTH_AND_CODING: Reject =
    rule(400, "Content-Length together with Transfer-Encoding", "RFC 9112 6.3");
pub(crate) const CODING_IN_10: Reject = rule(400, "Transfer-Encoding in HTTP/1.0", "RFC 9112 6.1");
pub(crate) const CODING_SYNTAX: Reject = rule(400, "malformed Transfer-Encoding", "RFC 9112 7");
pub(crate) const CHUNKED_TWICE: Reject = rule(400, "chunked is applied twice", "RFC 9112 7.1");
pub(crate) const CHUNKED_NOT_FINAL: Reject = rule(400, "chunked is not the final coding", "RFC 9112 6.3");
pub(crate) const CHUNKED_PARAMETER: Reject = rule(400, "chunked has no parameters", "RFC 9112 7.1");
pub(crate) const UNKNOWN_CODING: Reject = rule(501, "transfer coding other than chunked", "RFC 9112 6.1");
/// A body beyond [`crate::Limits::body`].
pub const BODY_SIZE: Reject = rule(413, "body is too large", "RFC 9110 15.5.14");
pub(crate) const EXPECT: Reject = rule(417, "expectation other than 100-continue", "RFC 9110 10.1.1");

// Chunked body
pub(crate) const CHUNK_SIZE: Reject = rule(400, "malformed chunk size", "RFC 9112 7.1");
pub(crate) const CHUNK_OVERFLOW: Reject = rule(400, "chunk size has more than 16 digits", "RFC 9112 7.1");
pub(crate) const CHUNK_END: Reject = rule(400, "chunk data does not end in CRLF", "RFC 9112 7.1");
pub(crate) const CHUNK_EXTENSION: Reject = rule(400, "malformed chunk extension", "RFC 9112 7.1.1");
pub(crate) const EXTENSION_SIZE: Reject = rule(413, "chunk extensions are too large", "RFC 9112 7.1.1");
pub(crate) const TRAILER_SIZE: Reject = rule(431, "trailers are too large", "RFC 6585 5");
pub(crate) const TRAILER_COUNT: Reject = rule(431, "too many trailers", "RFC 6585 5");
pub(crate) const TRAILER: Reject = rule(400, "malformed trailer", "RFC 9112 7.1.2");

// Path
pub(crate) const PERCENT: Reject = rule(400, "malformed percent-encoding in the path", "RFC 3986 2.1");
pub(crate) const PERCENT_NUL: Reject = rule(400, "%00 in the path", "RFC 3986 7.3");
