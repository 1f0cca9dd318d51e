//! How values from outside become harmless text, for each kind of log line.
//!
//! What all have in common: no control byte and no byte beyond ASCII comes out, so that a line stays a line and
//! nothing reaches the terminal of who reads it. The backslash is escaped too, so an escape cannot be forged.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Bytes that Apache's `ap_escape_logitem` lets through.
const APACHE: [bool; 256] = plain_except(br#"\""#);
/// LTSV has no quotes: a value ends at a tab or at the end of the line.
const LTSV: [bool; 256] = plain_except(br"\");

const fn plain_except(special: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        table[byte] = true;
        byte += 1;
    }
    let mut at = 0;
    while at < special.len() {
        table[special[at] as usize] = false;
        at += 1;
    }
    table
}

/// As Apache httpd does in every log item: `\"` and `\\`, the letters of C for the controls that have one in
/// `ap_escape_logitem`, `\xhh` for other bytes outside printable ASCII.
pub(crate) fn apache(out: &mut Vec<u8>, value: &[u8]) {
    escaped(out, value, &APACHE, |out, byte| match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        0x08 => out.extend_from_slice(br"\b"),
        b'\n' => out.extend_from_slice(br"\n"),
        b'\r' => out.extend_from_slice(br"\r"),
        b'\t' => out.extend_from_slice(br"\t"),
        0x0b => out.extend_from_slice(br"\v"),
        _ => hex(out, byte),
    });
}

/// For a value of an LTSV line: as Apache's, but quotes stay as they are.
pub(crate) fn ltsv(out: &mut Vec<u8>, value: &[u8]) {
    escaped(out, value, &LTSV, |out, byte| match byte {
        b'\\' => out.extend_from_slice(br"\\"),
        b'\n' => out.extend_from_slice(br"\n"),
        b'\r' => out.extend_from_slice(br"\r"),
        b'\t' => out.extend_from_slice(br"\t"),
        _ => hex(out, byte),
    });
}

/// Copies runs of plain bytes whole and gives the others to `special`.
fn escaped(out: &mut Vec<u8>, value: &[u8], plain: &[bool; 256], special: impl Fn(&mut Vec<u8>, u8)) {
    let mut rest = value;
    while let Some(at) = rest.iter().position(|byte| !plain[usize::from(*byte)]) {
        out.extend_from_slice(&rest[..at]);
        special(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn hex(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
}

fn digit(nibble: u8) -> u8 {
    HEX[usize::from(nibble)]
}

/// The inside of a JSON string (RFC 8259 7), in ASCII alone; bytes that are not UTF-8 become U+FFFD.
pub(crate) fn json(out: &mut Vec<u8>, value: &[u8]) {
    for chunk in value.utf8_chunks() {
        json_text(out, chunk.valid());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice(br"\ufffd");
        }
    }
}

fn json_text(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| !APACHE[usize::from(byte)]) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        // A plain byte is ASCII, so `at` is the start of a character.
        let mut characters = rest[at..].chars();
        if let Some(character) = characters.next() {
            json_character(out, character);
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

fn json_character(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(br#"\""#),
        '\\' => out.extend_from_slice(br"\\"),
        '\n' => out.extend_from_slice(br"\n"),
        '\r' => out.extend_from_slice(br"\r"),
        '\t' => out.extend_from_slice(br"\t"),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let [high, low] = unit.to_be_bytes();
                out.extend_from_slice(br"\u");
                out.extend_from_slice(&[high >> 4, high & 15, low >> 4, low & 15].map(digit));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(escape: fn(&mut Vec<u8>, &[u8]), value: &[u8]) -> String {
        let mut out = Vec::new();
        escape(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn apache_escapes_what_ap_escape_logitem_does() {
        let cases: [(&[u8], &str); 8] = [
            (b"plain text, with ~ and `", "plain text, with ~ and `"),
            (b"", ""),
            (br#"a"b\c"#, r#"a\"b\\c"#),
            (b"\x08\n\r\t\x0b", r"\b\n\r\t\v"),
            (b"\x00\x07\x0c\x1b[31m\x7f", r"\x00\x07\x0c\x1b[31m\x7f"),
            ("é€".as_bytes(), r"\xc3\xa9\xe2\x82\xac"),
            (b"\xff\xfe", r"\xff\xfe"),
            (br"\x22", r"\\x22"),
        ];
        for (value, expected) in cases {
            assert_eq!(run(apache, value), expected);
        }
    }

    #[test]
    fn ltsv_lets_no_field_be_forged() {
        assert_eq!(run(ltsv, b"x\tstatus:200\r\nhost:1 \"q\""), r#"x\tstatus:200\r\nhost:1 "q""#);
        assert_eq!(run(ltsv, b"\\t \x0b\xe9"), r"\\t \x0b\xe9");
    }

    #[test]
    fn json_is_ascii_whatever_comes() {
        let cases: [(&[u8], &str); 5] = [
            (b"a\"b\\c/", r#"a\"b\\c/"#),
            (b"\x00\x08\n\r\t\x7f", r"\u0000\u0008\n\r\t\u007f"),
            ("é\u{2028}😀".as_bytes(), r"\u00e9\u2028\ud83d\ude00"),
            (b"a\xffb\xe2\x82", r"a\ufffdb\ufffd"),
            ("\u{85}\u{202e}".as_bytes(), r"\u0085\u202e"),
        ];
        for (value, expected) in cases {
            assert_eq!(run(json, value), expected);
        }
    }
}
