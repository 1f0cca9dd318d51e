//! One item of a line: what it says of a record.

use crate::record::{ConnectionState, Record};
use crate::style::Style;
use crate::time::{Stamp, padded};
use crate::zone::Zone;

/// What a compiled directive prints. Its `usize` is a number of [`crate::Needs`].
#[derive(Clone, Debug)]
pub(crate) enum Field {
    /// Directives whose value Howdah never has: `%l`, `%f`, `%R`.
    Nothing,
    Client,
    Peer,
    Local,
    User(usize),
    Time(Stamp),
    Line,
    /// The first line of a request that could not be parsed.
    Unparsed,
    Method,
    Target,
    Path,
    PathInfo,
    /// With its `?`; a `?` with nothing behind it counts as a query.
    Query,
    /// With its `?`, unless nothing is behind it.
    QueryIfAny,
    Protocol,
    Status,
    Body,
    /// `-` for an empty body.
    BodyOrDash,
    In,
    Out,
    Both,
    /// In units of so many nanoseconds.
    Duration(u64),
    /// In seconds, with microseconds behind the point.
    Seconds,
    ServerName,
    /// Host of the request without its port.
    HostName,
    /// Host of the request as sent.
    Host,
    ServerPort,
    LocalPort,
    ClientPort,
    Pid,
    Tid,
    HexTid,
    Value(usize),
    /// An empty value counts as none.
    ValueIfAny(usize),
    /// A field without its parameters: Apache logs a response's Content-Type so.
    MediaType(usize),
    Cookie(usize, Box<[u8]>),
    /// Microseconds to the response's first byte.
    FirstByte,
    Queue,
    Run,
    Send,
    Worker,
    Generation,
    Connection,
    KeepAlive,
    RequestId,
}

impl Field {
    pub(crate) fn render(&self, out: &mut Vec<u8>, style: Style, zone: &Zone, record: &Record<'_>) {
        if let Some(number) = self.number(record) {
            return style.number(out, number);
        }
        match self {
            Self::Time(stamp) => stamp.render(out, style, zone, moment(stamp, record)),
            Self::Line => line(out, style, record),
            Self::Query if record.query.is_empty() && !record.target.ends_with(b"?") => {}
            Self::QueryIfAny if record.query.is_empty() => {}
            Self::Query | Self::QueryIfAny => {
                out.push(b'?');
                style.text(out, Some(record.query));
            }
            Self::HostName => host_name(out, style, record),
            Self::User(need) => user(out, style, record.values.value(*need)),
            Self::Seconds => seconds(out, record.duration),
            Self::HexTid => out.extend_from_slice(format!("{:x}", record.tid).as_bytes()),
            Self::Connection => style.own(out, |out| out.push(connection(record.connection))),
            _ => style.text(out, self.text(record)),
        }
    }

    /// The value of a field that is a number; an inner none stands for a number that there is not.
    fn number(&self, record: &Record<'_>) -> Option<Option<u64>> {
        Some(match self {
            Self::Status => some_if(record.status),
            Self::Body => Some(record.body_bytes),
            Self::BodyOrDash => some_if(record.body_bytes),
            Self::In => Some(record.bytes_in),
            Self::Out => Some(record.bytes_out),
            Self::Both => Some(record.bytes_in + record.bytes_out),
            Self::Duration(unit) => Some(record.duration / unit),
            Self::ServerPort => some_if(record.server_port),
            Self::LocalPort => some_if(record.local_port),
            Self::ClientPort => some_if(record.client_port),
            Self::Pid => some_if(record.pid),
            Self::Tid => some_if(record.tid),
            Self::FirstByte => micros(record.first_byte),
            Self::Queue => micros(record.queue),
            Self::Run => micros(record.run),
            Self::Send => micros(record.send),
            Self::Worker => record.worker.map(u64::from),
            Self::Generation => some_if(record.generation),
            Self::KeepAlive => Some(record.keepalive),
            _ => return None,
        })
    }

