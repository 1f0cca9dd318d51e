//! Where a front thread tells what becomes of requests and connections. [`Records::end`] is called once for each request, at
//! its last byte or at the client's end.

use std::fmt;

use howdah_accesslog::{ConnectionState as Outcome, NoValues, Record, Source, Values};
use howdah_metrics::{ConnectionState, Failure, Finished, Method, Recorder};
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
    /// Where the application is mounted.
    pub(crate) mount: Option<&'a str>,
    pub(crate) worker: Identity,
    /// Requests before this one on the connection.
    pub(crate) served: u64,
    pub(crate) outcome: Outcome,
    /// When the response's first byte went out.
    pub(crate) first_byte: Option<u64>,
    pub(crate) sent: u64,
    /// The client was cut off because it read too slowly.
    pub(crate) too_slow: bool,
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

    /// Whether the access log wants values from there.
    pub(crate) fn wants(&self, source: Source) -> bool {
        self.wanted().0.is_some_and(|needs| needs.any(source))
    }

    /// Something went wrong.
    pub(crate) fn failure(&self, failure: Failure) {
        self.recorder.failure(failure);
    }

    /// A connection is accepted.
    pub(crate) fn accepted(&self, state: ConnectionState) {
        self.recorder.accepted(state);
    }

    /// A connection does something else, or is closed.
    pub(crate) fn moved(&self, from: ConnectionState, to: Option<ConnectionState>) {
        self.recorder.moved(from, to);
    }

    /// A connection that rested was closed to make room.
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
        let times = account.times(howdah_sys::monotonic_ns());
        self.count(account, ending, times);
        if let Some(log) = &self.access_log {
            let kept = account.kept.as_deref();
            let values = Found { request: ending.request, report: ending.report, places: &log.places, kept };
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
            self.failure(if ending.too_slow { Failure::WriteTimeout } else { Failure::ClientGone });
        }
        let first_byte = ending.first_byte.map(|time| time.saturating_sub(times.begin));
        self.recorder.request(&Finished {
            method: account.method.unwrap_or(Method::Other),
            status: account.status,
            duration: times.duration,
            queue: times.queue,
            first_byte,
            send: first_byte.map(|time| times.duration.saturating_sub(time)),
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
        let first_byte = ending.first_byte.map(|time| time.saturating_sub(times.begin));
        Record {
            line: &account.line,
            method: request.method(),
            target: request.uri(),
            path: request.path(),
            path_info: path_info(request.path(), ending.mount),
            query: request.query(),
            protocol: request.protocol(),
            status: account.status,
            body_bytes: account.body,
            bytes_in: account.received,
            bytes_out: ending.sent,
            begin: self.clock.wall(times.begin),
            duration: times.duration,
            first_byte,
            queue: times.queue,
            run: times.run,
            send: first_byte.map(|time| times.duration.saturating_sub(time)),
            client: client.address.as_bytes(),
            client_port: client.port.parse().unwrap_or(0),
            peer: client.address.as_bytes(),
            local: origin.name.as_bytes(),
            local_port: origin.port.parse().unwrap_or(0),
            server_name: origin.name.as_bytes(),
            server_port: origin.port.parse().unwrap_or(0),
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
