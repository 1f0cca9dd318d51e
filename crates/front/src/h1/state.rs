//! The state of an HTTP/1 connection, and what each of its steps may change.

use howdah_accesslog::ConnectionState as Outcome;
use howdah_http1::{Head, RequestDecoder, Version};
use howdah_metrics::ConnectionState;

use crate::delivery::Framing;
use crate::exchange::Exchange;
use crate::outflow::Outflow;
use crate::proxied::Behind;
use crate::request::Client;
use crate::response::{self, Body, SWITCHING};
use crate::route::Handling;
use crate::server::{Presence, Server, sender};
use crate::sharing::Moved;
use crate::timers::Timer;
use crate::transport::{Socket, Transport};
use crate::upload::BodyPace;

/// A response of up to so many bytes is one that its client reads at once.
const SHORT: u64 = 16 * 1024;
/// An input buffer above this size is not kept between requests.
const KEEP_CAPACITY: usize = 4 * 1024;

/// What is to be remembered of a request for its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) version: Version,
    pub(crate) is_head: bool,
    /// The client lets the connection persist: another request may be on its way.
    pub(crate) keep_alive: bool,
    /// The client would go on in another protocol.
    upgrade: bool,
    /// It has a body that nobody reads.
    unread: bool,
}

/// Of a request that was not understood.
pub(crate) const UNKNOWN: Asked =
    Asked { version: Version::Http11, is_head: false, keep_alive: false, upgrade: false, unread: false };

impl Asked {
    /// Of a request that cannot be read, or has not come whole. What begins as a HEAD gets no body either (RFC 9110 9.3.2).
    pub(crate) fn beginning(input: &[u8]) -> Self {
        let line = input.trim_ascii_start();
        Self { is_head: line.starts_with(b"HEAD "), ..UNKNOWN }
    }

    /// Whether the client would go on in another protocol and is answered in HTTP. A proxy that does not wait for the answer passes on
    /// whatever its client says then, which is not to be taken for requests of the proxy's own.
    pub(crate) fn is_denied(self, head: &response::Head) -> bool {
        self.upgrade && head.status != SWITCHING
    }

    /// How the end of this response is told.
    pub(crate) fn framing(self, head: &response::Head, body: &Body) -> Framing {
        let otherwise = match self.version {
            Version::Http11 => Framing::Chunked,
            Version::Http10 => Framing::Close,
        };
        Framing::choose(self.is_head, head.status, head.content_length, body.length(), otherwise)
    }
}

/// What a connection does after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Reads another request.
    Continue,
    /// Closes.
    Close,
    /// Closes once the client has had time to read the response: there may be input that nobody will read.
    Linger,
    /// The same, behind a response that is shorter than it was said to be.
    Short,
    /// Closes once the client has what there is of a response that breaks off: it is reset then, which would overtake that.
    Break,
    /// Closes at once: the client is gone or too slow, or speaks what we do not.
    Cut,
}

impl Next {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Continue => Outcome::KeepAlive,
            Self::Close | Self::Linger => Outcome::Close,
            Self::Short | Self::Break | Self::Cut => Outcome::Aborted,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) server: &'static Server,
    pub(crate) out: Outflow,
    pub(crate) timer: Timer,
    pub(crate) client: Client,
    /// Who has sent the present request, when the client is a proxy that tells.
    pub(crate) behind: Option<Box<Behind>>,
    /// Received and not yet consumed.
    pub(crate) input: Vec<u8>,
    /// Input that is known to be needed before it is worth another look.
    pub(crate) need: usize,
    pub(crate) decoder: RequestDecoder,
    /// Requests answered.
    pub(crate) served: u64,
    pub(crate) exchange: Exchange,
    /// Who has the present request.
    pub(crate) handling: Handling,
    /// None until a head was understood, or refused.
    pub(crate) asked: Option<Asked>,
    /// The application has taken the connection: it may have made it blocking, and reads from it, so that we never do again.
    pub(crate) lent: bool,
    /// 100 (Continue) was sent or is not needed for the present request.
    pub(crate) continued: bool,
    /// Bytes of the last response that the client had not taken when its time was over, if it was.
    pub(crate) untaken: u64,
    /// How the present body comes along.
    pub(crate) pace: BodyPace,
    pub(crate) presence: Presence,
}

impl Conn {
    /// One that another thread had.
    pub(crate) fn moved(server: &'static Server, moved: Moved) -> Self {
        let Moved { socket, client, permit, served } = moved;
        let transport = Transport::Plain(Socket::Fresh(socket));
        Self { served, ..Self::new(server, transport, client, Presence::moved(server, permit)) }
    }

