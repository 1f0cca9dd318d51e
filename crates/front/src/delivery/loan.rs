//! A worker that sends a large body by itself.
//!
//! Through the ring each byte is copied once more than it need be, and the worker sleeps and is woken for every piece that
//! fits. So a worker that has the whole of a large body asks for the client's connection. It gets it behind the head,
//! writes without ever blocking, gives it back when all is out or the client takes no more, and says what it has sent. The rest
//! comes by the ring. Meanwhile nothing is read from the connection and nothing written to it here; one whose worker is
//! lost is closed, since its client was promised more than it has.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, ready};

use howdah_metrics::Failure;
use howdah_wire::RESPONSE_RETURNED;

use crate::delivery::framing::Framing;
use crate::delivery::stream::{Delivery, Stream, news};
use crate::outflow::Woken;
use crate::slots::Ring;
use crate::turns::Turn;

impl Delivery<'_> {
    /// Answers the worker that asks, and waits until it has given the connection back. False when nothing more may be
    /// written there.
    pub(super) async fn lend(&mut self, stream: &mut Stream, ring: Ring) -> bool {
        let fits = matches!(stream.framing, Framing::Length(1..)) && ring.available() == 0 && !self.lent;
        if !fits || !self.out.transport.is_plain() {
            self.hand_over(false);
            return true;
        }
        self.out.wait_for_nobody();
        self.timer.stop();
        self.exchange.watch();
        let Some(_turn) = self.wait_for_turn(stream, ring).await else { return false };
        if !self.hand_over(true) {
            self.exchange.answer();
            return true;
        }
        let mut counted = 0;
        let returned = loop {
            let look = ring.look();
            let direct = look.answer.direct.max(counted);
            if !self.count_direct(stream, direct - counted) {
                break false;
            }
            counted = direct;
            if look.answer.flags & RESPONSE_RETURNED != 0 {
                break true;
            }
            let Self { out, exchange, server, .. } = &mut *self;
            let has_left = || server.has_left(&out.transport);
            let news = poll_fn(|context| news(exchange, context, has_left));
            if look.done || news.await != Woken::Go {
                break false;
            }
        };
        if !returned {
            if ring.look().done {
                self.exchange.account.breaks.set(Some(Failure::Application));
            }
            // The worker may still have it.
            self.out.transport.shut_write();
        }
        self.exchange.answer();
        returned
    }

    /// None when nobody wants the response any more.
    async fn wait_for_turn(&self, stream: &Stream, ring: Ring) -> Option<Turn<'static>> {
        let mut turn = pin!(self.server.turns.take(ring, stream.left));
        poll_fn(|context| {
            loop {
                if let Poll::Ready(turn) = turn.as_mut().poll(context) {
                    return Poll::Ready(Some(turn));
                }
                match ready!(news(self.exchange, context, || self.server.has_left(&self.out.transport))) {
                    Woken::Go => {}
                    _ => return Poll::Ready(None),
                }
            }
        })
        .await
    }

    /// Lends the worker the connection, behind what is to be written before, or says no. True when it has it.
    fn hand_over(&mut self, may: bool) -> bool {
        let Some(job) = self.handling.job() else { return false };
        let ready = may && self.out.send_ahead();
        job.lend_for_body(self.out.transport.descriptor().ok().filter(|_| ready))
    }

    /// The worker says that it has sent so much more. False when that was more than there may be.
    fn count_direct(&mut self, stream: &mut Stream, sent: u64) -> bool {
        let most = sent.min(stream.left);
        stream.taken += most;
        stream.left -= most;
        self.out.count(most as usize);
        if most < sent {
            self.tell_wrong_length(stream.framing, stream.taken + (sent - most));
        }
        most == sent
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use howdah_wire::{LENGTH_UNKNOWN, RESPONSE_ASKS};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::config::Config;
    use crate::h1::serve;
    use crate::reports::Loss;
    use crate::sample::bench::Bench;
    use crate::sample::worker::Claimed;
    use crate::sample::world::{Terms, World, beside, pieces, run};
    use crate::transport::scripted::Scripted;
    use crate::transport::{Socket, Transport};

    const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

    /// A worker that has asked for the connection, and what it was told.
    struct Scene {
        world: World,
        claimed: Claimed,
        lent: Option<UnixStream>,
        channel: OwnedFd,
    }

    impl Scene {
        /// One that has been answered.
        async fn of(world: World, length: u64) -> Self {
            let mut scene = Self::asking(world, length).await;
            scene.hear();
            scene
        }

        async fn asking(world: World, length: u64) -> Self {
            let (ours, channel) = howdah_sys::socketpair_seqpacket().unwrap();
            world.pool().open_channel(0, ours);
            world.run(false).await;
            let mut claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            world.worker.head(&mut claimed, 200, length, RESPONSE_ASKS);
            world.worker.tell(&claimed);
            world.run(false).await;
            Self { world, claimed, lent: None, channel }
        }

        /// The worker takes the answer.
        fn hear(&mut self) {
            let mut packet = [0; 4096];
            let (length, descriptors) = howdah_sys::recv_with_fds(&self.channel, &mut packet).unwrap();
            let (answer, _) = howdah_sys::decode_message(&packet[..length]).unwrap();
            let Claimed { claim, .. } = &self.claimed;
            assert_eq!((answer.slot, answer.value), (claim.slot, claim.ticket));
            self.lent = descriptors.into_iter().next().map(UnixStream::from);
        }

        /// The worker sends that by itself, and gives the connection back.
        fn send(&mut self, bytes: &[u8]) {
            self.lent.take().unwrap().write_all(bytes).unwrap();
            self.world.worker.sent(&mut self.claimed, bytes.len() as u64);
            self.world.worker.flag(&mut self.claimed, RESPONSE_RETURNED);
        }

        async fn finish(self) -> World {
            self.world.worker.finish(self.claimed);
            self.world.run(false).await;
            self.world
        }
    }

    /// A client that has asked twice, its connection, and a worker that wants to answer by itself.
    async fn lent(length: u64) -> (UnixStream, JoinHandle<()>, Scene) {
        let (client, connection, world) = asked();
        (client, connection, Scene::of(world, length).await)
    }

    fn asked() -> (UnixStream, JoinHandle<()>, World) {
        asked_of(World::new(Config::default()))
    }

    fn asked_of(world: World) -> (UnixStream, JoinHandle<()>, World) {
        let (mut client, socket) = UnixStream::pair().unwrap();
        client.write_all([GET, GET].concat().as_bytes()).unwrap();
        client.set_nonblocking(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        let presence = world.presence();
        let transport = Transport::Plain(Socket::Fresh(socket.into()));
        let who = crate::sample::client("");
        let connection =
            tokio::task::spawn_local(serve(world.thread.entrance.server, transport, who, presence));
        (client, connection, world)
    }

    /// What has come to the client of responses' bodies.
    fn bodies(client: &mut UnixStream) -> Vec<String> {
        let mut all = Vec::new();
        let _ = client.read_to_end(&mut all);
        let all = String::from_utf8(all).unwrap();
        all.split("HTTP/1.1 ").skip(1).map(|one| one.split_once("\r\n\r\n").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn what_a_worker_does_not_send_by_itself_comes_by_the_ring_and_the_connection_goes_on() {
        for (direct, rest) in [("hello", ""), ("he", "llo"), ("", "hello")] {
            run(async {
                let (mut client, connection, mut scene) = lent(5).await;
                scene.send(direct.as_bytes());
                scene.world.worker.write(&mut scene.claimed, rest.as_bytes());
                let world = scene.finish().await;
                assert_eq!(world.totals().all_requests(), 1);
                world.run(true).await;
                assert_eq!(bodies(&mut client), ["hello", "/a"], "{direct}");
                assert!(!connection.is_finished() && world.totals().bytes_out > 5);
            });
        }
    }

    #[test]
    fn who_cannot_have_the_connection_hears_so_and_nothing_is_missing() {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(GET));
            world.connect(&script);
            let mut scene = Scene::of(world, 5).await;
            assert!(scene.lent.is_none(), "a transport that is no socket");
            scene.world.worker.flag(&mut scene.claimed, RESPONSE_RETURNED);
            scene.world.worker.write(&mut scene.claimed, b"hello");
            scene.finish().await;
            assert!(script.output().ends_with(b"\r\n\r\nhello"));
        });
        run(async {
            let (mut client, _connection, mut scene) = lent(LENGTH_UNKNOWN).await;
            assert!(scene.lent.is_none(), "a body without a length");
            scene.world.worker.flag(&mut scene.claimed, RESPONSE_RETURNED);
            scene.world.worker.write(&mut scene.claimed, b"hello");
            scene.finish().await;
            assert_eq!(bodies(&mut client)[0], "5\r\nhello\r\n0\r\n\r\n");
        });
    }

    #[test]
    fn an_application_beside_others_does_not_get_what_brings_their_requests_though_it_asks() {
        run(async {
            let world = World::with(Config::default(), Terms::default(), |setup| {
                let first = setup.pools[0].clone();
                setup.pools.push(beside(&first, "/b"));
            });
            let (mut client, _connection, world) = asked_of(world);
            let mut scene = Scene::of(world, 5).await;
            assert!(scene.lent.is_none());
            scene.world.worker.flag(&mut scene.claimed, RESPONSE_RETURNED);
            scene.world.worker.write(&mut scene.claimed, b"hello");
            scene.finish().await;
            assert_eq!(bodies(&mut client), ["hello"]);
        });
    }

    #[test]
    fn a_connection_that_does_not_come_back_as_it_should_is_closed() {
        let lost = |scene: &mut Scene| {
            scene.lent.as_mut().unwrap().write_all(b"he").unwrap();
            scene.world.pool().worker_gone(0, Loss::Killed);
        };
        let says_too_much = |scene: &mut Scene| {
            scene.world.worker.sent(&mut scene.claimed, 6);
            scene.world.worker.tell(&scene.claimed);
        };
        let breaks_off = |scene: &mut Scene| {
            scene.send(b"he");
            scene.world.worker.flag(&mut scene.claimed, howdah_wire::RESPONSE_BROKEN);
        };
        let keeps_it = |_: &mut Scene| {};
        type Act = fn(&mut Scene);
        let acts: [(&str, Act, bool); 4] = [
            ("lost", lost, false),
            ("says too much", says_too_much, false),
            ("breaks off", breaks_off, true),
            ("keeps it", keeps_it, true),
        ];
        for (what, act, ends) in acts {
            run(async {
                let (mut client, connection, mut scene) = lent(5).await;
                act(&mut scene);
                let kept = scene.lent.take();
                let world = if ends {
                    scene.finish().await
                } else {
                    scene.world.run(false).await;
                    scene.world
                };
                assert!(connection.is_finished(), "{what}");
                assert_eq!(world.totals().all_requests(), 1, "{what}: the next one was not taken");
                let failure = if what == "lost" { Failure::WorkerLost } else { Failure::Application };
                assert_eq!(world.totals().failures[failure], 1, "{what}");
                let more = kept.map(|mut kept| kept.write_all(b"more").is_ok());
                assert!(more.is_none_or(|more| !more), "{what}: nobody can write there any more");
                assert!(bodies(&mut client).concat().len() < 5, "{what}");
            });
        }
    }

    #[test]
    fn a_client_that_leaves_ends_it() {
        run(async {
            let (client, connection, scene) = lent(5).await;
            drop(client);
            scene.world.wait(std::time::Duration::from_millis(100));
            scene.world.run(false).await;
            assert!(connection.is_finished());
        });
    }

    #[test]
    fn what_ends_while_it_waits_for_its_turn_has_sent_nothing() {
        const LENGTH: u64 = 1 << 30;
        type Act = fn(&World, UnixStream) -> Option<UnixStream>;
        let leaves: Act = |world, client| {
            drop(client);
            world.wait(std::time::Duration::from_millis(100));
            None
        };
        let is_lost: Act = |world, client| {
            world.pool().worker_gone(0, Loss::Killed);
            Some(client)
        };
        let cases = [
            ("the client leaves", leaves, true, ""),
            ("the worker is lost", is_lost, false, "/a502 Bad Gateway\n"),
        ];
        for (what, act, ends, says) in cases {
            // It waits for some milliseconds alone, which can be over before anybody looks.
            let waited = (0..50).any(|_| {
                run(async {
                    let (mut client, connection, world) = asked();
                    client.write_all(GET.as_bytes()).unwrap();
                    world.run(false).await;
                    // Its response may wait for the next one.
                    assert!(world.worker.serve());
                    let (bench, turns) = (Bench::of(4, 4), &world.thread.entrance.server.turns);
                    let _turn = turns.take(bench.ring(&bench.queue("/other")), LENGTH).await;
                    let scene = Scene::asking(world, LENGTH).await;
                    let client = act(&scene.world, client);
                    scene.world.run(false).await;
                    assert_eq!(scene.world.totals().all_requests(), 2, "{what}");
                    let said = client.map(|mut client| bodies(&mut client)).unwrap_or_default();
                    if rustix::io::ioctl_fionread(&scene.channel).unwrap() > 0 {
                        return false;
                    }
                    assert_eq!((connection.is_finished(), said.concat().as_str()), (ends, says), "{what}");
                    true
                })
            });
            assert!(waited, "{what}: it never had to wait");
        }
    }

    #[test]
    fn who_has_waited_for_the_turn_gets_the_connection() {
        run(async {
            let (mut client, _connection, world) = asked();
            let (bench, turns) = (Bench::of(4, 4), &world.thread.entrance.server.turns);
            let turn = turns.take(bench.ring(&bench.queue("/other")), 1 << 30).await;
            let mut scene = Scene::asking(world, 8 << 20).await;
            drop(turn);
            scene.world.run(false).await;
            scene.hear();
            scene.send(b"all that fits");
            scene.world.worker.flag(&mut scene.claimed, howdah_wire::RESPONSE_BROKEN);
            scene.finish().await;
            assert_eq!(bodies(&mut client), ["all that fits"]);
        });
    }
}
