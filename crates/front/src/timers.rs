//! Every connection of the thread has a timer: its deadline, and whether it rests.
//!
//! Deadlines are checked for all connections together by [`Timers::sweep`], so setting one is a store and nothing that
//! the event loop has to keep in order. Where the thread is held up they all wait as long (`Clock::served`): what has come meanwhile is
//! heard first. A connection's task sleeps in one of its waits; who has set its timer off, or wants
//! it gone to make room (`idle`), leaves a note here and wakes it.

use std::cell::RefCell;
use std::task::{Context, Waker};
use std::time::Duration;

use slab::Slab;
use tokio::sync::Notify;

use crate::address::Serves;
use crate::clock::Clock;

/// During a drain a client has at least so long for the rest of a head that it has begun, as it has for its end (`linger`).
const HEAD: Duration = Duration::from_secs(2);

/// Whether a connection rests: nothing of a request has been received, or its end has been said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It has something to do.
    #[default]
    No,
    /// Part of a request's head has come: it does not rest, but may not hold up a drain.
    Begun,
    /// Its handshake of TLS is due, of which nothing has come.
    Greets,
    /// It is at its handshake, and has said something.
    Shakes,
    /// It is new, and its first request is due.
    New,
    /// It is kept for another request.
    Kept,
    /// It waits for the client's end.
    Lingers,
}

impl Rest {
    /// A request may come, of which there is nothing yet.
    pub(crate) fn may_bring_more(self) -> bool {
        matches!(self, Self::New | Self::Kept)
    }
}

/// The end of a thread: no connection is kept, and those that may bring another request have so long for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// Since when, in nanoseconds that the thread has served.
    begun: u64,
    /// In nanoseconds.
    idle: u64,
}

impl Drain {
    pub(crate) fn new(begun: u64, idle: Duration) -> Self {
        Self { begun, idle: idle.as_nanos() as u64 }
    }

    /// For how long a connection may rest.
    pub(crate) fn idle(self) -> Duration {
        Duration::from_nanos(self.idle)
    }

    /// Until when a connection may bring a request that rests since then. One that comes to rest during the drain was told
    /// before that it would be kept.
    pub(crate) fn idle_until(self, since: u64) -> u64 {
        self.begun.max(since).saturating_add(self.idle)
    }

    /// Until when a connection has to have what it is about; none where a drain changes nothing.
    fn until(self, rest: Rest, since: u64) -> Option<u64> {
        match rest {
            Rest::New | Rest::Kept => Some(self.idle_until(since)),
            Rest::Begun | Rest::Greets | Rest::Shakes => {
                Some(self.idle_until(since).max(self.begun.max(since) + HEAD.as_nanos() as u64))
            }
            Rest::No | Rest::Lingers => None,
        }
    }
}

/// What the rest of the thread knows of a connection.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    waker: Option<Waker>,
    /// In nanoseconds that the thread has served; 0 for none.
    deadline: u64,
    /// The deadline has passed.
    expired: bool,
    pub(crate) rest: Rest,
    /// When it came to rest, likewise.
    pub(crate) since: u64,
    /// It is to close if it still rests, to make room.
    pub(crate) unwanted: bool,
    /// As its listener does.
    pub(crate) serves: Serves,
}

impl Entry {
    /// Of a connection that has rested like this since then, for tests.
    #[cfg(test)]
    pub(crate) fn at_rest(rest: Rest, since: u64) -> Self {
        Self { rest, since, ..Self::default() }
    }

    /// Wakes the connection's task.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

/// All timers of a front thread.
#[derive(Debug)]
pub(crate) struct Timers {
    entries: RefCell<Slab<Entry>>,
    clock: &'static Clock,
    /// Told of one that comes where there was none.
    comes: Notify,
}

impl Timers {
    pub(crate) fn new(clock: &'static Clock) -> Self {
        Self { entries: RefCell::default(), clock, comes: Notify::new() }
    }

    /// A timer for a connection.
    pub(crate) fn start(&'static self, serves: Serves) -> Timer {
        let mut entries = self.entries.borrow_mut();
        if entries.is_empty() {
            self.comes.notify_one();
        }
        Timer { timers: self, key: entries.insert(Entry { serves, ..Entry::default() }) }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Resolves when there is one.
    pub(crate) async fn some(&self) {
        while self.len() == 0 {
            // Perhaps of one that has gone again.
            self.comes.notified().await;
        }
    }

    /// Lets `each` look at all of them.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Slab<Entry>) -> T) -> T {
        look(&mut self.entries.borrow_mut())
    }

    /// Wakes those whose deadline has passed.
    pub(crate) fn sweep(&self) {
        let served = self.clock.served();
        for (_, entry) in self.entries.borrow_mut().iter_mut() {
            if entry.deadline != 0 && entry.deadline <= served {
                entry.deadline = 0;
                entry.expired = true;
                entry.wake();
            }
        }
    }

    /// Has every connection look at what has changed.
    pub(crate) fn wake_all(&self) {
        self.entries.borrow().iter().for_each(|(_, entry)| entry.wake());
    }

    /// Connections that may bring another request, or have begun one, have no longer for it than a drain gives them, nor
    /// than they had before.
    pub(crate) fn hurry(&self, drain: Drain) {
        for (_, entry) in self.entries.borrow_mut().iter_mut() {
            if let Some(deadline) = drain.until(entry.rest, entry.since)
                && (entry.deadline == 0 || entry.deadline > deadline)
            {
                entry.deadline = deadline;
            }
        }
    }
}

/// A connection's timer, gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Timer {
    timers: &'static Timers,
    key: usize,
}

