//! Whose turn it is to send a large body.
//!
//! Workers that send large bodies by themselves (`delivery/loan`) at the same time take turns on the same processors, and
//! fill the buffers of many sockets where one would do: what one has written is no longer in the caches when its client
//! reads it. So there are fewer of them at a time than processors. The others wait in the order in which they came, as long
//! as those who send are quick; where clients are the slower side, nobody is held up by them. Each front thread sees to its own.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::slots::Ring;

/// Bodies from here on take turns: shorter ones mostly fit into the buffers of their socket.
const LARGE: u64 = 6 << 20;
/// Who waits looks so often whether those who send are quick,
const LOOK: Duration = Duration::from_millis(5);
/// which they are when all of them have sent so much since, half a gigabyte in a second,
const QUICK: u64 = 2_500_000;
/// and does so as many times.
const LOOKS: u32 = 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Turns {
    places: Semaphore,
    /// Who sends, with a place or without.
    senders: RefCell<Vec<Option<Ring>>>,
    /// What those have sent who are through.
    sent: Cell<u64>,
}

/// Somebody may send, until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    number: usize,
    _place: Option<SemaphorePermit<'a>>,
}

impl Turns {
    /// For a machine of so many processors, of which one is the front's.
    pub(crate) fn new(cpus: u64) -> Self {
        let places = usize::try_from(cpus).unwrap_or(usize::MAX).clamp(2, Semaphore::MAX_PERMITS) - 1;
        Self { places: Semaphore::new(places), senders: RefCell::default(), sent: Cell::new(0) }
    }

