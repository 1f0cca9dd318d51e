//! One address in a field: `10.0.0.1`, `10.0.0.1:80`, `[2001:db8::1]:80`, and as many proxies write it, `2001:db8::1`.

use std::net::{IpAddr, SocketAddr};

/// Address, and port if there is one. None for whatever else stands there: `unknown`, `_hidden`, a host's name, nonsense.
pub(crate) fn node(text: &[u8]) -> Option<(IpAddr, Option<u16>)> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_canonical(), None));
    }
    if let Ok(both) = text.parse::<SocketAddr>() {
        return Some((both.ip().to_canonical(), Some(both.port())));
    }
    // A port that is hidden (RFC 7239 6) is none.
    let (node, hides) = text.split_once(":_").map_or((text, false), |(node, _)| (node, true));
    let address = match node.strip_prefix('[') {
        Some(inner) => IpAddr::V6(inner.strip_suffix(']')?.parse().ok()?),
        None if hides => IpAddr::V4(node.parse().ok()?),
        None => return None,
    };
    Some((address.to_canonical(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_an_address_and_perhaps_a_port() {
        for (text, shown) in [
            ("10.0.0.1", "10.0.0.1 None"),
            ("10.0.0.1:80", "10.0.0.1 Some(80)"),
            ("2001:db8::1", "2001:db8::1 None"),
            ("[2001:db8::1]", "2001:db8::1 None"),
            ("[2001:db8::1]:80", "2001:db8::1 Some(80)"),
            ("[2001:db8::1]:_x", "2001:db8::1 None"),
            ("10.0.0.1:_x", "10.0.0.1 None"),
            ("::ffff:10.0.0.1", "10.0.0.1 None"),
        ] {
            let (address, port) = node(text.as_bytes()).unwrap();
            assert_eq!(format!("{address} {port:?}"), shown);
        }
        for text in [
            "",
            "unknown",
            "_x",
            "example.org",
            "10.0.0.1:",
            "10.0.0.1:70000",
            "010.0.0.1",
            "[::1",
            "[::1]x",
            "::1:_x",
            "[10.0.0.1]:_x",
            "\u{ff11}",
        ] {
            assert_eq!(node(text.as_bytes()), None, "{text}");
        }
        assert_eq!(node(b"\xff"), None);
    }
}
