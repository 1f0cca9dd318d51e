//! What a request has come to, told to the access log when it is over.
//!
//! A connection counts as it goes ([`Tally`]); [`Conn::account`] is called once for each request, at its last byte or
//! at the client's end. The request's own words are read from its slot, or, when the slot had to go back earlier, from
//! a copy that [`Conn::keep_request`] made.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use howdah_accesslog::{ConnectionState, Format, Kept, Record, Source, Values, Writer};
use howdah_http1::{FieldStore, Head, RequestDecoder};
use howdah_metrics::{Failure, Finished, Method};
use howdah_wire::{RequestReader, Span};

use crate::conn::Conn;
use crate::fill;
use crate::thread::here;

/// The access log of a front thread.
pub struct AccessLog {
    format: Format,
    writer: Writer,
    /// For each need of the format, the request field's CGI name.
    names: Vec<Option<Vec<u8>>>,
    response_fields: bool,
}

impl AccessLog {
    /// A log in `format`; `writer` is this thread's.
    #[must_use]
    pub fn new(format: Format, writer: Writer) -> Self {
        let needs = format.needs();
        let names =
            needs.iter().map(|(_, source, name)| (source == Source::RequestHeader).then(|| cgi_name(name)));
        Self { names: names.collect(), response_fields: needs.any(Source::ResponseHeader), writer, format }
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").finish_non_exhaustive()
    }
}

/// What a connection counts for its present request. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The first byte of the request.
    pub(crate) begin: u64,
    /// The first byte of the response.
    pub(crate) first_byte: Option<u64>,
    /// Bytes received for it.
    pub(crate) received: u64,
    /// Bytes sent for it.
    pub(crate) sent: u64,
    /// Bytes of the response's body, without framing.
    pub(crate) body: u64,
    pub(crate) status: u16,
    /// None for a request that was not understood.
    pub(crate) method: Option<Method>,
    /// Waited for a worker.
    pub(crate) queue: Option<u64>,
    /// Ran in a worker.
    pub(crate) run: Option<u64>,
    /// The worker that ran it.
    pub(crate) worker: Option<u16>,
    /// The first line of a request that could not be read.
    line: Box<[u8]>,
    /// Where the request has its id.
    pub(crate) id: Span,
    /// The request, when it never had a slot or its slot went back before the end.
    request: Option<Box<[u8]>>,
    /// Response fields that the log wants.
    kept: Option<Box<Kept>>,
}

impl Tally {
    /// Notes what the slot knows of the request's way through a worker.
    fn visit(&mut self, slot: u32) {
        let control = here().dispatch.borrow().control(slot);
        let claimed = control.claimed_at.load(Relaxed);
        if claimed != 0 {
            let finished = control.finished_at.load(Relaxed);
            let end = if finished == 0 { here().clock.now() } else { finished };
            self.queue = Some(claimed.saturating_sub(control.queued_at.load(Relaxed)));
            self.run = Some(end.saturating_sub(claimed));
        }
    }

    /// Counts bytes that the client's socket took.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        if self.first_byte.is_none() {
            self.first_byte = Some(here().clock.now());
        }
    }

    /// Keeps the first line of what could not be read as a request.
    pub(crate) fn unreadable(&mut self, input: &[u8]) {
        if here().outlets.access_log.is_some() {
            let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
            self.line = line.strip_suffix(b"\r").unwrap_or(line).into();
        }
        self.received = input.len() as u64;
    }

    /// Keeps those fields of a response that the log wants.
    pub(crate) fn response_fields(&mut self, lines: &[u8]) {
        let Some(log) = here().outlets.access_log.as_ref().filter(|log| log.response_fields) else { return };
        let kept = self.kept.get_or_insert_default();
        for line in lines.split(|&byte| byte == b'\n') {
            let mut parts = line.splitn(2, |&byte| byte == b':');
            if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                kept.offer(log.format.needs(), Source::ResponseHeader, name, value.trim_ascii());
            }
        }
    }
}

