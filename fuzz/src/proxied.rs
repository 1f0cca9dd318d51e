//! What proxies tell: a header of the PROXY protocol, and fields of requests.

use std::net::SocketAddr;

use howdah_proxied::{Family, LONGEST, Told, Trust, parse};

const FOR: &[u8] = b"X-Forwarded-For";
/// What proxies of ours may say in Forwarded, all of it with 192.0.2.1 for the client.
const OURS: [&[u8]; 3] = [
    b"for=192.0.2.1, for=10.0.0.1",
    br#"for="192.0.2.1:80";host="a,b";proto=https"#,
    br#"for=192.0.2.1;host="a\"b,\\", for=10.0.0.1;host=";\"""#,
];

/// Any bytes, as a header and as the values of fields.
///
/// # Panics
/// When a header is longer than it may be, or a piece of it is judged otherwise than the whole, or a line says what it
/// does not have, or when a client's own words change what our proxies say.
pub fn proxied(data: &[u8]) {
    header(data);
    let trust = Trust::new(vec!["10.0.0.0/8".parse().expect("a network")]);
    for name in [b"Forwarded", FOR, b"X-Forwarded-Proto", b"X-Forwarded-Host", b"X-Forwarded-Port"] {
        for family in [Family::Forwarded, Family::XForwarded] {
            let _ = family.read([(name, data)].into_iter(), &trust);
        }
    }
    let told = |list: &[u8]| Family::XForwarded.read([(FOR, list)].into_iter(), &trust);
    let ours = &b"192.0.2.1, 10.0.0.1"[..];
    assert_eq!(told(&[data, b",", ours].concat()), told(ours), "a client has changed what proxies say");
    assert_eq!(told(ours).map(|it: Told| it.address), Some("192.0.2.1".parse().ok()));
    let told = |list: &[u8]| Family::Forwarded.read([(&b"Forwarded"[..], list)].into_iter(), &trust);
    for ours in OURS {
        assert_eq!(told(&[data, b", ", ours].concat()), told(ours), "a client has changed what proxies say");
        assert_eq!(told(ours).map(|it| it.address), Some("192.0.2.1".parse().ok()));
    }
}

fn header(data: &[u8]) {
    let whole = parse(data);
    let Ok(Some(header)) = whole else { return };
    assert!(header.length <= data.len() && header.length <= LONGEST, "a header beyond its input");
    assert_eq!(parse(&data[..header.length]), whole, "what stands behind changes a header");
    if let (Some((SocketAddr::V4(from), SocketAddr::V4(to))), true) =
        (header.ends, data.starts_with(b"PROXY"))
    {
        let line = format!("PROXY TCP4 {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port());
        assert_eq!(&data[..header.length], line.as_bytes(), "another line says the same");
    }
    for length in 0..header.length {
        assert_eq!(parse(&data[..length]), Ok(None), "{length} bytes of a header are judged");
    }
}
