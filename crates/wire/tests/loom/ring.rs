//! A worker that waits for room in its response ring is woken when there is some, or when nobody listens any more.

use crate::room::Room;
use howdah_wire::layout::RESPONSE_RING;
use howdah_wire::model::Ordering::SeqCst;
use loom::thread;

/// A worker whose ring is full waits while the front does `relieve`; asserts that it does not wait for ever.
fn full_ring(relieve: fn(&Room) -> bool) {
    loom::model(move || {
        let room = Room::new(1, 1);
        room.controls[0].reset(0);
        room.controls[0].produce(RESPONSE_RING);
        let worker = {
            let room = room.clone();
            thread::spawn(move || {
                let control = &room.controls[0];
                // The futex compares once more before it sleeps.
                control.wait_for_room().is_some_and(|seen| control.room.load(SeqCst) == seen)
            })
        };
        let woken = relieve(&room);
        let sleeps = worker.join().unwrap();
        assert!(!sleeps || woken, "asleep although there is no reason to wait");
    });
}

#[test]
fn a_worker_is_woken_when_the_front_consumes() {
    full_ring(|room| room.controls[0].consume(10));
}

#[test]
fn a_worker_is_woken_when_the_front_consumes_in_pieces() {
    full_ring(|room| room.controls[0].consume(1) | room.controls[0].consume(1));
}

#[test]
fn a_worker_is_woken_when_its_response_is_abandoned() {
    full_ring(|room| room.controls[0].abandon());
}

#[test]
fn bytes_change_hands_with_the_counters() {
    loom::model(|| {
        let room = Room::new(1, 1);
        room.controls[0].reset(0);
        let worker = {
            let room = room.clone();
            thread::spawn(move || {
                room.touch(0);
                room.controls[0].produce(RESPONSE_RING);
                // The next lap may only be written once the front has consumed the first.
                if room.controls[0].room_left() > 0 {
                    room.touch(0);
                }
            })
        };
        if room.controls[0].available() > 0 {
            room.touch(0);
            let _ = room.controls[0].consume(RESPONSE_RING);
        }
        worker.join().unwrap();
    });
}