    pub(crate) fn new(
        server: &'static Server,
        transport: Transport,
        client: Client,
        presence: Presence,
    ) -> Self {
        let serves = client.origin.serves;
        Self {
            server,
            out: Outflow::new(transport, server.holding),
            timer: server.timers.start(serves),
            client,
            behind: None,
            input: Vec::new(),
            need: 0,
            decoder: RequestDecoder::new(&server.config.limits),
            served: 0,
            exchange: Exchange::default(),
            handling: Handling::Nobody,
            asked: None,
            lent: false,
            continued: false,
            untaken: u64::MAX,
            pace: BodyPace::default(),
            presence,
        }
    }

    /// Counts the connection as doing something else from now on.
    pub(crate) fn enter(&mut self, state: ConnectionState) {
        self.presence.enter(state);
    }

    /// Keeps what is left of the input.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        debug_assert!(self.input.is_empty());
        self.input.extend_from_slice(rest);
    }

    /// The next request may come.
    pub(crate) fn renew(&mut self) {
        self.served += 1;
        self.continued = false;
        self.untaken = u64::MAX;
        self.out.renew();
        if self.input.is_empty() && self.input.capacity() > KEEP_CAPACITY {
            self.input = Vec::new();
        }
    }

    /// The connection speaks the application's own protocol: it was taken, or a response of 101 has said so.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.lent || self.exchange.account.status == SWITCHING
    }

    /// Whether the connection is to be kept after this response, which is decided here alone: `willing` says that neither
    /// the response nor its framing is against it.
    pub(crate) fn persists(&self, willing: bool) -> bool {
        let most = self.server.config.keepalive_requests;
        let is_last = most != 0 && self.served + 1 >= most;
        willing
            && self.may_bring_more()
            && self.server.config.keepalive
            && !self.is_upgraded()
            && !is_last
            && self.server.doors.keeps_connections()
    }

    /// Whether the client may have sent another request, as far as it has said.
    fn may_bring_more(&self) -> bool {
        self.asked.is_some_and(|asked| asked.keep_alive)
    }

    /// How the end of a response leaves the connection, which is decided here alone. Unread input would turn a close into a
    /// reset, which may overtake the response (RFC 9112 9.6); `read_all` says that the request was read to its end. A client
    /// of TLS may still send the end of that, which would be enough.
    pub(crate) fn end(&self, sent: bool, keep_alive: bool, read_all: bool) -> Next {
        let nothing_came = self.exchange.account.begin == 0;
        match (sent, keep_alive) {
            (false, _) => Next::Cut,
            (true, true) => Next::Continue,
            (true, false) if self.lent || nothing_came => Next::Close,
            (true, false) if read_all && self.is_silent() => Next::Close,
            (true, false) => Next::Linger,
        }
    }

    /// Whether nothing more is to come from the client. Where no connection is ever kept, clients have no reason to send more
    /// than one request, and to wait for the end of each would cost a third more; so it does that there only for responses
    /// that take a while to be read, and for clients that have sent more.
    fn is_silent(&self) -> bool {
        let Self { server, out, .. } = self;
        let has_said_all = !self.may_bring_more()
            || !server.config.keepalive && out.sent().bytes <= SHORT && out.transport.is_read();
        let unread = self.asked.is_some_and(|asked| asked.unread);
        self.input.is_empty() && !unread && !out.transport.awaits_end() && has_said_all
    }

    /// Whether nobody waits for the response any more. A client that has ended its side may still read it (RFC 9112 9.6),
    /// so it has left only when the connection is broken. `--abort-on-disconnect` takes it for gone in either case, since
    /// a client that goes away without a word to come looks no different until something is written to it.
    pub(crate) fn has_left(&self) -> bool {
        self.server.has_left(&self.out.transport)
    }

    /// Gives up what the handler holds before the response is out.
    pub(crate) fn part(&mut self) {
        self.handling.part(&mut self.exchange.account);
    }

    /// Who has sent the present request.
    pub(crate) fn sender(&self) -> &Client {
        sender(&self.client, self.behind.as_deref())
    }

    /// What the response goes by: of a request that was not read to its end, whether it may have a body.
    pub(crate) fn asked(&self, read_all: bool) -> Asked {
        let asked = self.asked.unwrap_or(UNKNOWN);
        if read_all { asked } else { Asked { is_head: asked.is_head, ..UNKNOWN } }
    }

    /// Remembers what the response needs to know of a request, and whether that is read to its end.
    pub(crate) fn ask(&mut self, head: &Head<'_>, read_all: bool) {
        let (is_head, keep_alive) = (head.method == b"HEAD", head.keep_alive && read_all);
        let (version, upgrade) = (head.version, head.upgrade);
        self.asked = Some(Asked { version, is_head, keep_alive, upgrade, unread: !read_all });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::sample::client;
    use crate::sample::world::{World, run};
    use crate::transport::Peer;
    use crate::transport::scripted::Scripted;

    fn conn(world: &World, script: &Scripted) -> Conn {
        let transport = Transport::Scripted(script.clone());
        Conn::new(world.thread.entrance.server, transport, client("127.0.0.1"), world.presence())
    }

    fn asked(keep_alive: bool) -> Option<Asked> {
        Some(Asked { keep_alive, ..UNKNOWN })
    }

    #[test]
    fn a_connection_persists_when_client_settings_response_and_server_are_for_it() {
        let config = Config { keepalive_requests: 3, ..Config::default() };
        let world = World::new(config);
        // What was asked, whether the response is willing, whether it is lent, requests before, and the decision.
        for (asked, willing, lent, served, persists) in [
            (asked(true), true, false, 0, true),
            (asked(true), true, false, 1, true),
            (asked(true), true, false, 2, false),
            (asked(true), false, false, 0, false),
            (asked(true), true, true, 0, false),
            (asked(false), true, false, 0, false),
            (None, true, false, 0, false),
        ] {
            let mut conn = conn(&world, &Scripted::new([]));
            (conn.asked, conn.lent, conn.served) = (asked, lent, served);
            assert_eq!(conn.persists(willing), persists, "{asked:?} {willing} {lent} {served}");
        }
        let mut conn = conn(&world, &Scripted::new([]));
        conn.asked = asked(true);
        let crowd = world.capacity.crowd();
        assert!(!conn.persists(true), "others wait to be let in");
        drop(crowd);
        assert!(conn.persists(true));
        run(async {
            tokio::time::timeout(Duration::from_millis(1), world.thread.drain(Duration::ZERO)).await
        })
        .ok();
        assert!(!conn.persists(true), "the thread drains");
    }

    #[test]
    fn the_end_of_a_response_is_gentle_where_input_is_left() {
        let world = World::new(Config::default());
        // Sent, keep-alive, whether the client asked for that, read to its end, lent, when it began, input that is left, and
        // what is next.
        for (sent, keep_alive, wish, read_all, lent, begin, input, next) in [
            (false, true, true, true, false, 1, "", Next::Cut),
            (true, true, true, true, false, 1, "GET", Next::Continue),
            (true, false, false, true, false, 1, "", Next::Close),
            (true, false, false, true, false, 1, "GET", Next::Linger),
            (true, false, true, true, false, 1, "", Next::Linger),
            (true, false, true, true, true, 1, "GET", Next::Close),
            (true, false, false, false, false, 1, "", Next::Linger),
            (true, false, false, false, false, 0, "", Next::Close),
        ] {
            let mut conn = conn(&world, &Scripted::new([]));
            (conn.asked, conn.lent, conn.exchange.account.begin) = (asked(wish), lent, begin);
            conn.keep(input.as_bytes());
            assert_eq!(
                conn.end(sent, keep_alive, read_all),
                next,
                "{sent} {keep_alive} {wish} {read_all} {lent} {input}"
            );
        }
    }

    #[test]
    fn who_has_ended_its_side_has_left_only_where_that_is_to_abort() {
        for (abort_on_disconnect, peer, left) in [
            (false, Peer::There, false),
            (false, Peer::Silent, false),
            (false, Peer::Gone, true),
            (true, Peer::There, false),
            (true, Peer::Silent, true),
            (true, Peer::Gone, true),
        ] {
            let world = World::new(Config { abort_on_disconnect, ..Config::default() });
            let script = Scripted::new([]);
            script.become_of(peer);
            assert_eq!(conn(&world, &script).has_left(), left, "{abort_on_disconnect} {peer:?}");
        }
    }

    #[test]
    fn how_a_connection_goes_on_is_what_the_log_says_of_it() {
        for (next, outcome) in [
            (Next::Continue, Outcome::KeepAlive),
            (Next::Close, Outcome::Close),
            (Next::Linger, Outcome::Close),
            (Next::Short, Outcome::Aborted),
            (Next::Break, Outcome::Aborted),
            (Next::Cut, Outcome::Aborted),
        ] {
            assert_eq!(next.outcome(), outcome);
        }
    }

    #[test]
    fn a_connection_is_counted_where_it_is_and_an_idle_one_keeps_no_large_buffer() {
        let world = World::new(Config::default());
        let open = |state: ConnectionState| world.totals().connections[state];
        let mut conn = conn(&world, &Scripted::new([]));
        assert_eq!(open(ConnectionState::Reading), 1);
        conn.enter(ConnectionState::Running);
        assert_eq!((open(ConnectionState::Reading), open(ConnectionState::Running)), (0, 1));
        conn.input.reserve(2 * KEEP_CAPACITY);
        conn.continued = true;
        conn.renew();
        assert!(conn.input.capacity() <= KEEP_CAPACITY && !conn.continued && conn.served == 1);
        conn.input.reserve(2 * KEEP_CAPACITY);
        conn.keep(b"GET");
        conn.renew();
        assert_eq!(conn.input, b"GET", "what has come already stays");
        drop(conn);
        assert_eq!((open(ConnectionState::Running), world.totals().accepted), (0, 1));
    }
}
