//! A request in the form in which a slot holds it: what workers read, and what the logs are made from.

use howdah_http1::decode_path;
use howdah_wire::request::Full;
use howdah_wire::{
    REQUEST_EXTENT, REQUEST_HTTPS, REQUEST_IS_HEAD, REQUEST_LENDS, REQUEST_SPOOLED, RequestReader,
    RequestWriter, Segment,
};

use crate::request::{Content, Request};
use crate::request_id::{self, Id, Ids};
use crate::slots::{Position, Spool};

/// The body of a complete request.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// Goes into the slot.
    Inline(&'a [u8]),
    /// Stays where it is, until the slot is free again, and is so long.
    Spooled(Spool, u64),
}

/// A complete request.
#[derive(Debug)]
pub(crate) struct Complete<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) body: &'a Body<'a>,
    /// Percent-decoded.
    pub(crate) path: &'a [u8],
    /// X-Request-Id; empty for none.
    pub(crate) id: &'a [u8],
    /// Its worker may ask for the connection, see `delivery/loan`.
    pub(crate) lends: bool,
}

/// What a slot would hold of a request that comes into none, without its body, and its id.
pub(crate) fn copy(request: &Request<'_>, ids: &Ids) -> Option<(Box<[u8]>, Id)> {
    let (mut path, mut room) = (Vec::new(), request_id::ROOM);
    if decode_path(request.path, &mut path).is_err() {
        path.clear();
    }
    // The record and its table, and at most three times the target: as sent, decoded, and its query.
    let mut area = vec![0; 4096 + 3 * request.length + room_for_tls(request)];
    let id = ids.choose(request.fields.clone(), &mut room);
    let mut write = |request: &Request<'_>| {
        Complete { request, body: &Body::Inline(b""), path: &path, id, lends: false }.write(&mut area)
    };
    // Fields that take turns, each repeated many times, may be longer joined than they came.
    write(request).or_else(|_| write(&without_fields(request))).ok()?;
    let used = RequestReader::new(&area).used().len();
    area.truncate(used);
    Some((area.into(), Id::new(id)))
}

fn without_fields<'a>(request: &Request<'a>) -> Request<'a> {
    let mut request = request.clone();
    request.fields.by_ref().for_each(drop);
    request
}

fn room_for_tls(request: &Request<'_>) -> usize {
    let variables = request.client.tls.iter().flat_map(|tls| tls.variables());
    variables.map(|(name, value)| name.len() + value.len()).sum()
}

impl Complete<'_> {
    /// Writes the request into a slot of ours, near the response ring if it fits there, else where there is more room.
    pub(crate) fn place(&self, segment: &Segment, slot: u32) -> Result<Position, Full> {
        let extent = match self.body {
            Body::Spooled(spool, _) => spool.extent(),
            Body::Inline(_) => None,
        };
        let write_at = |near| {
            segment.place_request(slot, near);
            self.write(segment.request_area(slot, near)).map(|()| Position { near, extent })
        };
        write_at(true).or_else(|_| write_at(false))
    }

    fn write(&self, area: &mut [u8]) -> Result<(), Full> {
        let Self { request, path, .. } = self;
        let client = request.client;
        let mut out = RequestWriter::new(area);
        out.record.method = out.put(request.method)?;
        out.record.uri = out.put(request.target)?;
        out.record.path = out.put(path)?;
        out.record.query = out.put(request.query)?;
        out.record.protocol = out.put(request.protocol)?;
        out.record.server_name = out.put(client.server_name().as_bytes())?;
        out.record.server_port = match client.server_port {
            None => out.put(client.origin.port.as_bytes())?,
            Some(port) => out.put(itoa::Buffer::new().format(port).as_bytes())?,
        };
        out.record.remote_addr = out.put(client.address.as_bytes())?;
        out.record.remote_port = out.put(client.port.as_bytes())?;
        out.record.flags = flags(request, self.body) | if self.lends { REQUEST_LENDS } else { 0 };
        self.write_fields(&mut out)?;
        write_body(&mut out, request, self.body)?;
        out.finish();
        Ok(())
    }

    fn write_fields(&self, out: &mut RequestWriter<'_>) -> Result<(), Full> {
        for field in self.request.fields.clone() {
            // CONTENT_LENGTH is the length of what was received, whatever framing it had.
            let ours = field.name.eq_ignore_ascii_case(b"content-length")
                || request_id::is_name(field.name) && !self.id.is_empty()
                || self.request.host.is_some() && field.name.eq_ignore_ascii_case(b"host");
            if !ours {
                out.field(field.name, field.value)?;
            }
        }
        if let Some(host) = self.request.host {
            out.variable(b"HTTP_HOST", host)?;
        }
        if let Some(path) = self.request.redirected {
            out.variable(b"REDIRECT_STATUS", b"200")?;
            out.variable(b"REDIRECT_URL", path)?;
        }
        for (name, value) in self.request.client.tls.iter().flat_map(|tls| tls.variables()) {
            out.variable(name.as_bytes(), value.as_bytes())?;
        }
        if self.id.is_empty() { Ok(()) } else { out.variable(request_id::VARIABLE, self.id).map(drop) }
    }
}

