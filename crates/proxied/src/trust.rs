//! Whose word counts: the addresses of proxies.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

/// Who may be at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Those with an address of this network.
    Net(IpNet),
    /// Whoever may open a Unix socket of ours.
    Unix,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(net) => net.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

impl FromStr for Peer {
    type Err = &'static str;

    /// A single address is a network of one. White space around it is none of it, as in a list with blanks behind its commas.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse()
            .or_else(|_| address())
            .map(|net| Self::Net(canonical(net)))
            .map_err(|_| "not an address or a network: write 10.1.2.3, 10.0.0.0/8, 2001:db8::/32 or unix")
    }
}

/// IPv4 as IPv6 writes it (`::ffff:10.0.0.0/104`) is IPv4, as the addresses are that it is compared with.
fn canonical(net: IpNet) -> IpNet {
    let inner = match net.addr().to_canonical() {
        IpAddr::V4(address) if net.addr().is_ipv6() => {
            net.prefix_len().checked_sub(96).map(|bits| (address, bits))
        }
        _ => None,
    };
    inner.and_then(|(address, bits)| Ipv4Net::new(address, bits).ok()).map_or(net, IpNet::V4)
}

/// The proxies that are trusted. Nobody is, unless they are named.
#[derive(Clone, Debug, Default)]
pub struct Trust(Vec<Peer>);

impl Trust {
    /// These.
    #[must_use]
    pub fn new(peers: Vec<Peer>) -> Self {
        Self(peers)
    }

    /// Whether who has that address is one; none is a Unix socket's.
    #[must_use]
    pub fn holds(&self, address: Option<IpAddr>) -> bool {
        self.0.iter().any(|peer| match (peer, address) {
            (Peer::Net(net), Some(address)) => net.contains(&address.to_canonical()),
            (Peer::Unix, None) => true,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_written_as_addresses_networks_or_unix() {
        for (text, shown) in [
            ("unix", "unix"),
            ("10.1.2.3", "10.1.2.3/32"),
            (" 10.0.0.0/8\t", "10.0.0.0/8"),
            ("::1", "::1/128"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::ffff:10.1.2.3", "10.1.2.3/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0.0.0.0/95", "::ffff:0.0.0.0/95"),
        ] {
            assert_eq!(text.parse::<Peer>().map(|peer| peer.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for text in ["", "localhost", "Unix", "10.0.0.0/33", "10.0.0", "::1/200"] {
            assert!(text.parse::<Peer>().is_err(), "{text}");
        }
    }

    #[test]
    fn those_are_trusted_who_are_named() {
        let trust =
            |list: &str| Trust::new(list.split_whitespace().map(|text| text.parse().unwrap()).collect());
        for (list, address, holds) in [
            ("", Some("127.0.0.1"), false),
            ("", None, false),
            ("unix", None, true),
            ("unix", Some("127.0.0.1"), false),
            ("10.0.0.0/8", Some("10.1.2.3"), true),
            ("10.0.0.0/8", Some("::ffff:10.1.2.3"), true),
            ("10.0.0.0/8", Some("11.1.2.3"), false),
            ("::ffff:10.0.0.0/104", Some("10.1.2.3"), true),
            ("::ffff:10.0.0.0/104", Some("::ffff:11.1.2.3"), false),
            ("10.0.0.0/8 ::1", Some("::1"), true),
            ("0.0.0.0/0", Some("::1"), false),
            ("0.0.0.0/0 ::/0", None, false),
        ] {
            let address = address.map(|text| text.parse().unwrap());
            assert_eq!(trust(list).holds(address), holds, "{list}: {address:?}");
        }
    }
}
