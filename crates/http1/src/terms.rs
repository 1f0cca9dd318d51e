//! What messages have in common: bounds, versions, framing. The codec and the front speak of them by these names.

/// Bounds on what one request may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest request line in bytes, without its CRLF; default 8192. Beyond: 414.
    pub request_line: usize,
    /// Longest head in bytes, from the first byte to the empty line; default 65536. Beyond: 431.
    /// Trailers and chunk extensions of one body are held to the same number of bytes each.
    pub head: usize,
    /// Most field lines in a head or in a trailer section; default 128. Beyond: 431.
    pub fields: usize,
    /// Longest body in bytes of content, without chunk framing; default 1 GiB. Beyond: 413.
    pub body: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_line: 8192, head: 65_536, fields: 128, body: 1 << 30 }
    }
}

/// Protocol version of a message; 1.2 to 1.9 count as 1.1 (RFC 9110 2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the end of a request body is found (RFC 9112 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Neither Content-Length nor Transfer-Encoding: no body.
    None,
    /// Content-Length, in bytes.
    Length(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
}

/// Whether a response to `method` with `status` may carry content: not for HEAD, 1xx, 204 and 304
/// (RFC 9112 6.3), nor for 205 (RFC 9110 15.3.6).
#[must_use]
pub fn body_allowed(method: &[u8], status: u16) -> bool {
    method != b"HEAD" && !matches!(status, 100..=199 | 204 | 205 | 304)
}
