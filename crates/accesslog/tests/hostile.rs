//! Whatever a client sends, a line is one line of printable ASCII and its fields keep their places.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use common::{kept, line};
use howdah_accesslog::{Compat, Format, Kept, Needs, Record, Source, compile};
use proptest::prelude::*;

const EVERYTHING: &str = "%h %a %{c}a %A %l %u %t %{usec}t \"%r\" %m %U %q %H %s %b %B %I %O %S %D %T %v %V %p %P %X %k %L \
                          %^FB %{x}i %{x}o %{x}e %{x}C %{x}^ti %{x}^to %{x}n %{Content-Type}o";

fn fill(needs: &Needs, value: &[u8]) -> Kept {
    let mut kept = Kept::new();
    for (number, _, _) in needs.iter() {
        kept.set(number, value);
    }
    kept
}

fn hostile<'a>(bytes: &'a [u8], kept: &'a Kept) -> Record<'a> {
    Record {
        line: bytes,
        method: bytes,
        target: bytes,
        path: bytes,
        path_info: bytes,
        query: bytes,
        protocol: bytes,
        client: bytes,
        peer: bytes,
        local: bytes,
        server_name: bytes,
        host: bytes,
        request_id: bytes,
        values: kept,
        ..Record::default()
    }
}

fn render(format: &Format, bytes: &[u8]) -> Vec<u8> {
    let kept = fill(format.needs(), bytes);
    let mut out = Vec::new();
    format.render(&hostile(bytes, &kept), &mut out);
    out
}

proptest! {
    #[test]
    fn one_line_feed_and_no_other_control_byte(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for name in [EVERYTHING, "combined", "json"] {
            let out = render(&compile(name, Compat::Apache).unwrap(), &bytes);
            prop_assert_eq!(out.last(), Some(&b'\n'));
            prop_assert!(out[..out.len() - 1].iter().all(|byte| (b' '..=b'~').contains(byte)));
        }
    }

    #[test]
    fn quoted_fields_cannot_be_closed(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let out = render(&compile("\"%r\" \"%{a}i\"", Compat::Plack).unwrap(), &bytes);
        let (mut quotes, mut escaped) = (0, false);
        for byte in out {
            quotes += usize::from(byte == b'"' && !escaped);
            escaped = byte == b'\\' && !escaped;
        }
        prop_assert_eq!(quotes, 4);
    }

    #[test]
    fn ltsv_keeps_its_fields(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let out = render(&compile("ltsv", Compat::Apache).unwrap(), &bytes);
        prop_assert_eq!(out.iter().filter(|byte| **byte == b'\t').count(), 13);
        prop_assert!(out.iter().all(|byte| (b' '..=b'~').contains(byte) || matches!(byte, b'\t' | b'\n')));
    }

    #[test]
    fn json_stays_json_and_utf8_survives(text in ".{0,100}", bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let format = compile("json", Compat::Apache).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&render(&format, &bytes)).unwrap();
        prop_assert_eq!(value.as_object().unwrap().len(), 23);
        if !text.is_empty() {
            let value: serde_json::Value = serde_json::from_slice(&render(&format, text.as_bytes())).unwrap();
            prop_assert_eq!(value["user_agent"].as_str(), Some(text.as_str()));
        }
    }

    #[test]
    fn no_format_string_panics(format in ".{0,60}", directives in "(%[!<>,0-9]{0,4}(\\{[^}]{0,12}\\})?[%a-zA-Z^]{1,3}){0,4}") {
        for format in [format, directives] {
            if let Ok(format) = compile(&format, Compat::Apache) {
                let kept = kept(&format);
                let mut out = Vec::new();
                format.render(&common::full(&kept), &mut out);
                prop_assert_eq!(out.last(), Some(&b'\n'));
            }
        }
    }
}

#[test]
fn the_well_known_attacks() {
    let cases: [(&[u8], &str); 5] = [
        (b"\" 200 5 \"-\" \"forged", r#"\" 200 5 \"-\" \"forged"#),
        (b"x\r\n192.0.2.9 - - forged", r"x\r\n192.0.2.9 - - forged"),
        (b"\x1b]0;title\x07\x1b[2J", r"\x1b]0;title\x07\x1b[2J"),
        (b"\\\"", r#"\\\""#),
        ("\u{202e}gnp.exe\u{9b}".as_bytes(), r"\xe2\x80\xaegnp.exe\xc2\x9b"),
    ];
    let format = compile("%{Referer}i", Compat::Apache).unwrap();
    for (value, expected) in cases {
        let mut kept = Kept::new();
        kept.offer(format.needs(), Source::RequestHeader, b"REFERER", value);
        assert_eq!(line(&format, &Record { values: &kept, ..Record::default() }), expected);
    }
}

#[test]
fn fields_of_one_name_are_joined_whatever_has_come_between() {
    let format = compile("%{a}i %{b}i", Compat::Apache).unwrap();
    let mut kept = Kept::new();
    kept.offer(format.needs(), Source::RequestHeader, b"b", b"1");
    kept.offer(format.needs(), Source::RequestHeader, b"a", b"2");
    kept.offer(format.needs(), Source::RequestHeader, b"b", b"3");
    assert_eq!(line(&format, &Record { values: &kept, ..Record::default() }), "2 1, 3");
}
