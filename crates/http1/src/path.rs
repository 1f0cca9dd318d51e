//! Percent-decoding of the path, for PATH_INFO.

use memchr::memchr;

use crate::bytes::hex_value;
use crate::reject::{PERCENT, PERCENT_NUL, Reject};

/// Appends the percent-decoded `raw` path to `out` (RFC 3986 2.1); `+` stays as it is.
///
/// # Errors
/// 400 for a `%` that two hexadecimal digits do not follow, and for `%00`, which would end the path
/// early for everything written in C. `out` then holds the part before.
pub fn decode_path(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Reject> {
    let mut rest = raw;
    while let Some(at) = memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        out.push(decode_triplet(&rest[at + 1..])?);
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn decode_triplet(digits: &[u8]) -> Result<u8, Reject> {
    let [high, low, ..] = digits else { return Err(PERCENT) };
    match (hex_value(*high), hex_value(*low)) {
        (Some(0), Some(0)) => Err(PERCENT_NUL),
        (Some(high), Some(low)) => Ok(high << 4 | low),
        _ => Err(PERCENT),
    }
}
