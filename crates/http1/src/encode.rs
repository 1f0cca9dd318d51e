//! The response side: status line, fields, chunk framing, date.
use crate::Version;

/// Ends a chunked body that has no trailers (RFC 9112 7.1).
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// Follows the data of every chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The standard reason phrase of `status`, empty when there is none.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    let _ = status;
    todo!()
}

/// Appends a status line; pass the version of the request.
pub fn status_line(out: &mut Vec<u8>, version: Version, status: u16) {
    let _ = (out, version, status);
    todo!()
}

/// Appends `name: value` and CRLF. The caller has checked both for CR, LF and NUL.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let _ = (out, name, value);
    todo!()
}

/// Appends the size line of a chunk of `len` bytes; nothing for 0, which would end the body.
pub fn chunk_head(out: &mut Vec<u8>, len: usize) {
    let _ = (out, len);
    todo!()
}

/// Formats a time for Date and the like: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 5.6.7).
#[must_use]
pub fn imf_fixdate(unix_secs: u64) -> [u8; 29] {
    let _ = unix_secs;
    todo!()
}
