//! Grammar of Host and of the authority of an absolute-form target (RFC 9110 7.2, RFC 3986 3.2).

use std::net::Ipv6Addr;

use crate::bytes::{is_hex, is_reg_name};

/// Whether `value` is `uri-host [ ":" port ]` with a host that is not empty and a port that fits in
/// 16 bits. Userinfo never is part of it.
#[must_use]
pub fn is_authority(value: &[u8]) -> bool {
    let host = match value.first() {
        Some(b'[') => ip_literal(value),
        _ => reg_name(value),
    };
    host.is_some_and(|len| len > 0 && is_port_suffix(&value[len..]))
}

/// Length of the reg-name or IPv4address at the start, up to a colon; none when it is malformed.
fn reg_name(value: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&b) = value.get(at) {
        match b {
            _ if is_reg_name(b) => at += 1,
            b'%' => {
                value.get(at + 1..at + 3).filter(|digits| digits.iter().all(|&d| is_hex(d)))?;
                at += 3;
            }
            b':' => break,
            _ => return None,
        }
    }
    Some(at)
}

/// Length of `[` address `]` at the start.
fn ip_literal(value: &[u8]) -> Option<usize> {
    let close = memchr::memchr(b']', value)?;
    let address = std::str::from_utf8(&value[1..close]).ok()?;
    (address.parse::<Ipv6Addr>().is_ok() || is_ip_future(address.as_bytes())).then_some(close + 1)
}

/// `"v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )`
fn is_ip_future(address: &[u8]) -> bool {
    let [b'v' | b'V', rest @ ..] = address else { return false };
    let Some(dot) = memchr::memchr(b'.', rest) else { return false };
    let (version, address) = (&rest[..dot], &rest[dot + 1..]);
    !version.is_empty()
        && version.iter().all(|&b| is_hex(b))
        && !address.is_empty()
        && address.iter().all(|&b| is_reg_name(b) || b == b':')
}

/// Empty, or a colon and a port; the port may be empty (RFC 3986 3.2.3).
fn is_port_suffix(suffix: &[u8]) -> bool {
    let digits = match suffix {
        [] => return true,
        [b':', digits @ ..] => digits,
        _ => return false,
    };
    let port = digits
        .iter()
        .try_fold(0u32, |port, b| b.is_ascii_digit().then(|| (port * 10 + u32::from(b - b'0')).min(1 << 16)));
    port.is_some_and(|port| port < 1 << 16)
}
