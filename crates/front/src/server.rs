//! What all connections of a front thread share, whatever they speak: its parts, and what is said and counted of an exchange
//! in every protocol.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::{fmt, io};

use howdah_accesslog::ConnectionState as Outcome;
use howdah_http1::{FieldStore, Head, Version};
use howdah_metrics::{ConnectionState, Failure};
use howdah_sys::shortage::with_way_out;

use crate::address::Serves;
use crate::capacity::Permit;
use crate::clock::Clock;
use crate::config::Config;
use crate::doors::{Doors, Inside};
use crate::exchange::Exchange;
use crate::outflow::{Holding, Sent};
use crate::proxied::Behind;
use crate::record::{Ending, Records};
use crate::repeated::Repeated;
use crate::request::{Client, Content, Request};
use crate::route::{Handling, Router};
use crate::sharing::Sharing;
use crate::timers::Timers;
use crate::transport::{Peer, Transport};
use crate::turns::Turns;

/// Bytes that one read may bring.
pub(crate) const READ_SIZE: usize = 64 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: &'static Clock,
    pub(crate) timers: &'static Timers,
    pub(crate) doors: &'static Doors,
    pub(crate) records: &'static Records,
    pub(crate) holding: &'static Holding,
    /// Whose large body is sent.
    pub(crate) turns: Turns,
    /// Who else has connections.
    pub(crate) sharing: &'static Sharing,
    /// This thread's number among them.
    pub(crate) number: usize,
    pub(crate) router: Router,
    pub(crate) scratch: RefCell<Scratch>,
    /// What a protocol above keeps for all of its connections.
    pub(crate) kept: OnceCell<Box<dyn Any>>,
}

/// Buffers that are only used between two awaits.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Where reads go.
    pub(crate) input: Box<[u8]>,
    /// Field positions of the head being looked at.
    pub(crate) fields: FieldStore,
    /// The response being built.
    pub(crate) output: Vec<u8>,
    /// A head in the words of HTTP/1.
    pub(crate) words: Vec<u8>,
    /// Frames being gathered.
    pub(crate) batch: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            input: vec![0; READ_SIZE].into_boxed_slice(),
            fields: FieldStore::new(),
            output: Vec::with_capacity(READ_SIZE),
            words: Vec::new(),
            batch: Vec::new(),
        }
    }
}

impl Server {
    /// Whether nobody is there for the response any more.
    pub(crate) fn has_left(&self, transport: &Transport) -> bool {
        match transport.peer() {
            Peer::There => false,
            Peer::Silent => self.config.abort_on_disconnect,
            Peer::Gone => true,
        }
    }

    /// A pair of sockets: our end, one for an application, and the place of ours.
    pub(crate) fn pair(&self) -> io::Result<(OwnedFd, OwnedFd, Permit)> {
        static TOLD: Repeated = Repeated::new();
        let permit = self.holding.permit()?;
        let pair = howdah_sys::socketpair_stream().inspect_err(|error| {
            if let Some(again) = TOLD.pass() {
                tracing::error!(
                    "no sockets for an application that takes a connection by TLS or HTTP/2: {}{again}",
                    with_way_out(error)
                );
            }
        });
        let (ours, theirs) = pair?;
        Ok((ours, theirs, permit))
    }

    /// Tells the log that the application's Content-Length is not the length of its body.
    pub(crate) fn tell_wrong_length(
        &self,
        exchange: &Exchange,
        handling: &Handling,
        given: u64,
        body: impl fmt::Display,
        reaction: &str,
    ) {
        exchange.account.breaks.set(Some(Failure::Application));
        let request = handling.request(&exchange.account);
        tracing::error!(
            request_id = %exchange.account.id.bytes().escape_ascii(),
            "the application gave Content-Length {given} but a body of {body} bytes to {} {}; {reaction}",
            request.method().escape_ascii(),
            request.uri().escape_ascii(),
        );
    }

    /// Gives up a worker that has not answered in time, and has it replaced; the client is to have 504. The slot stays with the
    /// worker until it is dead. False where the worker still has time, or nobody has the request.
    pub(crate) fn give_up_late_worker(&self, exchange: &mut Exchange, handling: &mut Handling) -> bool {
        let Some(worker) = handling.job().and_then(|job| job.report_overdue()) else { return false };
        let request = handling.request(&exchange.account);
        tracing::error!(
            worker,
            request_id = %exchange.account.id.bytes().escape_ascii(),
            "no answer within --request-timeout: {} {} from {}; answered 504, replacing the worker",
            request.method().escape_ascii(),
            request.uri().escape_ascii(),
            request.remote_addr().escape_ascii(),
        );
        exchange.account.worker = Some(worker);
        handling.part(&mut exchange.account);
        true
    }

