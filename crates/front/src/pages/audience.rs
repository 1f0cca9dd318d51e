//! Who may see the pages about the server itself, status and metrics. `page` asks for each request for one of them.
//!
//! The address alone says little. A proxy on this machine lends its own to the whole world, and a browser on this machine
//! does what the pages of strangers tell it, who may give their name any address (DNS rebinding). So a request from
//! this machine must also ask for this machine, come from no page of elsewhere, and have been passed on by nobody.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use howdah_proxied::Trust;

use crate::request::Request;

/// Why a request gets 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outsider {
    /// Nobody has named its address.
    Address,
    /// It came over a Unix socket, which most likely is a proxy's.
    Unix,
    /// A proxy has passed it on, and says so in this field.
    Proxied(&'static str),
    /// It is for a name that is not this machine's alone.
    Host,
    /// A page of elsewhere has sent it: this field says so.
    Page(&'static str),
}

impl fmt::Display for Outsider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => {
                f.write_str("this page is for clients on this machine, or those of --status-allow")
            }
            Self::Unix => {
                f.write_str("this page is not shown over a Unix socket, but with --status-allow unix")
            }
            Self::Proxied(field) => {
                write!(f, "a proxy has passed the request on ({field}); such may see it by --status-listen")
            }
            Self::Host => f.write_str("on this machine, ask for localhost, 127.0.0.1 or [::1]"),
            Self::Page(field) => write!(f, "a page of another site asks for it ({field})"),
        }
    }
}

/// Fields by which proxies tell of themselves or of the client behind them.
const PROXIED: [&str; 10] = [
    "Via",
    "Forwarded",
    "X-Real-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "X-Original-Forwarded-For",
    "True-Client-IP",
    "CF-Connecting-IP",
    "Fastly-Client-IP",
    "X-Forwarded",
];

/// Begins X-Forwarded-For, -Host, -Proto and whatever else proxies invent.
const FORWARDED: &str = "X-Forwarded-";

/// Fields that name the page from which a browser asks.
const PAGES: [&str; 2] = ["Origin", "Referer"];

/// Judges a request of a client with the address `peer`, or of none over a Unix socket.
pub(crate) fn admit(request: &Request<'_>, peer: Option<IpAddr>, allow: &Trust) -> Result<(), Outsider> {
    if !allow.holds(peer) {
        return Err(if peer.is_some() { Outsider::Address } else { Outsider::Unix });
    }
    // Where a trusted proxy has told it, the address is the client's own.
    if !request.vouched
        && let Some(field) = request.fields.clone().find_map(|field| proxied(field.name))
    {
        return Err(Outsider::Proxied(field));
    }
    let host = host_of(request.authority);
    let near = peer.is_none_or(|address| address.is_loopback());
    if near && !is_loopback(host) {
        return Err(Outsider::Host);
    }
    let own = |from: &[u8]| from.eq_ignore_ascii_case(host) || (near && is_loopback(from));
    let foreign = request.fields.clone().find_map(|field| {
        let name = is_one_of(&PAGES, field.name)?;
        (!host_of_url(field.value).is_some_and(own)).then_some(name)
    });
    foreign.map_or(Ok(()), |field| Err(Outsider::Page(field)))
}

fn proxied(name: &[u8]) -> Option<&'static str> {
    let start = name.get(..FORWARDED.len()).unwrap_or_default();
    is_one_of(&PROXIED, name)
        .or_else(|| start.eq_ignore_ascii_case(FORWARDED.as_bytes()).then_some("X-Forwarded-*"))
}

