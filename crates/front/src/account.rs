//! What a request has come to, told to the access log when it is over.
//!
//! A connection counts as it goes (`tally`); [`Conn::account`] is called once for each request, at its last byte or at
//! the client's end.

use std::fmt;

use howdah_accesslog::{ConnectionState, Format, Kept, Needs, NoValues, Record, Source, Values, Writer};
use howdah_metrics::{Failure, Finished, Method};
use howdah_wire::{RequestReader, reported};

use crate::conn::Conn;
use crate::tally::Tally;
use crate::thread::here;

/// The access log of a front thread.
pub struct AccessLog {
    format: Format,
    writer: Writer,
    /// For each need of the format, where its value is.
    places: Vec<Place>,
}

/// Where a value that the format needs is found at the end of a request.
#[derive(Debug)]
enum Place {
    /// Among the request's fields, under this CGI name.
    Field(Vec<u8>),
    /// In the worker's report, at this place.
    Report(usize),
    /// Among what was kept on the way.
    Kept,
}

impl AccessLog {
    /// A log in `format`; `writer` is this thread's.
    #[must_use]
    pub fn new(format: Format, writer: Writer) -> Self {
        let mut reported = 0..;
        let places = format.needs().iter().map(|(_, source, name)| match source {
            Source::RequestHeader => Place::Field(cgi_name(name)),
            Source::Environment => Place::Report(reported.next().unwrap_or_default()),
            Source::ResponseHeader | Source::RequestTrailer | Source::ResponseTrailer => Place::Kept,
        });
        Self { places: places.collect(), writer, format }
    }

    /// The values that lines have.
    pub(crate) fn needs(&self) -> &Needs {
        self.format.needs()
    }

    /// Whether lines have values from there.
    pub(crate) fn wants(&self, source: Source) -> bool {
        self.format.needs().any(source)
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").finish_non_exhaustive()
    }
}

impl Conn {
    /// The request is over: tells the log, and gives the slot back.
    pub(crate) fn account(&mut self, connection: ConnectionState) {
        let thread = here();
        if let Some(slot) = self.slot {
            self.tally.visit(slot);
        }
        let end = howdah_sys::monotonic_ns();
        if self.tally.begin == 0 {
            self.tally.begin = end; // nothing of a request has come
        }
        self.tally.bound(end);
        self.count(connection, end);
        if let Some(log) = &thread.outlets.access_log {
            self.log(log, connection, end);
        }
        if let Some(log) = &thread.outlets.slow_log
            && log.concerns(end.saturating_sub(self.tally.begin))
        {
            log.tell(&self.record(&NoValues, (connection, end)));
        }
        self.tally = Tally::default();
        self.give_back();
    }

    fn count(&self, connection: ConnectionState, end: u64) {
        let tally = &self.tally;
        let recorder = &here().outlets.recorder;
        if connection == ConnectionState::Aborted {
            recorder.failure(if tally.too_slow { Failure::WriteTimeout } else { Failure::ClientGone });
        }
        recorder.request(&Finished {
            method: tally.method.unwrap_or(Method::Other),
            status: tally.status,
            duration: end.saturating_sub(tally.begin),
            queue: tally.queue,
            first_byte: tally.first_byte.map(|time| time.saturating_sub(tally.begin)),
            send: tally.first_byte.map(|time| end.saturating_sub(time)),
            bytes_in: tally.received,
            bytes_out: tally.sent,
        });
    }

    fn log(&self, log: &AccessLog, connection: ConnectionState, end: u64) {
        let kept = self.tally.kept.as_deref();
        let report = self.report();
        let values = Wanted { request: self.request(), report: &report, places: &log.places, kept };
        let record = self.record(&values, (connection, end));
        log.writer.line(|out| log.format.render(&record, out));
    }

    fn record<'a>(&'a self, values: &'a dyn Values, (connection, end): (ConnectionState, u64)) -> Record<'a> {
        let thread = here();
        let tally = &self.tally;
        let request = self.request();
        let origin = &self.client.origin;
        let roster = &thread.outlets.roster;
        let pid = tally.worker.map_or(0, |worker| roster.pid(worker));
        Record {
            line: &tally.line,
            method: request.method(),
            target: request.uri(),
            path: request.path(),
            path_info: path_info(request.path(), thread.config.path.as_deref()),
            query: request.query(),
            protocol: request.protocol(),
            status: tally.status,
            body_bytes: tally.body,
            bytes_in: tally.received,
            bytes_out: tally.sent,
            begin: thread.clock.wall(tally.begin),
            duration: end.saturating_sub(tally.begin),
            first_byte: tally.first_byte.map(|time| time.saturating_sub(tally.begin)),
            queue: tally.queue,
            run: tally.run,
            send: tally.first_byte.map(|time| end.saturating_sub(time)),
            client: self.client.address.as_bytes(),
            client_port: self.client.port.parse().unwrap_or(0),
            peer: self.client.address.as_bytes(),
            local: origin.name.as_bytes(),
            local_port: origin.port.parse().unwrap_or(0),
            server_name: origin.name.as_bytes(),
            server_port: origin.port.parse().unwrap_or(0),
            host: request.field(b"HTTP_HOST").unwrap_or_default(),
            keepalive: self.served,
            connection,
            pid,
            tid: u64::from(pid),
            worker: tally.worker.map(u32::from),
            generation: tally.worker.map_or(0, |worker| roster.generation(worker)),
            request_id: tally.id.bytes(),
            values,
        }
    }
}

/// The values that the format wants, found where they are.
#[derive(Debug)]
struct Wanted<'a> {
    request: RequestReader<'a>,
    report: &'a [u8],
    places: &'a [Place],
    kept: Option<&'a Kept>,
}

impl Values for Wanted<'_> {
    fn value(&self, need: usize) -> Option<&[u8]> {
        match self.places.get(need)? {
            Place::Field(name) => self.request.field(name),
            Place::Report(index) => reported(self.report, *index),
            Place::Kept => self.kept?.value(need),
        }
    }
}

/// PATH_INFO of an application that is mounted at `mount`, where Plack::App::URLMap sees it.
fn path_info<'p>(path: &'p [u8], mount: Option<&str>) -> &'p [u8] {
    let below = mount.and_then(|mount| path.strip_prefix(mount.trim_end_matches('/').as_bytes()));
    below.filter(|rest| rest.is_empty() || rest.starts_with(b"/")).unwrap_or(path)
}

/// `User-Agent` as HTTP_USER_AGENT (RFC 3875 4.1.18).
fn cgi_name(name: &[u8]) -> Vec<u8> {
    let upper = name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
    let prefix: &[u8] = match name.to_ascii_lowercase().as_slice() {
        b"content-type" | b"content-length" => b"",
        _ => b"HTTP_",
    };
    prefix.iter().copied().chain(upper).collect()
}

#[cfg(test)]
mod tests {
    use super::path_info;

    #[test]
    fn path_info_is_what_the_mount_leaves() {
        let cases = [
            ("/app/x", Some("/app"), "/x"),
            ("/app/x", Some("/app/"), "/x"),
            ("/app", Some("/app"), ""),
            ("/apple", Some("/app"), "/apple"),
            ("/other", Some("/app"), "/other"),
            ("/x", Some("/"), "/x"),
            ("/x", None, "/x"),
        ];
        for (path, mount, rest) in cases {
            assert_eq!(path_info(path.as_bytes(), mount), rest.as_bytes(), "{path} below {mount:?}");
        }
    }
}
