//! Which front thread has a connection. The first thread accepts for all of them: where several sleep on one socket, each
//! client wakes them all, and who is quickest has every connection. It keeps one for itself unless another thread has
//! noticeably fewer; then that one has it, as a guest, for whom `accept` looks there.
//!
//! What threads tell each other here are numbers and messages; a thread is woken by the first message that it has not read.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};

use rustix::net::SocketAddrAny;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::capacity::Permit;
use crate::listen::Origin;

/// So many connections more than another thread the first one keeps: a few are served best by one thread, which finds more of
/// them ready at a time and sleeps less often.
const SLACK: usize = 16;
/// Guests that may be on their way to a thread. More only wait there, where others would be let in.
const MOST_ON_THE_WAY: usize = 64;

/// One for all front threads of a process.
#[derive(Debug)]
pub struct Sharing {
    seats: Vec<Seat>,
    /// The first thread may send guests.
    open: AtomicBool,
}

/// A thread, to the others; each has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Seat {
    /// Connections that it has, those on their way among them, those to the server's own pages not.
    connections: AtomicUsize,
    on_the_way: AtomicUsize,
    door: OnceLock<UnboundedSender<Knock>>,
}

/// What a thread is told.
#[derive(Debug)]
pub(crate) enum Knock {
    /// Somebody to let in.
    Guest(Guest),
    /// Somebody waits for whom there is no room.
    Room,
    /// There will be no more guests.
    Closed,
}

/// A connection that has been accepted.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) socket: OwnedFd,
    pub(crate) address: Option<SocketAddrAny>,
    pub(crate) origin: Arc<Origin>,
    pub(crate) permit: Permit,
}

