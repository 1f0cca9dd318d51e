//! The thread's idea of the time: read once per turn of the event loop, which is exact enough for deadlines, and a
//! Date field formatted once a second.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use howdah_http1::encode::imf_fixdate;

const NANOS: u64 = 1_000_000_000;
/// A thread that serves reads its clock at least so often.
const LOOK: u64 = NANOS;
/// Of more than this between two readings it was held up: stopped, as by `docker pause`, without a processor, or by what it does. That
/// counts as if it had looked once more, so that a deadline comes even where it is always like this.
const HELD_UP: u64 = 2 * LOOK;

/// One per front thread.
#[derive(Debug)]
pub(crate) struct Clock {
    now: Cell<u64>,
    /// The same, of which little passes while the thread is held up.
    served: Cell<u64>,
    /// Monotonic time at which the Date text goes stale.
    stale: Cell<u64>,
    date: RefCell<[u8; 29]>,
    /// From monotonic to Unix time.
    offset: Cell<u64>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let now = howdah_sys::monotonic_ns();
        Self {
            now: Cell::new(now),
            served: Cell::new(now),
            stale: Cell::new(0),
            date: RefCell::new([b' '; 29]),
            offset: Cell::new(0),
        }
    }

    /// Reads the system's clock.
    pub(crate) fn refresh(&self) {
        self.pass(howdah_sys::monotonic_ns());
    }

    fn pass(&self, now: u64) {
        let passed = now.saturating_sub(self.now.replace(now));
        self.served.set(self.served.get() + if passed > HELD_UP { LOOK } else { passed });
    }

    /// Lets time pass for a test.
    #[cfg(test)]
    pub(crate) fn advance(&self, span: Duration) {
        self.hold_up(span);
        self.served.set(self.served.get() + span.as_nanos() as u64);
    }

    /// The same of a thread that is held up meanwhile.
    #[cfg(test)]
    pub(crate) fn hold_up(&self, span: Duration) {
        self.now.set(self.now.get() + span.as_nanos() as u64);
    }

    /// CLOCK_MONOTONIC nanoseconds at the last refresh.
    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    /// The time of deadlines: nanoseconds of which a second at most passes while the thread is held up, for whoever is to have so much
    /// time of a server is not to lose it where the server has none itself.
    pub(crate) fn served(&self) -> u64 {
        self.served.get()
    }

    /// Unix time in nanoseconds of a moment of CLOCK_MONOTONIC.
    pub(crate) fn wall(&self, time: u64) -> u64 {
        self.renew();
        time.saturating_add(self.offset.get())
    }

    /// The time `span` from now, of [`Clock::served`], for a deadline; 0, which is none, for no time at all.
    pub(crate) fn after(&self, span: Duration) -> u64 {
        if span.is_zero() {
            return 0;
        }
        self.served.get().saturating_add(span.as_nanos() as u64)
    }

    /// Appends the current value of a Date field.
    pub(crate) fn put_date(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.date());
    }

    /// The current value of a Date field.
    pub(crate) fn date(&self) -> [u8; 29] {
        self.renew();
        *self.date.borrow()
    }

    /// Once a second: the Date text and the offset, which the system's administrator may change.
    fn renew(&self) {
        if self.now.get() < self.stale.get() {
            return;
        }
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        *self.date.borrow_mut() = imf_fixdate(wall.as_secs());
        self.offset.set((wall.as_nanos() as u64).saturating_sub(howdah_sys::monotonic_ns()));
        self.stale.set(self.now.get() + NANOS - u64::from(wall.subsec_nanos()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_lies_so_far_ahead_and_no_time_is_no_deadline() {
        let clock = Clock::new();
        assert_eq!(clock.after(Duration::ZERO), 0);
        assert_eq!(clock.after(Duration::from_secs(2)), clock.served() + 2 * NANOS);
    }

    #[test]
    fn a_thread_that_is_held_up_serves_for_a_second_of_that() {
        let clock = Clock::new();
        for (passes, served) in
            [(NANOS, NANOS), (HELD_UP + 1, LOOK), (3600 * NANOS, LOOK), (HELD_UP, HELD_UP), (0, 0)]
        {
            let (before, now) = (clock.served(), clock.now() + passes);
            clock.pass(now);
            assert_eq!((clock.served() - before, clock.now()), (served, now), "{passes}");
        }
        assert_eq!(clock.after(Duration::from_secs(1)), clock.served() + NANOS);
    }

    #[test]
    fn the_date_is_made_anew_when_its_second_is_over() {
        let clock = Clock::new();
        let date = || {
            let mut out = Vec::new();
            clock.put_date(&mut out);
            out
        };
        let first = date();
        assert!(first.ends_with(b" GMT"), "{}", first.escape_ascii());
        *clock.date.borrow_mut() = [b'x'; 29];
        assert_eq!(date(), [b'x'; 29], "within a second the text is used again");
        clock.advance(Duration::from_secs(1));
        assert!(date().ends_with(b" GMT"));
    }

    #[test]
    fn a_moment_is_told_in_unix_time() {
        let clock = Clock::new();
        let wall = clock.wall(howdah_sys::monotonic_ns());
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        assert!(unix.abs_diff(wall) < 5 * NANOS, "{wall} at {unix}");
    }
}
