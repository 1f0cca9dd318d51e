//! The PROXY protocol, versions 1 and 2 (haproxy's doc/proxy-protocol.txt): what a proxy that does not speak HTTP says of a
//! connection, once, before its first byte.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What version 2 begins with. No other protocol does.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Longest header of version 1, with its CR LF.
const LONGEST_LINE: usize = 107;
/// Longest header that we take. The standard allows 64 KiB; what is in use has some hundred bytes, with certificates some
/// thousand.
pub const LONGEST: usize = 4096;

/// A whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes that it takes.
    pub length: usize,
    /// Who has asked whom; none when the proxy asks for itself or does not say.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// The client came by TLS, which the proxy has taken off.
    pub secure: bool,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

const NONE: Malformed = Malformed("the connection does not begin with a PROXY header");

/// Reads the header that `input` begins with; none when it is not whole yet.
///
/// # Errors
/// When it is none, or longer than [`LONGEST`].
pub fn parse(input: &[u8]) -> Result<Option<Header>, Malformed> {
    let known = input.len().min(SIGNATURE.len());
    if input[..known] == SIGNATURE[..known] {
        return binary(input);
    }
    line(input)
}

/// Version 1: `PROXY TCP4 192.0.2.1 198.51.100.1 4711 443` CR LF.
fn line(input: &[u8]) -> Result<Option<Header>, Malformed> {
    const START: &[u8] = b"PROXY ";
    let known = input.len().min(START.len());
    if input[..known] != START[..known] {
        return Err(NONE);
    }
    let within = &input[..input.len().min(LONGEST_LINE)];
    let Some(end) = memchr::memchr(b'\n', within) else {
        return if input.len() < LONGEST_LINE {
            Ok(None)
        } else {
            Err(Malformed("the PROXY line has no end"))
        };
    };
    let text = within[..end].strip_suffix(b"\r").and_then(|text| std::str::from_utf8(text).ok());
    let words = text.ok_or(Malformed("the PROXY line is no text that ends with CR LF"))?.split(' ');
    Ok(Some(Header { length: end + 1, ends: said(&words.skip(1).collect::<Vec<_>>())?, secure: false }))
}

fn said(words: &[&str]) -> Result<Option<(SocketAddr, SocketAddr)>, Malformed> {
    const WRONG: Malformed = Malformed("the PROXY line names no addresses and ports");
    let (family, rest) = words.split_first().ok_or(WRONG)?;
    if *family == "UNKNOWN" {
        return Ok(None);
    }
    if *family != "TCP4" && *family != "TCP6" {
        return Err(Malformed("the PROXY line is for neither TCP4 nor TCP6"));
    }
    let [source, destination, source_port, destination_port] = rest else { return Err(WRONG) };
    let ip = |text: &&str| -> Option<IpAddr> {
        let address: IpAddr = text.parse().ok()?;
        (address.is_ipv4() == (*family == "TCP4")).then_some(address)
    };
    let port = |text: &&str| text.parse::<u16>().ok().filter(|port| port.to_string() == **text);
    let end = |address, at| Some(SocketAddr::new(ip(address)?, port(at)?));
    match (end(source, source_port), end(destination, destination_port)) {
        (Some(source), Some(destination)) => Ok(Some((source, destination))),
        _ => Err(WRONG),
    }
}

/// Version 2: signature, version and command, family, length, addresses, and what else there is to say.
fn binary(input: &[u8]) -> Result<Option<Header>, Malformed> {
    let [_, _, _, _, _, _, _, _, _, _, _, _, command, family, high, low, rest @ ..] = input else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length + 16 > LONGEST {
        return Err(Malformed("the PROXY header is longer than 4096 bytes"));
    }
    let Some(said) = rest.get(..length) else { return Ok(None) };
    let header = |ends, secure| Ok(Some(Header { length: length + 16, ends, secure }));
    match command {
        // The proxy asks for itself, as to see whether we are well.
        0x20 => header(None, false),
        0x21 => {
            let (ends, size) = ends(*family, said)?;
            header(ends, is_secure(&said[size..]))
        }
        _ => Err(Malformed("the PROXY header is of an unknown version or command")),
    }
}

/// The addresses, and the bytes that they take.
fn ends(family: u8, said: &[u8]) -> Result<(Option<(SocketAddr, SocketAddr)>, usize), Malformed> {
    const SHORT: Malformed = Malformed("the PROXY header is shorter than its addresses");
    match family {
        0x11 => {
            let bytes: &[u8; 12] = said.first_chunk().ok_or(SHORT)?;
            let ip = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]).into();
            let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            Ok((Some((SocketAddr::new(ip(0), port(8)), SocketAddr::new(ip(4), port(10)))), 12))
        }
        0x21 => {
            let bytes: &[u8; 36] = said.first_chunk().ok_or(SHORT)?;
            let ip = |at: usize| {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[at..at + 16]);
                IpAddr::from(Ipv6Addr::from(octets)).to_canonical()
            };
            let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            Ok((Some((SocketAddr::new(ip(0), port(32)), SocketAddr::new(ip(16), port(34)))), 36))
        }
        // Unix sockets, datagrams, and what is yet to come: nobody with an address of use to us.
        _ => Ok((None, said.len())),
    }
}

