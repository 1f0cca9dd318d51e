//! Writes a complete request into a slot and queues it. Called by a connection; a worker takes it from there.

use howdah_http1::{Head, decode_path};
use howdah_wire::request::Full;
use howdah_wire::{
    REQUEST_EXTENT, REQUEST_HTTPS, REQUEST_IS_HEAD, REQUEST_LOCAL, REQUEST_SPOOLED, REQUEST_UPGRADE,
    RequestWriter,
};

use crate::conn::Client;
use crate::refusal::Refusal;
use crate::spool::Spool;
use crate::thread::here;

/// The body of a complete request.
pub(crate) enum Body<'a> {
    /// Goes into the slot.
    Inline(&'a [u8]),
    /// Stays where it is, and is so long.
    Spooled(&'a Spool, u64),
}

/// Writes the request and queues it for `conn`; gives its slot.
pub(crate) fn enqueue(
    head: &Head<'_>,
    body: &Body<'_>,
    client: &Client,
    conn: usize,
    path: &mut Vec<u8>,
) -> Result<u32, Refusal> {
    path.clear();
    decode_path(head.path, path)?;
    let thread = here();
    let slot = thread.dispatch.borrow_mut().take_slot().ok_or(Refusal::Overload)?;
    if place(slot, head, body, client, path).is_err() {
        thread.dispatch.borrow_mut().put_back(slot);
        return Err(Refusal::TooLarge);
    }
    if thread.queue(slot, conn) { Ok(slot) } else { Err(Refusal::Overload) }
}

/// Writes the request near the response ring if it fits there, else where there is more room.
fn place(slot: u32, head: &Head<'_>, body: &Body<'_>, client: &Client, path: &[u8]) -> Result<(), Full> {
    let segment = here().segment;
    let write_at = |near| {
        segment.place_request(slot, near);
        let mut writer = RequestWriter::new(segment.request_area(slot));
        write(&mut writer, head, body, client, path).map(|()| writer.finish())
    };
    write_at(true).or_else(|_| write_at(false))
}

fn write(
    out: &mut RequestWriter<'_>,
    head: &Head<'_>,
    body: &Body<'_>,
    client: &Client,
    path: &[u8],
) -> Result<(), Full> {
    out.record.method = out.put(head.method)?;
    out.record.uri = out.put(head.path_and_query)?;
    out.record.path = out.put(path)?;
    out.record.query = out.put(head.query)?;
    out.record.protocol = out.put(match head.version {
        howdah_http1::Version::Http10 => b"HTTP/1.0",
        howdah_http1::Version::Http11 => b"HTTP/1.1",
    })?;
    out.record.server_name = out.put(client.origin.name.as_bytes())?;
    out.record.server_port = out.put(client.origin.port.as_bytes())?;
    out.record.remote_addr = out.put(client.address.as_bytes())?;
    out.record.remote_port = out.put(client.port.as_bytes())?;
    out.record.flags = flags(head, body, client);
    for field in head.fields() {
        // CONTENT_LENGTH is the length of what was received, whatever framing it had.
        if !field.name.eq_ignore_ascii_case(b"content-length") {
            out.field(field.name, field.value)?;
        }
    }
    write_body(out, head, body)
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
        Body::Spooled(Spool::File(_), _) => {}
    }
    Ok(())
}

fn flags(head: &Head<'_>, body: &Body<'_>, client: &Client) -> u32 {
    let when = |condition: bool, flag: u32| if condition { flag } else { 0 };
    when(client.origin.path.is_some(), REQUEST_LOCAL)
        | when(client.secure, REQUEST_HTTPS)
        | when(head.upgrade, REQUEST_UPGRADE)
        | when(head.method == b"HEAD", REQUEST_IS_HEAD)
        | match body {
            Body::Inline(_) => 0,
            Body::Spooled(Spool::File(_), _) => REQUEST_SPOOLED,
            Body::Spooled(Spool::Extent(_), _) => REQUEST_EXTENT,
        }
}
