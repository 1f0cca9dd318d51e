//! Where a front thread tells what becomes of requests and connections. [`Records::end`] is called once for each request, at
//! its last byte or at the client's end.

use std::fmt;

use howdah_accesslog::{ConnectionState as Outcome, NoValues, Record, Source, Values};
use howdah_metrics::{ConnectionState, Failure, Finished, Handshake, Method, Recorder};
use howdah_wire::RequestReader;

use crate::clock::Clock;
use crate::record::access::{AccessLog, Found, path_info};
use crate::record::account::{Account, Times, Wanted};
use crate::record::slow::SlowLog;
use crate::request::Client;

/// See the module.
pub(crate) struct Records {
    access_log: Option<AccessLog>,
    slow_log: Option<SlowLog>,
    recorder: Recorder,
    clock: &'static Clock,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

/// Who has run a request; all zero for nobody.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    pub(crate) generation: u32,
}

/// How an exchange has ended.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    pub(crate) request: RequestReader<'a>,
    /// What the worker has reported of its env.
    pub(crate) report: &'a [u8],
    pub(crate) client: &'a Client,
    /// The address of the connection's other end, which may be a proxy's.
    pub(crate) peer: &'a str,
    /// Where the application is mounted.
    pub(crate) mount: Option<&'a str>,
    pub(crate) worker: Identity,
    /// Requests before this one on the connection.
    pub(crate) served: u64,
    pub(crate) outcome: Outcome,
    /// When the response's first byte went out.
    pub(crate) first_byte: Option<u64>,
    pub(crate) sent: u64,
    /// Bytes of its body among these, without framing.
    pub(crate) body: u64,
    /// The client was cut off because it read too slowly.
    pub(crate) too_slow: bool,
    /// The response broke off because the system refused what it takes to send it.
    pub(crate) lacks: bool,
}

impl Records {
    pub(crate) fn new(
        access_log: Option<AccessLog>,
        slow_log: Option<SlowLog>,
        recorder: Recorder,
        clock: &'static Clock,
    ) -> Self {
        Self { access_log, slow_log, recorder, clock }
    }

