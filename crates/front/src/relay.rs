//! Joins a connection with the end of a socket pair that an application has in the place of the client's descriptor: where
//! there is none that could be lent, as behind TLS.
//!
//! Bytes go both ways, each way through one buffer: nothing is read from one side that the other has not taken. The end of
//! one way is carried on as that, and the other way goes on. It ends with both, when the client breaks, or when the
//! application has closed its end: then what it has said before still goes out, to a client that takes it as quickly as it
//! has to take a response. It knows of its client only that it reads and writes, so a stream of a protocol with many can be
//! one.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, ready};

use crate::others::come_back_behind;
use crate::outflow::{Holding, Pace};
use crate::timers::{Rest, Timer};
use crate::transport::{Peer, Socket, Transport};

/// Bytes that may be under way in a direction. A record of TLS must find room.
const ROOM: usize = 64 * 1024;
/// Buffers that one side may fill before others have their turn.
const TURN: usize = 4;

/// Something that reads and writes.
pub(crate) trait Line {
    /// Reads; 0 at the end of that side.
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Writes some of it.
    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Says that nothing more will be written, once all that was is out.
    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Bytes that were written and have not arrived.
    fn outstanding(&self) -> u64;
}

impl Line for Transport {
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Self::poll_read(self, context, buffer)
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
            ready!(self.poll_writable(context, &mut true))?;
        }
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_shut(self, context)
    }

    fn outstanding(&self) -> u64 {
        Self::outstanding(self)
    }
}

/// How it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both sides have said all.
    Both,
    /// The application has closed its end, and the client may still be sending.
    Application,
    /// The client's connection is broken.
    Client,
    /// The client takes too little of what is left for it.
    Late,
}

/// What waits for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    /// What the application has said.
    Theirs,
    /// Something of ours behind that.
    Ours,
}

/// What says how long a client may take over what is left for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound<'a> {
    pub(crate) timer: &'a Timer,
    pub(crate) holding: &'static Holding,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Our end of the pair.
    application: Transport,
    /// From the application to the client.
    down: Way,
    /// From the client to the application.
    up: Way,
    /// When the application closes its end, there may be more to say to the client for it.
    holds: bool,
    ended: Option<End>,
    /// How the client takes what is left, and when to look at that.
    pace: Pace,
    due: u64,
}

impl Relay {
    /// On `end` of a pair. `early` is what the client has sent already: the application reads it first.
    pub(crate) fn new(end: Socket, early: Vec<u8>) -> Self {
        let (down, up) = (Way::new(Vec::new()), Way::new(early));
        let pace = Pace::default();
        Self { application: Transport::Plain(end), down, up, holds: true, ended: None, pace, due: 0 }
    }

    /// Nobody but the application itself says anything for it any more.
    pub(crate) fn release(&mut self) {
        self.holds = false;
    }

    /// Carries what there is. At its end the application's end is closed.
    pub(crate) fn poll(
        &mut self,
        client: &mut impl Line,
        context: &mut Context<'_>,
        bound: Bound<'_>,
    ) -> Poll<End> {
        if self.ended.is_none() {
            let mut end = self.carry(client, context);
            let waits = if self.down.waits() { Waits::Theirs } else { Waits::Nothing };
            if end.is_pending() && !self.holds && !self.keeps_up(client, context, bound, waits) {
                end = Poll::Ready(End::Late);
            }
            self.end(ready!(end));
        }
        self.ended.map_or(Poll::Pending, Poll::Ready)
    }

    /// The application finds its connection closed.
    fn end(&mut self, end: End) {
        self.ended = Some(end);
        self.application = Transport::Plain(Socket::Gone);
    }

