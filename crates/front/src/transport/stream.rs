//! One stream of an HTTP/2 connection, as what carries a response: `outflow` sends through it as through a socket.
//!
//! Bytes are given to the connection only as far as the client's windows let them go, so that nothing of a response waits
//! there for a client that reads another stream: what the windows do not take waits in `outflow`, under its bounds. So does
//! what a connection that has much already would have to hold for its socket, and what is less urgent than something else that waits:
//! see [`Tally`].

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, IoSlice};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use howdah_http2::URGENCY;
use http::header::{HeaderMap, HeaderName};

use crate::transport::share::Share;
use crate::transport::socket::{Peer, length};

/// Bytes that streams give to the connection together before that has had its turn, or got rid of what it had, while nothing more
/// urgent waits: with the heads of their frames two batches of `wire`. What is more urgent goes behind it, so it is not more.
const ROUND: usize = 127 * 1024;
/// The same of streams of any urgency.
const ROUNDS: usize = 4 * ROUND;
/// One of them has its share of that, but so much at least: a frame.
const SHARE: usize = 16 * 1024;
/// Less is not worth a frame of a body that goes on. A whole one of so many bytes at most need not wait for a round.
const SMALL: usize = 8 * 1024;
/// How urgent a response may be (RFC 9218 4.1): 0 is the most.
const URGENCIES: usize = 8;
const PRIORITY: HeaderName = HeaderName::from_static("priority");
/// Bytes that the window of all streams has at first (RFC 9113 6.9.2).
const WINDOW: u64 = 65_535;
/// Bytes that a client may send for each piece that it takes, to open its windows.
const FRAME_EARNS: u64 = 64;

/// What has been said of the response.
#[derive(Debug)]
enum Said {
    /// Nothing, or interim responses.
    Nothing(SendResponse<Bytes>),
    /// The head, at least.
    Head(SendStream<Bytes>),
}

/// What a connection and its streams tell each other of what they give to it.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// What the client may send because of what it has asked for and was sent, in bytes, in all: windows are opened by
    /// frames, too.
    pub(crate) earned: Cell<u64>,
    /// Bytes of bodies that the connection was given since it last had nothing, by how urgent they are, how often that was, and
    /// whether it has anything now.
    given: Cell<[usize; URGENCIES]>,
    round: Cell<u64>,
    has_some: Cell<bool>,
    /// How urgent the most urgent were of those that had waited for this round, and how many.
    takers: Cell<(u8, usize)>,
    /// How urgent the most urgent response is of those that have to wait for the next.
    pressing: Cell<Option<u8>>,
    /// Streams that have given what they may.
    waiting: RefCell<Vec<Waits>>,
    /// All streams by their numbers, for what is said of them later.
    streams: RefCell<Vec<(u32, Weak<RefCell<State>>)>>,
    /// The client has ended its side of the connection.
    silent: Cell<bool>,
    /// Bytes of bodies in all, how many may be, and up to where they count below: those that went while there was room for more kept
    /// nobody waiting.
    spent: Cell<u64>,
    window: Cell<u64>,
    shared: Cell<u64>,
    /// What each stream would have had of those that used up the window. Which stream has how much of a small window is for the crate to
    /// say, and one may have nothing of it for long while its client takes what there is.
    share: Share,
    /// The connection has ended.
    over: Cell<bool>,
}

/// A stream that waits for the next round.
#[derive(Debug)]
struct Waits {
    stream: u32,
    urgency: u8,
    /// It has given something in this one.
    has_given: bool,
    waker: Waker,
}

impl Tally {
    /// The connection has sent what it was given. The most urgent go on first, and of those that are alike who has had no turn.
    pub(crate) fn begin_round(&self) {
        if self.has_some.replace(false) {
            self.given.set([0; URGENCIES]);
            self.round.set(self.round.get() + 1);
            self.pressing.set(None);
            let waiting = &mut *self.waiting.borrow_mut();
            waiting.sort_by_key(|waits| (waits.urgency, waits.has_given));
            let first = waiting.first().map_or(0, |first| first.urgency);
            self.takers.set((first, waiting.partition_point(|other| other.urgency == first)));
            waiting.drain(..).for_each(|waits| waits.waker.wake());
        }
    }

