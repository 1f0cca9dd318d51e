//! Whether one thread is enough for all connections: each tells how long it has run, and the first one judges, ten times a
//! second. Where there are fewer processors than threads that would run, none gets so far, and one thread keeps all: a second one would
//! take a processor from the workers.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;

use crate::sharing::seats::Sharing;

/// Hundredths of the time that the first thread runs when it is busy, in so many looks in a row.
const BUSY: u64 = 85;
const BUSY_LOOKS: u32 = 2;
/// Those that all threads together run when one would be enough, in so many: five seconds.
const QUIET: u64 = 80;
const QUIET_LOOKS: u32 = 50;

/// See the module. One for each thread.
#[derive(Debug)]
pub(crate) struct Need {
    sharing: &'static Sharing,
    number: usize,
    seen: RefCell<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    at: u64,
    ran: Vec<u64>,
    /// Looks in a row that spoke for the other way.
    against: u32,
}

impl Need {
    pub(crate) fn new(sharing: &'static Sharing, number: usize) -> Self {
        Self { sharing, number, seen: RefCell::default() }
    }

    /// So long this thread has run so far, in nanoseconds.
    pub(crate) fn look(&self, now: u64, ran: u64) {
        let sharing = self.sharing;
        sharing.seats[self.number].ran.store(ran, Relaxed);
        if self.number > 0 || sharing.always || sharing.seats.len() == 1 {
            return;
        }
        let seen = &mut *self.seen.borrow_mut();
        let ran: Vec<u64> = sharing.seats.iter().map(|seat| seat.ran.load(Relaxed)).collect();
        let time = now.saturating_sub(std::mem::replace(&mut seen.at, now));
        let before = std::mem::replace(&mut seen.ran, ran);
        let since: Vec<u64> =
            seen.ran.iter().zip(&before).map(|(now, before)| now.saturating_sub(*before)).collect();
        let Some(own) = since.first() else { return };
        let spread = sharing.spread.load(Relaxed);
        let (against, looks) = if spread {
            (since.iter().sum::<u64>() * 100 < time * QUIET, QUIET_LOOKS)
        } else {
            (own * 100 > time * BUSY, BUSY_LOOKS)
        };
        seen.against = if against { seen.against + 1 } else { 0 };
        if seen.against == looks {
            seen.against = 0;
            sharing.spread.store(!spread, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::forever;

    const LOOK: u64 = 100_000_000;

    /// Two threads and what each has run, in hundredths of each look; then whether connections are shared out.
    #[test]
    fn one_thread_is_enough_until_it_is_busy_and_again_when_both_have_been_quiet_for_long() {
        let sharing: &Sharing = forever(Sharing::new(2, false));
        let needs = [Need::new(sharing, 0), Need::new(sharing, 1)];
        let (mut now, mut ran) = (LOOK, [0, 0]);
        let mut look = |parts: [u64; 2]| {
            for (number, need) in needs.iter().enumerate().rev() {
                ran[number] += LOOK / 100 * parts[number];
                need.look(now, ran[number]);
            }
            now += LOOK;
            sharing.spread.load(Relaxed)
        };
        assert!(!look([99, 99]), "the first look has nothing to compare with");
        for (looks, parts, spread) in [
            (50, [85, 0], false),
            (1, [86, 0], false),
            (1, [80, 0], false),
            (1, [86, 0], false),
            (1, [86, 0], true),
            (200, [40, 40], true),
            (49, [40, 39], true),
            (1, [81, 0], true),
            (49, [40, 39], true),
            (1, [40, 39], false),
        ] {
            let last = (0..looks).map(|_| look(parts)).last();
            assert_eq!(last, Some(spread), "{looks} of {parts:?}");
        }
    }

    #[test]
    fn who_wants_connections_shared_out_always_has_them_so() {
        let sharing: &Sharing = forever(Sharing::new(2, true));
        let need = Need::new(sharing, 0);
        (1..100).for_each(|look| need.look(look * LOOK, 0));
        assert!(sharing.spread.load(Relaxed));
    }
}