fn is_one_of(names: &[&'static str], name: &[u8]) -> Option<&'static str> {
    names.iter().copied().find(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Without the port; an IPv6 address keeps its brackets.
fn host_of(authority: &[u8]) -> &[u8] {
    let end = match authority.first() {
        Some(b'[') => authority.iter().position(|&byte| byte == b']').map(|at| at + 1),
        _ => authority.iter().position(|&byte| byte == b':'),
    };
    &authority[..end.unwrap_or(authority.len())]
}

/// The host of an http or https URL; none when it is something else, such as `null`.
fn host_of_url(url: &[u8]) -> Option<&[u8]> {
    let colon = url.iter().position(|&byte| byte == b':')?;
    let (scheme, rest) = url.split_at(colon);
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return None;
    }
    let rest = rest.strip_prefix(b"://")?;
    let authority = rest.split(|byte| b"/?#\\".contains(byte)).next()?;
    let behind_userinfo = authority.rsplit(|&byte| byte == b'@').next()?;
    Some(host_of(behind_userinfo))
}

/// A name or address that leads to this machine for everybody. A name that a server of names is asked for is none.
fn is_loopback(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().is_ok_and(|address| address.to_canonical().is_loopback());
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    name.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn judge(head: &str, peer: Option<IpAddr>, allow: &str) -> Result<(), Outsider> {
        let allow = Trust::new(allow.split(',').map(|peer| peer.parse().unwrap()).collect());
        sample::with(head, &sample::client(""), |request| admit(request, peer, &allow))
    }

    fn ask(fields: &str, peer: Option<IpAddr>, allow: &str) -> Result<(), Outsider> {
        judge(&format!("GET /s HTTP/1.1\r\n{fields}\r\n\r\n"), peer, allow)
    }

    const DEFAULT: &str = "127.0.0.0/8,::1/128";

    #[test]
    fn a_local_request_asks_for_a_loopback_name_or_address() {
        for host in [
            "localhost",
            "LocalHost:5000",
            "localhost.",
            "localhost:",
            "127.0.0.1",
            "127.0.0.1:5000",
            "127.1.2.3:80",
            "[::1]",
            "[::1]:5000",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]:5000",
        ] {
            assert_eq!(ask(&format!("Host: {host}"), HERE, DEFAULT), Ok(()), "{host}");
        }
        for host in [
            "example.org",
            "example.org:5000",
            "localhost.example.org",
            "notlocalhost",
            "a.localhost",
            "localhost..",
            "127.0.0.1.example.org",
            "127.0.0.1.",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "0.0.0.0",
            "10.0.0.1",
            "128.0.0.1",
            "[::]",
            "[::2]",
            "[::ffff:10.0.0.1]",
            "[fe80::1]",
            "%6cocalhost",
            "howdah",
        ] {
            assert_eq!(ask(&format!("Host: {host}"), HERE, DEFAULT), Err(Outsider::Host), "{host}");
        }
    }

    #[test]
    fn the_host_is_that_of_the_target_and_none_is_nobodys() {
        let cases = [
            ("GET /s HTTP/1.0\r\n\r\n", Err(Outsider::Host)),
            ("GET /s HTTP/1.0\r\nHost:\r\n\r\n", Err(Outsider::Host)),
            ("GET /s HTTP/1.0\r\nHost: localhost\r\n\r\n", Ok(())),
            ("GET http://evil.example/s HTTP/1.1\r\nHost: localhost\r\n\r\n", Err(Outsider::Host)),
            ("GET http://localhost/s HTTP/1.1\r\nHost: localhost\r\n\r\n", Ok(())),
        ];
        for (head, outcome) in cases {
            assert_eq!(judge(head, HERE, DEFAULT), outcome, "{head:?}");
        }
    }

    #[test]
    fn what_a_page_of_elsewhere_asks_for_is_not_local() {
        for field in [
            "Origin: http://localhost:5000",
            "Origin: http://127.0.0.1",
            "Origin: https://[::1]:8443",
            "Referer: http://localhost:5000/s?refresh=5",
            "Referer: HTTP://LOCALHOST",
        ] {
            assert_eq!(ask(&format!("Host: localhost:5000\r\n{field}"), HERE, DEFAULT), Ok(()), "{field}");
        }
        for (field, name) in [
            ("Origin: http://evil.example", "Origin"),
            ("Origin: null", "Origin"),
            ("Origin:", "Origin"),
            ("Origin: http://localhost.evil.example", "Origin"),
            ("origin: http://localhost\r\norigin: http://evil.example", "Origin"),
            ("Referer: http://evil.example/localhost", "Referer"),
            ("Referer: http://localhost@evil.example/", "Referer"),
            ("Referer: http://localhost:5000@evil.example/", "Referer"),
            ("Referer: http://evil.example#@localhost", "Referer"),
            ("Referer: http://evil.example\\@localhost/", "Referer"),
            ("Referer: ftp://localhost/", "Referer"),
            ("Referer: localhost", "Referer"),
            ("REFERER: http:localhost", "Referer"),
        ] {
            let outcome = ask(&format!("Host: localhost\r\n{field}"), HERE, DEFAULT);
            assert_eq!(outcome, Err(Outsider::Page(name)), "{field}");
        }
    }

    #[test]
    fn what_a_proxy_has_passed_on_is_not_local() {
        for (field, name) in [
            ("Via: 1.1 proxy", "Via"),
            ("Forwarded: for=127.0.0.1", "Forwarded"),
            ("X-Forwarded-For: 127.0.0.1", "X-Forwarded-*"),
            ("X-Forwarded-For:", "X-Forwarded-*"),
            ("x-forwarded-proto: https", "X-Forwarded-*"),
            ("X-Forwarded-Host: localhost", "X-Forwarded-*"),
            ("X-Forwarded-Anything: 1", "X-Forwarded-*"),
            ("X-Forwarded: 1", "X-Forwarded"),
            ("X-Real-IP: 127.0.0.1", "X-Real-IP"),
            ("x-real-ip: 127.0.0.1", "X-Real-IP"),
            ("True-Client-IP: 127.0.0.1", "True-Client-IP"),
            ("CF-Connecting-IP: 127.0.0.1", "CF-Connecting-IP"),
            ("X-Client-IP: 127.0.0.1", "X-Client-IP"),
        ] {
            for (peer, allow) in [(HERE, DEFAULT), ("10.1.2.3".parse().ok(), "10.0.0.0/8"), (None, "unix")] {
                let outcome = ask(&format!("Host: localhost\r\n{field}"), peer, allow);
                assert_eq!(outcome, Err(Outsider::Proxied(name)), "{field} from {peer:?}");
            }
        }
    }

    #[test]
    fn addresses_and_unix_sockets_are_those_that_are_named() {
        let unix = |allow| ask("Host: localhost", None, allow);
        assert_eq!(unix(DEFAULT), Err(Outsider::Unix));
        assert_eq!(unix("0.0.0.0/0,::/0"), Err(Outsider::Unix), "no network holds it");
        assert_eq!(unix("unix"), Ok(()));
        assert_eq!(unix("127.0.0.0/8,unix"), Ok(()));
        assert_eq!(ask("Host: shop.example", None, "unix"), Err(Outsider::Host));
        for (peer, allow, outcome) in [
            ("127.0.0.1", DEFAULT, Ok(())),
            ("127.9.9.9", DEFAULT, Ok(())),
            ("::1", DEFAULT, Ok(())),
            ("127.0.0.1", "unix", Err(Outsider::Address)),
            ("127.0.0.1", "10.0.0.0/8", Err(Outsider::Address)),
            ("10.1.2.3", DEFAULT, Err(Outsider::Address)),
            ("2001:db8::1", DEFAULT, Err(Outsider::Address)),
            ("10.1.2.3", "10.0.0.0/8", Ok(())),
            ("2001:db8::1", "10.0.0.0/8,2001:db8::/32", Ok(())),
        ] {
            let peer = peer.parse().ok();
            assert_eq!(ask("Host: localhost", peer, allow), outcome, "{peer:?} with {allow}");
        }
    }

    #[test]
    fn clients_of_other_machines_may_know_this_one_by_any_name() {
        let peer = "10.1.2.3".parse().ok();
        for (fields, outcome) in [
            ("Host: web1.example:5000", Ok(())),
            ("Host: web1.example:5000\r\nReferer: http://WEB1.example/s", Ok(())),
            ("Host: web1.example\r\nReferer: http://evil.example/", Err(Outsider::Page("Referer"))),
            ("Host: web1.example\r\nOrigin: http://localhost", Err(Outsider::Page("Origin"))),
        ] {
            assert_eq!(ask(fields, peer, "10.0.0.0/8"), outcome, "{fields}");
        }
    }
}