    /// The client has ended its side.
    pub(crate) fn fall_silent(&self) {
        self.silent.set(true);
    }

    /// The client takes so many bytes more of all streams together.
    pub(crate) fn open_window(&self, bytes: u64) {
        if bytes > 0 && !self.is_used_up() {
            self.shared.set(self.spent.get());
        }
        self.window.set(self.window.get() + bytes);
    }

    /// Whether no stream may have anything before the client opens the window of all.
    fn is_used_up(&self) -> bool {
        self.spent.get() >= WINDOW + self.window.get()
    }

    fn spend(&self, bytes: usize) {
        self.spent.set(self.spent.get() + bytes as u64);
        if self.is_used_up() {
            let bytes = self.spent.get() - self.shared.replace(self.spent.get());
            self.share.add(bytes, self.streams.borrow().len() as u64);
        }
    }

    /// The connection has ended, and there will be no other round.
    pub(crate) fn end(&self) {
        self.over.set(true);
        self.waiting.take().into_iter().for_each(|waits| waits.waker.wake());
    }

    /// A stream is as urgent as that from now on, whatever was said before. One that waits may go on at once now, or what is less urgent
    /// waits behind it.
    pub(crate) fn update(&self, stream: u32, urgency: u8) {
        let known =
            self.streams.borrow().iter().find(|known| known.0 == stream).and_then(|known| known.1.upgrade());
        let Some(state) = known else { return };
        (state.borrow_mut().urgency, state.borrow_mut().is_updated) = (urgency, true);
        for waits in self.waiting.borrow_mut().iter_mut().filter(|waits| waits.stream == stream) {
            waits.urgency = urgency;
            waits.waker.wake_by_ref();
            self.press(urgency);
        }
    }

    /// A response has to wait; what is less urgent waits behind it.
    fn press(&self, urgency: u8) {
        self.pressing.set(Some(self.pressing.get().map_or(urgency, |other| other.min(urgency))));
    }

    /// Bytes that a stream may give that has given so many in this round.
    fn room(&self, urgency: u8, has_given: usize) -> usize {
        let given = self.given.get();
        let as_urgent: usize = given[..=usize::from(urgency)].iter().sum();
        let waits = self.pressing.get().is_some_and(|pressing| pressing < urgency);
        if waits || as_urgent + SMALL > ROUND || given.iter().sum::<usize>() >= ROUNDS {
            return 0;
        }
        let (first, takers) = self.takers.get();
        let takers = if urgency < first { 1 } else { takers.max(1) };
        (ROUND / takers).max(SHARE).saturating_sub(has_given).min(ROUND - as_urgent)
    }

    /// The client may send so many bytes more.
    pub(crate) fn earn(&self, bytes: u64) {
        self.earned.set(self.earned.get() + bytes);
    }
}

#[derive(Debug)]
struct State {
    said: Said,
    tally: Rc<Tally>,
    number: u32,
    /// What the share of each was when it began.
    since: u64,
    urgency: u8,
    /// The client has said so beside its request, which says that no more.
    is_updated: bool,
    /// Bytes given in that round, and whether more were refused.
    given: (u64, usize),
    refused: bool,
    /// The round in which something was said last.
    said_in: Option<u64>,
    /// The round in which the stream's task has said that it waits, and that in which it has let others go first.
    waits: Option<u64>,
    yielded: Option<u64>,
    /// The client's windows are closed to what is to be sent, or much of it waits for the socket.
    shut: bool,
    /// The end has been said by itself, and behind all that was promised.
    ended: bool,
    whole: bool,
    /// The head was the end, too.
    bare: bool,
}

/// See the module. Clones are the same stream.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Rc<RefCell<State>>);