    /// The values that lines of the access log have.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        Wanted(self.access_log.as_ref().map(AccessLog::needs))
    }

    /// Whether requests will be looked at once more, at their end.
    pub(crate) fn has_access_log(&self) -> bool {
        self.access_log.is_some()
    }

    /// Whether any log may have a line of a request.
    pub(crate) fn are_written(&self) -> bool {
        self.has_access_log() || self.slow_log.is_some()
    }

    /// Whether the access log wants values from there.
    pub(crate) fn wants(&self, source: Source) -> bool {
        self.wanted().0.is_some_and(|needs| needs.any(source))
    }

    /// Something went wrong.
    pub(crate) fn failure(&self, failure: Failure) {
        self.recorder.failure(failure);
    }

    /// A TLS handshake is over.
    pub(crate) fn handshake(&self, handshake: Handshake) {
        self.recorder.handshake(handshake);
    }

    /// A connection speaks HTTP/2.
    pub(crate) fn http2(&self) {
        self.recorder.http2();
    }

    /// A request has come by it.
    pub(crate) fn http2_stream(&self) {
        self.recorder.http2_stream();
    }

    /// A connection is accepted.
    pub(crate) fn accepted(&self, state: ConnectionState) {
        self.recorder.accepted(state);
    }

    /// A connection has come over from another thread.
    pub(crate) fn arrived(&self, state: ConnectionState) {
        self.recorder.arrived(state);
    }

    /// A connection does something else, or is closed.
    pub(crate) fn moved(&self, from: ConnectionState, to: Option<ConnectionState>) {
        self.recorder.moved(from, to);
    }

    /// A connection that rested was asked to go to make room.
    pub(crate) fn dismissed(&self) {
        self.recorder.dismissed();
    }

    /// Once a second: so many connections there may be.
    pub(crate) fn next_second(&self, most_connections: usize) {
        self.recorder.connection_limit(most_connections as u64);
        self.slow_log.iter().for_each(SlowLog::next_second);
    }

    /// The request is over.
    pub(crate) fn end(&self, account: &Account, ending: &Ending<'_>) {
        let times = account.times(howdah_sys::monotonic_ns(), ending.first_byte);
        self.count(account, ending, times);
        if let Some(log) = &self.access_log {
            let kept = account.kept.as_deref();
            let tls = ending.client.tls.as_deref();
            let Ending { request, report, .. } = *ending;
            let values = Found { request, report, tls, places: &log.places, kept };
            log.line(&self.record(account, ending, &values, times));
        }
        if let Some(log) = &self.slow_log
            && log.concerns(times.duration)
        {
            log.tell(&self.record(account, ending, &NoValues, times));
        }
    }

    fn count(&self, account: &Account, ending: &Ending<'_>, times: Times) {
        if ending.outcome == Outcome::Aborted {
            self.failure(match ending {
                Ending { too_slow: true, .. } => Failure::WriteTimeout,
                Ending { lacks: true, .. } => Failure::Resources,
                _ => account.breaks.get().unwrap_or(Failure::ClientGone),
            });
        }
        self.recorder.request(&Finished {
            method: account.method.unwrap_or(Method::Other),
            status: account.status,
            duration: times.duration,
            queue: times.queue,
            first_byte: times.first_byte,
            send: times.send,
            bytes_in: account.received,
            bytes_out: ending.sent,
        });
    }

    fn record<'a>(
        &self,
        account: &'a Account,
        ending: &'a Ending<'_>,
        values: &'a dyn Values,
        times: Times,
    ) -> Record<'a> {
        let Ending { request, client, worker, .. } = ending;
        let origin = &client.origin;
        Record {
            line: &account.line,
            method: request.method(),
            target: account.target.as_deref().unwrap_or_else(|| request.uri()),
            path: request.path(),
            path_info: path_info(request.path(), ending.mount),
            query: request.query(),
            protocol: account.protocol.unwrap_or_else(|| request.protocol()),
            status: account.status,
            body_bytes: ending.body,
            bytes_in: account.received,
            bytes_out: ending.sent,
            begin: self.clock.wall(times.begin),
            duration: times.duration,
            first_byte: times.first_byte,
            queue: times.queue,
            run: times.run,
            send: times.send,
            client: client.address.as_bytes(),
            client_port: client.port.parse().unwrap_or(0),
            peer: ending.peer.as_bytes(),
            local: origin.name.as_bytes(),
            local_port: origin.port.parse().unwrap_or(0),
            server_name: client.server_name().as_bytes(),
            server_port: client.server_port.unwrap_or_else(|| origin.port.parse().unwrap_or(0)),
            host: request.field(b"HTTP_HOST").unwrap_or_default(),
            keepalive: ending.served,
            connection: ending.outcome,
            pid: worker.pid,
            tid: u64::from(worker.pid),
            worker: account.worker.map(u32::from),
            generation: worker.generation,
            request_id: account.id.bytes(),
            values,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use howdah_accesslog::{Compat, Options, Sink, Target, compile};
    use howdah_metrics::{Class, Totals};
    use howdah_wire::RequestWriter;

    use super::*;
    use crate::request_id::Id;
    use crate::sample::{client, forever};

    const SECOND: u64 = 1_000_000_000;

    /// A log of that format in a file.
    fn log(format: &str) -> (AccessLog, Sink, PathBuf, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let sink = Sink::open(&Target::File(path.clone()), Options::default()).unwrap();
        let format = compile(format, Compat::Apache).unwrap();
        (AccessLog::new(format, sink.writer()), sink, path, directory)
    }

    fn request() -> Vec<u8> {
        let mut area = vec![0; 8192];
        let mut out = RequestWriter::new(&mut area);
        out.record.method = out.put(b"PUT").unwrap();
        out.record.uri = out.put(b"/app/%61?b=c").unwrap();
        out.record.path = out.put(b"/app/a").unwrap();
        out.record.query = out.put(b"b=c").unwrap();
        out.record.protocol = out.put(b"HTTP/1.1").unwrap();
        out.field(b"Host", b"example.com:81").unwrap();
        out.field(b"X-In", b"in").unwrap();
        out.finish();
        area
    }

    fn ending<'a>(request: &'a [u8], client: &'a Client) -> Ending<'a> {
        Ending {
            request: RequestReader::new(request),
            report: b"\x03\0var",
            client,
            peer: &client.address,
            mount: Some("/app"),
            worker: Identity { pid: 4711, generation: 7 },
            served: 3,
            outcome: Outcome::KeepAlive,
            first_byte: None,
            sent: 900,
            body: 800,
            too_slow: false,
            lacks: false,
        }
    }

    #[test]
    fn a_line_of_the_access_log_has_each_kind_of_value() {
        let parts = [
            ("%r", "PUT /app/%61?b=c HTTP/1.1"),
            ("%m %U %q %H", "PUT /app/a ?b=c HTTP/1.1"),
            ("%s %B %I %O", "201 800 50 900"),
            ("%h %{remote}p", "127.0.0.1 40000"),
            ("%A %{local}p", "example.org 5000"),
            ("%v %p %V", "example.org 5000 example.com"),
            ("%k %X", "3 +"),
            ("%P %{tid}P %{worker}n %{generation}n", "4711 4711 5 7"),
            ("%L", "mine"),
            ("%{X-In}i %{X-Out}o %{VAR}e %{X-None}i", "in out var -"),
        ];
        let format: Vec<_> = parts.iter().map(|part| part.0).collect();
        let (log, sink, path, _directory) = log(&format.join("|"));
        let clock = forever(Clock::new());
        let records = Records::new(Some(log), None, Recorder::new(), clock);
        assert!(records.wants(Source::Environment) && !records.wants(Source::RequestTrailer));
        let mut account = Account {
            received: 50,
            status: 201,
            worker: Some(5),
            id: Id::new(b"mine"),
            ..Account::default()
        };
        account.keep_fields(Source::ResponseHeader, b"X-Out: out\r\n", records.wanted());
        let (request, client) = (request(), client("127.0.0.1"));
        records.end(&account, &ending(&request, &client));
        sink.close(Duration::from_secs(30));
        let line = std::fs::read_to_string(path).unwrap();
        let line: Vec<_> = line.trim_end().split('|').collect();
        assert_eq!(line, parts.map(|part| part.1));
    }

    #[test]
    fn times_are_told_from_the_first_byte_of_the_request_on() {
        let (log, sink, path, _directory) = log("%^FB %{queue}n %{run}n %{send}n %D %{sec}t %{begin:sec}t");
        let clock = forever(Clock::new());
        let begin = clock.now() - 10 * SECOND;
        let recorder = Recorder::new();
        let counters = recorder.counters();
        let records = Records::new(Some(log), None, recorder, clock);
        let account = Account { begin, queue: Some(2_000), run: Some(u64::MAX), ..Account::default() };
        let (request, client) = (request(), client("127.0.0.1"));
        let ending = Ending { first_byte: Some(begin + SECOND), ..ending(&request, &client) };
        records.end(&account, &ending);
        sink.close(Duration::from_secs(30));
        let line = std::fs::read_to_string(path).unwrap();
        let values: Vec<u64> = line.split_whitespace().map(|value| value.parse().unwrap()).collect();
        let [first_byte, queue, run, send, duration, sec, begun] = values[..] else { panic!("{line}") };
        assert_eq!((first_byte, queue), (1_000_000, 2), "in microseconds");
        assert!(duration >= 10_000_000 && run == duration, "{line}: a worker is not believed more than all");
        assert!(send >= 9_000_000 && send.abs_diff(duration - first_byte) <= 1, "{line}");
        let wall = clock.wall(begin) / SECOND;
        assert!(sec == begun && sec.abs_diff(wall) <= 1, "{line}");
        let totals = Totals::of(&[counters]);
        assert_eq!((totals.queue.sum, totals.first_byte.sum), (2_000, SECOND.into()));
        assert!(
            totals.send.sum + u128::from(SECOND) == totals.duration.sum
                && totals.duration.sum >= u128::from(10 * SECOND)
        );
    }

    #[test]
    fn counters_tell_how_an_exchange_has_ended() {
        let lost = Some(Failure::WorkerLost);
        // How it ended, whether the client was too slow, or the system refused something, whose doing else that is, and what counts
        // as failed.
        for (outcome, too_slow, lacks, breaks, failure) in [
            (Outcome::KeepAlive, false, false, None, None),
            (Outcome::Close, true, false, lost, None),
            (Outcome::Aborted, false, false, None, Some(Failure::ClientGone)),
            (Outcome::Aborted, false, false, lost, lost),
            (Outcome::Aborted, true, false, lost, Some(Failure::WriteTimeout)),
            (Outcome::Aborted, false, true, None, Some(Failure::Resources)),
        ] {
            let recorder = Recorder::new();
            let counters = recorder.counters();
            let records = Records::new(None, None, recorder, forever(Clock::new()));
            let account =
                Account { method: Some(Method::Put), status: 404, received: 50, ..Account::default() };
            account.breaks.set(breaks);
            let (request, client) = (request(), client(""));
            records.end(&account, &Ending { outcome, too_slow, lacks, ..ending(&request, &client) });
            let totals = Totals::of(&[counters]);
            assert_eq!(totals.requests[Class::ClientError][Method::Put], 1);
            assert_eq!((totals.bytes_in, totals.bytes_out, totals.all_requests()), (50, 900, 1));
            let failed: Vec<_> =
                totals.failures.iter().filter(|(_, count)| **count > 0).map(|(failure, _)| failure).collect();
            assert_eq!(failed, failure.into_iter().collect::<Vec<_>>(), "{outcome:?} {too_slow}");
        }
    }

    #[test]
    fn the_slow_log_has_those_that_took_too_long() {
        for (seconds, slow) in [(5, true), (3600, false)] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("slow");
            let sink = Sink::open(&Target::File(path.clone()), Options::default()).unwrap();
            let format = compile("%m %U", Compat::Apache).unwrap();
            let log = SlowLog::new(Duration::from_secs(seconds), Some((format, sink.writer())));
            let clock = forever(Clock::new());
            let records = Records::new(None, Some(log), Recorder::new(), clock);
            let account = Account { begin: clock.now() - 10 * SECOND, ..Account::default() };
            let (request, client) = (request(), client(""));
            records.end(&account, &ending(&request, &client));
            sink.close(Duration::from_secs(30));
            assert_eq!(std::fs::read_to_string(path).unwrap(), if slow { "PUT /app/a\n" } else { "" });
        }
    }

    #[test]
    fn without_a_log_nothing_is_wanted_and_connections_are_counted_all_the_same() {
        let recorder = Recorder::new();
        let counters = recorder.counters();
        let records = Records::new(None, None, recorder, forever(Clock::new()));
        assert!(records.wanted().0.is_none() && !records.wants(Source::ResponseHeader));
        records.accepted(ConnectionState::Reading);
        records.accepted(ConnectionState::Reading);
        records.moved(ConnectionState::Reading, Some(ConnectionState::Writing));
        records.moved(ConnectionState::Reading, None);
        records.dismissed();
        records.failure(Failure::QueueFull);
        records.next_second(77);
        let totals = Totals::of(&[counters]);
        assert_eq!((totals.accepted, totals.open(), totals.connections[ConnectionState::Writing]), (2, 1, 1));
        assert_eq!(
            (totals.dismissed, totals.failures[Failure::QueueFull], totals.connection_limit),
            (1, 1, 77)
        );
    }
}
