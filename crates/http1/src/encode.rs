//! The response side: status line, fields, chunk framing and the date.
//!
//! Called by the front, which has checked what the application gave it; all functions append to a
//! buffer that goes out in one write.

use crate::terms::Version;

pub use crate::date::imf_fixdate;

/// Ends a chunked body that has no trailers (RFC 9112 7.1).
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The registered reason phrase of `status`; empty for others, which is allowed (RFC 9112 4).
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        100..=199 => informational(status),
        200..=299 => successful(status),
        300..=399 => redirection(status),
        400..=499 => client_error(status),
        _ => server_error(status),
    }
}

fn informational(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        _ => "",
    }
}

fn successful(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        _ => "",
    }
}

fn redirection(status: u16) -> &'static str {
    match status {
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => "",
    }
}

fn client_error(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        _ => "",
    }
}

fn server_error(status: u16) -> &'static str {
    match status {
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => "",
    }
}

/// Appends a status line. Pass the version of the request: RFC 9110 2.5 would let a server answer
/// HTTP/1.0 with its own 1.1, but old clients (`ab -k` among them) expect an answer in kind.
pub fn status_line(out: &mut Vec<u8>, version: Version, status: u16) {
    if version == Version::Http11 && status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(match version {
        Version::Http10 => b"HTTP/1.0 ",
        Version::Http11 => b"HTTP/1.1 ",
    });
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a field line. The caller has made sure that `name` is a token and that `value` has no
/// CR, LF or NUL (RFC 9110 5.5).
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the size line of a chunk of `len` bytes, to be followed by the data and CRLF.
/// Appends nothing for 0, which would end the body: an empty write must not.
pub fn chunk_head(out: &mut Vec<u8>, len: usize) {
    if len == 0 {
        return;
    }
    let digits = len.ilog2() / 4 + 1;
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[len >> (4 * digit) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}
