//! The client leaves while its request waits: either the front gets the slot back, or a worker runs it.

use crate::room::Room;
use howdah_wire::layout::Phase;
use loom::thread;

#[test]
fn a_request_is_either_cancelled_or_claimed() {
    loom::model(|| {
        let room = Room::new(1, 1);
        let ticket = room.push(0);
        let worker = {
            let room = room.clone();
            thread::spawn(move || room.queue().claim(0).inspect(|claim| room.touch(claim.slot)).is_some())
        };
        let cancelled = room.queue().cancel(0, ticket);
        if cancelled {
            room.touch(0);
        }
        assert_ne!(worker.join().unwrap(), cancelled);
        assert_eq!(room.queue().state(0).phase, if cancelled { Phase::Free } else { Phase::Running });
    });
}

#[test]
fn a_cancelled_slot_queued_anew_is_claimed_once() {
    loom::model(|| {
        let room = Room::new(1, 1);
        let ticket = room.push(0);
        let worker = {
            let room = room.clone();
            thread::spawn(move || {
                let mut claims = 0;
                while let Some(claim) = room.queue().claim(0) {
                    room.touch(claim.slot);
                    claims += 1;
                }
                claims
            })
        };
        if room.queue().cancel(0, ticket) {
            room.push(0);
        }
        let claims = worker.join().unwrap() + u32::from(room.queue().claim(1).is_some());
        assert_eq!(claims, 1);
    });
}

#[test]
fn cancelled_places_do_not_fill_the_ring() {
    loom::model(|| {
        let room = Room::new(1, 1);
        for _ in 0..40 {
            let ticket = room.push(0);
            assert!(room.queue().cancel(0, ticket));
        }
    });
}
