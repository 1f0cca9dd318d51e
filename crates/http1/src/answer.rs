//! The head of a response that an application has written by itself, for whoever carries it on in another protocol.
//!
//! As strict as with requests: what is told apart here and by a client of HTTP/1 must be the same.

/// Bytes that such a head may have.
const MOST: usize = 64 << 10;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Three digits.
    pub status: u16,
    /// Field lines, each with its CRLF.
    pub lines: &'a [u8],
    /// Bytes of the head.
    pub len: usize,
}

impl<'a> Answer<'a> {
    /// Reads a head at the start of `bytes`; none when it has not ended yet. That it had not after the first `seen` bytes is known, so
    /// that one that comes byte by byte costs linear time.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &'a [u8], seen: usize) -> Result<Option<Self>, &'static str> {
        let head = &bytes[..bytes.len().min(MOST)];
        let from = seen.saturating_sub(3).min(head.len());
        let Some(end) = head[from..].windows(4).position(|end| end == b"\r\n\r\n") else {
            let begins = b"HTTP/1.1 ".iter().zip(bytes).all(|(expected, byte)| expected == byte);
            return match (begins, bytes.len() < MOST) {
                (false, _) => Err("it does not begin with \"HTTP/1.1 \""),
                (true, false) => Err("it has no end within 64 KiB"),
                (true, true) => Ok(None),
            };
        };
        let end = from + end;
        let (line, lines) = head[..end + 2].split_at(line_length(head));
        if lines.split_inclusive(|&byte| byte == b'\n').any(|line| !is_field(line)) {
            return Err("a line of it is no field");
        }
        Ok(Some(Self { status: status(line)?, lines, len: end + 4 }))
    }

    /// The values of the fields with that name, in whatever case.
    pub fn values(&self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        fields(self.lines).filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// What `Content-Length` says of the body.
    ///
    /// # Errors
    /// When it says nothing that could be, or the body's end is told by something else.
    pub fn body_length(&self) -> Result<Option<u64>, &'static str> {
        if self.values(b"transfer-encoding").next().is_some() {
            return Err("it has a Transfer-Encoding");
        }
        let mut length = None;
        for value in self.values(b"content-length") {
            let digits = value.iter().all(u8::is_ascii_digit);
            let text = str::from_utf8(value).ok().filter(|_| digits);
            let given = text.and_then(|text| text.parse().ok()).ok_or("its Content-Length is no number")?;
            if *length.get_or_insert(given) != given {
                return Err("it has two Content-Lengths");
            }
        }
        Ok(length)
    }
}

/// Names and values in field lines.
pub fn fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

fn line_length(head: &[u8]) -> usize {
    head.iter().position(|&byte| byte == b'\n').map_or(head.len(), |at| at + 1)
}

/// Of `HTTP/1.1 101 Switching Protocols`, with its CRLF.
fn status(line: &[u8]) -> Result<u16, &'static str> {
    let rest = line.strip_prefix(b"HTTP/1.1 ").ok_or("it does not begin with \"HTTP/1.1 \"")?;
    match rest.strip_suffix(b"\r\n") {
        Some([a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', reason @ ..])
            if reason.first().is_none_or(|&byte| byte == b' ')
                && reason.iter().all(|&byte| is_text(byte)) =>
        {
            Ok([a, b, c].iter().fold(0, |status, &&digit| status * 10 + u16::from(digit - b'0')))
        }
        _ => Err("it has no status"),
    }
}

/// A field line with its CRLF (RFC 9112 5); none that goes on in the next one.
fn is_field(line: &[u8]) -> bool {
    let Some(line) = line.strip_suffix(b"\r\n") else { return false };
    let Some(colon) = line.iter().position(|&byte| byte == b':') else { return false };
    let (name, value) = line.split_at(colon);
    !name.is_empty() && name.iter().all(|&byte| is_token(byte)) && value.iter().all(|&byte| is_text(byte))
}

/// RFC 9110 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_text(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_found_wherever_it_is_cut() {
        let whole =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX:\r\nUPGRADE:  b \r\n\r\nbehind";
        let (end, line) = (whole.len() - 6, 34);
        for cut in 0..end {
            assert_eq!(Answer::read(&whole[..cut], 0), Ok(None), "{cut}");
            for more in [end - 1, end, whole.len()] {
                let (read, read_on) = (Answer::read(&whole[..more], 0), Answer::read(&whole[..more], cut));
                assert_eq!(read_on, read, "{more} behind {cut}");
            }
        }
        for cut in end..whole.len() {
            let answer = Answer::read(&whole[..cut], 0).unwrap().unwrap();
            assert_eq!((answer.status, answer.len, answer.lines), (101, end, &whole[line..end - 2]));
            assert_eq!(answer.values(b"upgrade").collect::<Vec<_>>(), [&b"websocket"[..], b"b"]);
        }
        let bare = Answer::read(b"HTTP/1.1 204\r\n\r\n", 0).unwrap().unwrap();
        assert_eq!((bare.status, bare.lines), (204, &b""[..]));
    }

    #[test]
    fn what_is_no_head_is_refused_as_soon_as_that_is_known() {
        for (bytes, why) in [
            ("x", "begin"),
            ("HTTP/1.0 200 OK\r\n\r\n", "begin"),
            ("\r\n\r\n", "begin"),
            ("HTTP/1.1 20 OK\r\n\r\n", "status"),
            ("HTTP/1.1 2000 OK\r\n\r\n", "status"),
            ("HTTP/1.1 099 OK\r\n\r\n", "status"),
            ("HTTP/1.1 200 OK\nA: b\r\n\r\n", "status"),
            ("HTTP/1.1 200 O\rK\r\n\r\n", "status"),
            ("HTTP/1.1 200 OK\r\nA\r\n\r\n", "field"),
            ("HTTP/1.1 200 OK\r\n: b\r\n\r\n", "field"),
            ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "field"),
            ("HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", "field"),
            ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "field"),
            ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", "field"),
        ] {
            let verdict = Answer::read(bytes.as_bytes(), 0);
            assert!(verdict.is_err_and(|reason| reason.contains(why)), "{bytes:?}: {verdict:?}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(MOST));
        assert_eq!(Answer::read(long.as_bytes(), 0), Err("it has no end within 64 KiB"));
        assert_eq!(Answer::read(&long.as_bytes()[..MOST], 0), Err("it has no end within 64 KiB"));
        assert_eq!(Answer::read(&long.as_bytes()[..MOST - 1], 0), Ok(None));
    }

    #[test]
    fn the_length_of_a_body_is_given_once_or_not_at_all() {
        let length = |fields: &str| {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            Answer::read(head.as_bytes(), 0).unwrap().unwrap().body_length()
        };
        assert_eq!(length("A: b\r\n"), Ok(None));
        assert_eq!(length("content-length: 7\r\nContent-Length:7\r\n"), Ok(Some(7)));
        for fields in [
            "Content-Length: 7\r\nContent-Length: 8\r\n",
            "Content-Length: +7\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: chunked\r\n",
        ] {
            assert!(length(fields).is_err(), "{fields}");
        }
    }
}