impl Stream {
    /// For the response to a request on the connection whose tally that is. How urgent it is has been `told` beside that, or not.
    pub(crate) fn new(respond: SendResponse<Bytes>, tally: &Rc<Tally>, told: Option<u8>) -> Self {
        let number = respond.stream_id().as_u32();
        let said = Said::Nothing(respond);
        let state = Rc::new(RefCell::new(State {
            said,
            tally: Rc::clone(tally),
            number,
            since: tally.share.now(),
            urgency: told.unwrap_or(URGENCY),
            is_updated: told.is_some(),
            given: (0, 0),
            refused: false,
            said_in: None,
            waits: None,
            yielded: None,
            shut: false,
            ended: false,
            whole: false,
            bare: false,
        }));
        tally.streams.borrow_mut().push((number, Rc::downgrade(&state)));
        Self(state)
    }

    /// The client says how urgent the response is, unless it has said so anew since.
    pub(crate) fn heed_request(&self, fields: &HeaderMap) {
        if !self.0.borrow().is_updated {
            self.heed(fields);
        }
    }

    /// The application, which may know better.
    pub(crate) fn heed(&self, fields: &HeaderMap) {
        let lines = fields.get_all(PRIORITY).into_iter().map(|line| line.as_bytes());
        if let Some(urgency) = howdah_http2::urgency(lines) {
            self.0.borrow_mut().urgency = urgency;
        }
    }

    /// Sends an interim response. False when it is too late.
    pub(crate) fn say_interim(&self, head: http::Response<()>) -> bool {
        let state = &mut *self.0.borrow_mut();
        let Said::Nothing(respond) = &mut state.said else { return false };
        let said = respond.send_informational(head).is_ok();
        state.note();
        said
    }

