//! Which connections have to go when there is no room: those that rest, in the order of their patience.
//!
//! First go connections that are kept for another request, the one that has been idle for longest before all others; then
//! those that only wait for their client's end; then those that have been open for a second and have not sent a byte, with
//! 408; then those at their handshake of TLS that have said something and were answered two seconds ago. One that has only just come
//! to rest is about to have another request, or its client's end, and goes only where a request would be refused for want of room.
//! Never one with a request that has come: the connection's own task looks once
//! more before it closes (`intake`). `room` asks.

use std::cell::RefCell;

use slab::Slab;

use crate::address::Serves;
use crate::timers::{Entry, Rest, Timers};

/// Candidates to find with one look at all connections.
const AT_ONCE: usize = 64;
/// A look that has found nobody is not repeated for so long, in nanoseconds: with many connections it takes a while.
const BARREN: u64 = 20_000_000;
/// The first bytes of a new connection may be on their way for so long, in nanoseconds, and so may the next request of one that is
/// kept: a client may be far away, or have others to see to.
pub(crate) const GREETING: u64 = 1_000_000_000;
/// A client's next word of its handshake may be on its way for so long: there and back, with a packet that is lost.
pub(crate) const HANDSHAKE: u64 = 2 * GREETING;
/// So may the client's end, on which nothing depends.
const FRESH: u64 = 50_000_000;

/// How much depends on it that there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Who waits can wait a little longer.
    Patient,
    /// A request would be refused.
    Urgent,
}

/// In the order in which they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Kept,
    Lingers,
    New,
    Shakes,
    /// Of the first two, but only just.
    Fresh,
}

/// A connection that may go; the first in this order goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    kind: Kind,
    since: u64,
    key: usize,
}

/// What the last look has found.
#[derive(Debug, Default)]
struct Candidates {
    /// The last one goes first.
    list: Vec<Candidate>,
    barren_until: u64,
}

/// Those that could make room: connections to the application, and to the server's own pages.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    candidates: RefCell<[Candidates; 2]>,
}

impl Idle {
    /// Asks the connection to go that has rested for longest, among those to the server's own pages or the others. False
    /// when none rests.
    pub(crate) fn dismiss(&self, timers: &Timers, serves: Serves, need: Need, now: u64) -> bool {
        let known = &mut self.candidates.borrow_mut()[serves as usize];
        timers.with(|entries| known.dismiss(entries, serves, need, now))
    }
}

impl Candidates {
    fn dismiss(&mut self, entries: &mut Slab<Entry>, serves: Serves, need: Need, now: u64) -> bool {
        while let Some(candidate) = self.list.pop() {
            if let Some(entry) = entries.get_mut(candidate.key)
                && find(candidate.key, entry, serves, now) == Some(candidate)
            {
                if candidate.kind == Kind::Fresh && need == Need::Patient {
                    self.list.push(candidate);
                    return false;
                }
                entry.unwanted = true;
                entry.wake();
                return true;
            }
        }
        if now < self.barren_until {
            return false;
        }
        self.list = look(entries.iter().filter_map(|(key, entry)| find(key, entry, serves, now)));
        self.barren_until = if self.list.is_empty() { now + BARREN } else { 0 };
        !self.list.is_empty() && self.dismiss(entries, serves, need, now)
    }
}

fn find(key: usize, entry: &Entry, serves: Serves, now: u64) -> Option<Candidate> {
    let kind = match entry.rest {
        Rest::Kept if entry.since + GREETING > now => Kind::Fresh,
        Rest::Lingers if entry.since + FRESH > now => Kind::Fresh,
        Rest::Kept => Kind::Kept,
        Rest::Lingers => Kind::Lingers,
        Rest::New | Rest::Greets if entry.since + GREETING <= now => Kind::New,
        Rest::Shakes if entry.since + HANDSHAKE <= now => Kind::Shakes,
        Rest::New | Rest::Greets | Rest::Shakes | Rest::Begun | Rest::No => return None,
    };
    let may_go = entry.serves == serves && !entry.unwanted;
    may_go.then_some(Candidate { kind, since: entry.since, key })
}

