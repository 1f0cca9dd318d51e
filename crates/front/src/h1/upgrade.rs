//! A connection that its application takes (`psgix.io`). It gets the client's descriptor; where that does not carry the
//! client's bytes as they are, it gets one end of a socket pair, and `relay` joins the other with the connection.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use howdah_metrics::ConnectionState;

use crate::app::Job;
use crate::capacity::Permit;
use crate::fault::Fault;
use crate::h1::state::{Conn, Next};
use crate::relay::{Bound, End, Relay};
use crate::response::Event;
use crate::route::Handling;
use crate::transport::Socket;

/// A relay, and the place of its descriptor.
pub(super) type Carrier = (Relay, Permit);

impl Conn {
    /// Lets the application have the connection, which counts as its own by now, with all that we have read behind its request.
    /// We read nothing while a worker has a request, so the rest of what the client has sent is still in the kernel; from now on
    /// it is not ours.
    /// Gives what there is to carry where the descriptor stays here.
    pub(super) fn lend(&mut self) -> Option<Carrier> {
        let pair = (!self.out.transport.is_plain()).then(|| self.server.pair()).transpose();
        let Handling::App(job) = &mut self.handling else { return None };
        let Ok(pair) = pair else {
            job.lack_descriptor();
            return None;
        };
        let (fd, early) = match &pair {
            Some((_, theirs, _)) => (Ok(theirs.as_fd()), &[][..]),
            None => (self.out.transport.descriptor(), self.input.as_slice()),
        };
        let Ok(fd) = fd else {
            job.keep_connection();
            return None;
        };
        if !job.lend(fd, early) {
            return None;
        }
        let input = std::mem::take(&mut self.input);
        self.exchange.account.worker = job.worker();
        self.lent = true;
        self.enter(ConnectionState::Detached);
        // Of the wait before this: the client is waited for anew, if at all.
        self.timer.stop();
        pair.map(|(ours, _, permit)| (Relay::new(Socket::Fresh(ours), input), permit))
    }

    /// Relays until both sides have said all, or one has left, and the application is through with its request. Either may
    /// be first: a process that the application has started can have the connection for longer.
    pub(super) async fn carry(&mut self, (mut relay, _permit): Carrier) -> Next {
        match self.carry_request(&mut relay).await {
            Through::Answered(Next::Close) => Next::Linger,
            Through::Answered(next) => next,
            Through::Failed(next) => {
                self.carry_on(&mut relay).await;
                next
            }
            Through::Detached => match self.carry_on(&mut relay).await {
                End::Both | End::Client => Next::Close,
                End::Application => Next::Linger,
                End::Late => Next::Cut,
            },
        }
    }

    /// While the application has the request.
    async fn carry_request(&mut self, relay: &mut Relay) -> Through {
        loop {
            let event = poll_fn(|context| {
                let _ = self.poll_relay(relay, context);
                self.handling.poll(&self.exchange, context)
            });
            match event.await {
                Event::Detached => return Through::Detached,
                Event::Fault(fault) => return Through::Failed(self.give_up(fault).await),
                Event::Redirect(_) => return Through::Failed(self.give_up(Fault::BadResponse).await),
                Event::Response(response) => {
                    let next = match self.drain(relay).await {
                        true => self.respond(response, true).await,
                        false => Next::Cut,
                    };
                    return Through::Answered(next);
                }
                Event::Interim { status, lines } => {
                    if self.drain(relay).await {
                        if !self.send_interim(status, &lines).await {
                            return Through::Answered(Next::Cut);
                        }
                    } else if let Some(job) = self.handling.job() {
                        job.interim_sent(false);
                    }
                }
                Event::Takeover => self.handling.job().into_iter().for_each(Job::keep_connection),
                Event::Look => {}
            }
        }
    }

    /// When it is through with that, and its slot can be another's.
    async fn carry_on(&mut self, relay: &mut Relay) -> End {
        self.part();
        relay.release();
        poll_fn(|context| self.poll_relay(relay, context)).await
    }

    /// What the application has said goes before what we say for it. False when the client does not take it.
    async fn drain(&mut self, relay: &mut Relay) -> bool {
        let bound = Bound { timer: &self.timer, holding: self.server.holding };
        let drained = relay.drain(&mut self.out.transport, bound).await;
        self.count(relay);
        let is_late = drained.is_err_and(|error| error.kind() == ErrorKind::TimedOut);
        if is_late {
            self.out.cut_off();
        }
        !is_late
    }

