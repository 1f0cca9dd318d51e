//! The gate of TLS listeners: a connection comes to `h1` or `h2` when its handshake is over.
//!
//! A handshake costs hundreds of microseconds, most of them for a signature. So one is made in a turn of the event loop,
//! and whoever has a request meanwhile waits for one signature and not for those of all who have just come. As many as
//! `--tls-handshakes` may be under way; more clients wait in the kernel, and those at the gate that say nothing have to
//! go soon.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use howdah_metrics::Handshake;
use howdah_tls::{ACME_TLS, Acceptor};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::address::Serves;
use crate::idle::{GREETING, HANDSHAKE};
use crate::linger::linger;
use crate::others::let_others;
use crate::request::Client;
use crate::server::{Presence, Server};
use crate::timers::{Rest, Timer};
use crate::transport::{Socket, Tls, Transport, Works};
use crate::{h1, h2};

/// So long a client may be waited for that has said nothing yet, while another one waits for its place.
const SILENCE: Duration = Duration::from_nanos(GREETING);
/// And one that has, since it was last answered.
const ON_ITS_WAY: Duration = Duration::from_nanos(HANDSHAKE);
/// For a browser that speaks HTTP where TLS is expected, behind the Date.
const PLAIN: &[u8] = b"\r\nContent-Type: text/plain\r\nContent-Length: 52\r\nConnection: close\r\n\r\n\
    400 Bad Request: TLS is spoken here, write https://\n";

/// See the module.
#[derive(Debug)]
pub(crate) struct Gate {
    acceptor: Arc<Acceptor>,
    works: Works,
    /// Handshakes that may be under way.
    most: usize,
    under_way: Cell<usize>,
    /// Whose turn it is to compute.
    turn: Semaphore,
    /// A handshake is over.
    freed: Notify,
    /// Somebody waits for a place. One of those hears it that are waited for, the one that was first.
    wanted: Notify,
}

impl Gate {
    pub(crate) fn new(acceptor: Arc<Acceptor>, most: usize) -> Self {
        let (works, under_way, turn) = (Works::default(), Cell::new(0), Semaphore::new(1));
        Self { acceptor, works, most, under_way, turn, freed: Notify::new(), wanted: Notify::new() }
    }

