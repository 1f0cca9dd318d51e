//! Which connections have to go when there is no room: those that rest, in the order of their patience.
//!
//! First go connections that are kept for another request, the one that has been idle for longest before all others;
//! then those that have been open for a second and have not sent a byte, with 408. Never one with a request under way: the
//! connection's own task looks once more whether something has come before it closes (`intake`).

use crate::registry::{Entry, Registry, Rest};

/// Candidates to find with one look at all connections.
const AT_ONCE: usize = 64;
/// A look that has found nobody is not repeated for so long, in nanoseconds: with many connections it takes a while.
const BARREN: u64 = 20_000_000;
/// The first bytes of a new connection may be on their way for so long, in nanoseconds.
const GREETING: u64 = 1_000_000_000;

/// A connection that may go; the first in this order goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    is_new: bool,
    since: u64,
    key: usize,
}

/// What the last look has found.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// The last one goes first.
    list: Vec<Candidate>,
    barren_until: u64,
}

impl Registry {
    /// Asks the connection to go that has rested for longest, among those to the server's own pages or the others. False
    /// when none rests.
    pub(crate) fn dismiss(&mut self, for_pages: bool, now: u64) -> bool {
        let known = &mut self.candidates[usize::from(for_pages)];
        while let Some(candidate) = known.list.pop() {
            if let Some(entry) = self.entries.get_mut(candidate.key)
                && find(candidate.key, entry, for_pages, now) == Some(candidate)
            {
                entry.unwanted = true;
                entry.wake();
                return true;
            }
        }
        if now < known.barren_until {
            return false;
        }
        known.list = look(self.entries.iter().filter_map(|(key, entry)| find(key, entry, for_pages, now)));
        known.barren_until = if known.list.is_empty() { now + BARREN } else { 0 };
        !known.list.is_empty() && self.dismiss(for_pages, now)
    }
}

fn find(key: usize, entry: &Entry, for_pages: bool, now: u64) -> Option<Candidate> {
    let is_new = match entry.rest {
        Rest::Kept => false,
        Rest::New if entry.since + GREETING <= now => true,
        Rest::New | Rest::No => return None,
    };
    let may_go = entry.for_pages == for_pages && !entry.unwanted;
    may_go.then_some(Candidate { is_new, since: entry.since, key })
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

    fn registry(entries: &[(Rest, u64)]) -> Registry {
        let mut registry = Registry::default();
        for &(rest, since) in entries {
            let key = registry.insert(false);
            let entry = registry.get(key);
            (entry.rest, entry.since) = (rest, since);
        }
        registry
    }

    fn dismissed(registry: &mut Registry, now: u64) -> Option<usize> {
        let before: Vec<_> = registry.entries.iter().map(|(_, entry)| entry.unwanted).collect();
        let any = registry.dismiss(false, now);
        let found = registry.entries.iter().find(|(key, entry)| entry.unwanted && !before[*key]);
        assert_eq!(any, found.is_some());
        found.map(|(key, _)| key)
    }

    #[test]
    fn the_longest_idle_goes_first_then_the_silent_never_one_with_a_request() {
        let fresh = NOW - GREETING / 2;
        let mut registry =
            registry(&[(Rest::New, 1), (Rest::Kept, 9), (Rest::No, 2), (Rest::Kept, 3), (Rest::New, fresh)]);
        let order: Vec<_> = (0..5).map(|_| dismissed(&mut registry, NOW)).collect();
        assert_eq!(order, [Some(3), Some(1), Some(0), None, None]);
        assert_eq!(dismissed(&mut registry, NOW + GREETING), Some(4), "it had its second");
    }

    #[test]
    fn one_that_has_become_busy_since_the_look_is_passed_over() {
        let mut registry = registry(&[(Rest::Kept, 1), (Rest::Kept, 2), (Rest::Kept, 3), (Rest::Kept, 4)]);
        assert_eq!(dismissed(&mut registry, NOW), Some(0));
        registry.get(1).rest = Rest::No;
        registry.get(2).since = 9;
        assert_eq!(dismissed(&mut registry, NOW), Some(3));
        assert_eq!(dismissed(&mut registry, NOW), Some(2), "idle again, for less long");
    }

    #[test]
    fn many_go_in_order_and_each_kind_for_itself() {
        let entries: Vec<_> = (0..500_u64).map(|number| (Rest::Kept, 1 + number * 7 % 500)).collect();
        let mut registry = registry(&entries);
        let page = registry.insert(true);
        (registry.get(page).rest, registry.get(page).since) = (Rest::Kept, 0);
        let order: Vec<_> =
            (0..500).filter_map(|_| dismissed(&mut registry, NOW)).map(|key| entries[key].1).collect();
        assert!(order.is_sorted() && order.len() == 500);
        assert!(!registry.dismiss(false, NOW) && registry.dismiss(true, NOW));
    }
}