    fn poll_relay(&mut self, relay: &mut Relay, context: &mut Context<'_>) -> Poll<End> {
        let bound = Bound { timer: &self.timer, holding: self.server.holding };
        let end = relay.poll(&mut self.out.transport, context, bound);
        self.count(relay);
        if end == Poll::Ready(End::Late) {
            self.out.cut_off();
        }
        end
    }

    fn count(&mut self, relay: &mut Relay) {
        let (up, down) = relay.carried();
        self.exchange.account.received += up;
        if down > 0 {
            self.out.count(down);
        }
    }
}

/// How the application has ended its request.
enum Through {
    /// Nothing more is to be said but what it says itself.
    Detached,
    /// By a response all the same.
    Answered(Next),
    Failed(Next),
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use howdah_metrics::Failure;
    use howdah_wire::{
        ANSWER_NO_DESCRIPTOR, ANSWER_TOO_MANY, Answer, RESPONSE_DETACHED, RESPONSE_FAILED,
        RESPONSE_HEAD_READY,
    };

    use super::*;
    use crate::capacity::Capacity;
    use crate::config::Config;
    use crate::exchange::Mail;
    use crate::reports::Loss;
    use crate::sample::worker::Claimed;
    use crate::sample::world::{Terms, World, pieces, run};
    use crate::transport::scripted::Scripted;

    const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

    /// A client whose application has asked for the connection.
    struct Taken {
        world: World,
        script: Scripted,
        connection: tokio::task::JoinHandle<()>,
        claimed: Option<Claimed>,
        /// What the application was told.
        word: u64,
        /// What it has got.
        end: Option<UnixStream>,
    }

    impl Taken {
        async fn new(world: World, input: &str) -> Self {
            let (ours, workers) = howdah_sys::socketpair_seqpacket().unwrap();
            world.pool().open_channel(0, ours);
            let script = Scripted::new(pieces(input));
            let connection = world.connect(&script);
            world.run(false).await;
            let claimed = world.worker.claim();
            world.worker.begin(claimed.as_ref().unwrap());
            assert!(world.thread.desks.post(0, Mail::Takeover));
            world.run(false).await;
            let mut packet = [0; 4096];
            let (length, descriptors) = howdah_sys::recv_with_fds(&workers, &mut packet).unwrap();
            let word = howdah_sys::decode_message(&packet[..length]).unwrap().0.value;
            let end = descriptors.into_iter().next().map(UnixStream::from);
            Self { world, script, connection, claimed, word, end }
        }

        /// Is through with the request, and has not answered it.
        fn finish(&mut self) {
            let mut claimed = self.claimed.take().unwrap();
            self.world.worker.flag(&mut claimed, RESPONSE_DETACHED);
            self.world.worker.finish(claimed);
        }

        async fn is_over(&self) -> bool {
            for _ in 0..500 {
                self.world.run(false).await;
                if self.connection.is_finished() || self.script.was_shut() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            false
        }
    }

    #[test]
    fn an_application_that_cannot_have_the_descriptor_has_a_relay_with_what_came_behind_the_request() {
        run(async {
            let mut taken = Taken::new(World::new(Config::default()), &format!("{GET}early")).await;
            let mut end = taken.end.take().unwrap();
            let mut early = [0; 5];
            end.read_exact(&mut early).unwrap();
            assert_eq!(&early, b"early");
            assert_eq!(taken.world.totals().connections[ConnectionState::Detached], 1);
            assert_eq!((taken.word, taken.world.pool().setup.upgrades.open()), (0, 1));
            taken.finish();
            taken.world.run(false).await;
            assert_eq!(taken.world.pool().setup.upgrades.open(), 0, "the worker is free");
            assert_eq!(taken.world.pool().dispatch.borrow().in_flight, 0, "the slot is free");
            end.write_all(b"beyond the request").unwrap();
            drop(end);
            assert!(taken.is_over().await);
            assert_eq!(taken.script.output(), b"beyond the request");
        });
    }

    #[test]
    fn what_a_worker_has_said_before_it_died_arrives_and_nothing_of_ours_behind_it() {
        run(async {
            let mut taken = Taken::new(World::new(Config::default()), GET).await;
            taken.end.take().unwrap().write_all(b"mine").unwrap();
            taken.world.pool().worker_gone(0, Loss::Killed);
            assert!(taken.is_over().await);
            assert_eq!(taken.script.output(), b"mine");
            let failures = taken.world.totals().failures;
            assert_eq!((failures[Failure::WorkerLost], failures[Failure::ClientGone]), (1, 0));
        });
    }