    /// An exchange is over: tells the records, and gives back what its handler held.
    pub(crate) fn finish(&self, mut exchange: Exchange, mut handling: Handling, end: &End<'_>) {
        let aborts = end.outcome == Outcome::Aborted && self.config.abort_on_disconnect && !end.lent;
        let runner = handling.job().filter(|_| aborts).and_then(|job| job.runner());
        if let Handling::App(job) = &handling {
            job.visit(&mut exchange.account);
        }
        if end.outcome == Outcome::Aborted
            && let Some(fault) = exchange.loss()
        {
            exchange.account.breaks.set(Some(fault.terms().counts_as));
        }
        // Where a response was made it is known.
        if exchange.account.worker.is_none() {
            handling.note_worker(&mut exchange.account);
        }
        self.record(&exchange, &handling, end);
        handling.give_back();
        if let (Handling::App(job), Some(runner)) = (&handling, runner) {
            job.interrupt(runner);
        }
    }

    fn record(&self, exchange: &Exchange, handling: &Handling, end: &End<'_>) {
        let account = &exchange.account;
        let ending = Ending {
            request: handling.request(account),
            report: &handling.report(account),
            client: sender(end.client, end.behind),
            peer: end.client.peer(),
            mount: handling.mount(),
            worker: handling.identity(account.worker),
            served: end.served,
            outcome: end.outcome,
            first_byte: end.sent.first_byte,
            sent: end.sent.bytes,
            body: end.sent.body(),
            too_slow: end.sent.too_slow,
            lacks: end.sent.lacks,
        };
        self.records.end(account, &ending);
    }
}

/// How an exchange has ended.
#[derive(Debug)]
pub(crate) struct End<'a> {
    /// The connection's other end.
    pub(crate) client: &'a Client,
    /// Who has sent the request, when the client is a proxy that tells.
    pub(crate) behind: Option<&'a Behind>,
    /// Requests before this one on the connection.
    pub(crate) served: u64,
    pub(crate) outcome: Outcome,
    pub(crate) sent: Sent,
    /// The application has taken the connection.
    pub(crate) lent: bool,
}

/// Who has sent a request.
pub(crate) fn sender<'a>(client: &'a Client, behind: Option<&'a Behind>) -> &'a Client {
    behind.map_or(client, |behind| &behind.client)
}

/// SERVER_PROTOCOL.
pub(crate) fn protocol(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
    }
}

/// A head as handlers see it.
pub(crate) fn request<'a>(head: &Head<'a>, client: &'a Client, behind: Option<&'a Behind>) -> Request<'a> {
    let host = behind.and_then(|behind| behind.host.as_deref());
    Request {
        method: head.method,
        target: head.path_and_query,
        path: head.path,
        query: head.query,
        authority: host.unwrap_or(head.authority),
        host,
        vouched: behind.is_some(),
        protocol: protocol(head.version),
        fields: head.fields(),
        lends: client.tls.is_none(),
        content: Content::of(head.framing),
        length: head.len,
        redirected: None,
        client: sender(client, behind),
    }
}

/// A connection's place among those that there may be, counted by what it does.
#[derive(Debug)]
pub(crate) struct Presence {
    records: &'static Records,
    /// What the connection is doing, as it is counted.
    state: ConnectionState,
    /// Until another thread has it.
    permit: Option<Permit>,
    _inside: Inside,
}

impl Presence {
    pub(crate) fn new(server: &Server, permit: Permit, serves: Serves) -> Self {
        let state = ConnectionState::Reading;
        server.records.accepted(state);
        Self::of(server, permit, serves, state)
    }

    /// Of one that another thread had.
    pub(crate) fn moved(server: &Server, permit: Permit) -> Self {
        let state = ConnectionState::Idle;
        server.records.arrived(state);
        Self::of(server, permit, Serves::Requests, state)
    }

    fn of(server: &Server, permit: Permit, serves: Serves, state: ConnectionState) -> Self {
        let inside = server.doors.enter(serves);
        Self { records: server.records, state, permit: Some(permit), _inside: inside }
    }

    /// Goes to another thread, with its place.
    pub(crate) fn leave(mut self) -> Option<Permit> {
        self.permit.take()
    }

    /// Counts the connection as doing something else from now on.
    pub(crate) fn enter(&mut self, state: ConnectionState) {
        if state != self.state {
            self.records.moved(self.state, Some(state));
            self.state = state;
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.records.moved(self.state, None);
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::sample::world::{World, pieces, run};
    use crate::transport::scripted::Scripted;

    #[test]
    fn connections_share_buffers_but_no_bytes() {
        run(async {
            let world = World::new(Config::default());
            let script = |number: usize| {
                Scripted::new(pieces(&format!("GET /of-{number} HT|TP/1.1\r\nHo|st: h\r\n\r\n")))
            };
            let scripts: Vec<_> = (0..8).map(script).collect();
            let connections: Vec<_> = scripts.iter().map(|script| world.connect(script)).collect();
            for _ in 0..3 {
                world.run(true).await;
                scripts.iter().for_each(Scripted::go_on);
            }
            world.run(true).await;
            for (number, script) in scripts.iter().enumerate() {
                let output = String::from_utf8(script.output()).unwrap();
                assert!(output.ends_with(&format!("\r\n\r\n/of-{number}")), "{number}: {output}");
            }
            assert!(connections.iter().all(|connection| !connection.is_finished()));
        });
    }
}