fn write_body(out: &mut RequestWriter<'_>, request: &Request<'_>, body: &Body<'_>) -> Result<(), Full> {
    out.record.body_length = match body {
        Body::Inline(bytes) => bytes.len() as u64,
        Body::Spooled(_, length) => *length,
    };
    if request.content != Content::No {
        out.variable(b"CONTENT_LENGTH", itoa::Buffer::new().format(out.record.body_length).as_bytes())?;
    }
    match body {
        Body::Inline(bytes) => out.record.body = out.put(bytes)?,
        Body::Spooled(spool, _) => out.record.extent = spool.extent().unwrap_or(out.record.extent),
    }
    Ok(())
}

fn flags(request: &Request<'_>, body: &Body<'_>) -> u32 {
    let when = |condition: bool, flag: u32| if condition { flag } else { 0 };
    when(request.client.secure, REQUEST_HTTPS)
        | when(request.is_head(), REQUEST_IS_HEAD)
        | match body {
            Body::Inline(_) => 0,
            Body::Spooled(Spool::File(_), _) => REQUEST_SPOOLED,
            Body::Spooled(Spool::Extent(_), _) => REQUEST_EXTENT,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_request_is_written_as_its_worker_reads_it() {
        let head = "POST /a%20b?c=d HTTP/1.1\r\nHost: h:80\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 3\r\n\r\n";
        sample::with(head, &sample::client("10.0.0.1"), |request| {
            let mut area = vec![0; 4096];
            let complete =
                Complete { request, body: &Body::Inline(b"abc"), path: b"/a b", id: b"me", lends: true };
            complete.write(&mut area).unwrap();
            let written = RequestReader::new(&area);
            assert_eq!((written.method(), written.uri()), (&b"POST"[..], &b"/a%20b?c=d"[..]));
            assert_eq!((written.path(), written.query()), (&b"/a b"[..], &b"c=d"[..]));
            assert_eq!((written.protocol(), written.remote_addr()), (&b"HTTP/1.1"[..], &b"10.0.0.1"[..]));
            for (name, value) in [
                ("HTTP_HOST", Some("h:80")),
                ("HTTP_X_A", Some("1, 2")),
                ("CONTENT_LENGTH", Some("3")),
                ("HTTP_X_REQUEST_ID", Some("me")),
                ("HTTP_CONTENT_LENGTH", None),
            ] {
                assert_eq!(written.field(name.as_bytes()), value.map(str::as_bytes), "{name}");
            }
        });
    }

    #[test]
    fn a_copy_has_the_words_of_a_request_that_comes_into_no_slot() {
        let target = "x".repeat(3000);
        let head = format!("GET /{target} HTTP/1.1\r\nHost: h\r\nCookie: {target}\r\n\r\n");
        sample::with(&head, &sample::client(""), |request| {
            let (words, id) = copy(request, &Ids::new(true).unwrap()).unwrap();
            let words = RequestReader::new(&words);
            assert_eq!((words.uri().len(), words.field(b"HTTP_COOKIE")), (3001, Some(target.as_bytes())));
            assert_eq!(words.field(b"HTTP_X_REQUEST_ID"), Some(id.bytes()));
        });
    }

    #[test]
    fn a_copy_of_a_request_whose_fields_take_turns_without_end_has_its_first_line() {
        let turns = format!("X-A: {0}\r\nX-B: {0}\r\n", "x".repeat(600)).repeat(50);
        sample::with(&format!("GET /a HTTP/1.1\r\nHost: h\r\n{turns}\r\n"), &sample::client(""), |request| {
            let (words, id) = copy(request, &Ids::new(true).unwrap()).unwrap();
            let words = RequestReader::new(&words);
            assert_eq!((words.method(), words.uri()), (&b"GET"[..], &b"/a"[..]));
            assert_eq!(words.field(b"HTTP_X_REQUEST_ID"), Some(id.bytes()));
        });
    }

    #[test]
    fn a_request_that_fits_nowhere_is_refused() {
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "x".repeat(1000));
        sample::with(&head, &sample::client(""), |request| {
            let complete = Complete { request, body: &Body::Inline(b""), path: b"/", id: b"", lends: false };
            assert!(complete.write(&mut vec![0; 900]).is_err());
            assert!(complete.write(&mut vec![0; 4096]).is_ok());
        });
    }
}
