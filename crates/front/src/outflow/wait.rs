//! Waits for a client that has not taken all that there is for it, and finds out what follows from how long that lasts.
//!
//! A client that takes everything at once never comes here. One that has to be waited for has a moment in which its
//! response stays where it is, because most are only busy, and longer when bytes arrive at it fast. After that it is
//! *behind*: what the worker makes for it is taken out of the worker's way (`relief`). `pace` says how slow it may be.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::outflow::holding::Trouble;
use crate::outflow::pace::Terms;
use crate::outflow::queue::Outflow;
use crate::outflow::response_spool::Progress;
use crate::repeated::Repeated;
use crate::timers::{Rest, Timer};
use crate::transport::{Peer, Transport};

/// While files refuse what a worker has, they are asked again after so long.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// There is something to do.
    Go,
    /// The client has been waited for so long that it is behind.
    Behind,
    /// It is too slow.
    Stalled,
    /// The worker is lost, or the client.
    Lost,
    /// It is time to look at the client's pace.
    Due,
}

impl Outflow {
    /// Sends all that is held. False when the client is gone or too slow.
    pub(crate) async fn flush(&mut self, timer: &Timer) -> bool {
        loop {
            if self.send_held().is_err() {
                return false;
            }
            if !self.holds() {
                return true;
            }
            self.relieve(false);
            // Few clients are waited for, and every connection has room in memory for what is not in a box.
            match Box::pin(self.wait(timer, false, |_, _| Poll::Pending)).await {
                Woken::Go | Woken::Behind => {}
                Woken::Stalled | Woken::Lost | Woken::Due => return false,
            }
        }
    }