    /// Sends the head; `last` says that nothing follows.
    pub(crate) fn say_head(&self, head: http::Response<()>, last: bool) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        let Said::Nothing(respond) = &mut state.said else { return Err(ErrorKind::InvalidInput.into()) };
        let body = respond.send_response(head, last).map_err(gone)?;
        // The handle to the whole stream goes: what is left of it is the body.
        state.said = Said::Head(body);
        state.bare = last;
        state.note();
        Ok(())
    }

    /// Sends these bytes and the end if the windows take all of them, and the connection. True when they did.
    pub(crate) fn say_all(&self, first: &[u8], second: &[u8]) -> io::Result<bool> {
        let state = &mut *self.0.borrow_mut();
        let allowed = state.allowed().max(SMALL);
        let Said::Head(body) = &mut state.said else { return Err(ErrorKind::InvalidInput.into()) };
        let length = first.len() + second.len();
        if length > allowed || room(body, length) < length {
            return Ok(false);
        }
        let bytes =
            if second.is_empty() { Bytes::copy_from_slice(first) } else { [first, second].concat().into() };
        body.send_data(bytes, true).map_err(gone)?;
        state.count(length);
        Ok(true)
    }

    /// Says that this was all, if that is not said yet.
    pub(crate) fn say_end(&self) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        match &mut state.said {
            Said::Head(_) if std::mem::replace(&mut state.ended, true) => Ok(()),
            Said::Head(body) => body.send_data(Bytes::new(), true).map_err(gone),
            Said::Nothing(_) => Err(ErrorKind::InvalidInput.into()),
        }
    }

    /// Says that this was all that was promised, which is not taken back whatever else becomes of the response.
    pub(super) fn tell_end(&self) {
        let told = self.say_end().is_ok();
        self.0.borrow_mut().whole |= told;
    }

    /// Whether that has been said.
    pub(crate) fn has_told_end(&self) -> bool {
        self.0.borrow().whole
    }

    /// Whether its client says nothing more, neither by this stream nor by another.
    pub(super) fn has_said_all(&self) -> bool {
        self.0.borrow().tally.silent.get()
    }

    /// Whether the end has been said while more may be under way: of a stream that both sides have closed the crate tells nothing any more.
    pub(crate) fn is_closed(&self) -> bool {
        let state = &*self.0.borrow();
        state.bare || state.whole
    }

    /// Waits until the connection has sent what was said, which it forgets when the stream is broken off, or until nobody is there for it.
    pub(crate) fn poll_sent(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.poll_gone(context).is_ready() {
            return Poll::Ready(());
        }
        if self.is_out() {
            return Poll::Ready(());
        }
        let state = &mut *self.0.borrow_mut();
        state.await_round(state.tally.round.get(), context);
        Poll::Pending
    }

    /// Whether something waits for the client's windows, or for no more than that the connection has sent what it was given.
    pub(crate) fn is_shut(&self) -> bool {
        self.0.borrow().shut
    }

    /// Whether the connection has sent what was said.
    pub(crate) fn is_out(&self) -> bool {
        let state = &*self.0.borrow();
        state.said_in != Some(state.tally.round.get())
    }

    /// Breaks the stream off.
    pub(crate) fn break_off(&self, reason: Reason) {
        match &mut self.0.borrow_mut().said {
            Said::Nothing(respond) => respond.send_reset(reason),
            Said::Head(body) => body.send_reset(reason),
        }
    }

    /// Waits until the client breaks the stream off, or the connection ends; that of one that [is closed](Self::is_closed) has to be
    /// heard of from the connection.
    pub(crate) fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.0.borrow_mut();
        match &mut state.said {
            _ if state.tally.over.get() => Poll::Ready(()),
            Said::Nothing(respond) => respond.poll_reset(context).map(drop),
            Said::Head(body) => body.poll_reset(context).map(drop),
        }
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    pub(super) fn try_write_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        let state = &mut *self.0.borrow_mut();
        let (allowed, yields) = (state.allowed(), state.has_to_yield());
        let Said::Head(body) = &mut state.said else { return Err(ErrorKind::BrokenPipe.into()) };
        let wanted = length(runs);
        if wanted == 0 {
            return Ok(0);
        }
        state.refused = allowed == 0;
        if state.refused && !yields {
            state.tally.press(state.urgency);
        }
        let mut left = if state.refused { 0 } else { room(body, wanted.min(allowed)) };
        if left == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut bytes = Vec::with_capacity(left);
        for run in runs {
            let part = &run[..run.len().min(left)];
            bytes.extend_from_slice(part);
            left -= part.len();
        }
        let length = bytes.len();
        body.send_data(bytes.into(), false).map_err(gone)?;
        state.count(length);
        Ok(length)
    }

    /// Waits until the windows let something go, and the connection has room for it.
    pub(super) fn poll_writable(&self, context: &mut Context<'_>, stale: &mut bool) -> Poll<io::Result<()>> {
        *stale = false;
        let waits = self.0.borrow().allowed() == 0;
        if waits && self.poll_gone(context).is_ready() {
            // Of a connection that has ended there is no other round.
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let state = &mut *self.0.borrow_mut();
        state.shut = false;
        if state.has_to_yield() {
            // They have been woken, and are through with it when this stream has its turn again.
            state.yielded = Some(state.tally.round.get());
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if waits {
            state.await_round(state.tally.round.get(), context);
            return Poll::Pending;
        }
        if std::mem::take(&mut state.refused) {
            // The windows have not been asked for that.
            return Poll::Ready(Ok(()));
        }
        let Said::Head(body) = &mut state.said else { return Poll::Ready(Err(ErrorKind::BrokenPipe.into())) };
        if body.capacity() > 0 {
            return Poll::Ready(Ok(()));
        }
        let capacity = body.poll_capacity(context);
        state.shut = capacity.is_pending();
        match ready!(capacity) {
            Some(Ok(_)) => Poll::Ready(Ok(())),
            Some(Err(error)) => Poll::Ready(Err(gone(error))),
            None => Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
        }
    }

    /// See [`Transport::share`](super::Transport::share).
    pub(super) fn share(&self) -> u64 {
        let state = &*self.0.borrow();
        state.tally.share.since(state.since)
    }

    /// Whether something waits for a client whose windows are closed. One that takes too little of what its connection has
    /// is that one's to find out.
    pub(super) fn outstanding(&self) -> u64 {
        let state = &*self.0.borrow();
        match &state.said {
            Said::Head(body) => u64::from(state.allowed() > 0 && body.capacity() == 0),
            Said::Nothing(_) => 0,
        }
    }
}

impl State {
    /// Bytes that the connection may be given now.
    fn allowed(&self) -> usize {
        if self.has_to_yield() { 0 } else { self.tally.room(self.urgency, self.given_now()) }
    }

    /// Whether something more urgent has waited for this round. The crate wakes whoever gets on in it, be that in the middle of the round before,
    /// so this stream may be there first.
    fn has_to_yield(&self) -> bool {
        let (first, takers) = self.tally.takers.get();
        takers > 0 && self.urgency > first && self.yielded != Some(self.tally.round.get())
    }

    /// Bytes that it was given in this round.
    fn given_now(&self) -> usize {
        let (round, bytes) = self.given;
        if round == self.tally.round.get() { bytes } else { 0 }
    }

    fn count(&mut self, bytes: usize) {
        let Tally { given, round, .. } = &*self.tally;
        self.tally.spend(bytes);
        self.given = (round.get(), self.given_now() + bytes);
        let mut all = given.get();
        all[usize::from(self.urgency)] += bytes;
        given.set(all);
        self.shut = false;
        self.tally.earn(FRAME_EARNS + bytes as u64 / 16);
        self.note();
    }

    /// The connection has something of the stream.
    fn note(&mut self) {
        self.said_in = Some(self.tally.round.get());
        self.tally.has_some.set(true);
    }

    /// Has the stream's task woken when that round is over.
    fn await_round(&mut self, round: u64, context: &Context<'_>) {
        if self.waits.replace(round) != Some(round) {
            let (stream, urgency, has_given) = (self.number, self.urgency, self.given_now() > 0);
            let waits = Waits { stream, urgency, has_given, waker: context.waker().clone() };
            self.tally.waiting.borrow_mut().push(waits);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let streams = &mut *self.tally.streams.borrow_mut();
        if let Some(at) = streams.iter().position(|known| known.0 == self.number) {
            streams.swap_remove(at);
        }
    }
}

/// How many of `wanted` bytes the client's windows take now. What they do not take is asked for.
fn room(body: &mut SendStream<Bytes>, wanted: usize) -> usize {
    body.reserve_capacity(wanted);
    body.capacity().min(wanted)
}

fn gone(error: h2::Error) -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, error)
}