impl Timer {
    /// From now on the connection rests like this, and has until `deadline` ([`Clock::after`]); 0 for no end.
    pub(crate) fn set(&self, rest: Rest, deadline: u64) {
        self.change(|entry, now| {
            entry.rest = rest;
            entry.since = now;
            entry.unwanted = false;
            entry.deadline = deadline;
            entry.expired = false;
        });
    }

    /// The connection has something to do, and no deadline.
    pub(crate) fn stop(&self) {
        self.change(|entry, _| {
            entry.rest = Rest::No;
            entry.deadline = 0;
            entry.expired = false;
        });
    }

    /// A head has begun, to be there in the time that the connection had.
    pub(crate) fn stir(&self) {
        self.change(|entry, _| entry.rest = Rest::Begun);
    }

    /// The client is to go on with its handshake, in the time that it had. It is waited for since it was last answered.
    pub(crate) fn shakes(&self, answered: bool) {
        self.change(|entry, now| {
            entry.rest = Rest::Shakes;
            entry.unwanted = false;
            if answered {
                entry.since = now;
            }
        });
    }

    pub(crate) fn rest(&self) -> Rest {
        self.change(|entry, _| entry.rest)
    }

    /// Since when it rests, in nanoseconds that the thread has served.
    pub(crate) fn since(&self) -> u64 {
        self.change(|entry, _| entry.since)
    }

    /// Whether it is to close if it still rests.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.change(|entry, _| entry.unwanted)
    }

    /// True once when the deadline has passed. Else the task is woken when it does, or when somebody wants it gone.
    pub(crate) fn poll_expired(&self, context: &Context<'_>) -> bool {
        self.change(|entry, _| {
            match &mut entry.waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => entry.waker = Some(context.waker().clone()),
            }
            std::mem::take(&mut entry.expired)
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Entry, u64) -> T) -> T {
        change(&mut self.timers.entries.borrow_mut()[self.key], self.timers.clock.served())
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.timers.entries.borrow_mut().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers() -> &'static Timers {
        Box::leak(Box::new(Timers::new(Box::leak(Box::new(Clock::new())))))
    }

    fn expired(timer: &Timer) -> bool {
        timer.poll_expired(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_passed_deadline_is_told_once() {
        let timers = timers();
        let now = timers.clock.served();
        for (deadline, passes) in [(0, false), (now, true), (now - 1, true), (now + 1_000_000_000, false)] {
            let timer = timers.start(Serves::Requests);
            timer.set(Rest::No, deadline);
            timers.sweep();
            assert_eq!(expired(&timer), passes, "{deadline} at {now}");
            timers.sweep();
            assert!(!expired(&timer), "not twice");
        }
    }

    #[test]
    fn where_the_thread_is_held_up_deadlines_wait() {
        let timers = timers();
        let timer = timers.start(Serves::Requests);
        timer.set(Rest::No, timers.clock.after(Duration::from_secs(10)));
        for (held_up, passes, late) in [(3600, 9, false), (3600, 1, true)] {
            timers.clock.hold_up(Duration::from_secs(held_up));
            timers.sweep();
            timers.clock.advance(Duration::from_secs(passes));
            timers.sweep();
            assert_eq!(expired(&timer), late);
        }
    }

    #[test]
    fn a_timer_set_anew_has_forgotten_what_it_was_to_tell() {
        let timer = timers().start(Serves::Requests);
        timer.set(Rest::Kept, 1);
        timer.timers.sweep();
        timer.set(Rest::Kept, 0);
        assert!(!expired(&timer));
        timer.set(Rest::Kept, 1);
        timer.timers.sweep();
        timer.stop();
        assert!(!expired(&timer) && timer.rest() == Rest::No);
    }

    #[test]
    fn a_drain_shortens_the_time_of_those_that_rest() {
        let timers = timers();
        let begun = timers.clock.served();
        timers.clock.advance(Duration::from_secs(5));
        // How it rests, its deadline, how long the drain gives it, and whether that has passed now.
        let (none, long) = (Duration::ZERO, Duration::from_secs(1));
        for (rest, deadline, idle, passes) in [
            (Rest::Kept, 0, none, true),
            (Rest::Kept, 0, long, false),
            (Rest::Kept, 1, long, true),
            (Rest::New, u64::MAX, none, true),
            (Rest::Begun, u64::MAX, none, false),
            (Rest::Greets, u64::MAX, none, false),
            (Rest::Shakes, u64::MAX, none, false),
            (Rest::Begun, 1, long, true),
            (Rest::No, u64::MAX, none, false),
            (Rest::No, 0, none, false),
            (Rest::Lingers, u64::MAX, none, false),
        ] {
            let timer = timers.start(Serves::Requests);
            timer.set(rest, deadline);
            timers.hurry(Drain::new(begun, idle));
            timers.sweep();
            assert_eq!(expired(&timer), passes, "{rest:?} until {deadline}, {idle:?}");
        }
    }

    #[test]
    fn a_timer_is_gone_with_its_connection() {
        let timers = timers();
        let (one, other) = (timers.start(Serves::Requests), timers.start(Serves::Pages));
        assert_eq!(timers.len(), 2);
        drop(one);
        assert_eq!(timers.len(), 1);
        other.stir();
        drop(other);
        assert_eq!(timers.len(), 0);
    }
}
