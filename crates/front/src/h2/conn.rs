//! One connection that speaks HTTP/2, from its preface to its end.
//!
//! Its task lets the `h2` crate read and write, gives each stream a task of its own, and sees to what concerns all of them:
//! how long the connection may rest, how quickly its client takes what is sent, and when it has to leave. It leaves in two
//! steps (RFC 9113 6.8): it is told not to begin anything, and once that is known to have arrived, what had been begun last.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use howdah_metrics::{ConnectionState, Failure};

use crate::h2::budget::{Budget, Deeds};
use crate::h2::crew;
use crate::h2::link::{Link, Open, Work};
use crate::h2::wire::{Io, Wire};
use crate::linger::{GOODBYE, linger};
use crate::outflow::Pace;
use crate::request::Client;
use crate::server::{Presence, Server};
use crate::timers::{Rest, Timer};
use crate::transport::Transport;

/// How long a client without a stream has for its part of the end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to see whether a client is there that has ended its side.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes of a response that wait for the socket, beyond which its stream waits.
const SEND_BUFFER: usize = 128 << 10;
/// Bytes that the kernel may have and cannot send yet: a batch of `wire`. A response that is begun waits behind these, which could be
/// megabytes of another one.
const UNSENT: u32 = 64 << 10;
/// The window of a connection, as so many of a stream's.
const WINDOWS: u32 = 4;
/// How much larger than a head may be is what the crate takes apart, so that the codec has it to refuse: what the crate refuses nobody hears of,
/// and it counts 32 bytes for each field (RFC 9113 6.5.2) beside its words.
const LARGEST_HEAD: usize = 2;
/// What small pieces of bodies may cost that no stream has taken yet: each as many bytes as it is shorter than 256. A turn can bring
/// nine hundred, and the disk keep a stream from taking those of more.
const OVERHEAD: usize = 2 << 20;
/// Streams that the client has broken off and of which nobody has heard yet.
const PENDING_RESETS: usize = 64;
/// Streams that are remembered after we have reset them, and errors of the client's after which it has to go.
const RESETS: usize = 64;
const ERRORS: usize = 256;

/// A client that speaks HTTP/2.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) server: &'static Server,
    pub(crate) transport: Transport,
    pub(crate) client: Client,
    pub(crate) timer: Timer,
    pub(crate) presence: Presence,
    /// What was received already.
    pub(crate) early: Vec<u8>,
}

type Request = (http::Request<RecvStream>, SendResponse<Bytes>);

/// What a connection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// No stream has begun yet.
    New,
    /// There are streams, or what they have said is still on its way.
    Busy,
    /// Kept for further streams.
    Kept,
    /// It has been told to leave, and has nothing left to do.
    Leaving,
}

/// See the module.
#[derive(Debug)]
struct Conn {
    link: Rc<Link>,
    timer: Timer,
    presence: Presence,
    mode: Mode,
    /// How the client takes what all of its streams are sent.
    pace: Pace,
    budget: Budget,
    /// When to look at that, in nanoseconds that the thread has served; 0 for never.
    due: u64,
    /// It has to leave.
    leaves: bool,
    /// It has been told so, when so many streams had begun.
    told: Option<u64>,
    /// It has been told that it only makes work.
    scolded: bool,
    /// Cut off: nothing that is left will arrive.
    cut: bool,
    /// Bytes that it may send ahead, of all bodies together.
    window: u32,
    /// What was on its way to a client without a stream when that was looked at last.
    untaken: u64,
}

/// Serves a connection to its end.
pub(crate) async fn serve(arrival: Arrival) {
    let Arrival { server, transport, client, timer, presence, early } = arrival;
    transport.limit_unsent(UNSENT);
    let link = Rc::new(Link::new(server, client, Wire::new(server, transport, early)));
    timer.set(Rest::New, server.clock.after(server.config.header_timeout));
    let mut conn = Conn {
        timer,
        presence,
        mode: Mode::New,
        pace: Pace::default(),
        budget: Budget::new(server.clock.now()),
        due: 0,
        leaves: false,
        told: None,
        scolded: false,
        cut: false,
        window: window(server, 0),
        untaken: u64::MAX,
        link,
    };
    conn.drive().await;
    let goes_on = conn.goes_on_behind();
    if goes_on {
        // Those that wait for a round have had their last.
        conn.link.tally.begin_round();
    } else {
        conn.link.end();
    }
    // An application that has a stream may go on for long, and keeps what that knows of its connection.
    let mut transport = conn.link.wire.take();
    if !conn.cut && !conn.link.wire.ended.get() {
        conn.presence.enter(ConnectionState::Closing);
        linger(server, &mut transport, &conn.timer).await;
    }
    drop(transport);
    if goes_on {
        conn.await_streams().await;
        conn.link.end();
    }
}

impl Conn {
    async fn drive(&mut self) {
        let io = Io(Rc::clone(&self.link.wire));
        let mut handshake = pin!(builder(self.link.server).handshake::<_, Bytes>(io));
        let begun = poll_fn(|context| self.poll_handshake(handshake.as_mut(), context)).await;
        let Some(mut connection) = begun else { return };
        self.link.server.records.http2();
        self.link.wire.withhold_end();
        poll_fn(|context| self.poll_streams(&mut connection, context)).await;
    }

    /// Whether code goes on behind responses that are whole, of a client that has been told to leave: it has these, and has not left
    /// because it does.
    fn goes_on_behind(&self) -> bool {
        let Link { wire, .. } = &*self.link;
        self.told.is_some() && !self.scolded && !self.cut && !wire.ended.get() && !wire.has_left()
    }