    /// Whether new clients have to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.under_way.get() >= self.most
    }

    /// Somebody waits for a place, which one of those makes that say nothing: until one may be free, for so long at most. Whoever leaves
    /// makes room for one, so no more have to go than others come.
    pub(crate) async fn wait(&self, most: Duration) {
        self.wanted.notify_one();
        let _ = tokio::time::timeout(most, self.freed.notified()).await;
    }

    /// One of those that may be at the gate, as long as the value lives. It is taken when a client is let in: several are before the
    /// first of them has had a turn.
    pub(crate) fn place(&self) -> Place<'_> {
        self.under_way.set(self.under_way.get() + 1);
        Place(self)
    }

    /// Serves a connection, once the client has passed, and gives its place to another then.
    pub(crate) async fn pass(
        &'static self,
        server: &'static Server,
        socket: Socket,
        mut client: Client,
        presence: Presence,
        place: Place<'static>,
    ) {
        let Ok(session) = self.acceptor.session() else { return };
        let mut tls = Tls::new(socket, session, &self.works);
        let outcome = self.shake(server, &mut tls, client.origin.serves).await;
        drop(place);
        let records = server.records;
        match outcome {
            Ok(()) if tls.is_resumed() => records.handshake(Handshake::Resumed),
            Ok(()) => records.handshake(Handshake::Full),
            Err(error) => {
                tracing::debug!("no TLS with {}: {error}", client.address);
                records.handshake(Handshake::Failed);
                if error.kind() == ErrorKind::InvalidData {
                    Self::turn_away(server, tls, client.origin.serves).await;
                }
                return;
            }
        }
        let facts = tls.facts();
        if facts.alpn == ACME_TLS {
            // It has seen what it came for.
            return tls.end();
        }
        let is_http2 = server.config.http2 && facts.alpn == h2::ALPN;
        (client.secure, client.tls) = (true, Some(Box::new(facts)));
        let transport = Transport::Tls(Box::new(tls));
        if !is_http2 {
            return h1::serve(server, transport, client, presence).await;
        }
        let serves = client.origin.serves;
        let timer = server.timers.start(serves);
        let arrival = h2::Arrival { server, transport, client, timer, presence, early: Vec::new() };
        // No part of the future that each connection has.
        Box::pin(h2::serve(arrival)).await;
    }

    /// Closes gently: the client has been told why, and a reset would overtake that where it has gone on already, as those
    /// of TLS 1.3 do.
    async fn turn_away(server: &'static Server, tls: Tls, serves: Serves) {
        let timer = server.timers.start(serves);
        linger(server, &mut Transport::Plain(tls.into_socket()), &timer).await;
    }

    /// The handshake, as long as there is time for it: while the thread drains, as long as for a head that has begun. Where there is no
    /// room, a client may have to go that is waited for.
    async fn shake(&self, server: &'static Server, tls: &mut Tls, serves: Serves) -> io::Result<()> {
        let Server { timers, doors, clock, config, .. } = server;
        let timer = timers.start(serves);
        timer.set(Rest::Greets, clock.after(config.tls_handshake_timeout));
        let mut handshake = pin!(self.handshake(server, tls, &timer));
        let unwanted = || timer.is_unwanted() && timer.rest() != Rest::Begun;
        poll_fn(|context| match handshake.as_mut().poll(context) {
            Poll::Pending if timer.poll_expired(context) || unwanted() || doors.is_cut_off() => {
                Poll::Ready(Err(ErrorKind::TimedOut.into()))
            }
            outcome => outcome,
        })
        .await
    }

    async fn handshake(&self, server: &Server, tls: &mut Tls, timer: &Timer) -> io::Result<()> {
        let (mut since, mut patience) = (Instant::now(), SILENCE);
        while tls.is_handshaking() {
            let first = self.hear(tls, since + patience).await?;
            patience = ON_ITS_WAY;
            // It is for us to go on.
            timer.stir();
            if first.is_ascii_uppercase() {
                tls.say_plainly(
                    &[b"HTTP/1.1 400 Bad Request\r\nDate: ", &server.clock.date()[..], PLAIN].concat(),
                );
                return Err(io::Error::new(ErrorKind::InvalidData, "it speaks HTTP"));
            }
            let turn = self.turn.acquire().await;
            let shaken = tls.shake();
            // Those who are ready have their turn before the next one computes.
            let_others().await;
            drop(turn);
            if shaken.is_ok() && !tls.is_handshaking() && tls.may_wait() {
                tls.acknowledge();
                return Ok(());
            }
            let answers = tls.has_to_say();
            // An alert, if need be.
            poll_fn(|context| tls.poll_flush(context)).await?;
            shaken?;
            timer.shakes(answers);
            if answers {
                since = Instant::now();
            }
        }
        Ok(())
    }

    /// Waits for more of the client's part, which does not have to go before then: a byte now and then is nothing. It is for the client to
    /// say something; who waits for a computation of ours, as all do where many come at once, does not have to go.
    async fn hear(&self, tls: &mut Tls, patient: Instant) -> io::Result<u8> {
        let first = self.unless_wanted(patient, poll_fn(|context| tls.poll_greeting(context))).await;
        first.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))
    }

    /// The header of the PROXY protocol before a handshake, whose place the client has already.
    pub(crate) async fn hear_before(&self, header: impl Future<Output = bool>) -> bool {
        self.unless_wanted(Instant::now() + SILENCE, header).await.unwrap_or(false)
    }

    /// What is waited for; nothing when, from then on, somebody else waits for the place.
    async fn unless_wanted<T>(&self, patient: Instant, awaited: impl Future<Output = T>) -> Option<T> {
        let wanted = async {
            tokio::time::sleep_until(patient).await;
            loop {
                self.wanted.notified().await;
                // That may have been said to nobody, and a place be free since.
                if self.is_full() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            done = awaited => Some(done),
            () = wanted => None,
        }
    }
}