impl Conn {
    /// Gives the slot back before the response is out, with a copy of what the log will want of the request.
    pub(crate) fn part_with_slot(&mut self) {
        let Some(slot) = self.slot else { return };
        self.tally.visit(slot);
        self.tally.request = Some(RequestReader::new(here().segment.request_area(slot)).used().into());
        self.give_back();
    }

    /// Keeps a request that goes into no slot, for its answer and the log.
    pub(crate) fn set_aside(&mut self, head: &Head<'_>) {
        self.tally.method = Some(Method::of(head.method));
        if let Some((request, id)) = fill::copy(head, &self.client) {
            self.tally.request = Some(request);
            self.tally.id = id;
        }
    }

    /// Keeps the request that `bytes` begin with, unless one is kept already or there is no whole head.
    pub(crate) fn set_aside_bytes(&mut self, bytes: &[u8]) {
        if self.tally.request.is_some() {
            return;
        }
        let mut decoder = RequestDecoder::new(&here().config.limits);
        if let Ok(Some(head)) = decoder.decode(bytes, &mut FieldStore::new()) {
            self.set_aside(&head);
        }
    }

    /// Keeps the request that is refused before its end, when its head has come.
    pub(crate) fn recognize(&mut self) {
        let input = std::mem::take(&mut self.input);
        self.set_aside_bytes(&input);
        self.input = input;
    }

    /// The present request, without its body; an empty one when there is none.
    pub(crate) fn request(&self) -> RequestReader<'_> {
        RequestReader::new(match (&self.tally.request, self.slot) {
            (Some(copy), _) => copy,
            (None, Some(slot)) => here().segment.request_area(slot),
            (None, None) => &[],
        })
    }

    /// X-Request-Id of the present request; empty for none.
    pub(crate) fn request_id(&self) -> &[u8] {
        self.request().text(self.tally.id)
    }

    /// The request is over: tells the log, and gives the slot back.
    pub(crate) fn account(&mut self, connection: ConnectionState) {
        let thread = here();
        if let Some(slot) = self.slot {
            self.tally.visit(slot);
        }
        let end = howdah_sys::monotonic_ns();
        self.count(connection, end);
        if let Some(log) = &thread.outlets.access_log {
            self.log(log, connection, end);
        }
        self.tally = Tally::default();
        self.give_back();
    }

    fn count(&self, connection: ConnectionState, end: u64) {
        let tally = &self.tally;
        let recorder = &here().outlets.recorder;
        if connection == ConnectionState::Aborted {
            recorder.failure(Failure::ClientGone);
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
        let request = self.request();
        let values = Wanted { request, names: &log.names, kept: self.tally.kept.as_deref() };
        let record = self.record(request, &values, (connection, end));
        log.writer.line(|out| log.format.render(&record, out));
    }

    fn record<'a>(
        &'a self,
        request: RequestReader<'a>,
        values: &'a dyn Values,
        (connection, end): (ConnectionState, u64),
    ) -> Record<'a> {
        let thread = here();
        let tally = &self.tally;
        let origin = &self.client.origin;
        let worker = tally.worker.and_then(|worker| thread.segment.workers().get(worker as usize));
        let pid = worker.map_or(0, |cell| cell.pid.load(Relaxed));
        Record {
            line: &tally.line,
            method: request.method(),
            target: request.uri(),
            path: request.path(),
            path_info: request.path(),
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
            generation: worker.map_or(0, |cell| cell.generation.load(Relaxed)),
            request_id: request.text(tally.id),
            values,
        }
    }
}

/// The values that the format wants, found where they are.
#[derive(Debug)]
struct Wanted<'a> {
    request: RequestReader<'a>,
    names: &'a [Option<Vec<u8>>],
    kept: Option<&'a Kept>,
}

impl Values for Wanted<'_> {
    fn value(&self, need: usize) -> Option<&[u8]> {
        match self.names.get(need) {
            Some(Some(name)) => self.request.field(name),
            _ => self.kept?.value(need),
        }
    }
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