    async fn await_streams(&mut self) {
        self.timer.set(Rest::No, 0);
        poll_fn(|context| {
            self.link.listen(context);
            self.timer.poll_expired(context);
            if self.link.open() == 0 || self.is_cut_off() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Has all streams served that have begun. Ready at the connection's end.
    fn poll_streams(
        &mut self,
        connection: &mut Connection<Io, Bytes>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.is_cut_off() {
            return Poll::Ready(());
        }
        self.link.wire.begin_turn();
        while let Some((request, mut respond)) = ready!(self.poll_next(connection, context)) {
            if self.has_heard() {
                respond.send_reset(Reason::REFUSED_STREAM);
                continue;
            }
            crew::serve(Work { open: Open::new(&self.link), request, respond });
        }
        Poll::Ready(())
    }

    /// The server ends. What its streams have under way they give up when they see the connection's end.
    fn is_cut_off(&mut self) -> bool {
        self.cut |= self.link.server.doors.is_cut_off();
        self.cut
    }

    fn poll_handshake(
        &mut self,
        handshake: Pin<&mut Handshake<Io>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Connection<Io, Bytes>>> {
        if self.is_cut_off() || self.timer.poll_expired(context) || self.timer.is_unwanted() {
            return Poll::Ready(None);
        }
        self.link.wire.begin_turn();
        let begun = handshake.poll(context);
        if !matches!(begun, Poll::Ready(Ok(_))) {
            self.send(context);
        }
        let begun = ready!(begun);
        Poll::Ready(begun.map_err(|error| self.tell(&error)).ok())
    }

    /// The next request; none at the connection's end.
    fn poll_next(
        &mut self,
        connection: &mut Connection<Io, Bytes>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Request>> {
        self.link.listen(context);
        if self.timer.poll_expired(context) && self.is_late() {
            return Poll::Ready(None);
        }
        if self.timer.is_unwanted() && self.timer.rest() != Rest::No && !self.may_stay() {
            // Within this turn, as far as the kernel takes it.
            connection.abrupt_shutdown(Reason::NO_ERROR);
            let _ = connection.poll_accept(context);
            self.send(context);
            self.cut = true;
            return Poll::Ready(None);
        }
        self.see_to_the_end(connection);
        self.fit_window(connection);
        let mut accepted = self.poll_accept(connection, context);
        if accepted.is_pending() && self.link.wire.withholds() && self.is_through(connection) {
            self.link.wire.tell_end();
            accepted = self.poll_accept(connection, context);
        }
        self.settle();
        // The client may hold a request back until what is no request, such as a wider window, is acknowledged.
        if accepted.is_pending() && self.link.open() == 0 && self.link.wire.is_silent() {
            self.link.wire.acknowledge();
        }
        match ready!(accepted) {
            Some(Ok(request)) => Poll::Ready(Some(request)),
            Some(Err(error)) => {
                self.tell(&error);
                Poll::Ready(None)
            }
            None => Poll::Ready(None),
        }
    }

    /// Asks the crate; when that has nothing more for us, what it has written leaves.
    fn poll_accept(
        &self,
        connection: &mut Connection<Io, Bytes>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Request, h2::Error>>> {
        let accepted = connection.poll_accept(context);
        if matches!(accepted, Poll::Ready(Some(Ok(_)))) || self.send(context) {
            return accepted;
        }
        if accepted.is_pending() { Poll::Ready(None) } else { accepted }
    }

    /// Sends what the crate has written, as far as the client takes it now. False when the connection is broken.
    fn send(&self, context: &mut Context<'_>) -> bool {
        let sent = self.link.wire.poll_send(context);
        match sent {
            Poll::Ready(Ok(())) if self.link.wire.has_all() => self.link.tally.begin_round(),
            Poll::Ready(Err(error)) => {
                tracing::debug!(peer = &*self.link.client.address, "HTTP/2: {error}");
                return false;
            }
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        true
    }

    /// The client has ended its side: whether nothing is left to be sent to it. What it has not said of bodies and windows never comes.
    fn is_through(&self, connection: &Connection<Io, Bytes>) -> bool {
        let Link { wire, .. } = &*self.link;
        self.link.end_waits();
        let idle = self.link.open() == 0 && !connection.has_streams() && !wire.blocked.get();
        idle || wire.has_left()
    }

    /// A deadline has passed: whether that is the end.
    fn is_late(&mut self) -> bool {
        match self.mode {
            Mode::Leaving => self.has_had_its_time(),
            Mode::Busy => self.link.wire.blocked.get() && self.is_stalled(),
            Mode::New | Mode::Kept => {
                self.leaves = true;
                false
            }
        }
    }

    /// Whether one that is to make room may stay nevertheless, which is not so where a descriptor is needed.
    fn may_stay(&mut self) -> bool {
        let doors = self.link.server.doors;
        self.mode == Mode::Kept && !doors.is_pressed() && self.is_taking()
    }

    /// Whether the client still takes what its streams have said last, some of it since the last look; it has so long again then.
    /// It may begin a stream before it comes to the word that it shall not.
    fn is_taking(&mut self) -> bool {
        let Server { clock, config, .. } = self.link.server;
        let left = self.link.wire.on_its_way();
        let before = std::mem::replace(&mut self.untaken, left);
        let takes = left > 0 && left < before;
        if takes {
            self.timer.set(self.timer.rest(), clock.after(config.keepalive_timeout));
        }
        takes
    }

    /// Whether a client without a stream that has to leave is waited for no longer. As long as it has responses to take it is held to
    /// what every client is.
    fn has_had_its_time(&mut self) -> bool {
        let Server { clock, holding, .. } = self.link.server;
        let left = self.link.wire.on_its_way();
        let before = std::mem::replace(&mut self.untaken, left);
        if left.max(before) <= GOODBYE {
            // Who has not taken even these words by now is not lingered for.
            self.cut |= left > 0;
            return true;
        }
        self.timer.set(Rest::No, clock.after(PATIENCE));
        self.pace.wait(clock.served(), holding.terms());
        left > GOODBYE && self.is_stalled()
    }

    /// Whether the client takes too little of what all its streams have for it.
    fn is_stalled(&mut self) -> bool {
        let Link { server, wire, .. } = &*self.link;
        let (arrived, all) = wire.arrived();
        let keeps_up = self.pace.look(server.clock.served(), arrived, all, server.holding.terms());
        self.due = 0;
        if !keeps_up {
            wire.reset();
            self.cut = true;
        }
        !keeps_up
    }

    /// A stream that begins now is one too many: before it came to the word to leave, the client could have begun so many as it may
    /// have at a time, since what had been said before left room for no more. Who does not answer would go on for ever.
    fn has_heard(&self) -> bool {
        let Link { server, served, client, .. } = &*self.link;
        let most = |told| told + u64::from(server.config.http2_streams);
        let heard = self.told.is_some_and(|told| served.get() >= most(told));
        if heard {
            tracing::debug!(peer = &*client.address, "refused a request: its client has been told to leave");
        }
        heard
    }

    /// What applications leave lying of the streams that they have is not to stop the bodies of others: each has a share of its own.
    fn fit_window(&mut self, connection: &mut Connection<Io, Bytes>) {
        let wanted = window(self.link.server, self.link.taken());
        if std::mem::replace(&mut self.window, wanted) != wanted {
            connection.set_target_window_size(wanted);
        }
    }

    /// Tells a client that has to leave, and one that has to leave at once.
    fn see_to_the_end(&mut self, connection: &mut Connection<Io, Bytes>) {
        self.leaves |= self.has_to_leave();
        if self.leaves && self.told.is_none() {
            self.told = Some(self.link.served.get());
            connection.graceful_shutdown();
        }
        if !self.scolded && self.makes_only_work() {
            self.scolded = true;
            tracing::debug!(peer = &*self.link.client.address, "cut off a client that only makes work");
            self.link.server.records.failure(Failure::BadRequest);
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    }

    fn has_to_leave(&self) -> bool {
        let Link { server, served, .. } = &*self.link;
        let (config, served) = (&server.config, served.get());
        let most = if config.keepalive { config.keepalive_requests } else { 1 };
        let makes_room = !server.doors.keeps_connections() && served > 0 && self.link.open() == 0;
        server.doors.is_draining() || makes_room || most != 0 && served >= most
    }

    fn makes_only_work(&mut self) -> bool {
        let Link { server, wire, served, abandoned, tally, .. } = &*self.link;
        let deeds = Deeds {
            received: wire.received.get(),
            earned: tally.earned.get(),
            requests: served.get(),
            abandoned: abandoned.get(),
        };
        !self.budget.allows(server.clock.now(), deeds)
    }

    /// What the connection is about from now on, and until when.
    fn settle(&mut self) {
        let blocked = self.link.wire.blocked.get();
        let mode = match (blocked || self.link.open() > 0, self.leaves, self.link.served.get()) {
            (true, ..) => Mode::Busy,
            (false, true, _) => Mode::Leaving,
            (false, false, 0) => Mode::New,
            (false, false, _) => Mode::Kept,
        };
        if mode != self.mode {
            self.enter(mode);
        }
        if mode == Mode::Busy {
            self.keep_pace(blocked);
        }
    }

    fn enter(&mut self, mode: Mode) {
        let Server { clock, config, .. } = self.link.server;
        let (state, rest, patience) = match mode {
            Mode::New => (ConnectionState::Reading, Rest::New, config.header_timeout),
            Mode::Busy => (ConnectionState::Running, Rest::No, Duration::ZERO),
            Mode::Kept => (ConnectionState::Idle, Rest::Kept, config.keepalive_timeout),
            Mode::Leaving => (ConnectionState::Closing, Rest::No, PATIENCE),
        };
        self.presence.enter(state);
        self.timer.set(rest, clock.after(patience));
        let untaken = if mode == Mode::Leaving { self.link.wire.on_its_way() } else { u64::MAX };
        (self.mode, self.due, self.untaken) = (mode, 0, untaken);
    }

    /// A client that the socket waits for has so long to take something.
    fn keep_pace(&mut self, blocked: bool) {
        let Server { clock, holding, .. } = self.link.server;
        let due = match blocked {
            true => self.pace.wait(clock.served(), holding.terms()),
            false if !self.link.wire.withholds() => 0,
            // The end of the connection is told by nothing else, while nothing is sent.
            false if self.due > clock.served() => self.due,
            false => clock.after(LOOK),
        };
        if !blocked {
            self.pace.rest();
        }
        if due != self.due {
            self.timer.set(Rest::No, due);
            self.due = due;
        }
    }

    /// Tells the log why a connection has broken.
    fn tell(&self, error: &h2::Error) {
        let Link { server, client, .. } = &*self.link;
        if error.is_io() {
            return tracing::debug!(peer = &*client.address, "HTTP/2: {error}");
        }
        server.records.failure(Failure::BadRequest);
        tracing::debug!(peer = &*client.address, "refused a connection of HTTP/2: {error}");
    }
}

/// The window of a connection of whose streams so many are with applications.
fn window(server: &Server, taken: u32) -> u32 {
    let windows = WINDOWS.saturating_add(taken);
    server.config.http2_window.saturating_mul(windows).min(i32::MAX.cast_unsigned())
}

fn builder(server: &Server) -> Builder {
    let config = &server.config;
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(config.http2_streams)
        .initial_window_size(config.http2_window)
        .initial_connection_window_size(window(server, 0))
        .data_frame_budget(OVERHEAD)
        .max_header_list_size(u32::try_from(LARGEST_HEAD * config.limits.head).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_concurrent_reset_streams(RESETS)
        .max_local_error_reset_streams(Some(ERRORS));
    if server.router.lends() {
        // WebSocket clients may open streams (RFC 8441 3).
        builder.enable_connect_protocol();
    }
    builder
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use howdah_metrics::{ConnectionState, Failure};
    use howdah_wire::{Answer, RESPONSE_BROKEN, RESPONSE_DETACHED, RESPONSE_HEAD_READY};

    use crate::address::Serves;
    use crate::config::Config;
    use crate::exchange::Mail;
    use crate::sample::frames::{
        HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, answer, asking, bodies, frame, frames,
        get, goaways, greeting, literals,
    };
    use crate::sample::heard::heard;
    use crate::sample::world::{Terms, World, run};
    use crate::transport::Peer;
    use crate::transport::scripted::{Piece, Scripted};

    #[test]
    fn who_begins_with_the_preface_is_served_however_its_bytes_come() {
        let bytes = [greeting(), get(1, "/a"), get(3, "/b")].concat();
        for size in [1, 7, 16, 23, 24, bytes.len()] {
            run(async {
                let world = World::new(Config::default());
                let pieces =
                    bytes.chunks(size).flat_map(|piece| [Piece::Bytes(piece.to_vec()), Piece::Pause]);
                let script = Scripted::new(pieces);
                let connection = world.connect(&script);
                for _ in 0..bytes.len() {
                    world.run(true).await;
                    script.go_on();
                }
                assert_eq!(bodies(&script), "1=/a 3=/b ", "pieces of {size}");
                assert!(!connection.is_finished() && world.totals().all_requests() == 2);
                let totals = world.totals();
                assert_eq!((totals.http2, totals.http2_streams), (1, 2));
                assert_eq!(totals.connections[ConnectionState::Idle], 1);
            });
        }
    }

    #[test]
    fn others_have_their_turn_while_a_client_says_much_that_is_no_body() {
        // What it says how often, and how many turns that takes at least: changed windows concern every stream.
        let change = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 9, 9]);
        for (kind, said, times, least) in
            [(PING, frame(PING, 0, 0, b"an octet"), 10_000, 8), (SETTINGS, change, 200, 5)]
        {
            run(async {
                let world = World::new(Config::default());
                let said = [greeting(), said.repeat(times), get(1, "/a")];
                let script = Scripted::new([Piece::Bytes(said.concat()), Piece::End]);
                let connection = world.connect(&script);
                let all_frames = || frames(&script).into_iter();
                // It is told of our settings, and that its own first ones are heard.
                let beside = if kind == SETTINGS { 2 } else { 0 };
                let answered = || all_frames().filter(|frame| frame.0 == kind).count().saturating_sub(beside);
                let mut turns = 0;
                while (turns == 0 || answered() < times) && turns < 1000 {
                    tokio::task::yield_now().await;
                    turns += 1;
                }
                assert!((least..1000).contains(&turns), "{turns} turns for {} of {kind}", answered());
                world.run(true).await;
                assert_eq!(bodies(&script), "1=/a ", "what was said last is heard, too");
                assert!(connection.is_finished());
            });
        }
    }

    #[test]
    fn a_host_is_told_by_an_authority_or_by_a_field() {
        // What tells it, and whether that is a request for the application, a refusal, or none.
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[(":authority", "h")], "served"),
            (&[("host", "h")], "served"),
            (&[(":authority", "h"), ("host", "h")], "served"),
            (&[(":authority", "h"), ("host", "other")], "reset"),
            (&[(":authority", "h"), ("host", "h"), ("host", "h")], "refused"),
            (&[("host", "h"), ("host", "h")], "refused"),
            (&[], "refused"),
        ];
        for (told, expected) in cases {
            let lines = heard(|| {
                run(async {
                    let world = World::new(Config::default());
                    let fields = [&[(":method", "GET"), (":scheme", "http"), (":path", "/a")], told].concat();
                    let script = Scripted::new([Piece::Bytes(
                        [greeting(), frame(HEADERS, 5, 1, &literals(&fields))].concat(),
                    )]);
                    let _connection = world.connect(&script);
                    world.run(true).await;
                    let is_reset = frames(&script).iter().any(|(kind, ..)| *kind == RST_STREAM);
                    let seen = match bodies(&script).as_str() {
                        "1=/a " => "served",
                        _ if is_reset => "reset",
                        _ => "refused",
                    };
                    assert_eq!(seen, expected, "{told:?}");
                });
            });
            assert_eq!(
                lines.iter().any(|line| line.contains("refused a request")),
                expected != "served",
                "{lines:?}"
            );
            assert!(!lines.concat().contains("HTTP/1"), "nobody has spoken that: {lines:?}");
        }
    }

    #[test]
    fn no_body_is_asked_for_where_the_head_is_refused() {
        /// 100, in Huffman's code.
        const CONTINUE: &[u8] = &[0x82, 0x08, 0x01];
        for (path, statuses) in [("/a", 1), ("/%zz", 0)] {
            run(async {
                let world = World::new(Config::default());
                let fields = [
                    (":method", "POST"),
                    (":scheme", "http"),
                    (":path", path),
                    (":authority", "h"),
                    ("expect", "100-continue"),
                ];
                let asked = frame(HEADERS, 4, 1, &literals(&fields));
                let script = Scripted::new([Piece::Bytes([greeting(), asked].concat())]);
                let _connection = world.connect(&script);
                world.run(true).await;
                let heads = frames(&script).into_iter().filter(|(kind, ..)| *kind == HEADERS);
                assert_eq!(heads.filter(|(.., head)| head.ends_with(CONTINUE)).count(), statuses, "{path}");
                assert_eq!(world.totals().failures[Failure::BadRequest], 1 - statuses as u64, "{path}");
            });
        }
    }

    #[test]
    fn heads_that_are_long_once_and_short_to_send_have_little_room() {
        run(async {
            let world = World::new(Config::default());
            let plain = literals(&[(":path", "/a"), (":authority", "h"), ("content-length", "9")]);
            // POST by http; then a field of 3900 bytes, which goes into the table, and is what the next ones refer to.
            let field = [&[0x40, 1, b'x', 0x7f, 0xbd, 0x1d], &[b'a'; 3900][..]].concat();
            let first = frame(HEADERS, 4, 1, &[&[0x83, 0x86], &plain[..], &field].concat());
            let other = [&[0x83, 0x86], &plain[..], &[0xbe; 15]].concat();
            let others = (1..=60).flat_map(|number| frame(HEADERS, 4, 1 + 2 * number, &other));
            let bodies_of = (0..=60).flat_map(|number| frame(0, 1, 1 + 2 * number, b"this body"));
            let script = Scripted::new([
                Piece::Bytes([greeting(), first, others.collect()].concat()),
                Piece::Pause,
                Piece::Bytes(bodies_of.collect()),
                Piece::Pause,
                Piece::Bytes(frame(HEADERS, 5, 201, &other)),
            ]);
            let connection = world.connect(&script);
            world.run(true).await;
            let refused = || {
                let resets = frames(&script).into_iter().filter(|(kind, ..)| *kind == RST_STREAM);
                resets.filter(|(_, _, code)| code == &[0, 0, 0, 7]).count()
            };
            assert_eq!(refused(), 61 - 18, "a mebibyte of heads is there");
            script.go_on();
            world.run(true).await;
            assert_eq!(data(&script).len(), 18, "what has room is served");
            script.go_on();
            world.run(true).await;
            assert_eq!((refused(), connection.is_finished()), (61 - 18, false), "and leaves it to others");
            assert_eq!(world.totals().failures[Failure::TooLarge], 61 - 18);
        });
    }

    #[test]
    fn a_preface_that_comes_late_or_is_not_wanted_is_a_bad_request() {
        let late = [b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n", PREFACE].concat();
        for (what, config, input) in [
            ("late", Config::default(), late),
            ("not wanted", Config { http2: false, ..Config::default() }, greeting()),
        ] {
            run(async {
                let world = World::new(config);
                let script = Scripted::new([Piece::Bytes(input)]);
                world.serve(&script).await;
                let said = String::from_utf8(script.output()).unwrap();
                assert!(said.contains("HTTP/1.1 505 HTTP Version Not Supported\r\n"), "{what}: {said}");
            });
        }
    }

    #[test]
    fn a_connection_that_rests_has_its_time_and_is_told_of_its_end() {
        // Whether it has had a request, and for how long it may rest then.
        for (asked, seconds) in [(false, 10), (true, 75)] {
            run(async {
                let world = World::new(Config::default());
                let input = if asked { [greeting(), get(1, "/a")].concat() } else { greeting() };
                let script = Scripted::new([Piece::Bytes(input)]);
                let connection = world.connect(&script);
                world.run(true).await;
                world.wait(Duration::from_millis(seconds * 1000 - 1));
                world.run(true).await;
                assert_eq!(goaways(&script), 0, "not yet");
                world.wait(Duration::from_millis(2));
                world.run(true).await;
                assert_eq!(goaways(&script), 1, "first without an end");
                for _ in 0..2 {
                    // It does not answer, and then does not leave.
                    world.wait(Duration::from_secs(3));
                    world.run(true).await;
                }
                assert!(connection.is_finished());
            });
        }
    }

    #[test]
    fn who_goes_on_after_the_word_to_leave_is_refused_what_it_cannot_have_begun_before() {
        run(async {
            let config = Config { keepalive_requests: 1, http2_streams: 2, ..Config::default() };
            let world = World::new(config);
            let further = [3, 5, 7, 9].map(|stream| [Piece::Pause, Piece::Bytes(get(stream, "/a"))]);
            let first = Piece::Bytes([greeting(), get(1, "/a")].concat());
            let script = Scripted::new([first].into_iter().chain(further.into_iter().flatten()));
            let connection = world.connect(&script);
            for _ in 0..5 {
                world.run(true).await;
                script.go_on();
            }
            assert_eq!(bodies(&script), "1=/a 3=/a 5=/a ");
            let resets: Vec<_> =
                frames(&script).into_iter().filter(|(kind, ..)| *kind == RST_STREAM).collect();
            let refused = |stream| (RST_STREAM, stream, vec![0, 0, 0, 7]);
            assert_eq!(resets, [refused(7), refused(9)], "it may ask for them again, elsewhere");
            for _ in 0..2 {
                world.wait(Duration::from_secs(3));
                world.run(true).await;
            }
            assert!(connection.is_finished());
        });
    }

    #[test]
    fn who_still_takes_the_last_response_may_begin_another_stream() {
        type Ends = fn(&World);
        let ends: [(&str, Ends); 2] = [
            ("it was kept for so long", |world| world.wait(Duration::from_secs(75))),
            ("others need the room", |world| {
                world.wait(Duration::from_secs(1));
                assert!(world.thread.entrance.room.dismiss(Serves::Requests));
            }),
        ];
        for (what, end) in ends {
            for takes in [true, false] {
                run(async {
                    let world = World::new(Config::default());
                    let input = [greeting(), get(1, "/a")].concat();
                    let script =
                        Scripted::new([Piece::Bytes(input), Piece::Pause, Piece::Bytes(get(3, "/b"))]);
                    script.hold(90_000);
                    let connection = world.connect(&script);
                    world.run(true).await;
                    for left in if takes { [80_000, 60_000, 40_000] } else { [90_000; 3] } {
                        script.hold(left);
                        if !connection.is_finished() {
                            end(&world);
                        }
                        world.run(true).await;
                    }
                    script.go_on();
                    world.run(true).await;
                    let expected = if takes { "1=/a 3=/b " } else { "1=/a " };
                    assert_eq!(bodies(&script), expected, "{what}");
                    for _ in 0..4 {
                        world.wait(Duration::from_secs(76));
                        world.run(true).await;
                    }
                    assert!(connection.is_finished(), "{what}");
                });
            }
        }
    }

    #[test]
    fn who_is_told_to_leave_has_time_for_what_is_on_its_way() {
        // Bytes on their way, how many of them arrive in a second, after how many seconds, and whether it is over then.
        for (what, held, takes, seconds, over) in [
            ("nothing", 0, 0, 1, false),
            ("nothing for long", 0, 0, 5, true),
            ("the last words to one that is gone", 50, 0, 1, false),
            ("the last words to one that is gone for long", 50, 0, 3, true),
            ("a response to one that is gone", 50_000, 0, 9, false),
            ("a response to one that is gone for long", 50_000, 0, 15, true),
            ("a response that is taken slowly", 50_000, 400, 100, false),
            ("a response that is taken too slowly", 50_000, 100, 100, true),
            ("a response that was taken", 50_000, 1000, 56, true),
        ] {
            run(async {
                let world = World::new(Config { keepalive_requests: 1, ..Config::default() });
                let script = Scripted::new([Piece::Bytes([greeting(), get(1, "/a")].concat()), Piece::Pause]);
                script.hold(held);
                let connection = world.connect(&script);
                world.run(true).await;
                world.thread.entrance.doors.drain(Duration::ZERO);
                for second in 1..=seconds {
                    script.hold(held.saturating_sub(second * takes));
                    world.wait(Duration::from_secs(1));
                    world.run(true).await;
                }
                assert_eq!(connection.is_finished(), over, "{what}");
            });
        }
    }

    #[test]
    fn who_has_ended_its_side_gets_what_it_has_asked_for() {
        let upload = frame(HEADERS, 4, 5, &get(5, "/c")[9..]);
        let asked = [greeting(), get(1, "/a"), get(3, "/b"), upload].concat();
        let at_once = vec![Piece::Bytes(asked.clone()), Piece::End];
        let later = vec![Piece::Bytes(asked.clone()), Piece::Pause, Piece::End];
        let cut = vec![Piece::Bytes(asked), Piece::Pause, Piece::Cut];
        // When it ends its side, whether that is to abort, what becomes of it, and what it gets.
        for (what, input, abort_on_disconnect, peer, expected) in [
            ("at once", at_once.clone(), false, Peer::Silent, "1=/a 3=/b "),
            ("later", later.clone(), false, Peer::Silent, "1=/a 3=/b "),
            ("without a word", cut, false, Peer::Silent, "1=/a 3=/b "),
            ("to abort", at_once, true, Peer::Silent, ""),
            ("to abort later", later.clone(), true, Peer::Silent, ""),
            ("gone", later, false, Peer::Gone, ""),
        ] {
            run(async {
                let world = World::new(Config { abort_on_disconnect, ..Config::default() });
                let script = Scripted::new(input);
                script.become_of(Peer::Silent);
                let connection = world.connect(&script);
                world.run(false).await;
                script.become_of(peer);
                script.go_on();
                world.run(false).await;
                assert_eq!(connection.is_finished(), expected.is_empty(), "{what}");
                world.run(true).await;
                assert_eq!(bodies(&script), expected, "{what}");
                assert!(connection.is_finished(), "{what}");
            });
        }
    }

    #[test]
    fn who_has_ended_its_side_opens_no_window_for_what_is_left() {
        let small = [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 2])].concat();
        let asked = [small, get(1, "/a"), get(3, "/bcde")].concat();
        let wider = frame(WINDOW_UPDATE, 0, 3, &[0, 0, 0, 3]);
        for (what, then, expected) in [
            ("at once", vec![Piece::End], "1=/a 3=/b "),
            ("later", vec![Piece::Pause, Piece::End], "1=/a 3=/b "),
            ("opened before", vec![Piece::Pause, Piece::Bytes(wider), Piece::End], "1=/a 3=/b 3=cde 3= "),
        ] {
            run(async {
                let world = World::new(Config::default());
                let script = Scripted::new([vec![Piece::Bytes(asked.clone())], then].concat());
                let connection = world.connect(&script);
                world.run(true).await;
                assert_eq!(connection.is_finished(), what == "at once", "{what}");
                script.go_on();
                world.run(true).await;
                assert!(connection.is_finished(), "{what}");
                assert_eq!(bodies(&script), expected, "{what}");
            });
        }
    }

    #[test]
    fn who_has_ended_its_side_and_is_gone_is_looked_for() {
        run(async {
            let world = World::new(Config::default());
            let input = [greeting(), get(1, "/a")].concat();
            let script = Scripted::new([Piece::Bytes(input), Piece::End]);
            let connection = world.connect(&script);
            world.run(false).await;
            script.become_of(Peer::Gone);
            world.wait(Duration::from_millis(1100));
            world.run(false).await;
            assert!(connection.is_finished());
            assert_eq!(world.totals().failures[Failure::ClientGone], 1);
        });
    }

    #[test]
    fn a_stream_that_both_sides_have_closed_ends_with_its_connection_whatever_its_worker_does() {
        // The method, whether the worker then breaks off, and whether the client has taken what was said of the response.
        for (method, breaks_off, takes) in [
            ("HEAD", true, false),
            ("HEAD", true, true),
            ("HEAD", false, false),
            ("HEAD", false, true),
            ("GET", true, true),
            ("GET", false, true),
        ] {
            run(async {
                let world = World::new(Config::default());
                let asks = [(":method", method), (":scheme", "http"), (":path", "/a"), (":authority", "h")];
                let asked = [greeting(), frame(HEADERS, 5, 1, &literals(&asks))].concat();
                let script = Scripted::new([Piece::Bytes(asked), Piece::Pause, Piece::Cut]);
                let connection = world.connect(&script);
                world.run(false).await;
                let mut claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                script.take(if takes { usize::MAX } else { 0 });
                world.run(false).await;
                world.worker.head(&mut claimed, 200, 4, 0);
                world.worker.write(&mut claimed, b"four");
                world.worker.tell(&claimed);
                let server = world.thread.entrance.server;
                let inside = || server.doors.inside(Serves::Requests);
                if takes {
                    world.run(false).await;
                }
                if breaks_off {
                    world.worker.flag(&mut claimed, RESPONSE_BROKEN);
                    world.worker.finish(claimed);
                }
                world.run(false).await;
                script.become_of(Peer::Gone);
                script.go_on();
                world.run(false).await;
                world.wait(Duration::from_millis(1100));
                world.run(false).await;
                let what = format!("{method} {breaks_off} {takes}");
                assert!(connection.is_finished(), "{what}");
                assert_eq!(inside(), 0, "{what}");
            });
        }
    }

    #[test]
    fn who_is_told_to_leave_and_has_all_leaves_the_code_behind_its_responses_its_time() {
        // The answer to the ping by which we learn that a client has come to the word to leave.
        let heard = frame(PING, 1, 0, &[0x0b, 0x7b, 0xa2, 0xf0, 0x8b, 0x9b, 0xfe, 0x54]);
        // How the code behind the head ends: by itself, broken off, or with all that is under way. And whether the client closes, too.
        for (how, leaves) in [("ends", false), ("ends", true), ("breaks off", true), ("is cut off", true)] {
            run(async {
                let config = Config { keepalive_requests: 1, abort_on_disconnect: true, ..Config::default() };
                let world = World::new(config);
                let asks = [(":method", "HEAD"), (":scheme", "http"), (":path", "/a"), (":authority", "h")];
                let asked = [greeting(), frame(HEADERS, 5, 1, &literals(&asks))].concat();
                let heard = Piece::Bytes(heard.clone());
                let end = if leaves { Piece::End } else { Piece::Pause };
                let script = Scripted::new([Piece::Bytes(asked), Piece::Pause, heard, Piece::Pause, end]);
                let connection = world.connect(&script);
                script.take(usize::MAX);
                world.run(false).await;
                let mut claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                world.worker.head(&mut claimed, 200, 4, 0);
                world.worker.write(&mut claimed, b"four");
                world.worker.tell(&claimed);
                for _ in 0..3 {
                    world.run(false).await;
                    script.go_on();
                    world.wait(Duration::from_secs(3));
                }
                world.run(false).await;
                assert!(goaways(&script) > 0, "{how}: it is told");
                assert!(!connection.is_finished() && !world.worker.is_abandoned(&claimed), "{how}");
                match how {
                    "is cut off" => {
                        world.thread.cut_off().await;
                        world.run(false).await;
                        assert!(connection.is_finished() && world.worker.is_abandoned(&claimed), "{how}");
                    }
                    _ => {
                        if how == "breaks off" {
                            world.worker.flag(&mut claimed, RESPONSE_BROKEN);
                        }
                        world.worker.finish(claimed);
                        world.run(false).await;
                        assert!(connection.is_finished(), "{how}");
                    }
                }
                assert_eq!(world.thread.entrance.server.doors.inside(Serves::Requests), 0, "{how}");
            });
        }
    }

    #[test]
    fn a_client_that_takes_nothing_is_cut_off_and_one_that_is_gone_interrupts_nobody_else() {
        run(async {
            let world = World::new(Config { write_timeout: Duration::from_secs(5), ..Config::default() });
            let script = Scripted::new([Piece::Bytes(greeting()), Piece::Pause, Piece::Bytes(get(1, "/a"))]);
            let connection = world.connect(&script);
            world.run(true).await;
            script.take(0);
            world.run(true).await;
            for _ in 0..7 {
                world.wait(Duration::from_secs(1));
                world.run(true).await;
            }
            assert!(connection.is_finished() && script.was_reset());
            let left =
                Scripted::new([Piece::Bytes([greeting(), get(1, "/a")].concat()), Piece::Pause, Piece::End]);
            let connection = world.connect(&left);
            world.run(false).await;
            left.become_of(Peer::Gone);
            left.go_on();
            world.run(false).await;
            assert!(connection.is_finished());
            assert_eq!(world.totals().failures[Failure::ClientGone], 1);
        });
    }

    #[test]
    fn who_was_slow_once_owes_nothing_for_the_time_in_which_there_was_nothing_to_take() {
        run(async {
            let config = Config { keepalive_timeout: Duration::from_secs(300), ..Config::default() };
            let world = World::new(config);
            let wide = [
                PREFACE,
                &frame(SETTINGS, 0, 0, &[0, 4, 0, 16, 0, 0]),
                &frame(WINDOW_UPDATE, 0, 0, &[0, 63, 0, 0]),
            ];
            let pauses = || [Piece::Pause, Piece::Pause, Piece::Pause];
            let first = [Piece::Bytes(wide.concat()), Piece::Pause, Piece::Bytes(get(1, "/a"))];
            let script = Scripted::new(first.into_iter().chain(pauses()).chain([Piece::Bytes(get(3, "/b"))]));
            let connection = world.connect(&script);
            world.run(false).await;
            let body = vec![b'x'; 100 << 10];
            script.take(1000);
            world.run(false).await;
            answer(&world, &body).await;
            script.take(101_000);
            world.run(false).await;
            // It is looked at, and has little left to take then.
            world.wait(Duration::from_secs(6));
            world.run(false).await;
            script.take(usize::MAX);
            world.run(false).await;
            assert_eq!(world.totals().connections[ConnectionState::Idle], 1);
            world.wait(Duration::from_secs(200));
            script.take(0);
            world.run(false).await;
            answer(&world, &body).await;
            for _ in 0..5 {
                world.wait(Duration::from_secs(1));
                world.run(false).await;
            }
            assert!(!connection.is_finished() && !script.was_reset());
            script.take(usize::MAX);
            world.run(false).await;
            assert_eq!(data(&script).concat().len(), 2 * body.len());
        });
    }

    #[test]
    fn who_does_not_come_to_the_end_of_its_preface_has_the_time_of_a_head() {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new([Piece::Bytes(PREFACE[..20].to_vec())]);
            let connection = world.connect(&script);
            world.run(false).await;
            world.wait(Duration::from_millis(9_999));
            world.run(false).await;
            assert!(!connection.is_finished() && !script.was_shut());
            for _ in 0..3 {
                world.wait(Duration::from_secs(3));
                world.run(false).await;
            }
            assert!(connection.is_finished());
        });
    }

    #[test]
    fn a_worker_that_says_hints_waits_for_a_client_that_takes_none_for_a_moment() {
        run(async {
            let world = World::new(Config::default());
            let (ours, workers) = howdah_sys::socketpair_seqpacket().unwrap();
            world.pool().open_channel(0, ours);
            rustix::fs::fcntl_setfl(&workers, rustix::fs::OFlags::NONBLOCK).unwrap();
            let asked = Piece::Bytes(get(1, "/a"));
            let script = Scripted::new([Piece::Bytes(greeting()), Piece::Pause, asked]);
            let _connection = world.connect(&script);
            world.run(false).await;
            script.take(0);
            world.run(false).await;
            world.worker.begin(&world.worker.claim().unwrap());
            let word = || {
                let mut packet = [0; 64];
                let (length, _) = howdah_sys::recv_with_fds(&workers, &mut packet).ok()?;
                howdah_sys::decode_message(&packet[..length]).map(|(message, _)| message.value)
            };
            // Of those that come before one is out nothing is kept.
            for (takes, refused) in [(0, 0), (0, 1), (0, 1), (usize::MAX, 0), (0, 0), (0, 1)] {
                script.take(takes);
                world.run(false).await;
                let mail = Mail::Interim { status: 103, lines: b"Link: </a>\r\n".to_vec() };
                assert!(world.thread.desks.post(0, mail));
                assert_eq!(world.until(word).await, Some(refused));
            }
        });
    }

    /// An application that has taken a WebSocket's stream, has heard its end, and said `words` for a client that has no window for
    /// them. Gives its end of the pair.
    async fn taken(world: &World, script: &Scripted) -> UnixStream {
        let (ours, workers) = howdah_sys::socketpair_seqpacket().unwrap();
        world.pool().open_channel(0, ours);
        world.run(false).await;
        script.go_on();
        world.run(false).await;
        let mut claimed = world.worker.claim().unwrap();
        world.worker.begin(&claimed);
        assert!(world.thread.desks.post(0, Mail::Takeover));
        world.run(false).await;
        let (_, descriptors) = howdah_sys::recv_with_fds(&workers, &mut [0; 4096]).unwrap();
        let mut end = UnixStream::from(descriptors.into_iter().next().unwrap());
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        end.write_all(format!("{head}words").as_bytes()).unwrap();
        world.worker.flag(&mut claimed, RESPONSE_DETACHED);
        world.worker.finish(claimed);
        end
    }

    #[test]
    fn a_websocket_that_waits_for_a_window_ends_with_its_client_or_in_its_time() {
        let closed = [PREFACE, &frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])].concat();
        let asks = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":path", "/a"),
            (":authority", "h"),
        ];
        let asked = [frame(HEADERS, 4, 1, &literals(&asks)), frame(0, 1, 1, b"x")].concat();
        // What the client does then, whether the application is still there, and whether the stream is let go.
        for (what, then, is_there, at_once, in_time) in [
            ("it ends its side", Piece::End, true, true, true),
            ("it does nothing", Piece::Pause, false, false, true),
            ("it does nothing, and the application may wait for that", Piece::Pause, true, false, false),
        ] {
            run(async {
                let world = World::new(Config::default());
                let asked = Piece::Bytes(asked.clone());
                let script =
                    Scripted::new([Piece::Bytes(closed.clone()), Piece::Pause, asked, Piece::Pause, then]);
                let connection = world.connect(&script);
                let end = taken(&world, &script).await;
                world.run(false).await;
                script.become_of(Peer::Silent);
                script.go_on();
                world.run(false).await;
                end.set_nonblocking(true).unwrap();
                let ended = |end: &mut UnixStream| {
                    let _ = end.read(&mut [0; 9]);
                    end.write(b"more").is_err()
                };
                let mut end = is_there.then_some(end);
                let is_let_go = |end: &mut Option<UnixStream>| match end {
                    Some(end) => ended(end),
                    None => frames(&script).iter().any(|(kind, ..)| *kind == RST_STREAM),
                };
                assert_eq!(is_let_go(&mut end), at_once, "{what}");
                for _ in 0..70 {
                    world.wait(Duration::from_secs(1));
                    world.run(false).await;
                }
                assert_eq!(is_let_go(&mut end), in_time, "{what}");
                assert_eq!(connection.is_finished(), at_once, "{what}");
            });
        }
    }

    #[test]
    fn a_response_whose_head_is_none_is_its_workers_doing() {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new([Piece::Bytes([greeting(), get(1, "/a")].concat())]);
            let connection = world.connect(&script);
            world.run(false).await;
            let mut claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            let lines = b"no field\r\n";
            world.worker.write(&mut claimed, lines);
            let (flags, head_length) = (RESPONSE_HEAD_READY, lines.len() as u32);
            world.worker.say(&mut claimed, Answer { status: 200, flags, head_length, ..Answer::default() });
            world.worker.finish(claimed);
            world.run(false).await;
            assert!(
                frames(&script).iter().any(|(kind, ..)| *kind == RST_STREAM) && !connection.is_finished()
            );
            let failures = world.totals().failures;
            assert_eq!((failures[Failure::WorkerLost], failures[Failure::ClientGone]), (1, 0));
        });
    }

    #[test]
    fn a_connection_is_closed_at_its_end_however_long_an_application_goes_on_that_has_a_stream() {
        let asks = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":path", "/a"),
            (":authority", "h"),
        ];
        let asked = frame(HEADERS, 4, 1, &literals(&asks));
        // Whether the client leaves, or takes nothing any more of what another stream has for it.
        for leaves in [true, false] {
            run(async {
                let world = World::new(Config { write_timeout: Duration::from_secs(5), ..Config::default() });
                let (ours, _workers) = howdah_sys::socketpair_seqpacket().unwrap();
                world.pool().open_channel(0, ours);
                // The latter is refused at once.
                let then = if leaves { Piece::Cut } else { Piece::Bytes(get(3, "/%zz")) };
                let script = Scripted::new([
                    Piece::Bytes(greeting()),
                    Piece::Pause,
                    Piece::Bytes(asked.clone()),
                    Piece::Pause,
                    then,
                ]);
                let connection = world.connect(&script);
                world.run(false).await;
                script.go_on();
                world.run(false).await;
                let claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                assert!(world.thread.desks.post(0, Mail::Takeover));
                world.run(false).await;
                if leaves {
                    script.become_of(Peer::Gone);
                    script.go_on();
                } else {
                    script.take(0);
                }
                for _ in 0..7 {
                    world.run(false).await;
                    world.wait(Duration::from_secs(1));
                }
                world.run(false).await;
                assert!(!world.worker.is_abandoned(&claimed), "{leaves}");
                assert_eq!((connection.is_finished(), script.was_reset()), (true, !leaves));
                assert!(script.is_closed(), "{leaves}");
            });
        }
    }

    /// A client whose windows are a mebibyte wide, and four for all, and which takes `takes` bytes of the response that a worker has made.
    async fn large(world: &World, takes: usize, body: &[u8]) -> (Scripted, tokio::task::JoinHandle<()>) {
        several(world, &[1], takes, body).await
    }

    /// Such a client, and what it has asked for in several streams.
    async fn several(
        world: &World,
        streams: &[u8],
        takes: usize,
        body: &[u8],
    ) -> (Scripted, tokio::task::JoinHandle<()>) {
        let asked = streams.iter().flat_map(|stream| get(*stream, "/a")).collect();
        asking(world, streams.len(), asked, takes, body).await
    }

    /// The frames of one stream's body.
    fn data(script: &Scripted) -> Vec<Vec<u8>> {
        let data = frames(script).into_iter().filter(|(kind, ..)| *kind == 0);
        data.map(|(.., bytes)| bytes).collect()
    }

    #[test]
    fn the_frames_of_a_turn_leave_together_and_their_memory_goes_on_to_the_next_connection() {
        run(async {
            let world = World::new(Config::default());
            let body = vec![b'x'; 100 << 10];
            let (script, _connection) = large(&world, usize::MAX, b"").await;
            let before = script.writes();
            let (second, _connection) = large(&world, usize::MAX, &body).await;
            assert_eq!((data(&second).len(), data(&second).concat() == body), (7, true));
            assert_eq!(
                (before, second.writes()),
                (2, 3),
                "what it begins with, and 64 KiB and the rest of the body"
            );
            assert_eq!(world.thread.entrance.server.scratch.borrow().batch.capacity(), 64 << 10);
        });
    }

    #[test]
    fn a_client_that_takes_some_bytes_at_a_time_gets_each_of_them_once() {
        for some in [1, 1000, 40_000, 65_536, 70_000] {
            run(async {
                let world = World::new(Config::default());
                let body: Vec<u8> = (0..100_u32 << 10).map(|number| (number * 7 / 5) as u8).collect();
                let (script, connection) = large(&world, some, &body).await;
                let totals = world.totals();
                assert_eq!(totals.connections[ConnectionState::Running], 1, "it is waited for");
                let end = script.output().len() + 103_000;
                for more in 0.. {
                    let before = script.output().len();
                    script.take(some * (more + 1));
                    world.run(false).await;
                    if script.output().len() == before {
                        break;
                    }
                }
                assert!(data(&script).concat() == body && script.output().len() < end, "{some} at a time");
                assert!(!connection.is_finished());
                assert_eq!(world.totals().connections[ConnectionState::Idle], 1);
            });
        }
    }

    #[test]
    fn a_connection_holds_little_of_many_streams_for_a_client_that_takes_nothing() {
        run(async {
            let world = World::with(Config::default(), Terms { max_queue: 16, ..Terms::default() }, |_| ());
            let body = vec![b'x'; 100 << 10];
            let streams: Vec<u8> = (0..14).map(|number| 2 * number + 1).collect();
            let (script, _connection) = several(&world, &streams, 0, &body).await;
            script.take(usize::MAX);
            world.run(false).await;
            let data: Vec<_> = frames(&script).into_iter().filter(|(kind, ..)| *kind == 0).collect();
            let of = |stream| data.iter().filter(move |frame| frame.1 == stream);
            assert!(
                streams.iter().all(|&stream| of(stream).flat_map(|frame| &frame.2).count() == body.len())
            );
            // What the connection had, of the first two, is out before anything that its streams have held back.
            let held_back = data.iter().position(|frame| frame.1 > 3).unwrap();
            assert_eq!(data[..held_back].iter().map(|frame| frame.2.len()).sum::<usize>(), 127 << 10);
        });
    }
}