/// See [`Gate::place`].
pub(crate) struct Place<'a>(&'a Gate);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
        self.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use tokio::task::JoinHandle;

    use super::*;
    use crate::config::Config;
    use crate::sample::world::{World, run};
    use crate::sample::{acceptor, client, forever};

    fn gate() -> &'static Gate {
        forever(Gate::new(Arc::new(acceptor().0), 8))
    }

    /// A client that has said so much, and the task of its connection.
    fn come(world: &World, gate: &'static Gate, said: &[u8]) -> (UnixStream, JoinHandle<()>) {
        let (mut end, socket) = UnixStream::pair().unwrap();
        end.write_all(said).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (server, presence) = (world.thread.entrance.server, world.presence());
        let (socket, client) = (Socket::Fresh(socket.into()), client("127.0.0.1"));
        (end, tokio::task::spawn_local(gate.pass(server, socket, client, presence, gate.place())))
    }

    #[test]
    fn a_handshake_that_has_begun_has_its_time_also_where_the_thread_drains() {
        // For how many seconds a drain lets those be that rest, how many pass, and whether the handshake is given up.
        for (idle, passes, over) in [
            (None, 9, false),
            (None, 11, true),
            (Some(0), 1, false),
            (Some(0), 3, true),
            (Some(5), 4, false),
            (Some(5), 6, true),
        ] {
            run(async {
                let world = World::new(Config::default());
                let (gate, server) = (gate(), world.thread.entrance.server);
                let (_slow, passing) = come(&world, gate, b"\x16\x03\x01");
                world.run(false).await;
                if let Some(idle) = idle {
                    let drain = server.doors.drain(Duration::from_secs(idle));
                    world.thread.timers.hurry(drain);
                }
                world.wait(Duration::from_secs(passes));
                world.run(false).await;
                assert_eq!(passing.is_finished(), over, "{idle:?} {passes}");
            });
        }
    }

    #[test]
    fn where_there_is_no_room_one_has_to_go_that_is_waited_for_and_later_one_that_has_said_something() {
        run(async {
            let world = World::new(Config::default());
            let (gate, room) = (gate(), world.thread.entrance.room);
            let mut ends = Vec::new();
            let mut come = |said: &[u8]| {
                let (end, passing) = come(&world, gate, said);
                ends.push(end);
                passing
            };
            let all = [come(b"\x16\x03\x01"), come(b""), come(b"\x16\x03\x01"), come(b"")];
            // Others wait, for whom nobody has to make room yet.
            let crowd = world.capacity.crowd();
            tokio::time::sleep(SILENCE + SILENCE / 10).await;
            world.run(false).await;
            assert!(!all.iter().any(|passing| passing.is_finished()));
            drop(crowd);
            // Milliseconds that pass, whether somebody goes who makes room, and who has gone by then.
            for (passes, goes, gone) in [
                (900, false, [false; 4]),
                (200, true, [false, true, false, false]),
                (0, true, [false, true, false, true]),
                (100, false, [false, true, false, true]),
                (700, false, [false, true, false, true]),
                (200, true, [true, true, false, true]),
            ] {
                world.wait(Duration::from_millis(passes));
                assert_eq!(room.dismiss(Serves::Requests), goes, "after {passes} more");
                world.run(false).await;
                let finished = all.each_ref().map(|passing| passing.is_finished());
                assert_eq!(finished, gone, "after {passes} more");
            }
            // A byte of its greeting does not prolong it.
            ends[2].write_all(b"\x02").unwrap();
            world.run(false).await;
            assert!(room.dismiss(Serves::Requests));
            world.run(false).await;
            assert!(all[2].is_finished());
        });
    }

    #[test]
    fn who_is_waited_for_by_us_alone_does_not_have_to_go() {
        run(async {
            let world = World::new(Config::default());
            let (gate, room) = (gate(), world.thread.entrance.room);
            let (_end, passing) = come(&world, gate, b"\x16\x03\x01");
            let busy = gate.turn.acquire().await.unwrap();
            world.run(false).await;
            world.wait(Duration::from_secs(5));
            assert!(!room.dismiss(Serves::Requests) && !passing.is_finished());
            drop(busy);
            world.run(false).await;
            world.wait(Duration::from_secs(1));
            assert!(room.dismiss(Serves::Requests), "now it is for the client to go on");
        });
    }

    #[test]
    fn who_waits_for_a_place_has_one_of_those_go_that_say_nothing_and_no_more() {
        run(async {
            let world = World::new(Config::default());
            let gate = forever(Gate::new(Arc::new(acceptor().0), 3));
            let mut ends = Vec::new();
            let mut come = |said: &[u8]| {
                let (end, passing) = come(&world, gate, said);
                ends.push(end);
                passing
            };
            let (first, second) = (come(b""), come(b""));
            world.run(false).await;
            // What it has said it could not be answered yet, since others have their turn.
            let busy = gate.turn.acquire().await.unwrap();
            let heard = come(b"\x16\x03\x01");
            let gone = || [first.is_finished(), second.is_finished(), heard.is_finished()];
            let press = async || {
                gate.wait(Duration::from_millis(1)).await;
                world.run(false).await;
            };
            press().await;
            assert_eq!(gone(), [false; 3], "each has a moment");
            tokio::time::sleep(SILENCE + SILENCE / 10).await;
            world.run(false).await;
            assert_eq!(gone(), [true, false, false], "one waits, and one goes");
            press().await;
            assert_eq!(gone(), [true, false, false], "there is a place");
            let others = [come(b""), come(b"")];
            world.run(false).await;
            press().await;
            assert_eq!(gone(), [true, true, false], "the next");
            press().await;
            press().await;
            assert_eq!(
                (gone(), others.iter().any(|other| other.is_finished())),
                ([true, true, false], false)
            );
            drop(busy);
        });
    }
}
