//! Percent-decoding (RFC 3986 2.1).

use howdah_http1::decode_path;

fn decoded(raw: &[u8]) -> Result<Vec<u8>, u16> {
    let mut out = b"kept".to_vec();
    decode_path(raw, &mut out).map_err(|reject| reject.status)?;
    Ok(out.split_off(4))
}

#[test]
fn triplets_are_decoded_once() {
    for (raw, expected) in [
        ("", b"".as_slice()),
        ("/plain/path", b"/plain/path"),
        ("/a%20b", b"/a b"),
        ("/%7euser%2F", b"/~user/"),
        ("/caf%C3%a9", b"/caf\xc3\xa9"),
        ("%41%42", b"AB"),
        ("/%2541", b"/%41"),
        ("/a+b", b"/a+b"),
        ("/%0d%0A%ff%01", b"/\r\n\xff\x01"),
    ] {
        assert_eq!(decoded(raw.as_bytes()).as_deref(), Ok(expected), "{raw}");
    }
}

#[test]
fn a_malformed_triplet_or_nul_is_refused() {
    for raw in ["%", "/%", "/%4", "/%4g", "/%g4", "/%%41", "/% 41", "/%-1", "/%00", "/a%00b", "/%41%0"] {
        assert_eq!(decoded(raw.as_bytes()), Err(400), "{raw}");
    }
}
