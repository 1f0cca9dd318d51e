//! A worker that waits for room in its response ring is woken when there is some, or when nobody listens any more.

use crate::room::Room;
use howdah_wire::layout::{RESPONSE_HEAD_READY, RESPONSE_RING};
use howdah_wire::model::Ordering::SeqCst;
use howdah_wire::{Answer, Outgoing};
use loom::thread;

const TICKET: u64 = 7;

/// A response whose head is out, so that the front takes what comes.
fn with_head(room: &Room) -> Outgoing {
    let mut response = Outgoing::new(TICKET);
    response.set_head(&room.controls[0], Answer { flags: RESPONSE_HEAD_READY, ..Answer::default() });
    response
}

/// A worker whose ring is full waits while the front does `relieve`; asserts that it does not wait for ever.
fn full_ring(relieve: fn(&Room) -> bool) {
    loom::model(move || {
        let room = Room::new(1, 1);
        room.controls[0].reset(0);
        let mut response = with_head(&room);
        response.produce(&room.controls[0], RESPONSE_RING);
        let worker = {
            let room = room.clone();
            thread::spawn(move || {
                let control = &room.controls[0];
                // The futex compares once more before it sleeps.
                response.wait_for_room(control).is_some_and(|seen| control.room.load(SeqCst) == seen)
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
    full_ring(|room| room.controls[0].consume(1) | room.controls[0].consume(2));
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
        let mut response = with_head(&room);
        let worker = {
            let room = room.clone();
            thread::spawn(move || {
                room.touch(0);
                response.produce(&room.controls[0], RESPONSE_RING);
                // The next lap may only be written once the front has consumed the first.
                if response.room_left(&room.controls[0]) > 0 {
                    room.touch(0);
                }
            })
        };
        let answer = room.controls[0].answer(TICKET);
        if answer.is_some_and(|answer| answer.produced > 0) {
            room.touch(0);
            let _ = room.controls[0].consume(RESPONSE_RING as u64);
        }
        worker.join().unwrap();
    });
}
