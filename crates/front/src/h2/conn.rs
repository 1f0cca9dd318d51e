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
use crate::outflow::{Pace, Pulse};
use crate::request::Client;
use crate::server::{Presence, Server};
use crate::timers::{Rest, Timer};
use crate::transport::Transport;

/// How long a client without a stream has for its part of the end, unless a drain gives those that rest more.
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
/// Streams that the client has broken off and of which nobody has heard yet: more than there can be in a turn, since `budget` knows how
/// many it may.
const PENDING_RESETS: usize = 1024;
/// Streams that are remembered after we have reset them.
const RESETS: usize = 64;
/// Streams that the crate has kept to itself, most for a mistake of the client's, after which that is told to leave. Behind a proxy each
/// may be another's mistake, and whoever else has a request under way is to have the response.
const MISTAKES: u64 = 1024;
/// Errors of the client's in all its life after which the crate cuts it off. Until they are out each takes less than a KiB.
const ERRORS: usize = 4096;

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
    /// Whether it takes note of it at all, while nothing waits for it.
    pulse: Pulse,
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
    /// Streams that the crate has handed out.
    handed: u64,
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
        pulse: Pulse::default(),
        budget: Budget::new(server.clock.now()),
        due: 0,
        leaves: false,
        told: None,
        scolded: false,
        cut: false,
        window: window(server, 0),
        untaken: u64::MAX,
        handed: 0,
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
            self.say_last(connection, context);
            return Poll::Ready(());
        }
        self.link.wire.begin_turn();
        while let Some((request, mut respond)) = ready!(self.poll_next(connection, context)) {
            self.handed += 1;
            if self.has_heard() {
                respond.send_reset(Reason::REFUSED_STREAM);
                continue;
            }
            crew::serve(Work { open: Open::new(&self.link), request, respond });
        }
        Poll::Ready(())
    }

    /// The server ends: what streams have said by now leaves within this turn, as far as the kernel takes it, and which one was the last.
    fn say_last(&self, connection: &mut Connection<Io, Bytes>, context: &mut Context<'_>) {
        if let Poll::Ready(Some(Ok((_, mut respond)))) = connection.poll_accept(context) {
            respond.send_reset(Reason::REFUSED_STREAM);
        }
        self.part(connection, context);
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
        if self.is_cut_off() || self.timer.poll_expired(context) {
            return Poll::Ready(None);
        }
        self.link.wire.begin_turn();
        let begun = handshake.poll(context);
        if !matches!(begun, Poll::Ready(Ok(_))) {
            self.send(context);
        }
        if begun.is_pending() && self.timer.is_unwanted() {
            self.cut = true;
            return Poll::Ready(None);
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
            if self.mode == Mode::Leaving && !self.link.late.get() {
                self.part(connection, context);
            }
            return Poll::Ready(None);
        }
        self.see_to_the_end(connection);
        self.fit_window(connection);
        let mut accepted = self.poll_accept(connection, context);
        let is_told = accepted.is_pending() && self.link.wire.withholds() && self.is_through(connection);
        if is_told {
            self.link.wire.tell_end();
        }
        if self.heed_updates(connection) || is_told {
            accepted = self.poll_accept(connection, context);
        }
        if accepted.is_pending() && self.is_to_go() {
            self.part(connection, context);
            self.cut = true;
            return Poll::Ready(None);
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

    /// Says which stream was the last, within this turn, as far as the kernel takes it: a client may ask again for those that it has begun
    /// behind that (RFC 9113 6.8).
    fn part(&self, connection: &mut Connection<Io, Bytes>, context: &mut Context<'_>) {
        connection.abrupt_shutdown(Reason::NO_ERROR);
        let _ = connection.poll_accept(context);
        self.send(context);
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
        let Link { wire, tally, .. } = &*self.link;
        tally.fall_silent();
        self.link.end_waits();
        let idle = self.link.open() == 0 && !connection.has_streams() && !wire.blocked.get();
        idle || wire.has_left()
    }

    /// A deadline has passed: whether that is the end.
    fn is_late(&mut self) -> bool {
        match self.mode {
            Mode::Leaving => self.has_had_its_time(),
            Mode::Busy => self.is_stalled(self.link.wire.blocked.get()),
            Mode::New | Mode::Kept => {
                self.leaves = true;
                false
            }
        }
    }

    /// Whether it has to make room, by all that has come of it.
    fn is_to_go(&mut self) -> bool {
        let rests = self.timer.rest() != Rest::No && self.link.open() == 0;
        rests && self.timer.is_unwanted() && !self.may_stay()
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
        left > GOODBYE && self.is_stalled(true)
    }

    /// Whether the client takes too little of what all its streams have for it; or, while nothing waits for it, is gone without a word: of
    /// what they were sent nothing arrives.
    fn is_stalled(&mut self, waits: bool) -> bool {
        let Link { server, wire, .. } = &*self.link;
        let ((arrived, all), now, terms) = (wire.arrived(), server.clock.served(), server.holding.terms());
        let keeps_up = match waits {
            true => self.pace.look(now, arrived, all, terms),
            false => self.pulse.look(now, arrived, all, terms),
        };
        self.due = 0;
        if !keeps_up {
            wire.reset();
            self.link.late.set(true);
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
        let only_works = self.makes_only_work();
        self.leaves |= self.has_to_leave() || self.budget.is_low();
        if self.leaves && self.told.is_none() {
            self.told = Some(self.link.served.get());
            connection.graceful_shutdown();
        }
        if only_works && !self.scolded {
            self.scolded = true;
            tracing::debug!(peer = &*self.link.client.address, "cut off a client that only makes work");
            self.link.server.records.failure(Failure::BadRequest);
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    }

    /// Passes on what the client has said of priorities, and of what it takes. True when the connection has to end for that.
    fn heed_updates(&mut self, connection: &mut Connection<Io, Bytes>) -> bool {
        let Link { server, wire, tally, client, .. } = &*self.link;
        wire.updates(|(stream, urgency)| tally.update(stream, urgency));
        tally.open_window(wire.take_opened());
        let Some((reason, what)) = wire.wrong_update().filter(|_| !self.scolded) else { return false };
        self.scolded = true;
        tracing::debug!(peer = &*client.address, "refused a connection of HTTP/2: {what} (RFC 9218 7.1)");
        server.records.failure(Failure::BadRequest);
        connection.abrupt_shutdown(reason);
        true
    }

    fn has_to_leave(&self) -> bool {
        let Link { server, served, wire, .. } = &*self.link;
        let (config, served) = (&server.config, served.get());
        let most = if config.keepalive { config.keepalive_requests } else { 1 };
        let makes_room = !server.doors.keeps_connections() && served > 0 && self.link.open() == 0;
        let is_mistaken = wire.opened().saturating_sub(self.handed) >= MISTAKES;
        server.doors.is_draining() || makes_room || is_mistaken || most != 0 && served >= most
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
        let Server { clock, config, doors, .. } = self.link.server;
        let (state, rest, patience) = match mode {
            Mode::New => (ConnectionState::Reading, Rest::New, config.header_timeout),
            Mode::Busy => (ConnectionState::Running, Rest::No, Duration::ZERO),
            Mode::Kept => (ConnectionState::Idle, Rest::Kept, config.keepalive_timeout),
            Mode::Leaving => (ConnectionState::Closing, Rest::No, doors.patience(PATIENCE)),
        };
        self.presence.enter(state);
        self.timer.set(rest, clock.after(patience));
        let untaken = if mode == Mode::Leaving { self.link.wire.on_its_way() } else { u64::MAX };
        (self.mode, self.due, self.untaken) = (mode, 0, untaken);
    }

    /// A client that the socket waits for has so long to take something.
    fn keep_pace(&mut self, blocked: bool) {
        let Server { clock, holding, .. } = self.link.server;
        let (now, terms) = (clock.served(), holding.terms());
        let due = match blocked {
            true => self.pace.wait(now, terms),
            // The end of the connection is told by nothing else, while nothing is sent.
            false if self.link.wire.withholds() => self.due_by(clock.after(LOOK)),
            false => self.due_by(Pulse::next(now, terms)),
        };
        if !blocked {
            self.pace.rest();
        }
        if due != self.due {
            self.timer.set(Rest::No, due);
            self.due = due;
        }
    }

    /// When to look, which is to be by then; 0 for never.
    fn due_by(&self, end: u64) -> u64 {
        let waits = self.due > self.link.server.clock.served() && self.due <= end;
        if waits { self.due } else { end }
    }

    /// Tells the log why a connection has broken.
    fn tell(&self, error: &h2::Error) {
        let Link { server, client, .. } = &*self.link;
        // The client has its own reasons to end it.
        if error.is_io() || error.is_remote() {
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
