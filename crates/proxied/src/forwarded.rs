//! What comes with each request: Forwarded (RFC 7239), or X-Forwarded-For, -Proto, -Host and -Port, for which there is no
//! standard.
//!
//! Each proxy adds who has asked it at the end of the list. So the list is walked from its end, past those who are
//! themselves trusted proxies, to the first who is none: that is the client, as our own proxies saw it. What stands
//! further left the client may have written. -Proto, -Host and -Port are lists as well where every proxy adds to them, or
//! a single value that one of them has set; the value of the proxy that saw the client counts, or the only one.

use std::net::IpAddr;

use crate::node::node;
use crate::trust::Trust;

/// Which fields proxies write. Those of the other family are the client's own, and nobody reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// X-Forwarded-For and its relatives.
    #[default]
    XForwarded,
    /// Forwarded.
    Forwarded,
}

/// What a request's fields tell. What is not told, or no value, is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The client.
    pub address: Option<IpAddr>,
    /// Its port.
    pub port: Option<u16>,
    /// Whether it asked by TLS.
    pub secure: Option<bool>,
    /// Host and port that it asked for. Not checked.
    pub host: Option<Vec<u8>>,
    /// The port that it asked at.
    pub server_port: Option<u16>,
}

impl Family {
    /// Reads the fields of a request that a trusted proxy has passed on. None when they tell nothing.
    #[must_use]
    pub fn read<'a>(
        self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        trust: &Trust,
    ) -> Option<Told> {
        let told = match self {
            Self::XForwarded => x_forwarded(&fields, trust),
            Self::Forwarded => forwarded(fields, trust),
        };
        (told != Told::default()).then_some(told)
    }
}

fn x_forwarded<'a>(fields: &(impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone), trust: &Trust) -> Told {
    let list = |name: &str| list(fields.clone(), name, commas);
    let (client, hops) = walk(&list("X-Forwarded-For"), node, trust);
    let single = |name| Some(nearest(&list(name), hops)?.to_vec());
    Told {
        address: client.map(|client| client.0),
        port: client.and_then(|client| client.1),
        secure: single("X-Forwarded-Proto").and_then(|scheme| is_secure(&scheme)),
        host: single("X-Forwarded-Host").filter(|host| !host.is_empty()),
        server_port: single("X-Forwarded-Port").and_then(|port| number(&port)),
    }
}

/// A port by its digits alone: Rust would also take a sign.
fn number(port: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(port).ok().filter(|_| port.iter().all(u8::is_ascii_digit))?;
    digits.parse().ok()
}

fn forwarded<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone, trust: &Trust) -> Told {
    let elements = list(fields, "Forwarded", quoted_commas);
    let (client, hops) = walk(&elements, |element| node(&parameter(element, "for")?), trust);
    let said = |name| parameter(nearest(&elements, hops)?, name);
    Told {
        address: client.map(|client| client.0),
        port: client.and_then(|client| client.1),
        secure: said("proto").and_then(|scheme| is_secure(&scheme)),
        host: said("host").filter(|host| !host.is_empty()),
        server_port: None,
    }
}

/// The elements of all fields of that name, in their order.
fn list<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    name: &str,
    split: impl Fn(&'a [u8], &mut Vec<&'a [u8]>),
) -> Vec<&'a [u8]> {
    let mut all = Vec::new();
    fields
        .filter(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))
        .for_each(|(_, value)| split(value, &mut all));
    all
}

fn commas<'a>(value: &'a [u8], into: &mut Vec<&'a [u8]>) {
    into.extend(value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii));
}

/// A comma in a quoted string is none. Strings are looked for from the end, too: whether the client has left one open, which
/// would swallow what our proxies have added behind it, or end within one of theirs, then does not matter.
fn quoted_commas<'a>(value: &'a [u8], into: &mut Vec<&'a [u8]>) {
    let (first, mut end, mut open) = (into.len(), value.len(), false);
    for (at, &byte) in value.iter().enumerate().rev() {
        match byte {
            b'"' if !open || !ends_in_escape(&value[..at]) => open = !open,
            b',' if !open => {
                into.push(value[at + 1..end].trim_ascii());
                end = at;
            }
            _ => {}
        }
    }
    into.push(value[..end].trim_ascii());
    into[first..].reverse();
}

