//! With no request under way the thread looks for the next one for a moment before it sleeps. A sleep costs more than that: whoever
//! sends the request has to wake a processor for it, and while this side wakes up the other one falls asleep. Where requests are so far
//! apart that looks take long, it does not look. See docs/decisions/07-short-spins.md.

use std::cell::Cell;

use tokio::sync::Notify;

use crate::clock::Clock;

/// Nanoseconds that a look may take, and that looks may take on average lest a sleep is cheaper.
#[derive(Clone, Copy, Debug)]
struct Terms {
    most: u64,
    average: u64,
}

const USUAL: Terms = Terms { most: 30_000, average: 17_500 };
/// One client waits for each answer: a look that is a little too long still makes it so quick that the next ones are short.
const ONE_BY_ONE: Terms = Terms { most: 50_000, average: 25_000 };
/// When looks take too long, a few are tried in a row, since the other side has its part in it, of so many.
const TRIES: u32 = 8;
const AGAIN: u32 = 64 * TRIES;

/// One for each thread.
#[derive(Debug)]
pub(crate) struct Lookout {
    order: Notify,
    terms: Cell<Terms>,
    /// The last look was in vain: now the thread sleeps.
    in_vain: Cell<bool>,
    average: Cell<u64>,
    passed: Cell<u32>,
    spent: Cell<u64>,
}

impl Default for Lookout {
    fn default() -> Self {
        Self {
            order: Notify::new(),
            terms: Cell::new(USUAL),
            in_vain: Cell::default(),
            average: Cell::default(),
            passed: Cell::default(),
            spent: Cell::default(),
        }
    }
}

impl Lookout {
    /// The thread would sleep now. True when it is to look before: a task is woken that does.
    pub(crate) fn begin(&self, one_by_one: bool) -> bool {
        if self.in_vain.take() {
            return false;
        }
        let terms = if one_by_one { ONE_BY_ONE } else { USUAL };
        if self.average.get() > terms.average {
            self.passed.set(self.passed.get().wrapping_add(1));
            if self.passed.get() % AGAIN >= TRIES {
                return false;
            }
        }
        self.terms.set(terms);
        self.order.notify_one();
        true
    }

    /// Looks whenever it is time to, until something `comes`. In between, tokio asks the kernel what there is, and lets connections
    /// see to it.
    pub(crate) async fn watch(&self, clock: &Clock, comes: impl Fn() -> bool) {
        loop {
            self.order.notified().await;
            clock.refresh();
            let begun = clock.now();
            let found = loop {
                tokio::task::yield_now().await;
                clock.refresh();
                if comes() {
                    break true;
                }
                if clock.now() - begun >= self.terms.get().most {
                    break false;
                }
            };
            self.note(found, clock.now() - begun);
        }
    }

    fn note(&self, found: bool, took: u64) {
        self.in_vain.set(!found);
        self.spent.set(self.spent.get() + took);
        let average = self.average.get();
        self.average.set(average - average / 8 + took.min(self.terms.get().most) / 8);
    }

    /// Nanoseconds that all looks have taken so far.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.get()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;
    use crate::sample::world::run;

    /// How many of so many sleeps there is a look before, when each look finds something after that time, or nothing.
    fn looks(lookout: &Lookout, sleeps: u32, one_by_one: bool, found: Option<u64>) -> u32 {
        let mut looks = 0;
        for _ in 0..sleeps {
            if lookout.begin(one_by_one) {
                looks += 1;
                lookout.note(found.is_some(), found.unwrap_or(50_000));
                assert!(found.is_some() || !lookout.begin(one_by_one), "after a look in vain it sleeps");
            }
        }
        looks
    }

    #[test]
    fn it_looks_while_that_takes_little_time() {
        for (one_by_one, found, expected) in [
            (false, Some(17_000), 10_240),
            (true, Some(24_000), 10_240),
            // Those until the average is known, and 8 of 512 from then on.
            (false, Some(25_000), 10_240 / 64 + 9),
            (false, None, 10_240 / 64 + 7),
            (true, None, 10_240 / 64 + 5),
        ] {
            let some = looks(&Lookout::default(), 10_240, one_by_one, found);
            assert!(some.abs_diff(expected) <= 2, "{one_by_one} {found:?}: {some}");
        }
    }

    #[test]
    fn it_looks_again_once_requests_are_there_soon() {
        let lookout = Lookout::default();
        looks(&lookout, 5000, false, None);
        assert!(lookout.average.get() > 29_000);
        looks(&lookout, 1024, false, Some(3000));
        assert_eq!(looks(&lookout, 100, false, Some(3000)), 100);
    }

    #[test]
    fn a_look_ends_with_what_comes_or_with_its_time() {
        run(async {
            let (lookout, clock, comes) =
                (Rc::new(Lookout::default()), Rc::new(Clock::new()), Rc::new(Cell::new(0)));
            let (watched, time, seen) = (Rc::clone(&lookout), Rc::clone(&clock), Rc::clone(&comes));
            let left = move || seen.replace(seen.get() - 1) == 1;
            tokio::task::spawn_local(async move { watched.watch(&time, left).await });
            // The look after which something comes, and whether the thread then sleeps without another one.
            for (at, sleeps) in [(1, false), (3, false), (i32::MAX, true)] {
                comes.set(at);
                assert!(lookout.begin(false));
                if !sleeps {
                    // However long a busy machine takes for it.
                    lookout.terms.set(Terms { most: u64::MAX, ..USUAL });
                }
                let before = lookout.spent();
                while lookout.spent() == before {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                assert_eq!(
                    (lookout.in_vain.get(), sleeps && lookout.spent() - before < 30_000),
                    (sleeps, false)
                );
                lookout.in_vain.set(false);
            }
        });
    }
}