    /// False when the client takes too little of what waits for it. As long as the application is there that is nobody's
    /// business but theirs, unless we have something to say, too.
    fn keeps_up(
        &mut self,
        client: &impl Line,
        context: &Context<'_>,
        Bound { timer, holding }: Bound<'_>,
        waits: Waits,
    ) -> bool {
        let (now, terms) = (holding.clock.served(), holding.terms());
        let expired = timer.poll_expired(context);
        if waits == Waits::Nothing
            || expired && waits == Waits::Theirs && self.application.peer() != Peer::Gone
        {
            self.pace.rest();
        } else if expired {
            let left = client.outstanding();
            let arrived = self.down.all.cast_signed().saturating_sub_unsigned(left);
            if !self.pace.look(now, arrived, left == 0, terms) {
                return false;
            }
        }
        let due = if waits == Waits::Nothing { 0 } else { self.pace.wait(now, terms) };
        if std::mem::replace(&mut self.due, due) != due {
            timer.set(Rest::No, due);
        }
        true
    }

    fn carry(&mut self, client: &mut impl Line, context: &mut Context<'_>) -> Poll<End> {
        match self.up.poll(client, &mut self.application, context, |_| true) {
            Poll::Ready(Err(Broken::Source)) => return Poll::Ready(End::Client),
            // The application reads no more. What it has said is worth bringing all the same.
            Poll::Ready(Err(Broken::Target)) => self.up.state = State::Closed,
            _ => {}
        }
        let ends = |application: &Transport| !self.holds || application.peer() != Peer::Gone;
        loop {
            match self.down.poll(&mut self.application, client, context, ends) {
                Poll::Ready(Err(Broken::Target)) => return Poll::Ready(End::Client),
                // It has closed its end and left something unread. What it said before has been read.
                Poll::Ready(Err(Broken::Source)) => self.down.state = State::Ending,
                _ => return self.poll_end(context),
            }
        }
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<End> {
        match (self.down.state, self.up.state) {
            (State::Over, State::Over) => Poll::Ready(End::Both),
            (State::Over, State::Closed) => Poll::Ready(End::Application),
            (State::Over, _) => self.poll_gone(context).map(|()| End::Application),
            _ => Poll::Pending,
        }
    }

    /// Waits until the application, which has ended its side, reads no more either.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Nothing but its end is left of what epoll has said before.
        match self.application.poll_writable(context, &mut true) {
            Poll::Pending if self.application.peer() != Peer::Gone => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    /// Brings the client what the application has said so far, for something of ours is to follow.
    pub(crate) async fn drain(&mut self, client: &mut impl Line, bound: Bound<'_>) -> io::Result<()> {
        loop {
            poll_fn(|context| self.poll_empty(client, context, bound)).await?;
            if self.ended.is_some() || self.down.state != State::Open {
                return Ok(());
            }
            match self.application.try_read(self.down.room()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                read => self.down.has_read(read.unwrap_or(0)),
            }
        }
    }

    fn poll_empty(
        &mut self,
        client: &mut impl Line,
        context: &mut Context<'_>,
        bound: Bound<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ended == Some(End::Late) {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        let empty = self.down.poll_empty(client, context);
        let waits = if empty.is_pending() { Waits::Ours } else { Waits::Nothing };
        if !self.keeps_up(client, context, bound, waits) {
            self.end(End::Late);
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        empty
    }

    /// Bytes that have gone to the application, and to the client, since this was asked.
    pub(crate) fn carried(&mut self) -> (u64, usize) {
        let Self { up, down, .. } = self;
        (std::mem::take(&mut up.carried) as u64, std::mem::take(&mut down.carried))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The source has said all, which the target is to hear.
    Ending,
    /// It has.
    Over,
    /// The target takes no more.
    Closed,
}

/// Which side of a way has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Source,
    Target,
}

/// One direction.
#[derive(Debug)]
struct Way {
    /// Bytes that were read, of which those before `done` are written.
    bytes: Vec<u8>,
    done: usize,
    read: usize,
    carried: usize,
    /// Bytes written since the beginning.
    all: u64,
    state: State,
}

impl Way {
    fn new(early: Vec<u8>) -> Self {
        Self { done: 0, read: early.len(), bytes: early, carried: 0, all: 0, state: State::Open }
    }

    /// `ends` says whether the end of the source is to be carried now.
    fn poll<S: Line>(
        &mut self,
        source: &mut S,
        target: &mut impl Line,
        context: &mut Context<'_>,
        ends: impl Fn(&S) -> bool,
    ) -> Poll<Result<(), Broken>> {
        for _ in 0..TURN {
            if matches!(self.state, State::Over | State::Closed) {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_empty(target, context)).map_err(|_| Broken::Target)?;
            if self.state == State::Ending {
                if !ends(source) {
                    return Poll::Pending;
                }
                ready!(target.poll_shut(context)).map_err(|_| Broken::Target)?;
                self.state = State::Over;
            } else {
                let read = ready!(source.poll_read(context, self.room())).map_err(|_| Broken::Source)?;
                self.has_read(read);
            }
        }
        come_back_behind(context);
        Poll::Pending
    }

    /// Writes what was read.
    fn poll_empty(&mut self, target: &mut impl Line, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.done < self.read {
            let written = ready!(target.poll_write(context, &self.bytes[self.done..self.read]))?;
            self.done += written;
            self.carried += written;
            self.all += written as u64;
        }
        Poll::Ready(Ok(()))
    }

    /// The target has to take something yet: bytes, or that there will be no more.
    fn waits(&self) -> bool {
        self.done < self.read || self.state == State::Ending
    }

    /// Where the next bytes go, once all are written.
    fn room(&mut self) -> &mut [u8] {
        self.bytes.resize(ROOM, 0);
        &mut self.bytes
    }

    fn has_read(&mut self, length: usize) {
        (self.done, self.read) = (0, length);
        if length == 0 {
            self.state = State::Ending;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::pin::pin;
    use std::time::Duration;

    use super::*;
    use crate::address::Serves;
    use crate::config::Config;
    use crate::sample::{forever, holding, world::run};
    use crate::timers::Timers;
    use crate::transport::scripted::{Piece, Scripted};

    /// A relay and the application that has the other end.
    fn joined(early: &[u8]) -> (Relay, UnixStream) {
        let (ours, theirs) = howdah_sys::socketpair_stream().unwrap();
        let application = UnixStream::from(theirs);
        application.set_nonblocking(true).unwrap();
        let mut relay = Relay::new(Socket::Fresh(ours), early.to_vec());
        relay.release();
        (relay, application)
    }

    /// Carries for a while, and at least until `done` says that it is enough.
    async fn carry(relay: &mut Relay, client: &Scripted, mut done: impl FnMut() -> bool) -> Option<End> {
        let mut client = Transport::Scripted(client.clone());
        let holding = holding(Config::default());
        let timer = forever(Timers::new(holding.clock)).start(Serves::Requests);
        let bound = Bound { timer: &timer, holding };
        for _ in 0..2000 {
            let polled = poll_fn(|context| Poll::Ready(relay.poll(&mut client, context, bound)));
            if let Poll::Ready(end) = polled.await {
                return Some(end);
            }
            if done() {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("it does not come to that");
    }

    fn read(application: &UnixStream) -> Vec<u8> {
        let mut all = Vec::new();
        let _ = (&*application).read_to_end(&mut all);
        all
    }

    fn bytes(text: &str) -> Piece {
        Piece::Bytes(text.into())
    }

    #[test]
    fn bytes_go_both_ways_and_what_came_early_before_all_others() {
        run(async {
            let client = Scripted::new([bytes("later"), Piece::Pause, bytes("last"), Piece::Pause]);
            let (mut relay, mut application) = joined(b"early ");
            application.write_all(b"hello").unwrap();
            assert_eq!(carry(&mut relay, &client, || client.output() == b"hello").await, None);
            assert_eq!(read(&application), b"early later");
            client.go_on();
            let mut heard = Vec::new();
            let hears = || {
                heard.extend(read(&application));
                heard == b"last"
            };
            assert_eq!(carry(&mut relay, &client, hears).await, None);
            assert_eq!((relay.carried(), relay.carried()), ((15, 5), (0, 0)));
        });
    }

    #[test]
    fn who_says_much_at_once_comes_back_by_itself_when_others_have_had_their_turn() {
        run(async {
            let said = (0..TURN * 3).map(|_| bytes("more")).chain([Piece::End]);
            let mut client = Transport::Scripted(Scripted::new(said));
            let (mut relay, application) = joined(b"");
            application.shutdown(Shutdown::Write).unwrap();
            let holding = holding(Config::default());
            let timer = forever(Timers::new(holding.clock)).start(Serves::Requests);
            let bound = Bound { timer: &timer, holding };
            let carried = poll_fn(|context| relay.poll(&mut client, context, bound));
            let end = tokio::time::timeout(Duration::from_secs(20), carried).await;
            assert_eq!(end.ok(), Some(End::Both), "nothing else wakes it");
            assert_eq!(read(&application).len(), 4 * TURN * 3);
        });
    }

    #[test]
    fn the_end_of_one_side_is_told_to_the_other_which_may_go_on() {
        run(async {
            let client = Scripted::new([bytes("all"), Piece::End]);
            let (mut relay, mut application) = joined(b"");
            let mut heard = Vec::new();
            let ended = || (&application).read_to_end(&mut heard).is_ok();
            assert_eq!(carry(&mut relay, &client, ended).await, None);
            assert_eq!((heard.as_slice(), client.was_shut()), (&b"all"[..], false));
            application.write_all(b"answer").unwrap();
            application.shutdown(Shutdown::Write).unwrap();
            assert_eq!(carry(&mut relay, &client, || false).await, Some(End::Both));
            assert_eq!((client.output().as_slice(), client.was_shut()), (&b"answer"[..], true));
        });
    }

    #[test]
    fn the_application_may_end_its_side_first_and_leave_later() {
        run(async {
            let client = Scripted::new([Piece::Pause, bytes("more"), Piece::Pause]);
            let (mut relay, application) = joined(b"");
            application.shutdown(Shutdown::Write).unwrap();
            assert_eq!(carry(&mut relay, &client, || client.was_shut()).await, None);
            client.go_on();
            assert_eq!(carry(&mut relay, &client, || read(&application) == b"more").await, None);
            drop(application);
            assert_eq!(carry(&mut relay, &client, || false).await, Some(End::Application));
        });
    }

    #[test]
    fn what_an_application_says_before_it_leaves_arrives() {
        for (unread, input) in [(false, vec![Piece::Pause]), (true, vec![bytes("unread"), Piece::Pause])] {
            run(async {
                let client = Scripted::new(input);
                let (mut relay, mut application) = joined(b"");
                let mut look = 0;
                let passed = || {
                    look += 1;
                    look > 5
                };
                assert_eq!(carry(&mut relay, &client, passed).await, None);
                application.write_all(b"the last words").unwrap();
                drop(application);
                assert_eq!(carry(&mut relay, &client, || false).await, Some(End::Application), "{unread}");
                assert_eq!((client.output().as_slice(), client.was_shut()), (&b"the last words"[..], true));
            });
        }
    }

    #[test]
    fn that_the_application_has_closed_its_end_is_kept_back_while_others_speak_for_it() {
        run(async {
            let client = Scripted::new([Piece::Pause]);
            let (mut relay, mut application) = joined(b"");
            relay.holds = true;
            application.write_all(b"words").unwrap();
            drop(application);
            let mut looks = 0;
            let passed = || {
                looks += 1;
                looks > 20
            };
            assert_eq!(carry(&mut relay, &client, passed).await, None);
            assert_eq!((client.output().as_slice(), client.was_shut()), (&b"words"[..], false));
            relay.release();
            assert_eq!(carry(&mut relay, &client, || false).await, Some(End::Application));
            assert!(client.was_shut());
        });
    }

    #[test]
    fn a_client_that_breaks_ends_it_and_the_application_hears_of_it() {
        run(async {
            let client = Scripted::new([Piece::Pause]);
            let (mut relay, mut application) = joined(b"");
            client.become_of(Peer::Gone);
            application.write_all(b"to nobody").unwrap();
            assert_eq!(carry(&mut relay, &client, || false).await, Some(End::Client));
            assert_eq!(application.read(&mut [0; 9]).unwrap(), 0);
            assert_eq!(carry(&mut relay, &client, || false).await, Some(End::Client), "and stays so");
        });
    }

    #[test]
    fn no_more_is_read_than_the_other_side_takes() {
        run(async {
            let client = Scripted::new([Piece::Bytes(vec![b'x'; 8 << 20])]);
            client.take(0);
            let (mut relay, mut application) = joined(b"");
            let (mut said, mut looks) = (0, 0);
            let talks = || {
                said += application.write(&[b'y'; 4096]).unwrap_or(0);
                looks += 1;
                looks > 1000
            };
            assert_eq!(carry(&mut relay, &client, talks).await, None);
            let (up, down) = relay.carried();
            assert!(up > 0 && up < 1 << 20 && said > 0 && said < 1 << 20, "{up} {said}");
            assert_eq!((down, relay.up.bytes.len(), relay.down.bytes.len()), (0, ROOM, ROOM));
            client.take(usize::MAX);
            assert_eq!(carry(&mut relay, &client, || client.output().len() == said).await, None);
        });
    }

    /// How it ends within two minutes, with a client that takes so many bytes in each second, and when, in seconds.
    async fn end(relay: &mut Relay, client: &Scripted, takes: usize, drains: bool) -> (Option<End>, u64) {
        let holding = holding(Config { write_timeout: Duration::from_secs(60), ..Config::default() });
        let timers = forever(Timers::new(holding.clock));
        let timer = timers.start(Serves::Requests);
        let bound = Bound { timer: &timer, holding };
        let mut line = Transport::Scripted(client.clone());
        for second in 0..120 {
            let over = poll_fn(|context| {
                Poll::Ready(match drains {
                    true => pin!(relay.drain(&mut line, bound)).poll(context).is_ready(),
                    false => relay.poll(&mut line, context, bound).is_ready(),
                })
            });
            if over.await {
                return (relay.ended, second);
            }
            holding.clock.advance(Duration::from_secs(1));
            timers.sweep();
            client.take(takes);
            tokio::task::yield_now().await;
        }
        (None, 120)
    }

    #[test]
    fn what_an_application_has_left_has_to_be_taken_as_a_response_has() {
        let rate = Config::default().min_send_rate;
        assert_eq!(rate, 256, "what the client has to take in a second, after a minute");
        // Whether the application is still there, whether we have something to say behind it, what the client takes in a second,
        // how it ends, and when.
        for (what, there, drains, takes, expected, seconds) in [
            ("it takes nothing", false, false, 0, Some(End::Late), 60..=62),
            ("it takes little", false, false, 8, Some(End::Late), 61..=65),
            ("it takes enough", false, false, 4096, Some(End::Application), 24..=26),
            ("it takes nothing, and the application may wait for that", true, false, 0, None, 120..=120),
            ("it takes nothing, and something of ours is to follow", true, true, 0, Some(End::Late), 60..=62),
            ("it takes enough, and something of ours is to follow", true, true, 4096, None, 24..=26),
        ] {
            run(async {
                let client = Scripted::new([Piece::Pause]);
                client.take(0);
                let (mut relay, mut application) = joined(b"");
                application.write_all(&[b'x'; 100_000]).unwrap();
                let application = there.then_some(application);
                let (end, after) = end(&mut relay, &client, takes, drains).await;
                assert_eq!(end, expected, "{what}");
                assert!(seconds.contains(&after), "{what}: after {after} s");
                drop(application);
            });
        }
    }

    #[test]
    fn what_was_said_so_far_can_be_brought_alone() {
        run(async {
            let client = Scripted::new([bytes("unread")]);
            let (mut relay, mut application) = joined(b"");
            application.write_all(&[b'x'; 100_000]).unwrap();
            let holding = holding(Config::default());
            let timer = forever(Timers::new(holding.clock)).start(Serves::Requests);
            let bound = Bound { timer: &timer, holding };
            relay.drain(&mut Transport::Scripted(client.clone()), bound).await.unwrap();
            assert_eq!((client.output().len(), relay.carried()), (100_000, (0, 100_000)));
        });
    }
}
