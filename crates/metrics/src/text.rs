//! Bytes of clients as text that may be shown.

use std::fmt::Write;

/// Text of a client's bytes that cannot harm where it is shown: what is not UTF-8, every control character and every
/// character that turns the direction of writing becomes `\xhh` or `\u{hhhh}`. HTML, JSON and metrics are escaped by
/// their renderers on top of this.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    // Nearly all that there is, in one copy.
    let harmless = bytes.iter().position(|byte| !matches!(byte, b' '..=b'~')).unwrap_or(bytes.len());
    let (start, bytes) = bytes.split_at(harmless);
    out.push_str(str::from_utf8(start).unwrap_or_default());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            put(&mut out, character);
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

fn put(out: &mut String, character: char) {
    match character {
        '\0'..='\x1f' | '\x7f' => {
            let _ = write!(out, "\\x{:02x}", u32::from(character));
        }
        _ if misleads(character) => {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        }
        _ => out.push(character),
    }
}

/// C1 controls, zero-width and bidirectional formatting characters, line and paragraph separators.
fn misleads(character: char) -> bool {
    matches!(
        character,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mislead_is_shown_as_it_is() {
        let cases: [(&[u8], &str); 8] = [
            (b"", ""),
            (b"/plain?q=1", "/plain?q=1"),
            (b" ~\x7f", r" ~\x7f"),
            ("/café/日本".as_bytes(), "/café/日本"),
            (b"a\x1b[2J\r\n\0\x7f", r"a\x1b[2J\x0d\x0a\x00\x7f"),
            (b"\xff\xc3", r"\xff\xc3"),
            ("x\u{202e}gpj.exe\u{200b}".as_bytes(), r"x\u{202e}gpj.exe\u{200b}"),
            ("\u{85}\u{2028}".as_bytes(), r"\u{85}\u{2028}"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(printable(bytes), expected);
        }
    }
}