/// Whether the next byte stands behind a backslash that does not itself stand behind one.
fn ends_in_escape(text: &[u8]) -> bool {
    text.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// The parts between semicolons that stand outside of quoted strings.
fn pairs(element: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quotes = Quotes::default();
    element.split(move |&byte| {
        quotes.pass(byte);
        byte == b';' && !quotes.open
    })
}

/// Whether a text is in a quoted string.
#[derive(Clone, Copy, Debug, Default)]
struct Quotes {
    open: bool,
    escaped: bool,
}

impl Quotes {
    fn pass(&mut self, byte: u8) {
        let plain = !std::mem::take(&mut self.escaped);
        match byte {
            b'\\' if self.open && plain => self.escaped = true,
            b'"' if plain => self.open = !self.open,
            _ => {}
        }
    }
}

/// The client by a list of who has asked whom, and how many of our proxies stand between it and us. Behind an element
/// that names nobody no word counts, so the last proxy before it is the client as far as we know.
fn walk<'a, N>(list: &[&'a [u8]], node: N, trust: &Trust) -> (Option<(IpAddr, Option<u16>)>, usize)
where
    N: Fn(&'a [u8]) -> Option<(IpAddr, Option<u16>)>,
{
    let mut client = None;
    for (passed, element) in list.iter().rev().enumerate() {
        let Some(found) = node(element) else { return (client, passed + 1) };
        client = Some(found);
        if !trust.holds(Some(found.0)) {
            return (client, passed + 1);
        }
    }
    (client, list.len().max(1))
}

/// What the proxy that is so many hops away has said.
fn nearest<'a>(list: &[&'a [u8]], hops: usize) -> Option<&'a [u8]> {
    list.get(list.len() - hops.min(list.len())).copied()
}

fn is_secure(scheme: &[u8]) -> Option<bool> {
    let is = |name: &str| scheme.eq_ignore_ascii_case(name.as_bytes());
    if is("https") || is("wss") { Some(true) } else { (is("http") || is("ws")).then_some(false) }
}

