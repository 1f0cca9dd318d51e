//! What front threads know of each other's connections, and how a connection goes from one to another.
//!
//! What they tell each other here are numbers and messages; a thread is woken by the first message that it has not read.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use rustix::net::SocketAddrAny;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::address::Serves;
use crate::capacity::Permit;
use crate::listen::Origin;
use crate::request::Client;

/// So many connections more than another thread the first one keeps.
const SLACK: usize = 16;
/// Guests that may be on their way to a thread. More only wait there, where others would be let in.
const MOST_ON_THE_WAY: usize = 64;

/// One for all front threads of a process.
#[derive(Debug)]
pub struct Sharing {
    pub(super) seats: Vec<Seat>,
    /// Threads may send each other connections.
    open: AtomicBool,
    /// One thread is not enough.
    pub(super) spread: AtomicBool,
    /// Nor is it ever meant to be.
    pub(super) always: bool,
}

/// A thread, to the others; each has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Seat {
    /// Connections that it has, those on their way among them, those to the server's own pages not.
    connections: AtomicUsize,
    on_the_way: AtomicUsize,
    /// Nanoseconds that it has run so far.
    pub(super) ran: AtomicU64,
    door: OnceLock<UnboundedSender<Knock>>,
}

/// What a thread is told.
#[derive(Debug)]
pub(crate) enum Knock {
    /// Somebody to let in.
    Guest(Guest),
    /// Somebody who is in, and comes over.
    Moved(Moved),
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

/// A connection of HTTP/1 that rests between two requests.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) socket: OwnedFd,
    pub(crate) client: Client,
    pub(crate) permit: Permit,
    /// Requests answered.
    pub(crate) served: u64,
}

impl Sharing {
    /// For so many threads. `always` shares connections out even while one thread is enough.
    #[must_use]
    pub fn new(threads: usize, always: bool) -> Self {
        let seats = (0..threads).map(|_| Seat::default()).collect();
        Self { seats, open: AtomicBool::new(false), spread: AtomicBool::new(always), always }
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

    /// Whether this thread has guests or may yet have some. The first one may have those that come back to it.
    pub(crate) fn expects_guests(&self, number: usize) -> bool {
        // The order matters: who was sent before the close has been counted.
        let (open, seat) = (self.open.load(SeqCst), &self.seats[number]);
        match number {
            0 => seat.on_the_way.load(SeqCst) > 0,
            _ => open || seat.connections.load(SeqCst) > 0,
        }
    }

    /// Hands a connection to the thread that should have it. Gives it back when that is the first one.
    pub(crate) fn hand_on(&'static self, mut guest: Guest) -> Option<Guest> {
        if self.seats.len() == 1 || guest.origin.serves == Serves::Pages {
            return Some(guest);
        }
        let spread = guest.origin.tls || self.spread.load(Relaxed);
        let to = if spread { self.choose() } else { 0 };
        let seat = &self.seats[to];
        guest.permit.count_at(&seat.connections);
        let Some(door) = seat.door.get().filter(|_| to != 0) else {
            return Some(guest);
        };
        seat.on_the_way.fetch_add(1, SeqCst);
        let sent = door.send(Knock::Guest(guest));
        sent.err().and_then(|refused| if let Knock::Guest(guest) = refused.0 { Some(guest) } else { None })
    }

    /// The thread that had better have a connection of this one's.
    pub(crate) fn elsewhere(&self, number: usize) -> Option<usize> {
        let better = match (self.spread.load(Relaxed), number) {
            (true, 0) => self.choose(),
            (true, _) => number,
            (false, _) => 0,
        };
        (better != number).then_some(better)
    }

    /// Has another thread expect a connection. False when there will be no more: then it stays where it is.
    pub(crate) fn announce(&self, to: usize) -> bool {
        // In this order: the first thread closes when it ends, and then looks who is on the way. What it sends itself it does
        // not send meanwhile.
        self.seats[to].on_the_way.fetch_add(1, SeqCst);
        let open = self.open.load(SeqCst);
        if !open {
            self.arrived(to);
        }
        open
    }

    /// Hands one over that has been announced.
    pub(crate) fn move_on(&'static self, to: usize, mut moved: Moved) {
        let seat = &self.seats[to];
        moved.permit.count_at(&seat.connections);
        if let Some(door) = seat.door.get() {
            // A thread that takes no messages has died, and its process ends.
            let _ = door.send(Knock::Moved(moved));
        }
    }

    /// Whether nobody but this thread has connections.
    pub(crate) fn has_all(&self, number: usize) -> bool {
        let others = self.seats.iter().enumerate().filter(|(index, _)| *index != number);
        others.map(|(_, seat)| seat.connections.load(Relaxed)).all(|connections| connections == 0)
    }

    /// A guest has been let in.
    pub(crate) fn arrived(&self, number: usize) {
        self.seats[number].on_the_way.fetch_sub(1, SeqCst);
    }

    /// Asks the other threads for room.
    pub(crate) fn ask_for_room(&self) {
        self.tell_others(|| Knock::Room);
    }

    /// The thread for another connection, where they are shared out.
    fn choose(&self) -> usize {
        let connections = |number: usize| self.seats[number].connections.load(Relaxed);
        let own = connections(0);
        if own < SLACK {
            return 0;
        }
        let ready = |&number: &usize| {
            let seat = &self.seats[number];
            seat.door.get().is_some() && seat.on_the_way.load(Relaxed) < MOST_ON_THE_WAY
        };
        let other = (1..self.seats.len()).filter(ready).min_by_key(|&number| connections(number));
        other.filter(|&number| connections(number) + SLACK <= own).unwrap_or(0)
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
    use crate::capacity::Capacity;
    use crate::listen::Listener;
    use crate::sample::forever;

    fn guest(serves: Serves) -> Guest {
        let options = ListenOptions { serves, ..ListenOptions::default() };
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), &options).unwrap().remove(0);
        let permit = forever(Capacity::new(None)).enter(serves.into()).unwrap();
        let socket = howdah_sys::eventfd().unwrap();
        Guest { socket, address: None, origin: listener.origin, permit }
    }

