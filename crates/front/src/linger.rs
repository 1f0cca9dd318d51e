//! The end of a connection whose client may still be sending: reads and discards for a while, so that the kernel does
//! not reset the connection before the client has read our answer (RFC 9112 9.6). And of one that is to be reset, or may
//! be: waits until the client has what was said.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::others::let_others;
use crate::outflow::Pace;
use crate::server::Server;
use crate::timers::{Rest, Timer};
use crate::transport::{Peer, Transport};

/// How long to wait for a client that neither takes nor sends anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for one that does, once it has its response.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);
/// As much may be on its way to a client that has had all of its responses: words of the end, and no more. One that has lost its
/// network takes not even these, and nobody is to wait long for it.
pub(crate) const GOODBYE: u64 = 1024;
/// Bytes to discard before other connections have their turn.
const TURN: usize = 1 << 20;
/// How often to look whether the client has more of the answer.
const LOOK: Duration = Duration::from_millis(100);

/// Closes gently; sooner when somebody needs the room and the client has all of the answer.
pub(crate) async fn linger(server: &Server, transport: &mut Transport, timer: &Timer) {
    let mut end = Ending::new(server, transport, timer);
    let (mut discarded, mut is_shut) = (0, false);
    end.goes_on();
    while let Some(length) = poll_fn(|context| {
        // A client of TLS that takes its time takes our end last.
        is_shut = is_shut || end.transport.poll_shut(context).is_ready();
        end.poll_discard(context)
    })
    .await
    {
        discarded += length;
        if discarded >= TURN {
            discarded = 0;
            let_others().await;
        }
    }
}

/// Waits until the client has all that was said, for as long as it would be lingered for: a reset overtakes what is on its way.
pub(crate) async fn see_off(server: &Server, transport: &mut Transport, timer: &Timer) {
    let mut end = Ending::new(server, transport, timer);
    while end.goes_on() && end.untaken > 0 && end.transport.peer() != Peer::Gone {
        if !poll_fn(|context| end.poll_due(context)).await {
            return;
        }
    }
}

/// A connection whose client has been told, or is being told, everything. Times are nanoseconds that the thread has served.
struct Ending<'a> {
    server: &'a Server,
    transport: &'a mut Transport,
    timer: &'a Timer,
    /// When the client last took or sent something.
    moved: u64,
    /// When it has had its time in any case.
    last: u64,
    /// Bytes of the answer that it had not taken at the last look.
    untaken: u64,
    /// How it takes them, where these are more than a goodbye.
    pace: Option<Pace>,
}

impl<'a> Ending<'a> {
    fn new(server: &'a Server, transport: &'a mut Transport, timer: &'a Timer) -> Self {
        let (moved, last) = (server.clock.served(), server.clock.after(LONGEST));
        Self { server, transport, timer, moved, last, untaken: u64::MAX, pace: None }
    }

    /// A thread that drains waits no longer for one that is slow than for one that does nothing.
    fn moves(&mut self) {
        if !self.server.doors.is_draining() {
            self.moved = self.server.clock.served();
        }
    }

    /// Looks at the client, and says whether it has more time. The connection rests once nothing more is on its way: that
    /// would be lost.
    fn goes_on(&mut self) -> bool {
        let untaken = self.transport.outstanding();
        let before = std::mem::replace(&mut self.untaken, untaken);
        if before == u64::MAX && untaken > GOODBYE {
            self.pace = Some(Pace::default());
        }
        if untaken > 0 && self.pace.is_some() {
            return self.keeps_pace();
        }
        if untaken < before {
            self.moves();
        }
        let end = self.last.min(self.moved + PATIENCE.as_nanos() as u64);
        if untaken > 0 {
            self.timer.set(Rest::No, end.min(self.server.clock.after(LOOK)));
        } else {
            self.timer.set(Rest::Lingers, end);
        }
        self.server.clock.served() < end
    }

    /// Whether a client that has a response to take does so as quickly as it has to of any other. Its time begins when it is through.
    fn keeps_pace(&mut self) -> bool {
        let Server { clock, holding, .. } = self.server;
        let (now, terms) = (clock.served(), holding.terms());
        (self.moved, self.last) = (now, clock.after(LONGEST));
        self.timer.set(Rest::No, clock.after(LOOK));
        let Some(pace) = &mut self.pace else { return false };
        pace.wait(now, terms);
        pace.look(now, -self.untaken.cast_signed(), false, terms)
    }