/// What is asked of any transport, and what a stream answers.
#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as other transports")]
impl Stream {
    /// Requests are read by those who know of streams.
    pub(super) fn try_read(&self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::Unsupported.into())
    }

    pub(super) fn poll_read(
        &self,
        _context: &mut Context<'_>,
        _buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(ErrorKind::Unsupported.into()))
    }

    pub(super) fn forget_writable(&self) -> io::Result<()> {
        Ok(())
    }

    /// A client that has left is told of by [`Stream::poll_gone`].
    pub(super) fn peer(&self) -> Peer {
        Peer::There
    }

    pub(super) fn reset(&self) {
        self.break_off(Reason::CANCEL);
    }

    pub(super) fn shut_write(&self) {
        let _ = self.say_end();
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::sample::frames::{
        HEADERS, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, answer, asking, frame, frames, literals,
    };
    use crate::sample::world::{Terms, World, run};
    use crate::transport::scripted::{Piece, Scripted};

    /// A request with this priority.
    fn prior(stream: u8, priority: &str) -> Vec<u8> {
        let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/a"), (":authority", "h")];
        let fields = [&fields[..], &[("priority", priority)]].concat();
        frame(HEADERS, 5, stream, &literals(&fields))
    }

    /// In which order streams are through that have asked for 100 KiB each in the order of their numbers, with these priorities.
    async fn order(world: &World, priorities: &[&str]) -> Vec<usize> {
        let asked =
            priorities.iter().zip((1..).step_by(2)).flat_map(|(priority, stream)| prior(stream, priority));
        let body = vec![b'x'; 100 << 10];
        let (script, _connection) = asking(world, priorities.len(), asked.collect(), 0, &body).await;
        script.take(usize::MAX);
        world.run(false).await;
        let ends = frames(&script).into_iter().enumerate().filter(|(_, (kind, ..))| *kind == 0);
        let last: std::collections::BTreeMap<_, _> = ends.map(|(at, (_, stream, _))| (stream, at)).collect();
        let mut order: Vec<_> = last.into_iter().map(|(stream, at)| (at, usize::from(stream / 2))).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, number)| number).collect()
    }

    #[test]
    fn what_is_urgent_goes_before_what_others_of_its_connection_have_yet_to_say() {
        run(async {
            let world = World::with(Config::default(), Terms { max_queue: 16, ..Terms::default() }, |_| ());
            let asked = ["u=5", "u=5,i", "u=7", "u=5", "u=0", "i", "u=1;x, i", "u=9", "a, u=2"];
            let urgencies = [5, 5, 7, 5, 0, 3, 1, 3, 2];
            let order = order(&world, &asked).await;
            assert_eq!(order[0], 0, "what was said whole before");
            let order: Vec<_> = order[1..].iter().map(|&number| urgencies[number]).collect();
            assert_eq!(order, [0, 1, 2, 3, 3, 5, 5, 7]);
        });
    }

    #[test]
    fn what_is_less_urgent_and_has_begun_has_no_part_of_the_rounds_that_follow() {
        run(async {
            let world = World::new(Config { response_buffer: 4 << 20, ..Config::default() });
            let body = vec![b'x'; 600 << 10];
            let asked = [("u=5", 1), ("u=0", 3)].map(|(priority, stream)| prior(stream, priority));
            let (script, _connection) = asking(&world, 2, asked.concat(), 0, &body).await;
            script.take(usize::MAX);
            world.run(false).await;
            let data: Vec<_> = frames(&script).into_iter().filter(|(kind, ..)| *kind == 0).collect();
            let through = data.iter().rposition(|frame| frame.1 == 3).unwrap();
            let of = |stream, until| -> usize {
                data[..until].iter().filter(|frame| frame.1 == stream).map(|frame| frame.2.len()).sum()
            };
            assert_eq!((of(1, data.len()), of(3, data.len())), (body.len(), body.len()));
            assert_eq!(of(1, through), 127 << 10, "what the connection had, and no more");
        });
    }

    #[test]
    fn who_lets_others_go_first_that_are_gone_holds_up_nobody() {
        run(async {
            let world = World::new(Config { response_buffer: 4 << 20, ..Config::default() });
            let wide =
                [frame(SETTINGS, 0, 0, &[0, 4, 0, 16, 0, 0]), frame(WINDOW_UPDATE, 0, 0, &[0, 63, 0, 0])];
            let first = [PREFACE, &wide.concat(), &prior(1, "u=0")].concat();
            let later = [prior(3, "u=5"), prior(5, "u=7")].concat();
            let then = [
                frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]),
                frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]),
                frame(WINDOW_UPDATE, 0, 5, &[0, 1, 0, 0]),
            ];
            let [first, later, then] = [first, later, then.concat()].map(Piece::Bytes);
            let script = Scripted::new([first, Piece::Pause, later, Piece::Pause, then]);
            let _connection = world.connect(&script);
            world.run(false).await;
            script.take(0);
            world.run(false).await;
            answer(&world, &vec![b'x'; 600 << 10]).await;
            let body = vec![b'x'; 20 << 10];
            let mut others = Vec::new();
            for _ in 0..2 {
                let mut claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                world.worker.head(&mut claimed, 200, body.len() as u64, 0);
                world.worker.tell(&claimed);
                world.run(false).await;
                others.push(claimed);
            }
            // The round that begins now is one for which the stream waited that is broken off. The window of the first of the others
            // is closed.
            script.take(usize::MAX);
            world.run(false).await;
            for claimed in &mut others {
                assert!(world.worker.write(claimed, &body) > 8 << 10);
                world.worker.tell(claimed);
                world.run(false).await;
            }
            let frames = frames(&script);
            let of = |stream| frames.iter().filter(|frame| frame.0 == 0 && frame.1 == stream).count();
            assert!(of(3) == 0 && of(5) > 0, "{frames:?}");
        });
    }
}
