//! The head of an HTTP/2 request: whatever its fields are, what the codec of HTTP/1 then reads is one request, and says the
//! same.

use howdah_http1::{FieldStore, Limits, RequestDecoder};
use howdah_http2::{Pseudo, translate};

/// Fields that a client of HTTP/2 does not send to open a WebSocket.
const OPENING: [&[u8]; 3] = [b"connection", b"upgrade", b"sec-websocket-key"];

/// Five pseudo-header fields and then names and values, each ended by a zero.
///
/// # Panics
/// When what is passed on is not exactly one head, or has another method, target, authority or field than was asked for.
pub fn http2(data: &[u8]) {
    let mut parts = data.split(|&byte| byte == 0);
    let mut next = || parts.next().filter(|part| !part.is_empty());
    let (method, scheme, authority, path) = (next().unwrap_or_default(), next(), next(), next());
    let protocol = next();
    let pseudo = Pseudo { method, protocol, scheme, authority, path };
    let rest: Vec<_> = parts.collect();
    let fields = || rest.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let mut words = Vec::new();
    if translate(&pseudo, fields(), &mut words).is_err() {
        return;
    }
    let ends = words.windows(4).filter(|end| end == b"\r\n\r\n").count();
    assert!(ends == 1 && words.ends_with(b"\r\n\r\n"), "not one head: {}", words.escape_ascii());
    for (name, _) in fields() {
        assert!(!is_of_connection(name), "a field of a connection: {}", name.escape_ascii());
    }
    let (mut store, mut decoder) = (FieldStore::new(), RequestDecoder::new(&Limits::default()));
    let Ok(Some(head)) = decoder.decode(&words, &mut store) else { return };
    let opens = pseudo.opens_websocket();
    let method = if opens { &b"GET"[..] } else { method };
    assert_eq!((head.len, head.method, Some(head.target)), (words.len(), method, path));
    let asks = head.fields().any(|field| field.name == b"upgrade");
    assert_eq!(asks, opens, "who opens a WebSocket, and nobody else, asks for another protocol");
    if let Some(authority) = authority {
        assert_eq!(head.authority, authority, "another host");
    }
    let is_ours = |name: &[u8]| opens && OPENING.contains(&name) || name == b"cookie" || name == b"host";
    for field in head.fields().filter(|field| !is_ours(field.name)) {
        assert!(
            fields().any(|(name, value)| name == field.name && value == field.value),
            "a field that nobody has sent: {}",
            field.name.escape_ascii()
        );
    }
}

fn is_of_connection(name: &[u8]) -> bool {
    [&b"connection"[..], b"transfer-encoding", b"upgrade", b"keep-alive", b"proxy-connection"].contains(&name)
}