    /// Resolves when it is time to look at the client again; to false when that would be in vain.
    fn poll_due(&self, context: &Context<'_>) -> Poll<bool> {
        if self.is_unwanted() {
            return Poll::Ready(false);
        }
        if self.timer.poll_expired(context) { Poll::Ready(true) } else { Poll::Pending }
    }

    /// The connection has to go at once.
    fn is_unwanted(&self) -> bool {
        self.server.doors.is_cut_off() || self.timer.is_unwanted()
    }

    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<Option<usize>> {
        if self.is_unwanted() || self.timer.poll_expired(context) && !self.goes_on() {
            return Poll::Ready(None);
        }
        let input = &mut self.server.scratch.borrow_mut().input;
        let read = ready!(self.transport.poll_read(context, input));
        self.moves();
        Poll::Ready(read.ok().filter(|&length| length > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Serves;
    use crate::config::Config;
    use crate::sample::world::{World, run};
    use crate::transport::scripted::{Piece, Scripted};

    /// Whether a connection is over whose client has sent nonsense and then this.
    async fn is_over(rest: Vec<Piece>, later: Duration) -> bool {
        let world = World::new(Config::default());
        let bad = Piece::Bytes(b"nonsense\r\n\r\n".to_vec());
        let script = Scripted::new([bad, Piece::Pause].into_iter().chain(rest));
        let connection = world.connect(&script);
        world.run(true).await;
        assert!(
            script.output().starts_with(b"HTTP/1.1 400 ") && script.was_shut(),
            "it is told, and our side ends"
        );
        assert!(!connection.is_finished(), "it may still be sending");
        script.go_on();
        for _ in 0..10 {
            world.run(true).await;
        }
        world.wait(later);
        world.run(true).await;
        connection.is_finished()
    }

    #[test]
    fn a_client_is_read_until_its_end_or_has_been_silent_for_two_seconds() {
        let much = |bytes: usize| vec![Piece::Bytes(vec![b'x'; bytes])];
        for (what, rest, later, over) in [
            ("it ends", vec![Piece::End], 0, true),
            ("it sends on and ends", vec![Piece::Bytes(vec![b'x'; 1 << 20]), Piece::End], 0, true),
            ("it does nothing", vec![], 1999, false),
            ("it does nothing for long", vec![], 2001, true),
            ("it sends much", much(20 * TURN), 0, false),
            ("it sends much and ends", [much(20 * TURN), vec![Piece::End]].concat(), 0, true),
            ("it sends much and then nothing", much(20 * TURN), 2001, true),
        ] {
            assert_eq!(run(is_over(rest, Duration::from_millis(later))), over, "{what}");
        }
    }

    /// So many bytes are on their way, much of a response or the last words, of which a client takes so many in each second.
    #[derive(Clone, Copy)]
    struct Way {
        held: u64,
        takes: u64,
    }

    const fn response(takes: u64) -> Way {
        Way { held: 50_000, takes }
    }

    const fn goodbye(takes: u64) -> Way {
        Way { held: 50, takes }
    }

    /// So many seconds pass, in each of which the client takes its part, and sends what its script has next.
    async fn pass(world: &World, script: &Scripted, seconds: u64, way: Way) {
        for second in 1..=seconds {
            script.hold(way.held.saturating_sub(second * way.takes));
            script.go_on();
            for _ in 0..10 {
                world.wait(Duration::from_millis(100));
                world.run(true).await;
            }
        }
    }

    /// Whether it is over after so many seconds of a client that takes and sends so much in each of them.
    async fn is_over_after(seconds: u64, way: Way, sends: usize, drains: bool) -> bool {
        let world = World::new(Config::default());
        let nonsense = Piece::Bytes(b"nonsense\r\n\r\n".to_vec());
        let times = if sends > 0 { seconds } else { 0 };
        let sent = (0..times).flat_map(|_| [Piece::Pause, Piece::Bytes(vec![b'x'; sends])]);
        let script = Scripted::new([nonsense].into_iter().chain(sent).chain([Piece::Pause]));
        script.hold(way.held);
        let connection = world.connect(&script);
        world.run(true).await;
        if drains {
            world.thread.entrance.doors.drain(Duration::ZERO);
        }
        pass(&world, &script, seconds, way).await;
        connection.is_finished()
    }

    #[test]
    fn a_client_that_takes_or_sends_something_has_more_time() {
        for (what, seconds, way, sends, drains, over) in [
            ("it does nothing", 1, goodbye(0), 0, false, false),
            ("it does nothing for long", 3, goodbye(0), 0, false, true),
            ("it takes", 10, goodbye(1), 0, false, false),
            ("it has taken all", 6, goodbye(10), 0, false, false),
            ("it has taken all long since", 8, goodbye(10), 0, false, true),
            ("it sends", 10, goodbye(0), 1000, false, false),
            ("it sends for very long", 31, goodbye(50), 1000, false, true),
            ("it sends much", 5, goodbye(0), 5 << 20, false, false),
            ("it takes and sends while the thread drains", 3, goodbye(1), 1000, true, true),
            ("it takes nothing of a response for a while", 59, response(0), 0, false, false),
            ("it takes nothing of a response for long", 63, response(0), 0, false, true),
            ("it takes a response for very long", 100, response(400), 0, false, false),
            ("it takes less than it must", 150, response(100), 0, false, true),
            ("it takes a response while the thread drains", 100, response(400), 1000, true, false),
            ("it has had its response", 51, response(1000), 0, false, false),
            ("it has had its response long since", 53, response(1000), 0, false, true),
            ("it has had its response and sends", 70, response(1000), 1000, false, false),
            ("it has had its response and sends for very long", 81, response(1000), 1000, false, true),
        ] {
            assert_eq!(run(is_over_after(seconds, way, sends, drains)), over, "{what}");
        }
    }

    /// The end of a connection whose client has sent nonsense, and takes so many bytes of the answer.
    async fn at_the_end(takes: usize) -> (World, Scripted, tokio::task::JoinHandle<()>) {
        let world = World::new(Config::default());
        let script = Scripted::new([Piece::Bytes(b"nonsense\r\n\r\n".to_vec()), Piece::Pause]);
        script.take(takes);
        let connection = world.connect(&script);
        world.run(true).await;
        assert!(script.was_shut() && !connection.is_finished());
        world.wait(Duration::from_millis(500));
        world.run(true).await;
        (world, script, connection)
    }

    /// Whether a connection is over whose response breaks off, after its client has been like this for so many seconds, each
    /// of which leaves so much less on its way to it.
    async fn is_over_after_a_break(version: &str, peer: Peer, seconds: u64, way: Way) -> bool {
        let world = World::new(Config::default());
        let request = format!("GET /broken HTTP/{version}\r\nHost: h\r\n\r\n");
        let script = Scripted::new([Piece::Bytes(request.into_bytes()), Piece::End]);
        script.hold(way.held);
        let connection = world.connect(&script);
        world.run(true).await;
        assert_eq!(script.was_reset(), version == "1.0");
        assert!(!script.was_shut(), "an ordinary end would say that this was all");
        assert_eq!(world.totals().all_requests(), 1, "the request is over");
        script.become_of(peer);
        pass(&world, &script, seconds, way).await;
        connection.is_finished()
    }

    #[test]
    fn a_client_has_what_there_is_of_a_response_that_breaks_off_before_the_connection_is_reset() {
        for (what, peer, seconds, way, over) in [
            ("it has taken nothing", Peer::Silent, 0, goodbye(0), false),
            ("it takes", Peer::Silent, 10, goodbye(1), false),
            ("it has taken all", Peer::Silent, 2, goodbye(50), true),
            ("it does nothing for long", Peer::There, 3, goodbye(0), true),
            ("it takes nothing of much for long", Peer::There, 63, response(0), true),
            ("it takes for very long", Peer::There, 100, response(400), false),
            ("it has taken all at last", Peer::There, 51, response(1000), true),
            ("it is gone", Peer::Gone, 1, goodbye(1), true),
        ] {
            for version in ["1.0", "1.1"] {
                assert_eq!(
                    run(is_over_after_a_break(version, peer, seconds, way)),
                    over,
                    "{version}: {what}"
                );
            }
        }
    }

    #[test]
    fn it_makes_room_once_the_client_has_all_of_the_answer() {
        run(async {
            let (world, script, connection) = at_the_end(usize::MAX).await;
            assert!(world.thread.entrance.room.dismiss(Serves::Requests));
            world.run(true).await;
            assert!(connection.is_finished());
            let answer = script.output().len();

            let (world, script, connection) = at_the_end(answer).await;
            assert!(
                !world.thread.entrance.room.dismiss(Serves::Requests),
                "the end of the answer is on its way"
            );
            script.take(1);
            for _ in 0..2 {
                world.wait(Duration::from_millis(150));
                world.run(true).await;
            }
            assert!(world.thread.entrance.room.dismiss(Serves::Requests), "it has arrived");
            world.run(true).await;
            assert!(connection.is_finished());

            let (world, _script, connection) = at_the_end(answer).await;
            world.wait(Duration::from_secs(2));
            world.run(true).await;
            assert!(connection.is_finished(), "it has its time and no more");
        });
    }
}
