//! Writes a complete request into a slot and queues it. Called by a connection; a worker takes it from there.

use howdah_http1::{Head, decode_path};
use howdah_wire::request::Full;
use howdah_wire::{
    REQUEST_EXTENT, REQUEST_HTTPS, REQUEST_IS_HEAD, REQUEST_SPOOLED, RequestReader, RequestWriter,
};

use crate::conn::Client;
use crate::refusal::Refusal;
use crate::request_id::{self, Id};
use crate::slots::Place;
use crate::spool::Spool;
use crate::thread::here;

/// The body of a complete request.
pub(crate) enum Body<'a> {
    /// Goes into the slot.
    Inline(&'a [u8]),
    /// Stays where it is, and is so long.
    Spooled(&'a Spool, u64),
}

/// A complete request, as a slot holds it.
struct Complete<'a> {
    head: &'a Head<'a>,
    body: &'a Body<'a>,
    client: &'a Client,
    /// Percent-decoded.
    path: &'a [u8],
    /// X-Request-Id; empty for none.
    id: &'a [u8],
}

/// Writes the request and queues it for `conn`; gives its slot, and its id.
pub(crate) fn enqueue(
    head: &Head<'_>,
    body: &Body<'_>,
    client: &Client,
    conn: usize,
    path: &mut Vec<u8>,
) -> Result<(u32, Id), Refusal> {
    path.clear();
    decode_path(head.path, path)?;
    let thread = here();
    let slot = thread.dispatch.borrow_mut().take_slot().ok_or(Refusal::Overload)?;
    let mut room = request_id::ROOM;
    let request = Complete { head, body, client, path, id: request_id::choose(head, &mut room) };
    let Ok(place) = request.place(slot) else {
        thread.dispatch.borrow_mut().put_back(slot);
        return Err(Refusal::TooLarge);
    };
    if thread.queue(slot, place, conn) { Ok((slot, Id::new(request.id))) } else { Err(Refusal::Overload) }
}

/// What a slot would hold of a request that comes into none, without its body, and its id.
pub(crate) fn copy(head: &Head<'_>, client: &Client) -> Option<(Box<[u8]>, Id)> {
    let (mut path, mut room) = (Vec::new(), request_id::ROOM);
    if decode_path(head.path, &mut path).is_err() {
        path.clear();
    }
    // The record and its table, and at most three times the target: as sent, decoded, and its query.
    let mut area = vec![0; 4096 + 3 * head.len];
    let body = &Body::Inline(b"");
    let request = Complete { head, body, client, path: &path, id: request_id::choose(head, &mut room) };
    request.write(&mut area).ok()?;
    let used = RequestReader::new(&area).used().len();
    area.truncate(used);
    Some((area.into(), Id::new(request.id)))
}

impl Complete<'_> {
    /// Writes the request near the response ring if it fits there, else where there is more room.
    fn place(&self, slot: u32) -> Result<Place, Full> {
        let segment = here().segment();
        let extent =
            if let Body::Spooled(Spool::Extent(extent), _) = self.body { Some(extent.index) } else { None };
        let write_at = |near| {
            segment.place_request(slot, near);
            self.write(segment.request_area(slot, near)).map(|()| Place { near, extent })
        };
        write_at(true).or_else(|_| write_at(false))
    }

    fn write(&self, area: &mut [u8]) -> Result<(), Full> {
        let Self { head, client, .. } = self;
        let mut out = RequestWriter::new(area);
        out.record.method = out.put(head.method)?;
        out.record.uri = out.put(head.path_and_query)?;
        out.record.path = out.put(self.path)?;
        out.record.query = out.put(head.query)?;
        out.record.protocol = out.put(match head.version {
            howdah_http1::Version::Http10 => b"HTTP/1.0",
            howdah_http1::Version::Http11 => b"HTTP/1.1",
        })?;
        out.record.server_name = out.put(client.origin.name.as_bytes())?;
        out.record.server_port = out.put(client.origin.port.as_bytes())?;
        out.record.remote_addr = out.put(client.address.as_bytes())?;
        out.record.remote_port = out.put(client.port.as_bytes())?;
        out.record.flags = flags(head, self.body, client);
        self.write_fields(&mut out)?;
        write_body(&mut out, head, self.body)?;
        out.finish();
        Ok(())
    }

    fn write_fields(&self, out: &mut RequestWriter<'_>) -> Result<(), Full> {
        for field in self.head.fields() {
            // CONTENT_LENGTH is the length of what was received, whatever framing it had.
            let ours = field.name.eq_ignore_ascii_case(b"content-length")
                || request_id::is_name(field.name) && !self.id.is_empty();
            if !ours {
                out.field(field.name, field.value)?;
            }
        }
        if self.id.is_empty() { Ok(()) } else { out.variable(request_id::VARIABLE, self.id).map(drop) }
    }
}

fn write_body(out: &mut RequestWriter<'_>, head: &Head<'_>, body: &Body<'_>) -> Result<(), Full> {
    out.record.body_length = match *body {
        Body::Inline(bytes) => bytes.len() as u64,
        Body::Spooled(_, length) => length,
    };
    if head.framing != howdah_http1::Framing::None {
        out.variable(b"CONTENT_LENGTH", itoa::Buffer::new().format(out.record.body_length).as_bytes())?;
    }
    match *body {
        Body::Inline(bytes) => out.record.body = out.put(bytes)?,
        Body::Spooled(Spool::Extent(extent), _) => out.record.extent = extent.index,
        Body::Spooled(Spool::File { .. }, _) => {}
    }
    Ok(())
}

fn flags(head: &Head<'_>, body: &Body<'_>, client: &Client) -> u32 {
    let when = |condition: bool, flag: u32| if condition { flag } else { 0 };
    when(client.secure, REQUEST_HTTPS)
        | when(head.method == b"HEAD", REQUEST_IS_HEAD)
        | match body {
            Body::Inline(_) => 0,
            Body::Spooled(Spool::File { .. }, _) => REQUEST_SPOOLED,
            Body::Spooled(Spool::Extent(_), _) => REQUEST_EXTENT,
        }
}