    /// The turn of the response in that ring, whose body has that length; waits for it 100 ms at most.
    pub(crate) async fn take(&self, ring: Ring, length: u64) -> Turn<'_> {
        let place = if length < LARGE { None } else { self.place().await };
        let mut senders = self.senders.borrow_mut();
        let number = senders.iter().position(Option::is_none).unwrap_or(senders.len());
        if number == senders.len() {
            senders.push(None);
        }
        senders[number] = Some(ring);
        Turn { turns: self, number, _place: place }
    }

    /// None when it is no use to wait for one.
    async fn place(&self) -> Option<SemaphorePermit<'_>> {
        let mut place = std::pin::pin!(self.places.acquire());
        let mut seen = self.all_sent();
        for _ in 0..LOOKS {
            if let Ok(place) = tokio::time::timeout(LOOK, place.as_mut()).await {
                return place.ok();
            }
            let now = self.all_sent();
            if now.saturating_sub(seen) < QUICK {
                break;
            }
            seen = now;
        }
        None
    }

    fn all_sent(&self) -> u64 {
        let senders = self.senders.borrow();
        let under_way = senders.iter().flatten().map(|ring| ring.look().answer.direct);
        under_way.fold(self.sent.get(), u64::wrapping_add)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(ring) = self.turns.senders.borrow_mut()[self.number].take() else { return };
        let sent = ring.look().answer.direct;
        self.turns.sent.set(self.turns.sent.get().wrapping_add(sent));
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};
    use std::time::Instant;

    use howdah_wire::RESPONSE_ASKS;

    use super::*;
    use crate::sample::bench::{Bench, Waiting};
    use crate::sample::worker::{Claimed, Worker};
    use crate::sample::world::run;

    /// A response whose worker has asked for the connection.
    struct Sender {
        ring: Ring,
        worker: Worker,
        claimed: Claimed,
        _waiting: Waiting,
    }

    fn senders<const COUNT: usize>() -> [Sender; COUNT] {
        let bench = Bench::of(16, 16);
        std::array::from_fn(|number| {
            let worker = bench.worker(number as u16);
            let waiting = bench.queue("/a");
            let mut claimed = worker.claim().unwrap();
            worker.begin(&claimed);
            worker.head(&mut claimed, 200, 1 << 40, RESPONSE_ASKS);
            Sender { ring: bench.ring(&waiting), worker, claimed, _waiting: waiting }
        })
    }

    /// Asks once whether it is through.
    fn now<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn there_are_fewer_senders_than_processors_and_who_has_waited_longest_is_next() {
        run(async {
            for (cpus, places) in [(0, 1), (1, 1), (2, 1), (3, 2), (8, 7)] {
                let turns = Turns::new(cpus);
                let all = senders::<8>();
                let mut takes: Vec<_> = all.iter().map(|one| Box::pin(turns.take(one.ring, LARGE))).collect();
                let mut had: Vec<_> = takes.iter_mut().map(|take| now(take.as_mut())).collect();
                let count = had.iter().filter(|turn| turn.is_some()).count();
                assert_eq!(count, places, "{cpus} processors");
                assert!(had[..places].iter().all(Option::is_some), "{cpus} processors");
                had[0] = None;
                let mut is_next = |number: &usize| now(takes[*number].as_mut()).is_some();
                let next: Vec<_> = (places..8).rev().filter(&mut is_next).collect();
                assert_eq!(next, [places], "{cpus} processors");
            }
        });
    }

    #[test]
    fn what_is_short_takes_no_place_and_waits_for_none() {
        run(async {
            let turns = Turns::new(2);
            let [a, b, c, d] = senders();
            let short = now(std::pin::pin!(turns.take(a.ring, LARGE - 1)));
            let large = now(std::pin::pin!(turns.take(b.ring, LARGE)));
            let other = now(std::pin::pin!(turns.take(c.ring, LARGE - 1)));
            assert!(short.is_some() && large.is_some() && other.is_some());
            assert!(now(std::pin::pin!(turns.take(d.ring, LARGE))).is_none(), "there is one place");
        });
    }

    #[test]
    fn who_does_not_wait_any_longer_is_in_nobody_s_way() {
        run(async {
            let turns = Turns::new(2);
            let [a, b, c] = senders();
            let first = turns.take(a.ring, LARGE).await;
            let mut third = Box::pin(turns.take(c.ring, LARGE));
            {
                let mut second = Box::pin(turns.take(b.ring, LARGE));
                assert!(now(second.as_mut()).is_none() && now(third.as_mut()).is_none());
                drop(first);
            }
            assert!(now(third.as_mut()).is_some(), "the place that the second would have had");
            assert!(turns.senders.borrow().iter().all(Option::is_none), "nobody is left");
        });
    }

    #[test]
    fn nobody_waits_for_those_whose_clients_are_slow() {
        run(async {
            let turns = Turns::new(2);
            let [mut a, b] = senders();
            let _slow = turns.take(a.ring, LARGE).await;
            // What it has sent before somebody waits does not count.
            a.worker.sent(&mut a.claimed, QUICK);
            let mut waited = Vec::new();
            for _ in 0..10 {
                let mut other = Box::pin(turns.take(b.ring, LARGE));
                let started = Instant::now();
                assert!(now(other.as_mut()).is_none());
                a.worker.sent(&mut a.claimed, QUICK - 1);
                other.await;
                waited.push(started.elapsed());
            }
            let least = waited.iter().min().unwrap();
            assert!((LOOK..LOOK * LOOKS / 2).contains(least), "{waited:?}");
        });
    }

    #[test]
    fn nobody_waits_for_ever_for_those_whose_clients_are_quick() {
        run(async {
            let turns = Turns::new(2);
            let [mut a, b] = senders();
            let quick = turns.take(a.ring, LARGE).await;
            let started = Instant::now();
            let mut other = Box::pin(turns.take(b.ring, LARGE));
            while now(other.as_mut()).is_none() {
                a.worker.sent(&mut a.claimed, QUICK);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(started.elapsed() >= LOOK * LOOKS, "{:?}", started.elapsed());
            drop(quick);
            assert!(turns.all_sent() >= QUICK * u64::from(LOOKS), "what was sent by those who are through");
        });
    }

    #[test]
    fn a_worker_that_says_anything_holds_up_nobody_for_long() {
        run(async {
            let turns = Turns::new(2);
            let [mut a, mut b, c] = senders();
            for liar in [&mut a, &mut b] {
                liar.worker.sent(&mut liar.claimed, u64::MAX);
                let turn = turns.take(liar.ring, LARGE).await;
                let started = Instant::now();
                drop(turns.take(c.ring, LARGE).await);
                assert!(started.elapsed() < LOOK * LOOKS * 20, "{:?}", started.elapsed());
                drop(turn);
            }
        });
    }
}
