//! From pseudo-header fields and fields to the head of an HTTP/1.1 request.

use crate::malformed::{
    CONNECT, EDGE, LENGTH, Malformed, NAME, NO_PATH, NO_SCHEME, OF_CONNECTION, PATH, PROTOCOL, PSEUDO_BYTES,
    SCHEME, TE, TWO_HOSTS, VALUE,
};

/// The pseudo-header fields of a request (RFC 9113 8.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pseudo<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:protocol` (RFC 8441 4).
    pub protocol: Option<&'a [u8]>,
    /// `:scheme`.
    pub scheme: Option<&'a [u8]>,
    /// `:authority`.
    pub authority: Option<&'a [u8]>,
    /// `:path`.
    pub path: Option<&'a [u8]>,
}

impl Pseudo<'_> {
    /// Whether a WebSocket client wants to have the stream.
    #[must_use]
    pub fn opens_websocket(&self) -> bool {
        self.is_connect() && self.protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
    }

    fn is_connect(&self) -> bool {
        self.method == b"CONNECT"
    }
}

/// What such a client would say in HTTP/1.1 (RFC 6455 4.1). It shows by other means that it speaks WebSocket, so that any key
/// will do, and nobody looks at what is made of it.
const OPENING: [(&[u8], &[u8]); 3] = [
    (b"connection", b"Upgrade"),
    (b"upgrade", b"websocket"),
    (b"sec-websocket-key", b"b3ZlciBIVFRQLzIgb25seQ=="),
];
/// Fields that are about one connection of HTTP/1 (RFC 9113 8.2.2). TE is another matter: a request may have it.
const OF_CONNECTIONS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Writes the head that says the same in HTTP/1.1, for its codec to judge. Crumbs of the cookie are joined, and Host is the
/// authority.
///
/// # Errors
/// The first rule that the head breaks.
pub fn translate<'a>(
    pseudo: &Pseudo<'_>,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    out.clear();
    put_request_line(pseudo, out)?;
    if let Some(authority) = pseudo.authority {
        put(out, b"host", plain(authority)?);
    }
    let opens = pseudo.opens_websocket();
    let mut cookie: Vec<u8> = Vec::new();
    let mut repeats = pseudo.authority.is_some();
    for (name, value) in fields {
        check(name, value)?;
        match name {
            b"host" if pseudo.authority.is_some_and(|authority| !authority.eq_ignore_ascii_case(value)) => {
                return Err(TWO_HOSTS);
            }
            // The authority has said it. A second one is for the codec to judge, as it is where there is no authority.
            b"host" if repeats => repeats = false,
            b"cookie" => crumb(&mut cookie, value),
            b"sec-websocket-key" if opens => {}
            b"content-length" if opens => return Err(LENGTH),
            _ => put(out, name, value),
        }
    }
    if !cookie.is_empty() {
        put(out, b"cookie", &cookie);
    }
    OPENING.iter().filter(|_| opens).for_each(|(name, value)| put(out, name, value));
    out.extend_from_slice(b"\r\n");
    Ok(())
}

fn put_request_line(pseudo: &Pseudo<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    if pseudo.protocol.is_some() && !pseudo.is_connect() {
        return Err(PROTOCOL);
    }
    let opens = pseudo.opens_websocket();
    out.extend_from_slice(if opens { b"GET" } else { plain(pseudo.method)? });
    out.push(b' ');
    if !pseudo.is_connect() {
        out.extend_from_slice(target(pseudo)?);
    } else if pseudo.protocol.is_some() {
        let path = target(pseudo)?;
        out.extend_from_slice(if opens { path } else { plain(pseudo.authority.unwrap_or_default())? });
    } else if pseudo.scheme.is_some() || pseudo.path.is_some() {
        return Err(CONNECT);
    } else {
        // It has an authority alone; the codec knows what to say to it, and to other protocols.
        out.extend_from_slice(plain(pseudo.authority.unwrap_or_default())?);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    Ok(())
}

fn target<'a>(pseudo: &Pseudo<'a>) -> Result<&'a [u8], Malformed> {
    let scheme = pseudo.scheme.ok_or(NO_SCHEME)?;
    if ![&b"http"[..], b"https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(SCHEME);
    }
    let path = pseudo.path.ok_or(NO_PATH)?;
    if !path.starts_with(b"/") && path != b"*" {
        return Err(PATH);
    }
    plain(path)
}