    #[test]
    fn who_was_waited_for_before_the_connection_was_taken_has_all_its_time_at_the_end() {
        run(async {
            let world = World::new(Config::default());
            let (ours, workers) = howdah_sys::socketpair_seqpacket().unwrap();
            world.pool().open_channel(0, ours);
            let script = Scripted::new(pieces(GET));
            script.take(5);
            let connection = world.connect(&script);
            world.run(false).await;
            let mut claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            // An interim response that is not taken at once.
            for mail in [Mail::Interim { status: 103, lines: b"Link: x\r\n".to_vec() }, Mail::Takeover] {
                assert!(world.thread.desks.post(0, mail));
                world.run(false).await;
            }
            script.take(usize::MAX);
            world.run(false).await;
            let mut packet = [0; 4096];
            let mut receive = || howdah_sys::recv_with_fds(&workers, &mut packet).unwrap().1.pop();
            assert!(receive().is_none(), "the answer to the first");
            let end = UnixStream::from(receive().unwrap());
            world.wait(Duration::from_secs(100));
            script.take(0);
            (&end).write_all(b"mine").unwrap();
            drop(end);
            world.worker.flag(&mut claimed, RESPONSE_DETACHED);
            world.worker.finish(claimed);
            for _ in 0..20 {
                world.run(false).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(!connection.is_finished() && !script.was_reset());
            script.take(usize::MAX);
            world.run(false).await;
            assert!(script.output().ends_with(b"\r\n\r\nmine"));
        });
    }

    #[test]
    fn a_response_to_a_request_whose_connection_was_taken_comes_last() {
        run(async {
            let mut taken = Taken::new(World::new(Config::default()), GET).await;
            taken.end.as_mut().unwrap().write_all(b"first ").unwrap();
            let mut claimed = taken.claimed.take().unwrap();
            taken.world.worker.head(&mut claimed, 200, 2, 0);
            taken.world.worker.write(&mut claimed, b"ok");
            taken.world.worker.finish(claimed);
            assert!(taken.is_over().await);
            let said = String::from_utf8(taken.script.output()).unwrap();
            assert!(
                said.starts_with("first HTTP/1.1 200 OK\r\n") && said.ends_with("close\r\n\r\nok"),
                "{said}"
            );
        });
    }

    #[test]
    fn one_more_than_may_be_is_told_so_and_its_client_is_asked_to_come_again() {
        run(async {
            let terms = Terms { max_upgrades: 0, ..Terms::default() };
            let taken = Taken::new(World::with(Config::default(), terms, |_| ()), GET).await;
            assert_eq!((taken.word, taken.end.is_none()), (ANSWER_TOO_MANY, true));
            let (world, mut claimed) = (taken.world, taken.claimed.unwrap());
            let flags = RESPONSE_HEAD_READY | RESPONSE_FAILED;
            world.worker.say(&mut claimed, Answer { status: 503, flags, ..Answer::default() });
            world.worker.finish(claimed);
            world.run(false).await;
            let said = String::from_utf8(taken.script.output()).unwrap();
            assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("\r\nRetry-After: 1\r\n"), "{said}");
            assert!(!taken.connection.is_finished());
            assert_eq!(world.totals().failures[Failure::UpgradeLimit], 1);
        });
    }

    #[test]
    fn without_a_descriptor_for_it_the_connection_stays_what_it_was() {
        run(async {
            let none = Box::leak(Box::new(Capacity::of_descriptors(1, 1)));
            let world = World::with(Config::default(), Default::default(), |setup| setup.capacity = none);
            let taken = Taken::new(world, GET).await;
            assert_eq!((taken.word, taken.end.is_none()), (ANSWER_NO_DESCRIPTOR, true));
            let (world, mut claimed) = (taken.world, taken.claimed.unwrap());
            assert_eq!(world.pool().setup.upgrades.open(), 0, "it is none that the application has");
            let flags = RESPONSE_HEAD_READY | RESPONSE_FAILED;
            world.worker.say(&mut claimed, Answer { status: 503, flags, ..Answer::default() });
            world.worker.finish(claimed);
            world.run(false).await;
            assert!(taken.script.output().starts_with(b"HTTP/1.1 503 ") && !taken.connection.is_finished());
            assert_eq!(world.totals().failures[Failure::Resources], 1);
        });
    }
}
