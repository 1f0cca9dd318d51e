//! Who comes in and who has to leave: accept loops, connections, and the end of a thread that drains.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;

use crate::address::Serves;
use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::timers::{Drain, Timer};

/// The doors of a front thread.
#[derive(Debug)]
pub(crate) struct Doors {
    /// Of listeners that lead to applications, and of those for the server's own pages.
    both: [Door; 2],
    /// Since no connection is kept.
    draining: Cell<Option<Drain>>,
    /// Whoever is inside has to leave at once, whatever is under way.
    cut_off: Cell<bool>,
    /// Tells accept loops that they are to end, and whoever waits for their end or the last connection's.
    pub(crate) changed: Notify,
    capacity: &'static Capacity,
    clock: &'static Clock,
}

/// Accept loops of one kind, and what is theirs.
#[derive(Debug, Default)]
pub(crate) struct Door {
    /// Loops that run.
    accepting: Cell<usize>,
    /// They are to end.
    closing: Cell<bool>,
    /// Connections that came through.
    inside: Cell<usize>,
}

impl Doors {
    pub(crate) fn new(capacity: &'static Capacity, clock: &'static Clock) -> Self {
        Self {
            both: Default::default(),
            draining: Cell::default(),
            cut_off: Cell::default(),
            changed: Notify::new(),
            capacity,
            clock,
        }
    }

    fn door(&self, serves: Serves) -> &Door {
        &self.both[serves as usize]
    }

    /// An accept loop runs as long as the value lives.
    pub(crate) fn open(&'static self, serves: Serves) -> Open {
        add(&self.door(serves).accepting, 1);
        Open { doors: self, serves }
    }

    /// Accept loops are to end.
    pub(crate) fn close(&self, serves: Serves) {
        self.door(serves).closing.set(true);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_closing(&self, serves: Serves) -> bool {
        self.door(serves).closing.get()
    }

    /// Whether an accept loop still runs.
    pub(crate) fn is_open(&self, serves: Serves) -> bool {
        self.door(serves).accepting.get() > 0
    }

    /// A connection is inside as long as the value lives.
    pub(crate) fn enter(&'static self, serves: Serves) -> Inside {
        add(&self.door(serves).inside, 1);
        Inside { doors: self, serves }
    }

    pub(crate) fn inside(&self, serves: Serves) -> usize {
        self.door(serves).inside.get()
    }

    /// From now on no connection is kept. Those that rest have `idle`.
    pub(crate) fn drain(&self, idle: Duration) -> Drain {
        let drain = Drain::new(self.clock.served(), idle);
        self.draining.set(Some(drain));
        drain
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get().is_some()
    }

    /// How long a client has that has been told to leave, `least` at least.
    pub(crate) fn patience(&self, least: Duration) -> Duration {
        self.draining.get().map_or(least, |drain| drain.idle().max(least))
    }

    /// Nothing that is under way goes on: whoever waits here for it has to be woken.
    pub(crate) fn cut_off(&self) {
        self.cut_off.set(true);
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.get()
    }

    /// What `work` comes to; nothing when it would wait once all that is under way is cut off.
    pub(crate) fn unless_cut_off<F: Future>(
        &self,
        mut work: Pin<&mut F>,
    ) -> impl Future<Output = Option<F::Output>> {
        poll_fn(move |context| match work.as_mut().poll(context) {
            Poll::Pending if self.is_cut_off() => Poll::Ready(None),
            outcome => outcome.map(Some),
        })
    }

    /// Whether a connection that rests has had its time on a thread that drains.
    pub(crate) fn is_over(&self, timer: &Timer) -> bool {
        self.draining.get().is_some_and(|drain| self.clock.served() >= drain.idle_until(timer.since()))
    }

    /// Whether a connection may have another request after the one that it has: not when the server drains, nor while
    /// others wait to be let in.
    pub(crate) fn keeps_connections(&self) -> bool {
        !self.is_draining() && !self.capacity.is_crowded()
    }

    /// Whether a connection that has to make room must do so at once, since its descriptor is another's already.
    pub(crate) fn is_pressed(&self) -> bool {
        self.capacity.is_short_of_files()
    }
}

fn add(counter: &Cell<usize>, by: isize) {
    counter.set(counter.get().saturating_add_signed(by));
}

/// See [`Doors::open`].
#[derive(Debug)]
pub(crate) struct Open {
    doors: &'static Doors,
    serves: Serves,
}

impl Drop for Open {
    fn drop(&mut self) {
        add(&self.doors.door(self.serves).accepting, -1);
        self.doors.changed.notify_waiters();
    }
}

/// See [`Doors::enter`].
#[derive(Debug)]
pub(crate) struct Inside {
    doors: &'static Doors,
    serves: Serves,
}

impl Drop for Inside {
    fn drop(&mut self) {
        add(&self.doors.door(self.serves).inside, -1);
        if self.doors.is_draining() {
            self.doors.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::{Rest, Timers};

    fn doors() -> &'static Doors {
        let clock = Box::leak(Box::new(Clock::new()));
        Box::leak(Box::new(Doors::new(Box::leak(Box::new(Capacity::new(None))), clock)))
    }

    #[test]
    fn each_door_counts_for_itself() {
        let doors = doors();
        let (one, page) = (doors.enter(Serves::Requests), doors.enter(Serves::Pages));
        let loops = doors.open(Serves::Pages);
        assert_eq!((doors.inside(Serves::Requests), doors.inside(Serves::Pages)), (1, 1));
        assert!(!doors.is_open(Serves::Requests) && doors.is_open(Serves::Pages));
        drop((one, loops));
        assert_eq!((doors.inside(Serves::Requests), doors.inside(Serves::Pages)), (0, 1));
        assert!(!doors.is_open(Serves::Pages));
        doors.close(Serves::Pages);
        assert!(doors.is_closing(Serves::Pages) && !doors.is_closing(Serves::Requests));
        drop(page);
    }

    #[test]
    fn a_thread_that_drains_keeps_nobody_and_gives_those_that_rest_their_time() {
        let doors = doors();
        let timers: &Timers = Box::leak(Box::new(Timers::new(doors.clock)));
        let (early, late) = (timers.start(Serves::Requests), timers.start(Serves::Requests));
        let idle = Duration::from_micros(1);
        early.set(Rest::Kept, 0);
        assert!(doors.keeps_connections() && !doors.is_over(&early));
        doors.drain(idle);
        assert!(!doors.keeps_connections() && !doors.is_over(&early));
        doors.clock.advance(idle);
        assert!(doors.is_over(&early));
        late.set(Rest::Kept, 0);
        assert!(!doors.is_over(&late), "it has come to rest just now");
        doors.clock.advance(idle);
        assert!(doors.is_over(&late));
    }

    #[test]
    fn whoever_waits_for_the_last_connection_of_a_thread_that_drains_hears_of_its_end() {
        let doors = doors();
        let (first, last) = (doors.enter(Serves::Requests), doors.enter(Serves::Pages));
        drop(first);
        doors.drain(Duration::ZERO);
        let mut changed = std::pin::pin!(doors.changed.notified());
        assert!(!changed.as_mut().enable(), "nobody has left since");
        drop(last);
        assert!(changed.enable());
    }

    #[test]
    fn nobody_is_kept_while_others_wait_to_be_let_in() {
        let doors = doors();
        let crowd = doors.capacity.crowd();
        assert!(!doors.keeps_connections());
        drop(crowd);
        assert!(doors.keeps_connections());
    }
}