/// Nothing that would end a word of the request line, or the line. Which other bytes may stand there is for the codec.
fn plain(word: &[u8]) -> Result<&[u8], Malformed> {
    let breaks = word.iter().any(|&byte| byte <= b' ' || byte == 0x7f);
    if breaks { Err(PSEUDO_BYTES) } else { Ok(word) }
}

/// Whether no message of HTTP/2 may have a field of this name, in lower case.
#[must_use]
pub fn is_of_connection(name: &[u8]) -> bool {
    OF_CONNECTIONS.contains(&name)
}

fn check(name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    if name.is_empty() || !name.iter().all(|&byte| is_name(byte)) {
        return Err(NAME);
    }
    if value.iter().any(|&byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
        return Err(VALUE);
    }
    let is_edge = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if is_edge(value.first()) || is_edge(value.last()) {
        return Err(EDGE);
    }
    if is_of_connection(name) {
        return Err(OF_CONNECTION);
    }
    if name == b"te" && !value.eq_ignore_ascii_case(b"trailers") { Err(TE) } else { Ok(()) }
}

/// A byte of a token (RFC 9110 5.6.2) that is no upper-case letter.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// One cookie may come in pieces (RFC 9113 8.2.3).
fn crumb(cookie: &mut Vec<u8>, value: &[u8]) {
    if !cookie.is_empty() {
        cookie.extend_from_slice(b"; ");
    }
    cookie.extend_from_slice(value);
}