/// Whether what follows the addresses says that the client came by TLS (PP2_TYPE_SSL with PP2_CLIENT_SSL).
fn is_secure(mut rest: &[u8]) -> bool {
    while let [kind, high, low, behind @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(value) = behind.get(..length) else { return false };
        if *kind == 0x20 {
            return value.first().is_some_and(|flags| flags & 1 != 0);
        }
        rest = &behind[length..];
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(header: Result<Option<Header>, Malformed>) -> String {
        match header {
            Ok(None) => "more".to_owned(),
            Err(why) => why.to_string(),
            Ok(Some(header)) => {
                let ends = header.ends.map_or("nobody".to_owned(), |(from, to)| format!("{from} to {to}"));
                format!("{} {ends}{}", header.length, if header.secure { " by TLS" } else { "" })
            }
        }
    }

    #[test]
    fn version_1_is_a_line() {
        for (text, told) in [
            ("PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\r\nGET", "40 192.0.2.1:4711 to 10.0.0.1:443"),
            ("PROXY TCP6 2001:db8::1 ::1 4711 443\r\n", "37 [2001:db8::1]:4711 to [::1]:443"),
            ("PROXY UNKNOWN\r\n", "15 nobody"),
            ("PROXY UNKNOWN what ever\r\n", "25 nobody"),
            ("", "more"),
            ("PRO", "more"),
            ("PROXY TCP4 192.0.2.1", "more"),
            ("GET / HTTP/1.1\r\n", "the connection does not begin with a PROXY header"),
            ("\r\nPROXY", "the connection does not begin with a PROXY header"),
            ("proxy tcp4", "the connection does not begin with a PROXY header"),
            ("PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\n", "the PROXY line is no text that ends with CR LF"),
            ("PROXY UDP4 192.0.2.1 10.0.0.1 4711 443\r\n", "the PROXY line is for neither TCP4 nor TCP6"),
            ("PROXY TCP4 2001:db8::1 ::1 4711 443\r\n", "the PROXY line names no addresses and ports"),
            ("PROXY TCP6 192.0.2.1 10.0.0.1 1 2\r\n", "the PROXY line names no addresses and ports"),
            ("PROXY TCP4 192.0.2.1 10.0.0.1 04711 443\r\n", "the PROXY line names no addresses and ports"),
            ("PROXY TCP4 192.0.2.1 10.0.0.1 70000 443\r\n", "the PROXY line names no addresses and ports"),
            ("PROXY TCP4 192.0.2.1  10.0.0.1 1 2\r\n", "the PROXY line names no addresses and ports"),
            ("PROXY \r\n", "the PROXY line is for neither TCP4 nor TCP6"),
            ("PROXY TCP4\r\n", "the PROXY line names no addresses and ports"),
        ] {
            assert_eq!(shown(parse(text.as_bytes())), told, "{text:?}");
        }
        let endless = format!("PROXY UNKNOWN {}", "x".repeat(LONGEST_LINE));
        assert_eq!(shown(parse(&endless.as_bytes()[..LONGEST_LINE - 1])), "more");
        assert_eq!(shown(parse(&endless.as_bytes()[..LONGEST_LINE])), "the PROXY line has no end");
    }

    fn packed(command: u8, family: u8, said: &[u8]) -> Vec<u8> {
        let length = u16::try_from(said.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, said].concat()
    }

    #[test]
    fn version_2_is_packed() {
        let four = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x67, 1, 0xbb];
        let six = {
            let ip = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
            [&ip("2001:db8::1")[..], &ip("::1"), &[0x12, 0x67, 1, 0xbb]].concat()
        };
        let mapped = [&Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets()[..], &six[16..]].concat();
        let with = |rest: &[u8]| [&four[..], rest].concat();
        let from = "192.0.2.1:4711 to 10.0.0.1:443";
        for (bytes, told) in [
            (packed(0x21, 0x11, &four), format!("28 {from}")),
            (packed(0x21, 0x21, &six), "52 [2001:db8::1]:4711 to [::1]:443".to_owned()),
            (packed(0x21, 0x21, &mapped), "52 192.0.2.1:4711 to [::1]:443".to_owned()),
            (packed(0x20, 0x00, b""), "16 nobody".to_owned()),
            (packed(0x20, 0x11, &four), "28 nobody".to_owned()),
            (packed(0x21, 0x31, &[0; 216]), "232 nobody".to_owned()),
            (packed(0x21, 0x00, b"xyz"), "19 nobody".to_owned()),
            // What else is said: an authority, then that the client came by TLS. A byte of one word is none of the other's.
            (packed(0x21, 0x11, &with(b"\x02\0\x01b\x20\0\x05\x01\0\0\0\0")), format!("40 {from} by TLS")),
            (packed(0x21, 0x11, &with(b"\x02\0\x01a")), format!("32 {from}")),
            (packed(0x21, 0x11, &with(b"\x20\0\x05\x06\0\0\0\0")), format!("36 {from}")),
            (packed(0x21, 0x11, &with(b"\x20\xff\xff\x01")), format!("32 {from}")),
            (packed(0x21, 0x11, &four[..11]), "the PROXY header is shorter than its addresses".to_owned()),
            (packed(0x22, 0x11, &four), "the PROXY header is of an unknown version or command".to_owned()),
            (packed(0x11, 0x11, &four), "the PROXY header is of an unknown version or command".to_owned()),
            (packed(0x21, 0x00, &[0; 4080]), "4096 nobody".to_owned()),
            (packed(0x21, 0x11, &[0; 4081]), "the PROXY header is longer than 4096 bytes".to_owned()),
        ] {
            assert_eq!(shown(parse(&bytes)), told);
        }
        let whole = packed(0x21, 0x11, &four);
        for length in 1..whole.len() {
            assert_eq!(parse(&whole[..length]), Ok(None), "{length}");
        }
    }

    proptest! {
        #[test]
        fn what_is_whole_lies_in_the_input(input in proptest::collection::vec(any::<u8>(), 0..300), kind in 0..3) {
            let start: &[u8] = [&b""[..], b"PROXY ", SIGNATURE][kind as usize];
            let input = [start, &input].concat();
            if let Ok(Some(header)) = parse(&input) {
                prop_assert!(header.length <= input.len() && header.length <= LONGEST);
            }
        }
    }
}