    fn threads(count: usize) -> (&'static Sharing, Vec<UnboundedReceiver<Knock>>) {
        let sharing: &Sharing = forever(Sharing::new(count, true));
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
            assert_eq!(sharing.choose(), next, "{has:?}, {on_the_way} on the way");
        }
    }

    #[test]
    fn a_guest_counts_where_it_goes_until_it_is_gone() {
        let (sharing, mut inboxes) = threads(2);
        let kept: Vec<_> =
            (0..SLACK).map(|_| sharing.hand_on(guest(Serves::Requests)).expect("kept")).collect();
        assert!(
            sharing.hand_on(guest(Serves::Requests)).is_none(),
            "there are as many as the first thread keeps"
        );
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
        assert!(sharing.hand_on(guest(Serves::Requests)).is_some());
    }

    #[test]
    fn the_servers_own_pages_are_shown_by_the_first_thread() {
        let (sharing, _inboxes) = threads(2);
        sharing.seats[0].connections.store(100, Relaxed);
        assert!(sharing.hand_on(guest(Serves::Pages)).is_some());
        assert_eq!(connections(sharing), [100, 0]);
    }

    #[test]
    fn guests_are_expected_until_no_more_come_and_the_last_is_gone() {
        let (sharing, mut inboxes) = threads(2);
        assert!(!sharing.expects_guests(1));
        sharing.open();
        assert!(sharing.expects_guests(1) && !sharing.expects_guests(0));
        sharing.seats[0].connections.store(SLACK, Relaxed);
        assert!(sharing.hand_on(guest(Serves::Requests)).is_none());
        sharing.close();
        assert!(sharing.expects_guests(1));
        drop(inboxes[1].try_recv());
        assert!(!sharing.expects_guests(1));
        assert!(matches!(inboxes[1].try_recv(), Ok(Knock::Closed)));
    }

    #[test]
    fn one_thread_has_all_connections_while_it_is_enough_but_for_those_by_tls() {
        let sharing: &Sharing = forever(Sharing::new(2, false));
        let mut inboxes = (sharing.sit_down(0), sharing.sit_down(1));
        sharing.seats[0].connections.store(100, Relaxed);
        assert!(sharing.hand_on(guest(Serves::Requests)).is_some());
        let mut secret = guest(Serves::Requests);
        Arc::get_mut(&mut secret.origin).expect("nobody else has it").tls = true;
        assert!(sharing.hand_on(secret).is_none());
        assert!(matches!(inboxes.1.try_recv(), Ok(Knock::Guest(_))));
        sharing.spread.store(true, Relaxed);
        assert!(sharing.hand_on(guest(Serves::Requests)).is_none());
    }

    #[test]
    fn a_connection_that_rests_goes_where_a_new_one_would_and_back_when_one_thread_is_enough() {
        // Connections of each thread, whether they are shared out, whose it is, and who had better have it.
        for (has, spread, number, better) in [
            (vec![100], true, 0, None),
            (vec![16, 0], true, 0, Some(1)),
            (vec![16, 1], true, 0, None),
            (vec![0, 100], true, 1, None),
            (vec![46, 30, 29], true, 0, Some(2)),
            (vec![100, 0], false, 0, None),
            (vec![100, 1], false, 1, Some(0)),
        ] {
            let (sharing, _inboxes) = threads(has.len());
            for (seat, &count) in sharing.seats.iter().zip(&has) {
                seat.connections.store(count, Relaxed);
            }
            sharing.spread.store(spread, Relaxed);
            assert_eq!(sharing.elsewhere(number), better, "{has:?}, {spread}, {number}");
        }
    }

    #[test]
    fn one_that_is_on_its_way_back_is_waited_for_and_none_sets_out_after_the_end() {
        let (sharing, mut inboxes) = threads(2);
        assert!(!sharing.announce(0), "not open yet");
        sharing.open();
        let Guest { socket, mut permit, origin, .. } = guest(Serves::Requests);
        permit.count_at(&sharing.seats[1].connections);
        assert!(sharing.announce(0));
        sharing.close();
        assert!(!sharing.announce(0) && !sharing.announce(1));
        assert!(sharing.expects_guests(0) && sharing.expects_guests(1));
        let client = Client { origin, ..crate::sample::client("127.0.0.1") };
        sharing.move_on(0, Moved { socket, client, permit, served: 7 });
        assert_eq!(connections(sharing), [1, 0]);
        assert!(sharing.expects_guests(0) && !sharing.expects_guests(1));
        let Ok(Knock::Moved(moved)) = inboxes[0].try_recv() else { panic!("nobody came") };
        sharing.arrived(0);
        assert!(!sharing.expects_guests(0) && moved.served == 7);
        drop(moved);
        assert_eq!(connections(sharing), [0, 0]);
    }
}
