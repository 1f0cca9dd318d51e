//! One line of a script's header: the rules of a field, and of a status.

use std::ascii;

/// How much of a line the log shows.
const SHOWN: usize = 80;

/// A field that obeys the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) name: &'a [u8],
    /// Without blanks around it.
    pub(super) value: &'a [u8],
}

impl<'a> Field<'a> {
    /// Says why a line is no field.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, String> {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err("a line of the header must not go on in the next one".to_owned());
        }
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            return Err(match line.starts_with(b"HTTP/") {
                true => "a status line is only for scripts whose names begin with nph-, others print a Status field".to_owned(),
                false => "that is no header field; an empty line has to come before the body".to_owned(),
            });
        };
        let field = Self { name: &line[..colon], value: line[colon + 1..].trim_ascii() };
        if field.name.is_empty() || !field.name.iter().all(|&byte| is_token(byte)) {
            return Err("that has a name that no header field can have".to_owned());
        }
        // A bare CR is one, too.
        match line[colon + 1..].iter().find(|&&byte| is_control(byte)) {
            Some(byte) => Err(format!("that has the control character \\x{byte:02X} in its value")),
            None => Ok(field),
        }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Whether its value, a list, has that word.
    pub(super) fn lists(&self, word: &str) -> bool {
        self.words().any(|other| other.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// What its value, a list, has.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a [u8]> {
        self.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
    }
}

/// The status of a line `HTTP/1.1 200 OK`.
pub(super) fn status_line(line: &[u8]) -> Result<u16, String> {
    let wrong = || {
        "a script whose name begins with nph- has to begin with a status line, as HTTP/1.1 200 OK".to_owned()
    };
    let rest = line.strip_prefix(b"HTTP/").ok_or_else(wrong)?;
    let space = rest.iter().position(|&byte| byte == b' ').ok_or_else(wrong)?;
    let is_version = |text: &[u8]| matches!(text, [b'0'..=b'9'] | [b'0'..=b'9', b'.', b'0'..=b'9']);
    let status =
        is_version(&rest[..space]).then(|| number(&rest[space + 1..])).flatten().ok_or_else(wrong)?;
    match status {
        101 => Err("the connection is not the script's, so that it cannot change its protocol".to_owned()),
        status => Ok(status),
    }
}

/// The value of a Status field: three digits, and perhaps words behind them.
pub(super) fn status(value: &[u8]) -> Result<u16, String> {
    match number(value) {
        Some(status @ 200..) => Ok(status),
        _ => Err("a Status is a number from 200 to 999, and perhaps words behind it".to_owned()),
    }
}

fn number(text: &[u8]) -> Option<u16> {
    let (digits, rest) = text.split_at_checked(3)?;
    let fits =
        digits[0] != b'0' && digits.iter().all(u8::is_ascii_digit) && matches!(rest, [] | [b' ' | b'\t', ..]);
    fits.then(|| digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0')))
}

/// A body in a coding of the transfer's would be taken for what it is not, once nothing says so any more. Other words
/// ("binary", "8bit") say nothing of the bytes.
pub(super) fn transfer_coding(field: Field<'_>) -> Result<(), String> {
    const CODINGS: [&str; 7] = ["gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"];
    match CODINGS.iter().any(|coding| field.lists(coding)) {
        true => {
            Err("codings of the transfer are the server's: say Content-Encoding where the body is so encoded"
                .to_owned())
        }
        false => Ok(()),
    }
}

/// The value of a Content-Length.
pub(super) fn length(value: &[u8]) -> Result<u64, String> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse::<u64>().ok());
    // The largest of all stands for none.
    number
        .filter(|&number| i64::try_from(number).is_ok())
        .ok_or_else(|| "that is no number of bytes".to_owned())
}

/// RFC 9110 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

/// The beginning of a line, in a form in which it harms no log.
pub(super) fn excerpt(line: &[u8]) -> String {
    let shown: String =
        line.iter().take(SHOWN).flat_map(|&byte| ascii::escape_default(byte)).map(char::from).collect();
    if line.len() > SHOWN { shown + "..." } else { shown }
}
