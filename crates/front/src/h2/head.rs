//! The head of a response, as fields: what the application has said, less what is about a connection of HTTP/1, and what we
//! say by ourselves.

use bytes::Bytes;
use http::header::{
    CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, SERVER, STRICT_TRANSPORT_SECURITY, TE,
};
use http::{Response, StatusCode};

use crate::clock::Clock;
use crate::delivery::Framing;
use crate::response::Head;

/// Bytes that a field costs beside its words (RFC 9113 6.5.2 counts more).
const FIELD: usize = 4;
/// Fields that we may add: Date, Server, X-Request-Id, Strict-Transport-Security, Content-Length.
const OURS: usize = 5;
/// Bytes of a date and of an identity as we make it.
const WORDS: usize = 29 + 32;
/// The table of the compression keeps values, and with each the memory that it stands in: so many bytes at most.
const SHARED: usize = 1024;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is to be said besides the lines of the application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saying<'a> {
    pub(crate) framing: Framing,
    /// Whether to send the Server field.
    pub(crate) server: bool,
    /// X-Request-Id; empty for none.
    pub(crate) id: &'a [u8],
    /// Seconds in Strict-Transport-Security; none for no such field.
    pub(crate) hsts: Option<u64>,
}

/// The head; none when what the application has said is none.
pub(crate) fn build(head: &Head, clock: &Clock, saying: Saying<'_>) -> Option<Response<()>> {
    if head.status < 200 {
        // Nothing can follow an interim response in its place, and 101 is none of HTTP/2 (RFC 9113 8.6).
        return None;
    }
    // A worker may write over its words: what is judged and what is sent must be one copy. Ours stand behind them.
    let mut words = Vec::with_capacity(head.lines.len() + WORDS);
    words.extend_from_slice(&head.lines);
    words.extend_from_slice(&clock.date());
    words.extend_from_slice(saying.id);
    let words = Bytes::from(words);
    let (lines, ours) = words.split_at(head.lines.len());
    let (date, id) = ours.split_at(ours.len() - saying.id.len());
    let count = lines.iter().filter(|&&byte| byte == b'\n').count();
    // A worker may have written more ends of lines than a map has places.
    let mut fields = HeaderMap::try_with_capacity(count + OURS).ok()?;
    if !head.has.date {
        fields.append(DATE, value(&words, date)?);
    }
    if !head.has.server && saying.server {
        fields.append(SERVER, HeaderValue::from_static("Howdah"));
    }
    if !head.has.request_id && !saying.id.is_empty() {
        let mut id = value(&words, id)?;
        // No other response has it: in the table of the compression it would only take the place of others.
        id.set_sensitive(true);
        fields.append(REQUEST_ID, id);
    }
    put_lines(&mut fields, &words, lines)?;
    if let Some(seconds) = saying.hsts {
        let value = HeaderValue::try_from(format!("max-age={seconds}")).ok()?;
        fields.entry(STRICT_TRANSPORT_SECURITY).or_insert(value);
    }
    if let Framing::Length(length) | Framing::Empty(Some(length)) = saying.framing {
        let length = HeaderValue::from_str(itoa::Buffer::new().format(length)).ok()?;
        fields.insert(CONTENT_LENGTH, length);
    }
    response(head.status, fields)
}

/// An interim one.
pub(crate) fn interim(status: u16, lines: &[u8]) -> Option<Response<()>> {
    let mut fields = HeaderMap::new();
    let words = Bytes::copy_from_slice(lines);
    put_lines(&mut fields, &words, &words)?;
    response(status, fields)
}

/// The one that a client with a body may wait for.
pub(crate) fn say_continue() -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::CONTINUE;
    response
}

fn response(status: u16, fields: HeaderMap) -> Option<Response<()>> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).ok()?;
    *response.headers_mut() = fields;
    Some(response)
}

/// Puts lines that stand among the words.
fn put_lines(fields: &mut HeaderMap, words: &Bytes, lines: &[u8]) -> Option<()> {
    for line in lines.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        if !is_of_connection(&name) {
            fields.try_append(name, value(words, line[colon + 1..].trim_ascii())?).ok()?;
        }
    }
    Some(())
}

/// A part of the words, in the same piece of memory unless that is large.
fn value(words: &Bytes, part: &[u8]) -> Option<HeaderValue> {
    match words.len() > SHARED {
        true => HeaderValue::from_bytes(part).ok(),
        false => HeaderValue::from_maybe_shared(words.slice_ref(part)).ok(),
    }
}

/// Fields that a response of HTTP/2 must not have: TE is for requests (RFC 9113 8.2.2).
fn is_of_connection(name: &HeaderName) -> bool {
    name == TE || howdah_http2::is_of_connection(name.as_str().as_bytes())
}

/// The lines of a head, for logs, and the bytes that it would take without compression.
pub(crate) fn lines(fields: &HeaderMap) -> Vec<u8> {
    fields
        .iter()
        .flat_map(|(name, value)| [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat())
        .collect()
}

/// The bytes that a head would take without compression.
pub(crate) fn size(response: &Response<()>) -> usize {
    let field = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + FIELD;
    9 + response.headers().iter().map(field).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use howdah_wire::RESPONSE_HEAD;

    use super::*;
    use crate::response::Has;

    fn shown(lines: &'static str, framing: Framing, hsts: Option<u64>) -> Option<String> {
        let head = Head {
            status: 200,
            lines: lines.as_bytes().into(),
            content_length: None,
            has: Has { date: true, ..Has::default() },
            close: false,
        };
        let saying = Saying { framing, server: true, id: b"me", hsts };
        let response = build(&head, &Clock::new(), saying)?;
        let text = String::from_utf8(super::lines(response.headers())).unwrap();
        Some(text.replace("\r\n", "|"))
    }

    #[test]
    fn a_head_has_what_the_application_says_less_what_is_about_a_connection() {
        let ours = "server: Howdah|x-request-id: me|";
        for (lines, framing, hsts, expected) in [
            ("A: b\r\n", Framing::Close, None, "a: b|"),
            ("A: b\r\nA:  c \r\n", Framing::Length(2), None, "a: b|a: c|content-length: 2|"),
            ("Connection: close\r\nKeep-Alive: 1\r\nUpgrade: x\r\nB: c\r\n", Framing::Close, None, "b: c|"),
            ("Proxy-Connection: close\r\nTE: trailers\r\nB: c\r\n", Framing::Close, None, "b: c|"),
            ("Transfer-Encoding: chunked\r\n", Framing::Empty(Some(3)), None, "content-length: 3|"),
            ("", Framing::Close, Some(60), "strict-transport-security: max-age=60|"),
            ("Strict-Transport-Security: x\r\n", Framing::Close, Some(60), "strict-transport-security: x|"),
        ] {
            assert_eq!(shown(lines, framing, hsts), Some(format!("{ours}{expected}")), "{lines:?}");
        }
    }

    #[test]
    fn lines_that_are_no_fields_are_no_head() {
        let many = "\n".repeat(RESPONSE_HEAD).leak();
        for lines in ["no colon\r\n", "a b: c\r\n", ": x\r\n", "a: \x01\r\n", many] {
            assert_eq!(shown(lines, Framing::Close, None), None, "{:?}", &lines[..5]);
        }
    }
}
