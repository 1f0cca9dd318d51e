//! How many connections there may be, and how many files beside them: all threads of the front count here.
//!
//! A connection costs a descriptor, and so does each large request body and each file that is being sent. The limit of
//! open files is divided at the start, and again when somebody changes it (prlimit):
//!
//! ```text
//! |  open before the first client  |  reserve  |  connections ....................  |  files  |
//! ```
//!
//! The reserve is for what keeps the server alive, whatever clients do: control socket, new workers, reload, upgrade,
//! logs. Who gets no [`Permit`] asks `room` for a connection that can go.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::address::Serves;

/// Connections to listeners of the server's own pages: they have places of their own, or nobody could look at a server
/// that is full.
pub const PAGE_CONNECTIONS: usize = 8;

/// Of the descriptors left to clients, the part for files: one in so many...
const FILES: usize = 8;
/// ...but so many at least, where there are twice as many...
const FEWEST_FILES: usize = 2;
/// ...and at most; more have the places of connections.
const MOST_FILES: usize = 1024;

/// What a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A connection to the application.
    Connection,
    /// A connection to the server's own pages.
    Page,
    /// A body of a request or a response.
    File,
}

impl From<Serves> for Kind {
    fn from(serves: Serves) -> Self {
        match serves {
            Serves::Requests => Self::Connection,
            Serves::Pages => Self::Page,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Capacity {
    /// `--max-connections`.
    asked: usize,
    /// Open before the first client came.
    open: AtomicUsize,
    /// To be left alone.
    reserve: AtomicUsize,
    /// The limit of open files by which the bounds were made.
    limit: AtomicUsize,
    /// Most connections.
    connections: AtomicUsize,
    /// Most connections and files.
    descriptors: AtomicUsize,
    /// What there is, by [`Kind`].
    used: [AtomicUsize; 3],
    /// Accept loops that have somebody to let in, and no room.
    waiting: AtomicUsize,
    freed: Notify,
}

/// Most connections, and most connections and files together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    connections: usize,
    descriptors: usize,
}

/// Divides `limit`. Where it is so low that the reserve would leave next to nothing, clients have a quarter of what is
/// there.
fn bounds(limit: usize, open: usize, reserve: usize, asked: usize) -> Bounds {
    let free = limit.saturating_sub(open);
    let descriptors = (free - left_alone(free, reserve)).max(2);
    let files = (descriptors / FILES).clamp(FEWEST_FILES.min(descriptors / 2), MOST_FILES);
    Bounds { connections: (descriptors - files).min(asked).max(1), descriptors }
}

/// What the reserve is in fact.
fn left_alone(free: usize, reserve: usize) -> usize {
    reserve.min(free / 4 * 3)
}

/// Files that this process may have open.
fn limit_now() -> usize {
    getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

impl Capacity {
    /// For `asked` connections, or as many as the limit of open files allows; for no limit until [`Capacity::settle`].
    #[must_use]
    pub fn new(asked: Option<usize>) -> Self {
        let asked = asked.unwrap_or(usize::MAX);
        Self {
            asked,
            open: AtomicUsize::new(0),
            reserve: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            connections: AtomicUsize::new(asked),
            descriptors: AtomicUsize::new(usize::MAX),
            used: Default::default(),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
        }
    }

    /// With bounds that a test sets.
    #[cfg(test)]
    pub(crate) fn of_descriptors(connections: usize, descriptors: usize) -> Self {
        let capacity = Self::new(Some(connections));
        capacity.descriptors.store(descriptors, Relaxed);
        capacity
    }

    /// The limit of open files by which nothing is taken from the reserve, and those connections have room that are asked for.
    #[must_use]
    pub fn enough(open: usize, reserve: usize, asked: Option<usize>) -> usize {
        let asked = asked.unwrap_or_default();
        let files = (asked / (FILES - 1) + 1).clamp(FEWEST_FILES, MOST_FILES);
        open + (4 * reserve.div_ceil(3)).max(reserve + asked + files)
    }

    /// The server is about to let clients in: `open` descriptors are in use, `reserve` more are to be left alone. By a limit of `enough`
    /// none is too few.
    pub fn settle(&self, open: usize, reserve: usize, enough: usize) {
        let limit = limit_now();
        self.open.store(open.saturating_sub(self.used(Kind::Page)), Relaxed);
        self.reserve.store(reserve, Relaxed);
        self.limit.store(limit, Relaxed);
        let bounds = self.divide(limit);
        let asked = self.asked;
        tracing::debug!(limit, open, reserve, "at most {} connections", bounds.connections);
        if open >= limit {
            // One is tried all the same: there may be fewer workers soon.
            tracing::error!(
                "the limit of open files is {limit}, and {open} are needed before the first client comes: there may be no room for \
                 one; raise it to {enough} or more (ulimit -n, LimitNOFILE=)"
            );
        } else if asked != usize::MAX && bounds.connections < asked {
            tracing::warn!(
                "--max-connections is {asked}, but the limit of open files, {limit}, allows {} connections: raise it to \
                 {enough} or more (ulimit -n, LimitNOFILE=)",
                bounds.connections
            );
        } else if left_alone(limit.saturating_sub(open), reserve) < reserve {
            tracing::warn!(
                "the limit of open files is {limit}: that is enough for {} connections; raise it to {enough} or more \
                 (ulimit -n, LimitNOFILE=)",
                bounds.connections
            );
        }
    }

    /// Looks whether the limit of open files has been changed from outside.
    pub(crate) fn refresh(&self) {
        let limit = limit_now();
        let known = self.limit.load(Relaxed);
        let settled = self.reserve.load(Relaxed) > 0;
        if settled && limit != known && self.limit.compare_exchange(known, limit, Relaxed, Relaxed).is_ok() {
            let bounds = self.divide(limit);
            tracing::warn!(
                "the limit of open files has been changed from {known} to {limit}: {} connections from now on",
                bounds.connections
            );
            self.freed.notify_waiters();
        }
    }

    fn divide(&self, limit: usize) -> Bounds {
        let bounds = bounds(limit, self.open.load(Relaxed), self.reserve.load(Relaxed), self.asked);
        self.connections.store(bounds.connections, Relaxed);
        self.descriptors.store(bounds.descriptors, Relaxed);
        bounds
    }

    /// Most connections to the application.
    #[must_use]
    pub fn most(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// A descriptor for `kind`, if there is room.
    pub(crate) fn enter(&'static self, kind: Kind) -> Option<Permit> {
        let most = self.room_for(kind);
        let taken =
            self.used[kind as usize].fetch_update(SeqCst, SeqCst, |used| (used < most).then_some(used + 1));
        taken.ok().map(|_| Permit { kind, capacity: self, at: None })
    }

    /// One more, whether there is room or not.
    pub(crate) fn overdraw(&'static self, kind: Kind) -> Permit {
        self.used[kind as usize].fetch_add(1, SeqCst);
        Permit { kind, capacity: self, at: None }
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self, kind: Kind) -> bool {
        self.used(kind) < self.room_for(kind)
    }

    /// How many of `kind` there may be, beside those of the other kinds that there are.
    fn room_for(&self, kind: Kind) -> usize {
        let beside = |other| self.descriptors.load(Relaxed).saturating_sub(self.used(other));
        match kind {
            Kind::Connection => self.most().min(beside(Kind::File)),
            Kind::Page => PAGE_CONNECTIONS,
            Kind::File => beside(Kind::Connection),
        }
    }

    /// Whether so few descriptors are left for files that idle connections should make room for them.
    pub(crate) fn is_short_of_files(&self) -> bool {
        let most = self.descriptors.load(Relaxed);
        let left = most.saturating_sub(self.used(Kind::Connection) + self.used(Kind::File));
        left < (most / FILES / 2).clamp(FEWEST_FILES, MOST_FILES / 2)
    }

    /// Connections beyond the bound, which has been lowered.
    pub(crate) fn excess(&self) -> usize {
        self.used(Kind::Connection).saturating_sub(self.room_for(Kind::Connection))
    }

    /// Whether clients wait that cannot be let in.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    /// Somebody waits to be let in, as long as the value lives.
    pub(crate) fn crowd(&self) -> Crowd<'_> {
        self.waiting.fetch_add(1, SeqCst);
        Crowd(self)
    }

    /// Resolves when a permit is given back after this call, while somebody waits.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// Why there is no room, with the way out.
    pub(crate) fn reason(&self, kind: Kind) -> String {
        if kind == Kind::Page {
            return format!(
                "{PAGE_CONNECTIONS} connections to the server's own pages are open, all that may be"
            );
        }
        let (most, limit) = (self.most(), self.limit.load(Relaxed));
        if most == self.asked && self.has_room(Kind::File) {
            return format!("{most} connections are open, as many as --max-connections allows");
        }
        let (connections, files) = (self.used(Kind::Connection), self.used(Kind::File));
        format!(
            "{connections} connections and {files} files are open, as many as the limit of open files ({limit}) allows: \
             raise it (ulimit -n, LimitNOFILE=)"
        )
    }

    fn used(&self, kind: Kind) -> usize {
        self.used[kind as usize].load(SeqCst)
    }
}

/// A descriptor that counts until this is dropped.
#[derive(Debug)]
pub struct Permit {
    kind: Kind,
    capacity: &'static Capacity,
    /// It counts there, too.
    at: Option<&'static AtomicUsize>,
}

impl Permit {
    /// Counts there as well, and no longer where it did.
    pub(crate) fn count_at(&mut self, at: &'static AtomicUsize) {
        at.fetch_add(1, SeqCst);
        if let Some(before) = self.at.replace(at) {
            before.fetch_sub(1, SeqCst);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.capacity.used[self.kind as usize].fetch_sub(1, SeqCst);
        if let Some(at) = self.at {
            at.fetch_sub(1, SeqCst);
        }
        if self.capacity.is_crowded() {
            self.capacity.freed.notify_waiters();
        }
    }
}

/// See [`Capacity::crowd`].
#[derive(Debug)]
pub(crate) struct Crowd<'a>(&'a Capacity);

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::heard::heard;

    #[test]
    fn the_limit_is_divided_so_that_neither_clients_nor_the_server_starve() {
        const ANY: usize = usize::MAX;
        for ((limit, open, reserve, asked), (connections, descriptors)) in [
            ((20_000, 40, 60, ANY), (18_876, 19_900)),
            ((20_000, 40, 60, 100), (100, 19_900)),
            ((1024, 40, 60, 100_000), (809, 924)),
            // So low that the reserve has to give way.
            ((64, 34, 46, ANY), (7, 9)),
            ((64, 60, 46, ANY), (1, 2)),
            // More is open than may be.
            ((64, 80, 46, ANY), (1, 2)),
            ((ANY, 40, 60, ANY), (ANY - 100 - 1024, ANY - 100)),
        ] {
            let want = Bounds { connections, descriptors };
            assert_eq!(bounds(limit, open, reserve, asked), want, "{limit} {open} {reserve} {asked}");
        }
    }

    fn capacity(connections: usize, descriptors: usize) -> &'static Capacity {
        Box::leak(Box::new(Capacity::of_descriptors(connections, descriptors)))
    }

    #[test]
    fn a_permit_is_given_as_long_as_there_is_room_and_can_be_given_again() {
        let capacity = capacity(2, 4);
        let first = capacity.enter(Kind::Connection);
        let second = capacity.enter(Kind::Connection);
        assert!(first.is_some() && second.is_some() && !capacity.has_room(Kind::Connection));
        assert!(capacity.enter(Kind::Connection).is_none(), "no third");
        assert!(!capacity.has_room(Kind::Connection), "and its refusal makes no room");
        drop(first);
        assert!(capacity.enter(Kind::Connection).is_some());
    }

    #[test]
    fn files_take_what_connections_leave_and_the_other_way_round() {
        let capacity = capacity(3, 4);
        let files: Vec<_> = std::iter::from_fn(|| capacity.enter(Kind::File)).collect();
        assert_eq!(files.len(), 4);
        assert!(capacity.enter(Kind::Connection).is_none() && capacity.is_short_of_files());
        assert!(capacity.enter(Kind::Page).is_some(), "who looks at the server's pages has a place");
        drop(files);
        assert!(!capacity.is_short_of_files());
        let connections: Vec<_> = std::iter::from_fn(|| capacity.enter(Kind::Connection)).collect();
        assert_eq!(connections.len(), 3);
        assert_eq!(
            std::iter::from_fn(|| capacity.enter(Kind::File)).take(9).count(),
            9,
            "each given back at once"
        );
    }

    #[test]
    fn who_waits_hears_of_room() {
        use std::future::Future as _;
        let capacity = capacity(1, 4);
        let permit = capacity.enter(Kind::Connection);
        let mut freed = std::pin::pin!(capacity.freed());
        let crowd = capacity.crowd();
        assert!(capacity.is_crowded());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(freed.as_mut().poll(&mut context).is_pending());
        drop(permit);
        assert!(freed.as_mut().poll(&mut context).is_ready());
        drop(crowd);
        assert!(!capacity.is_crowded());
    }

    #[test]
    fn what_is_beyond_the_bound_is_in_excess() {
        let capacity = capacity(2, 5);
        let permits: Vec<_> = (0..3).map(|_| capacity.overdraw(Kind::Connection)).collect();
        assert_eq!((capacity.excess(), capacity.used(Kind::Connection)), (1, 3));
        drop(permits);
        assert_eq!(capacity.excess(), 0);
    }

    #[test]
    fn files_run_short_before_there_are_none() {
        // Descriptors in all, connections and files that there are, and whether that is short.
        for (most, connections, files, short) in [
            (100, 50, 44, false),
            (100, 50, 45, true),
            (100, 0, 95, true),
            (16, 14, 0, false),
            (16, 14, 1, true),
            (20_000, 10_000, 9_488, false),
            (20_000, 10_000, 9_489, true),
        ] {
            let capacity = capacity(most, most);
            let _connections: Vec<_> = (0..connections).map(|_| capacity.enter(Kind::Connection)).collect();
            let _files: Vec<_> = (0..files).map(|_| capacity.enter(Kind::File)).collect();
            assert_eq!(capacity.is_short_of_files(), short, "{connections} and {files} of {most}");
        }
    }

    #[test]
    fn pages_have_places_of_their_own_and_no_more() {
        let capacity = capacity(1, 1);
        let pages: Vec<_> = std::iter::from_fn(|| capacity.enter(Kind::Page)).take(99).collect();
        assert_eq!(pages.len(), PAGE_CONNECTIONS);
        assert!(capacity.has_room(Kind::Connection) && !capacity.has_room(Kind::Page));
        assert!(capacity.reason(Kind::Page).starts_with("8 connections to the server's own pages are open"));
    }

    #[test]
    fn the_reason_why_there_is_no_room_names_the_way_out() {
        let asked = capacity(1, 4);
        let _permit = asked.enter(Kind::Connection);
        let reason = asked.reason(Kind::Connection);
        assert_eq!(reason, "1 connections are open, as many as --max-connections allows");
        let _files: Vec<_> = std::iter::from_fn(|| asked.enter(Kind::File)).collect();
        let reason = asked.reason(Kind::File);
        assert!(reason.starts_with("1 connections and 3 files are open"), "{reason}");
        assert!(reason.contains("raise it (ulimit -n"), "{reason}");
    }

    #[test]
    fn a_limit_that_is_enough_is_so_for_all_that_is_asked_for() {
        for (open, reserve) in [(20, 12), (35, 51), (66, 61), (900, 3000)] {
            for asked in [None, Some(1), Some(7), Some(200), Some(10_000)] {
                let enough = Capacity::enough(open, reserve, asked);
                let bounds = bounds(enough, open, reserve, asked.unwrap_or(usize::MAX));
                assert_eq!(left_alone(enough - open, reserve), reserve, "{open} {reserve}");
                assert!(bounds.connections >= asked.unwrap_or(2), "{open} {reserve} {asked:?}: {bounds:?}");
            }
        }
    }

    #[test]
    fn the_bounds_follow_the_limit_of_open_files() {
        let limit = limit_now();
        let capacity = Capacity::new(None);
        assert_eq!((capacity.most(), capacity.refresh()), (usize::MAX, ()), "there is no bound yet");
        assert_eq!(capacity.most(), usize::MAX);
        capacity.settle(30, 20, 0);
        let settled = bounds(limit, 30, 20, usize::MAX).connections;
        assert_eq!(capacity.most(), settled);
        assert_eq!(heard(|| capacity.refresh()), [""; 0]);
        capacity.limit.store(100, Relaxed);
        capacity.connections.store(1, Relaxed);
        let told = heard(|| capacity.refresh());
        let words = format!(
            "WARN the limit of open files has been changed from 100 to {limit}: {settled} connections"
        );
        assert!(told.len() == 1 && told[0].starts_with(&words), "{told:?}");
        assert_eq!(capacity.most(), settled);
    }

    #[test]
    fn who_asks_for_more_than_the_limit_allows_is_told() {
        let limit = limit_now();
        let warned = |capacity: Capacity, open, reserve| {
            let told = heard(|| capacity.settle(open, reserve, 0));
            told.into_iter().filter(|line| line.starts_with("WARN")).collect::<Vec<_>>()
        };
        assert_eq!(warned(Capacity::new(Some(2)), 30, 20), [""; 0]);
        assert_eq!(warned(Capacity::new(None), 30, 20), [""; 0]);
        let asked = warned(Capacity::new(Some(limit)), 30, 20);
        assert!(
            asked.len() == 1 && asked[0].contains(&format!("--max-connections is {limit}, but")),
            "{asked:?}"
        );
        let low = warned(Capacity::new(None), limit - 40, 46);
        assert!(low.len() == 1 && low[0].contains("that is enough for 8 connections"), "{low:?}");
    }
}