/// A parameter of one element of Forwarded, without its quotes. There may be one of a name (RFC 7239 4): of two, the other may
/// come from a client whose Host our proxy has written down without quotes.
fn parameter(element: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut values = pairs(element).filter_map(|pair| {
        let equals = memchr::memchr(b'=', pair)?;
        let (found, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        found.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
    });
    let value = values.next()?;
    if values.next().is_some() { None } else { unquote(value) }
}

/// The text of a token or a quoted string; none when the quotes are not whole.
fn unquote(value: &[u8]) -> Option<Vec<u8>> {
    let Some(inner) = value.strip_prefix(b"\"") else {
        return (!value.contains(&b'"')).then(|| value.to_vec());
    };
    let mut text = Vec::new();
    let mut bytes = inner.iter();
    loop {
        match bytes.next()? {
            b'"' => return bytes.next().is_none().then_some(text),
            b'\\' => text.push(*bytes.next()?),
            &byte => text.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trust() -> Trust {
        Trust::new(vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()])
    }

    fn read(family: Family, fields: &[(&str, &str)]) -> Option<Told> {
        family.read(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &trust())
    }

    /// Address, port, scheme, host and port of the server.
    fn shown(told: Option<Told>) -> String {
        let Some(told) = told else { return "nothing".to_owned() };
        let words = [
            told.address.map(|address| address.to_string()),
            told.port.map(|port| format!("port {port}")),
            told.secure.map(|secure| if secure { "https" } else { "http" }.to_owned()),
            told.host.map(|host| String::from_utf8_lossy(&host).into_owned()),
            told.server_port.map(|port| format!("at {port}")),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    const FOR: &str = "X-Forwarded-For";
    const PROTO: &str = "x-forwarded-proto";

    #[test]
    fn the_client_is_the_first_from_the_right_who_is_no_proxy_of_ours() {
        for (list, client) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:4711", "192.0.2.1 port 4711"),
            ("192.0.2.1, 10.0.0.1", "192.0.2.1"),
            ("203.0.113.9, 192.0.2.1, 10.0.0.1,10.0.0.2", "192.0.2.1"),
            ("10.0.0.9, 192.0.2.1", "192.0.2.1"),
            ("127.0.0.1, 192.0.2.1, ::1", "192.0.2.1"),
            // All are ours: whoever asked the first of them asked from there.
            ("10.0.0.1, 10.0.0.2", "10.0.0.1"),
            // Behind what names nobody no word counts.
            ("192.0.2.1, unknown, 10.0.0.2", "10.0.0.2"),
            ("192.0.2.1, unknown", "nothing"),
            ("192.0.2.1,", "nothing"),
            ("", "nothing"),
            ("example.org", "nothing"),
            ("[2001:db8::1]:80, ::1", "2001:db8::1 port 80"),
        ] {
            assert_eq!(shown(read(Family::XForwarded, &[(FOR, list)])), client, "{list}");
        }
        let lines = [(FOR, "192.0.2.1"), ("Host", "x"), ("x-forwarded-for", "10.0.0.1")];
        assert_eq!(shown(read(Family::XForwarded, &lines)), "192.0.2.1");
    }

    #[test]
    fn the_word_of_the_proxy_that_saw_the_client_counts() {
        for (list, scheme, told) in [
            ("192.0.2.1", "https", "192.0.2.1 https"),
            ("192.0.2.1", "HTTP", "192.0.2.1 http"),
            ("192.0.2.1", "wss", "192.0.2.1 https"),
            ("192.0.2.1", "ws", "192.0.2.1 http"),
            ("192.0.2.1", "gopher", "192.0.2.1"),
            // The client's own word stands before the proxy's.
            ("192.0.2.1", "https, http", "192.0.2.1 http"),
            ("192.0.2.1, 10.0.0.1", "https, http", "192.0.2.1 https"),
            ("192.0.2.1, 10.0.0.1", "gopher, https, http", "192.0.2.1 https"),
            ("192.0.2.1, 10.0.0.1", "https", "192.0.2.1 https"),
            ("10.0.0.2, 10.0.0.1", "https, http", "10.0.0.2 https"),
            ("", "https", "https"),
        ] {
            assert_eq!(
                shown(read(Family::XForwarded, &[(FOR, list), (PROTO, scheme)])),
                told,
                "{list} {scheme}"
            );
        }
        let others = [("X-Forwarded-Host", "a.example, b.example:81"), ("X-Forwarded-Port", "8443")];
        assert_eq!(shown(read(Family::XForwarded, &others)), "b.example:81 at 8443");
        assert_eq!(shown(read(Family::XForwarded, &[("X-Forwarded-Host", "")])), "nothing");
        for port in ["99999", "+80", "-0", "8 0", "0x50", ""] {
            assert_eq!(shown(read(Family::XForwarded, &[("X-Forwarded-Port", port)])), "nothing", "{port}");
        }
    }

    #[test]
    fn forwarded_says_all_of_it_in_one_field() {
        for (value, told) in [
            ("for=192.0.2.1", "192.0.2.1"),
            ("For=\"192.0.2.1:80\";proto=https;host=a.example", "192.0.2.1 port 80 https a.example"),
            ("for=\"[2001:db8::1]:80\"; by=10.0.0.1 ;Proto=\"http\"", "2001:db8::1 port 80 http"),
            ("for=192.0.2.1;proto=https, for=10.0.0.1;proto=http", "192.0.2.1 https"),
            ("for=203.0.113.9;proto=https, for=192.0.2.1;proto=http", "192.0.2.1 http"),
            // Quoted strings may hold what would end an element.
            ("for=192.0.2.1;host=\"a,b;c=\\\"d\\\"\"", "192.0.2.1 a,b;c=\"d\""),
            ("for=192.0.2.1;host=\"a\\\",b\"", "192.0.2.1 a\",b"),
            // A backslash makes a quote none within a string alone.
            (r#"for=192.0.2.1;x="a\";b";host=c"#, "192.0.2.1 c"),
            (r#"for=192.0.2.1;x=\"a;b";host=c"#, "192.0.2.1 c"),
            ("for=unknown;proto=https", "https"),
            ("host=a;for=203.0.113.9;For=192.0.2.1", "a"),
            ("for=192.0.2.1;host=a;proto=https;proto=http", "192.0.2.1 a"),
            ("host=\"\"", "nothing"),
            ("for=_hidden, for=10.0.0.1", "10.0.0.1"),
            ("for=\"192.0.2.1", "nothing"),
            ("for=19\"2.0.2.1\"", "nothing"),
            ("for=\"192.0.2.1\"1", "nothing"),
            // A client that leaves a string open takes no word out of the mouths of those behind it.
            ("for=\"x, for=192.0.2.1;proto=https", "192.0.2.1 https"),
            ("for=\"\\, for=192.0.2.1, for=10.0.0.1", "192.0.2.1"),
            ("for=\"x, for=\"192.0.2.1:80\"", "192.0.2.1 port 80"),
            ("\", for=192.0.2.1;host=\"a,b\"", "192.0.2.1 a,b"),
            ("for=203.0.113.9;x=\", for=192.0.2.1;host=\"a\\\"b\"", "192.0.2.1 a\"b"),
            ("for", "nothing"),
            ("", "nothing"),
        ] {
            assert_eq!(shown(read(Family::Forwarded, &[("FORWARDED", value)])), told, "{value}");
        }
        let lines = [("Forwarded", "for=192.0.2.1"), ("Forwarded", "for=10.0.0.1")];
        assert_eq!(shown(read(Family::Forwarded, &lines)), "192.0.2.1");
    }

    #[test]
    fn fields_of_the_other_family_are_the_clients_own() {
        assert_eq!(read(Family::Forwarded, &[(FOR, "192.0.2.1"), (PROTO, "https")]), None);
        assert_eq!(read(Family::XForwarded, &[("Forwarded", "for=192.0.2.1")]), None);
        assert_eq!(
            read(Family::XForwarded, &[("X-Real-IP", "192.0.2.1"), ("X-Forwarded", "192.0.2.1")]),
            None
        );
    }

    proptest! {
        /// What a client writes itself stands further left, and never changes what our proxies say.
        #[test]
        fn a_client_cannot_put_words_into_a_proxys_mouth(before in "[ -~]{0,40}") {
            let value = format!("{before}, 192.0.2.1, 10.0.0.1");
            let told = read(Family::XForwarded, &[(FOR, &value)]).unwrap();
            prop_assert_eq!(told.address, Some("192.0.2.1".parse().unwrap()));
            for ours in [
                "for=192.0.2.1, for=10.0.0.1",
                "for=\"192.0.2.1:80\", for=\"10.0.0.1\"",
                r#"for=192.0.2.1;host="a,b", for="10.0.0.1""#,
                r#"for=192.0.2.1;host="a\"b,\\", for=10.0.0.1;host=";\"""#,
            ] {
                let told = read(Family::Forwarded, &[("Forwarded", &format!("{before}, {ours}"))]).unwrap();
                prop_assert_eq!(told.address, Some("192.0.2.1".parse().unwrap()));
            }
        }

        #[test]
        fn any_bytes_are_read_to_some_end(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            for family in [Family::Forwarded, Family::XForwarded] {
                for name in ["Forwarded", FOR, PROTO] {
                    let _ = family.read([(name.as_bytes(), value.as_slice())].into_iter(), &trust());
                }
            }
        }
    }
}