    /// The value of a field that is text from the record.
    fn text<'r>(&self, record: &Record<'r>) -> Option<&'r [u8]> {
        let value = match self {
            Self::Value(need) => return record.values.value(*need),
            Self::ValueIfAny(need) => record.values.value(*need)?,
            Self::MediaType(need) => return record.values.value(*need).map(media_type),
            Self::Cookie(need, name) => return cookie(record.values.value(*need)?, name),
            Self::Client => record.client,
            Self::Peer => record.peer,
            Self::Local => record.local,
            Self::Unparsed => record.line,
            Self::Method => record.method,
            Self::Target => record.target,
            // Of a request for the server as a whole, however it was written, the path is empty.
            Self::Path if record.path.is_empty() && !record.method.is_empty() => b"*",
            Self::Path => record.path,
            Self::PathInfo => record.path_info,
            Self::Protocol => record.protocol,
            Self::ServerName => record.server_name,
            Self::Host if record.host.is_empty() => record.server_name,
            Self::Host => record.host,
            Self::RequestId => record.request_id,
            _ => b"",
        };
        (!value.is_empty()).then_some(value)
    }
}

fn some_if(value: impl Into<u64>) -> Option<u64> {
    Some(value.into()).filter(|value| *value > 0)
}

fn micros(nanos: Option<u64>) -> Option<u64> {
    nanos.map(|nanos| nanos / 1000)
}

fn moment(stamp: &Stamp, record: &Record<'_>) -> u64 {
    if stamp.end { record.begin.saturating_add(record.duration) } else { record.begin }
}

fn line(out: &mut Vec<u8>, style: Style, record: &Record<'_>) {
    if record.method.is_empty() {
        return style.text(out, Some(record.line).filter(|line| !line.is_empty()));
    }
    style.text(out, Some(record.method));
    out.push(b' ');
    style.text(out, Some(record.target));
    out.push(b' ');
    style.text(out, Some(record.protocol));
}

/// Apache writes a name that is there but empty as a pair of quotes.
fn user(out: &mut Vec<u8>, style: Style, name: Option<&[u8]>) {
    match name {
        Some(b"") if style == Style::Apache => out.extend_from_slice(br#""""#),
        name => style.text(out, name),
    }
}

/// In lower case and without the brackets of an IPv6 address, as httpd takes it.
fn host_name(out: &mut Vec<u8>, style: Style, record: &Record<'_>) {
    let host = if record.host.is_empty() { record.server_name } else { without_port(record.host) };
    let start = out.len();
    style.text(out, Some(host).filter(|host| !host.is_empty()));
    out[start..].make_ascii_lowercase();
}

fn without_port(host: &[u8]) -> &[u8] {
    let address = host.strip_prefix(b"[").and_then(|rest| rest.split(|byte| *byte == b']').next());
    let name = || host.rsplitn(2, |byte| *byte == b':').last().unwrap_or(host);
    address.unwrap_or_else(name)
}

fn seconds(out: &mut Vec<u8>, nanos: u64) {
    let micros = nanos / 1000;
    out.extend_from_slice(itoa::Buffer::new().format(micros / 1_000_000).as_bytes());
    out.push(b'.');
    padded(out, micros % 1_000_000, 6);
}

fn connection(state: ConnectionState) -> u8 {
    match state {
        ConnectionState::Aborted => b'X',
        ConnectionState::KeepAlive => b'+',
        ConnectionState::Close => b'-',
    }
}

fn media_type(value: &[u8]) -> &[u8] {
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end()
}

/// A cookie's value out of a Cookie field, found as httpd finds it: names without regard to case, whitespace around
/// name and value dropped, an empty value none.
fn cookie<'v>(field: &'v [u8], name: &[u8]) -> Option<&'v [u8]> {
    field.split(|byte| *byte == b';').find_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let found = pair[..at].trim_ascii().eq_ignore_ascii_case(name);
        found.then(|| pair[at + 1..].trim_ascii()).filter(|value| !value.is_empty())
    })
}