    /// Waits until the client takes more, or the spool has got further, or `news` says that there is something else.
    /// `starving` says that the worker has something for which there is no room.
    pub(crate) async fn wait(
        &mut self,
        timer: &Timer,
        starving: bool,
        mut news: impl FnMut(&Transport, &Context<'_>) -> Poll<Woken>,
    ) -> Woken {
        let (terms, clock) = (self.holding.terms(), self.holding.clock);
        let mut due = self.reader.pace.wait(clock.served(), terms);
        let mut since = clock.now();
        loop {
            timer.set(Rest::No, due);
            let patience = self.patience(starving);
            let client = poll_fn(|context| {
                if let Poll::Ready(woken) = news(&self.transport, context) {
                    return Poll::Ready(woken);
                }
                self.poll_client(timer, context)
            });
            let woken = match patience {
                Some(patience) => tokio::time::timeout(patience, client).await.unwrap_or(Woken::Behind),
                None => client.await,
            };
            let now = clock.now();
            self.reader.waited += now.saturating_sub(std::mem::replace(&mut since, now));
            match woken {
                Woken::Due => {
                    if let Some(end) = self.look(terms) {
                        return end;
                    }
                    due = self.reader.pace.wait(clock.served(), terms);
                }
                Woken::Behind if !self.falls_behind(now) => {}
                woken => return woken,
            }
        }
    }

    /// The client keeps up, and waits for the worker.
    pub(crate) fn wait_for_nobody(&mut self) {
        self.reader.pace.rest();
    }

    /// Whether the client, which waits for the worker as far as can be seen, is gone without a word: of what it was sent nothing arrives.
    /// It is cut off then. A stream's is its connection's to find out.
    pub(crate) fn is_deaf(&mut self) -> bool {
        let (terms, now) = (self.holding.terms(), self.holding.clock.served());
        if matches!(self.transport, Transport::Stream(_)) || !self.pulse.is_due(now, terms) {
            return false;
        }
        let (arrived, all) = self.arrived();
        let deaf = !self.pulse.look(now, arrived, all, terms);
        if deaf {
            self.cut_off();
        }
        deaf
    }

    /// After how long to look whether the client is behind, or to ask again where there was no room.
    fn patience(&self, starving: bool) -> Option<Duration> {
        match self.reader.behind {
            false => Some(self.reader.patience(self.holding.clock.now())),
            true => starving.then_some(ASK_AGAIN),
        }
    }

    fn falls_behind(&mut self, now: u64) -> bool {
        if !self.reader.behind {
            let (arrived, _) = self.arrived();
            self.reader.behind = self.reader.falls_behind(now, arrived);
        }
        self.reader.behind
    }

    /// How many bytes of the response have arrived at the client, and whether none are on their way. The first bytes
    /// may be behind those of an earlier response.
    fn arrived(&self) -> (i64, bool) {
        let on_its_way = self.transport.outstanding();
        (self.sent.bytes.cast_signed().saturating_sub_unsigned(on_its_way), on_its_way == 0)
    }

    fn poll_client(&mut self, timer: &Timer, context: &mut Context<'_>) -> Poll<Woken> {
        if timer.poll_expired(context) {
            return Poll::Ready(Woken::Due);
        }
        if let Some(spool) = &mut self.spool
            && let Poll::Ready(progress) = spool.poll(context)
        {
            return Poll::Ready(self.spool_got_on(progress));
        }
        if !self.reader.blocked {
            return Poll::Pending;
        }
        self.transport.poll_writable(context, &mut self.reader.stale).map(|ready| {
            self.reader.blocked = false;
            if ready.is_ok() { Woken::Go } else { Woken::Lost }
        })
    }

    fn spool_got_on(&mut self, progress: Progress) -> Woken {
        match progress {
            Progress::Turn | Progress::Read => {}
            Progress::Written => self.release_memory(),
            Progress::Refused(mut bytes, from, error) => {
                bytes.extend_from_slice(&self.output[self.done..]);
                (self.output, self.done) = (bytes, from);
                self.holding.rest_files(&Trouble::Fails(error));
            }
            Progress::Sent(taken) => self.sent_by_another(taken),
            Progress::Broken(error) => {
                self.tell_unsent(&error);
                return Woken::Lost;
            }
        }
        if self.spool.as_ref().is_some_and(|spool| spool.is_through()) {
            self.spool = None;
        }
        Woken::Go
    }

    /// What lies in a file cannot be sent. Where the client has left, that is why.
    fn tell_unsent(&mut self, error: &io::Error) {
        static TOLD: Repeated = Repeated::new();
        if self.transport.peer() == Peer::Gone {
            return;
        }
        self.sent.lacks = true;
        if let Some(again) = TOLD.pass() {
            tracing::error!(
                "cannot send a response that its client takes slowly from its file, and broke it off: {error}; see --spool-dir{again}"
            );
        }
    }

    /// Looks at a client that is waited for. One that is too slow is cut off, and the kernel forgets at once what it has
    /// for it. One that has left is noticed by its next write, but a disk that hangs can keep that from coming.
    fn look(&mut self, terms: Terms) -> Option<Woken> {
        let clock = self.holding.clock;
        if self.spool.as_ref().is_some_and(|spool| spool.is_late(clock.now())) {
            self.holding.rest_files(&Trouble::Hangs);
        }
        if self.transport.peer() == Peer::Gone {
            return Some(Woken::Lost);
        }
        let (arrived, all) = self.arrived();
        let arrived = arrived.saturating_add_unsigned(self.transport.share());
        if self.reader.pace.look(clock.served(), arrived, all, terms) {
            return None;
        }
        self.cut_off();
        Some(Woken::Stalled)
    }

    /// The client reads too slowly.
    pub(crate) fn cut_off(&mut self) {
        self.sent.too_slow = true;
        self.transport.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Serves;
    use crate::config::Config;
    use crate::sample;
    use crate::sample::world::run;
    use crate::timers::Timers;
    use crate::transport::scripted::Scripted;

    /// What is on its way to a client, and the clock.
    struct Scene {
        out: Outflow,
        script: Scripted,
        timers: &'static Timers,
        timer: Timer,
    }

    fn scene(config: Config) -> Scene {
        let (holding, script) = (sample::holding(config), Scripted::new([]));
        let timers = sample::forever(Timers::new(holding.clock));
        let out = Outflow::new(Transport::Scripted(script.clone()), holding);
        Scene { out, script, timers, timer: timers.start(Serves::Requests) }
    }

    impl Scene {
        /// Lets time pass in small steps while the client is waited for, until that ends.
        async fn wait(&mut self, seconds: u64) -> Option<Woken> {
            let Self { out, timer, timers, .. } = self;
            let (clock, timers) = (out.holding.clock, *timers);
            let time = async {
                for _ in 0..10 * seconds {
                    clock.advance(Duration::from_millis(100));
                    timers.sweep();
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                woken = out.wait(timer, false, |_, _| Poll::Pending) => Some(woken),
                () = time => None,
            }
        }
    }

    #[test]
    fn a_client_that_is_too_slow_is_cut_off_and_one_that_leaves_is_noticed() {
        // Timeout and rate, what becomes of the client, and how the wait ends within so many seconds.
        let cases = [
            (10, 0, Peer::There, 9, None),
            (10, 0, Peer::There, 11, Some(Woken::Stalled)),
            (60, 1, Peer::There, 59, None),
            (60, 1, Peer::There, 61, Some(Woken::Stalled)),
            (60, 0, Peer::Gone, 6, Some(Woken::Lost)),
            (0, 0, Peer::There, 100, None),
        ];
        for (timeout, min_send_rate, peer, seconds, end) in cases {
            run(async {
                let write_timeout = Duration::from_secs(timeout);
                let mut scene = scene(Config { write_timeout, min_send_rate, ..Config::default() });
                scene.script.take(0);
                scene.out.write_all(&[b"held"]).unwrap();
                scene.out.send_held().unwrap();
                assert!(scene.out.is_held_up() && !scene.out.is_behind());
                scene.out.reader.behind = true;
                scene.script.become_of(peer);
                assert_eq!(scene.wait(seconds).await, end, "{timeout} {min_send_rate} {peer:?}");
                assert_eq!(scene.out.sent().too_slow, end == Some(Woken::Stalled));
                assert_eq!(scene.script.was_reset(), end == Some(Woken::Stalled));
            });
        }
    }

    #[test]
    fn a_client_is_not_too_slow_where_the_thread_is_held_up() {
        run(async {
            let config =
                Config { write_timeout: Duration::from_secs(10), min_send_rate: 256, ..Config::default() };
            let mut scene = scene(config);
            scene.script.take(0);
            scene.out.write_all(&[b"held"]).unwrap();
            scene.out.send_held().unwrap();
            scene.out.reader.behind = true;
            assert_eq!(scene.wait(5).await, None);
            scene.out.holding.clock.hold_up(Duration::from_secs(3600));
            assert_eq!(scene.wait(4).await, None, "it has the rest of its time");
            assert_eq!(scene.wait(2).await, Some(Woken::Stalled));
        });
    }

    #[test]
    fn a_client_that_takes_more_is_served_and_has_kept_up_when_it_has_all() {
        run(async {
            let mut scene = scene(Config::default());
            scene.script.take(0);
            scene.out.put(|out| out.extend_from_slice(b"held"));
            scene.out.send_held().unwrap();
            assert!(scene.out.hold(4));
            scene.out.reader.behind = true;
            assert_eq!(scene.wait(1).await, None);
            assert!(scene.out.is_stuck() && !scene.out.is_clear());
            scene.script.take(usize::MAX);
            assert_eq!(scene.wait(1).await, Some(Woken::Go));
            scene.out.send_held().unwrap();
            assert!(scene.out.is_clear() && !scene.out.is_behind() && !scene.out.is_held_up());
            assert_eq!(scene.out.held, 0, "and the memory is another's");
        });
    }

    #[test]
    fn news_goes_before_the_client() {
        run(async {
            let mut scene = scene(Config::default());
            scene.script.take(0);
            scene.out.write_all(&[b"held"]).unwrap();
            let woken = scene.out.wait(&scene.timer, false, |_, _| Poll::Ready(Woken::Lost)).await;
            assert_eq!(woken, Woken::Lost);
        });
    }

    #[test]
    fn a_flush_ends_when_the_client_has_all_or_is_gone() {
        run(async {
            for peer in [Peer::There, Peer::Gone] {
                let mut scene = scene(Config::default());
                scene.out.put(|out| out.extend_from_slice(b"held"));
                scene.script.become_of(peer);
                assert_eq!(scene.out.flush(&scene.timer).await, peer == Peer::There, "{peer:?}");
                assert_eq!(scene.out.holds(), peer == Peer::Gone, "{peer:?}");
            }
        });
    }
}