/// The first few, in reverse order.
fn look(found: impl Iterator<Item = Candidate>) -> Vec<Candidate> {
    let mut list: Vec<_> = found.collect();
    if list.len() > AT_ONCE {
        list.select_nth_unstable(AT_ONCE);
        list.truncate(AT_ONCE);
    }
    list.sort_unstable_by(|one, other| other.cmp(one));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 10 * GREETING;

    /// Connections by how they rest and since when, the last one to the server's own pages.
    struct Crowd {
        entries: Slab<Entry>,
        known: [Candidates; 2],
    }

    fn crowd(entries: impl IntoIterator<Item = (Rest, u64)>) -> Crowd {
        let entry = |(rest, since)| Entry::at_rest(rest, since);
        Crowd { entries: entries.into_iter().map(entry).enumerate().collect(), known: Default::default() }
    }

    impl Crowd {
        fn dismiss(&mut self, serves: Serves, now: u64) -> bool {
            self.known[serves as usize].dismiss(&mut self.entries, serves, Need::Patient, now)
        }

        /// Who goes now.
        fn dismissed(&mut self, now: u64) -> Option<usize> {
            let before: Vec<_> = self.entries.iter().map(|(_, entry)| entry.unwanted).collect();
            let any = self.dismiss(Serves::Requests, now);
            let found = self.entries.iter().find(|(key, entry)| entry.unwanted && !before[*key]);
            assert_eq!(any, found.is_some());
            found.map(|(key, _)| key)
        }
    }

    #[test]
    fn the_longest_idle_goes_first_then_who_is_at_its_end_then_the_silent_never_one_with_a_request() {
        let fresh = (Rest::New, NOW - GREETING / 2);
        let at_its_end = (Rest::Lingers, 2);
        let mut crowd =
            crowd([(Rest::New, 1), (Rest::Kept, 9), (Rest::No, 2), (Rest::Kept, 3), fresh, at_its_end]);
        let order: Vec<_> = (0..6).map(|_| crowd.dismissed(NOW)).collect();
        assert_eq!(order, [Some(3), Some(1), Some(5), Some(0), None, None]);
        assert_eq!(crowd.dismissed(NOW + GREETING), Some(4), "it had its second");
    }

    #[test]
    fn one_that_has_become_busy_since_the_look_is_passed_over() {
        let mut crowd = crowd([(Rest::Kept, 1), (Rest::Kept, 2), (Rest::Kept, 3), (Rest::Kept, 4)]);
        assert_eq!(crowd.dismissed(NOW), Some(0));
        crowd.entries[1].rest = Rest::No;
        crowd.entries[2].since = 9;
        assert_eq!(crowd.dismissed(NOW), Some(3));
        assert_eq!(crowd.dismissed(NOW), Some(2), "idle again, for less long");
    }

    #[test]
    fn one_that_has_just_come_to_rest_stays_for_a_while_unless_a_request_would_be_refused() {
        let mut crowd = crowd([
            (Rest::Kept, NOW - GREETING + 1),
            (Rest::Lingers, NOW - FRESH + 1),
            (Rest::Lingers, NOW - FRESH),
            (Rest::Kept, NOW - GREETING),
        ]);
        let order: Vec<_> = (0..3).map(|_| crowd.dismissed(NOW)).collect();
        assert_eq!(order, [Some(3), Some(2), None]);
        let order: Vec<_> = (0..3).map(|_| crowd.dismissed(NOW + BARREN)).collect();
        assert_eq!(order, [Some(0), Some(1), None], "they had their time");
        crowd.entries.insert(Entry::at_rest(Rest::Kept, 2 * NOW));
        assert!(!crowd.dismiss(Serves::Requests, 2 * NOW));
        let known = &mut crowd.known[0];
        assert!(known.dismiss(&mut crowd.entries, Serves::Requests, Need::Urgent, 2 * NOW));
    }

    #[test]
    fn many_go_in_order_and_each_kind_for_itself() {
        let since = |number: u64| 1 + number * 7 % 500;
        let mut crowd = crowd((0..500).map(|number| (Rest::Kept, since(number))).chain([(Rest::Kept, 0)]));
        crowd.entries[500].serves = Serves::Pages;
        let order: Vec<_> =
            (0..500).filter_map(|_| crowd.dismissed(NOW)).map(|key| since(key as u64)).collect();
        assert!(order.is_sorted() && order.len() == 500);
        assert!(!crowd.dismiss(Serves::Requests, NOW) && crowd.dismiss(Serves::Pages, NOW));
    }

    #[test]
    fn a_look_that_has_found_nobody_is_not_repeated_at_once() {
        let mut crowd = crowd([(Rest::No, 1)]);
        assert!(!crowd.dismiss(Serves::Requests, NOW));
        crowd.entries[0].rest = Rest::Kept;
        assert!(!crowd.dismiss(Serves::Requests, NOW + BARREN - 1));
        assert!(crowd.dismiss(Serves::Requests, NOW + BARREN));
    }
}
