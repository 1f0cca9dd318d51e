//! What proxies tell: a header of the PROXY protocol, and fields of requests.

use howdah_proxied::{Family, LONGEST, Told, Trust, parse};

const FOR: &[u8] = b"X-Forwarded-For";

/// Any bytes, as a header and as the values of fields.
///
/// # Panics
/// When a header is longer than it may be, or a piece of it is judged otherwise than the whole, or when a client's own
/// words change what our proxies say.
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
}

fn header(data: &[u8]) {
    let whole = parse(data);
    let Ok(Some(header)) = whole else { return };
    assert!(header.length <= data.len() && header.length <= LONGEST, "a header beyond its input");
    assert_eq!(parse(&data[..header.length]), whole, "what stands behind changes a header");
    for length in 0..header.length {
        assert_eq!(parse(&data[..length]), Ok(None), "{length} bytes of a header are judged");
    }
}