impl Sharing {
    /// For so many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self { seats: (0..threads).map(|_| Seat::default()).collect(), open: AtomicBool::new(false) }
    }

    /// The thread with this number is there.
    pub(crate) fn sit_down(&self, number: usize) -> UnboundedReceiver<Knock> {
        let (door, inbox) = unbounded_channel();
        let _ = self.seats[number].door.set(door);
        inbox
    }

    /// The first thread is about to accept connections.
    pub(crate) fn open(&self) {
        self.open.store(true, SeqCst);
    }

    /// It accepts no more.
    pub(crate) fn close(&self) {
        self.open.store(false, SeqCst);
        self.tell_others(|| Knock::Closed);
    }

    /// Whether this thread, not the first one, has guests or may yet have some.
    pub(crate) fn expects_guests(&self, number: usize) -> bool {
        // The order matters: who was sent before the close has been counted.
        number > 0 && (self.open.load(SeqCst) || self.seats[number].connections.load(SeqCst) > 0)
    }

    /// Hands a connection to the thread that should have it. Gives it back when that is the first one.
    pub(crate) fn hand_on(&'static self, mut guest: Guest) -> Option<Guest> {
        if self.seats.len() == 1 || guest.origin.pages_only {
            return Some(guest);
        }
        let seat = self.choose();
        guest.permit.count_at(&seat.connections);
        let Some(door) = seat.door.get().filter(|_| !std::ptr::eq(seat, &raw const self.seats[0])) else {
            return Some(guest);
        };
        seat.on_the_way.fetch_add(1, Relaxed);
        let sent = door.send(Knock::Guest(guest));
        sent.err().and_then(|refused| if let Knock::Guest(guest) = refused.0 { Some(guest) } else { None })
    }

    /// Whether nobody but this thread has connections.
    pub(crate) fn has_all(&self, number: usize) -> bool {
        let others = self.seats.iter().enumerate().filter(|(index, _)| *index != number);
        others.map(|(_, seat)| seat.connections.load(Relaxed)).all(|connections| connections == 0)
    }

    /// A guest has been let in.
    pub(crate) fn arrived(&self, number: usize) {
        self.seats[number].on_the_way.fetch_sub(1, Relaxed);
    }

    /// Asks the other threads for room.
    pub(crate) fn ask_for_room(&self) {
        self.tell_others(|| Knock::Room);
    }

    /// The thread for the next connection.
    fn choose(&self) -> &Seat {
        let (first, others) = (&self.seats[0], &self.seats[1..]);
        let connections = |seat: &&Seat| seat.connections.load(Relaxed);
        let own = connections(&first);
        if own < SLACK {
            return first;
        }
        let ready =
            |seat: &&Seat| seat.door.get().is_some() && seat.on_the_way.load(Relaxed) < MOST_ON_THE_WAY;
        let other = others.iter().filter(ready).min_by_key(connections);
        other.filter(|seat| connections(seat) + SLACK <= own).unwrap_or(first)
    }

    fn tell_others(&self, knock: impl Fn() -> Knock) {
        for door in self.seats[1..].iter().filter_map(|seat| seat.door.get()) {
            let _ = door.send(knock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::ListenOptions;
    use crate::capacity::{Capacity, Kind};
    use crate::listen::Listener;
    use crate::sample::forever;

    fn guest(pages_only: bool) -> Guest {
        let options = ListenOptions { pages_only, ..ListenOptions::default() };
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let kind = if pages_only { Kind::Page } else { Kind::Connection };
        let permit = forever(Capacity::new(None)).enter(kind).unwrap();
        let socket = howdah_sys::eventfd().unwrap();
        Guest { socket, address: None, origin: listener.origin, permit }
    }

    fn threads(count: usize) -> (&'static Sharing, Vec<UnboundedReceiver<Knock>>) {
        let sharing: &Sharing = forever(Sharing::new(count));
        let inboxes = (0..count).map(|number| sharing.sit_down(number)).collect();
        (sharing, inboxes)
    }

    fn connections(sharing: &Sharing) -> Vec<usize> {
        sharing.seats.iter().map(|seat| seat.connections.load(Relaxed)).collect()
    }

    #[test]
    fn a_connection_goes_to_who_has_noticeably_fewer() {
        // Connections that the threads have, guests on their way to the second one, and who has the next.
        for (has, on_the_way, next) in [
            (vec![100], 0, 0),
            (vec![0, 0], 0, 0),
            (vec![15, 0], 0, 0),
            (vec![16, 0], 0, 1),
            (vec![16, 1], 0, 0),
            (vec![40, 30], 0, 0),
            (vec![0, 40], 0, 0),
            (vec![16, 0], 64, 0),
            (vec![46, 30, 29], 0, 2),
            (vec![46, 0, 30], 63, 1),
            (vec![46, 0, 30], 64, 2),
        ] {
            let (sharing, _inboxes) = threads(has.len());
            for (seat, &count) in sharing.seats.iter().zip(&has) {
                seat.connections.store(count, Relaxed);
            }
            if let Some(second) = sharing.seats.get(1) {
                second.on_the_way.store(on_the_way, Relaxed);
            }
            let chosen = sharing.seats.iter().position(|seat| std::ptr::eq(seat, sharing.choose()));
            assert_eq!(chosen, Some(next), "{has:?}, {on_the_way} on the way");
        }
    }

    #[test]
    fn a_guest_counts_where_it_goes_until_it_is_gone() {
        let (sharing, mut inboxes) = threads(2);
        let kept: Vec<_> = (0..SLACK).map(|_| sharing.hand_on(guest(false)).expect("kept")).collect();
        assert!(sharing.hand_on(guest(false)).is_none(), "there are as many as the first thread keeps");
        assert_eq!(connections(sharing), [SLACK, 1]);
        assert!(!sharing.has_all(0) && !sharing.has_all(1));
        let Ok(Knock::Guest(sent)) = inboxes[1].try_recv() else { panic!("nobody came") };
        sharing.arrived(1);
        drop(sent);
        assert!(sharing.has_all(0) && !sharing.has_all(1));
        drop(kept);
        assert_eq!(connections(sharing), [0, 0]);
        assert_eq!(sharing.seats[1].on_the_way.load(Relaxed), 0);
    }

    #[test]
    fn a_thread_whose_inbox_is_gone_gets_nobody() {
        let (sharing, inboxes) = threads(2);
        drop(inboxes);
        sharing.seats[0].connections.store(SLACK, Relaxed);
        assert!(sharing.hand_on(guest(false)).is_some());
    }

    #[test]
    fn the_servers_own_pages_are_shown_by_the_first_thread() {
        let (sharing, _inboxes) = threads(2);
        sharing.seats[0].connections.store(100, Relaxed);
        assert!(sharing.hand_on(guest(true)).is_some());
        assert_eq!(connections(sharing), [100, 0]);
    }

    #[test]
    fn guests_are_expected_until_no_more_come_and_the_last_is_gone() {
        let (sharing, mut inboxes) = threads(2);
        assert!(!sharing.expects_guests(1));
        sharing.open();
        assert!(sharing.expects_guests(1) && !sharing.expects_guests(0));
        sharing.seats[0].connections.store(SLACK, Relaxed);
        assert!(sharing.hand_on(guest(false)).is_none());
        sharing.close();
        assert!(sharing.expects_guests(1));
        drop(inboxes[1].try_recv());
        assert!(!sharing.expects_guests(1));
        assert!(matches!(inboxes[1].try_recv(), Ok(Knock::Closed)));
    }
}