fn put(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Pseudo<'_> = Pseudo {
        method: b"GET",
        protocol: None,
        scheme: Some(b"https"),
        authority: Some(b"h"),
        path: Some(b"/a?b"),
    };
    const OPENS: Pseudo<'_> = Pseudo { method: b"CONNECT", protocol: Some(b"websocket"), ..GET };

    fn head(pseudo: &Pseudo<'_>, fields: &[(&str, &str)]) -> Result<String, &'static str> {
        let mut out = b"left over".to_vec();
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        translate(pseudo, fields, &mut out).map_err(|malformed| malformed.reason)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_head_is_said_in_the_words_of_http_1() {
        let lines = |lines: &str| Ok(format!("GET /a?b HTTP/1.1\r\nhost: h\r\n{lines}\r\n"));
        let cases: [(&[(&str, &str)], &str); 10] = [
            (&[], ""),
            (&[("accept", "x"), ("te", "trailers")], "accept: x\r\nte: trailers\r\n"),
            (&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")], "x: y\r\ncookie: a=1; b=2\r\n"),
            (&[("host", "H")], ""),
            (&[("host", "h"), ("host", "h")], "host: h\r\n"),
            (&[("x", "")], "x: \r\n"),
            (&[("x-1", "a\tb")], "x-1: a\tb\r\n"),
            (&[("te", "Trailers")], "te: Trailers\r\n"),
            (&[("content-length", "5")], "content-length: 5\r\n"),
            (&[("sec-websocket-key", "theirs")], "sec-websocket-key: theirs\r\n"),
        ];
        for (fields, expected) in cases {
            assert_eq!(head(&GET, fields), lines(expected), "{fields:?}");
        }
        for scheme in [&b"http"[..], b"HTTPS"] {
            assert_eq!(head(&Pseudo { scheme: Some(scheme), ..GET }, &[]), lines(""));
        }
        let of_all = Pseudo { method: b"OPTIONS", path: Some(b"*"), ..GET };
        assert_eq!(head(&of_all, &[]), Ok("OPTIONS * HTTP/1.1\r\nhost: h\r\n\r\n".to_owned()));
        let by_host = Pseudo { authority: None, ..GET };
        assert_eq!(head(&by_host, &[("host", "h")]), lines(""));
        assert_eq!(
            head(&Pseudo { method: b"CONNECT", scheme: None, path: None, ..GET }, &[]),
            Ok("CONNECT h HTTP/1.1\r\nhost: h\r\n\r\n".to_owned())
        );
    }

    #[test]
    fn who_opens_a_websocket_asks_as_in_http_1() {
        let key = "sec-websocket-key: b3ZlciBIVFRQLzIgb25seQ==\r\n";
        let fields = [("sec-websocket-version", "13"), ("sec-websocket-key", "theirs"), ("cookie", "a=1")];
        let expected = format!(
            "GET /a?b HTTP/1.1\r\nhost: h\r\nsec-websocket-version: 13\r\ncookie: a=1\r\n\
             connection: Upgrade\r\nupgrade: websocket\r\n{key}\r\n"
        );
        assert_eq!(head(&OPENS, &fields), Ok(expected));
        let other = Pseudo { protocol: Some(b"connect-udp"), ..OPENS };
        assert_eq!(head(&other, &[]), Ok("CONNECT h HTTP/1.1\r\nhost: h\r\n\r\n".to_owned()));
        assert_eq!(head(&OPENS, &[("content-length", "0")]), Err(LENGTH.reason));
        assert_eq!(head(&OPENS, &[("upgrade", "websocket")]), Err(OF_CONNECTION.reason));
    }

    #[test]
    fn fields_that_are_about_a_connection_and_what_is_no_field_are_malformed() {
        for (name, value, reason) in [
            ("connection", "close", OF_CONNECTION),
            ("keep-alive", "1", OF_CONNECTION),
            ("proxy-connection", "x", OF_CONNECTION),
            ("transfer-encoding", "chunked", OF_CONNECTION),
            ("upgrade", "websocket", OF_CONNECTION),
            ("te", "gzip", TE),
            ("te", "trailers, deflate", TE),
            ("X-Up", "x", NAME),
            ("", "x", NAME),
            ("a b", "x", NAME),
            (":path", "/b", NAME),
            ("x", "a\r\nb: c", VALUE),
            ("x", "a\0", VALUE),
            ("x", " a", EDGE),
            ("x", "a\t", EDGE),
            ("host", "other", TWO_HOSTS),
        ] {
            assert_eq!(head(&GET, &[(name, value)]), Err(reason.reason), "{name}: {value}");
        }
    }

    #[test]
    fn pseudo_header_fields_that_no_request_has_are_malformed() {
        for (pseudo, reason) in [
            (Pseudo { scheme: None, ..GET }, NO_SCHEME),
            (Pseudo { scheme: Some(b"ftp"), ..GET }, SCHEME),
            (Pseudo { path: None, ..GET }, NO_PATH),
            (Pseudo { path: Some(b""), ..GET }, PATH),
            (Pseudo { path: Some(b"http://h/"), ..GET }, PATH),
            (Pseudo { path: Some(b"/ HTTP/1.1\r\nx: y"), ..GET }, PSEUDO_BYTES),
            (Pseudo { path: Some(b"/\x7f"), ..GET }, PSEUDO_BYTES),
            (Pseudo { method: b"GET /x", ..GET }, PSEUDO_BYTES),
            (Pseudo { method: b"GET", ..OPENS }, PROTOCOL),
            (Pseudo { scheme: None, ..OPENS }, NO_SCHEME),
            (Pseudo { scheme: Some(b"wss"), ..OPENS }, SCHEME),
            (Pseudo { path: None, ..OPENS }, NO_PATH),
            (Pseudo { protocol: None, path: None, ..OPENS }, CONNECT),
            (Pseudo { protocol: None, scheme: None, ..OPENS }, CONNECT),
            (Pseudo { authority: Some(b"h\r\n"), ..GET }, PSEUDO_BYTES),
        ] {
            assert_eq!(head(&pseudo, &[]), Err(reason.reason), "{pseudo:?}");
        }
    }
}
