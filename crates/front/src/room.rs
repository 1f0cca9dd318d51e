//! Makes room: when there are no descriptors left, a connection that rests has to go.

use crate::address::Serves;
use crate::capacity::{Capacity, Kind, Permit};
use crate::clock::Clock;
use crate::idle::{Idle, Need};
use crate::record::Records;
use crate::repeated::Repeated;
use crate::timers::Timers;

/// Idle connections that a sweep lets go for clients that wait at another thread.
const TURN: usize = 8;

/// What a front thread has of the room that there is.
pub(crate) struct Room {
    /// How many connections and files there may be, in all threads.
    pub(crate) capacity: &'static Capacity,
    timers: &'static Timers,
    clock: &'static Clock,
    records: &'static Records,
    idle: Idle,
}

impl Room {
    pub(crate) fn new(
        capacity: &'static Capacity,
        timers: &'static Timers,
        clock: &'static Clock,
        records: &'static Records,
    ) -> Self {
        Self { capacity, timers, clock, records, idle: Idle::default() }
    }

    /// Asks the connection to go that has rested for longest, see `idle`. False when none rests.
    pub(crate) fn dismiss(&self, serves: Serves) -> bool {
        self.make(serves, Need::Patient)
    }

    fn make(&self, serves: Serves, need: Need) -> bool {
        let dismissed = self.idle.dismiss(self.timers, serves, need, self.clock.served());
        if dismissed {
            self.records.dismissed();
        }
        dismissed
    }

    /// Lets idle connections go for clients that wait at another thread, and when there are more than may be. The thread that lets
    /// clients in, if this is it, makes room by itself, a place for each.
    pub(crate) fn sweep(&self, lets_in: bool) {
        let wait_elsewhere = !lets_in && self.capacity.is_crowded();
        let most = self.capacity.excess().max(if wait_elsewhere { TURN } else { 0 });
        let _ = (0..most).all(|_| self.dismiss(Serves::Requests));
    }

    /// A permit for a file. When descriptors run short, a connection that rests makes room; it closes within this turn of
    /// the event loop, and for so long the file has one of the reserve.
    pub(crate) fn permit_for_file(&self) -> Option<Permit> {
        let permit = self.capacity.enter(Kind::File);
        let short = self.capacity.is_short_of_files();
        let need = if permit.is_some() { Need::Patient } else { Need::Urgent };
        let relieved = short && self.make(Serves::Requests, need);
        let permit = permit.or_else(|| relieved.then(|| self.capacity.overdraw(Kind::File)));
        if permit.is_none() {
            static TOLD: Repeated = Repeated::new();
            if let Some(again) = TOLD.pass() {
                let reason = self.capacity.reason(Kind::File);
                tracing::error!("no descriptor is left for a body: {reason}{again}");
            }
        }
        permit
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::timers::Rest;

    #[test]
    fn a_file_has_the_place_of_a_connection_that_rests() {
        let clock = Box::leak(Box::new(Clock::new()));
        let room = sample::room_for(Capacity::of_descriptors(3, 4), clock);
        let files: Vec<_> = std::iter::from_fn(|| room.capacity.enter(Kind::File)).collect();
        assert_eq!(files.len(), 4);
        assert!(room.permit_for_file().is_none(), "nobody rests");
        clock.advance(std::time::Duration::from_secs(1));
        let timer = room.timers.start(Serves::Requests);
        timer.set(Rest::Kept, 0);
        assert!(room.permit_for_file().is_some() && timer.is_unwanted());
        assert!(room.permit_for_file().is_none(), "it makes room once");
    }

    #[test]
    fn where_descriptors_are_left_nobody_makes_room_for_a_file() {
        let clock = Box::leak(Box::new(Clock::new()));
        let room = sample::room_for(Capacity::of_descriptors(100, 200), clock);
        let timer = room.timers.start(Serves::Requests);
        timer.set(Rest::Kept, 0);
        clock.advance(std::time::Duration::from_secs(1));
        assert!(room.permit_for_file().is_some() && !timer.is_unwanted());
    }

    #[test]
    fn a_sweep_lets_a_few_go_while_somebody_waits_elsewhere() {
        let clock = Box::leak(Box::new(Clock::new()));
        let room = sample::room(clock);
        let timers: Vec<_> = (0..20).map(|_| room.timers.start(Serves::Requests)).collect();
        timers.iter().for_each(|timer| timer.set(Rest::Kept, 0));
        clock.advance(std::time::Duration::from_secs(1));
        let unwanted = || timers.iter().filter(|timer| timer.is_unwanted()).count();
        room.sweep(false);
        assert_eq!(unwanted(), 0);
        let crowd = room.capacity.crowd();
        room.sweep(true);
        assert_eq!(unwanted(), 0, "who waits here is let in one by one");
        room.sweep(false);
        assert_eq!(unwanted(), TURN);
        drop(crowd);
        room.sweep(false);
        assert_eq!(unwanted(), TURN);
    }
}
