//! A request is claimed once: never by two workers, never by none.

use crate::room::{Room, bounded};
use loom::thread;

/// Claims until nothing is found.
fn claim_all(room: &Room, worker: u16) -> Vec<u32> {
    let mut claimed = Vec::new();
    while let Some(claim) = room.queue().claim(worker) {
        room.touch(claim.slot);
        claimed.push(claim.slot);
    }
    claimed
}

#[test]
fn two_workers_share_two_requests_without_loss_or_double() {
    bounded(3, || {
        let room = Room::new(2, 2);
        room.push(0);
        let [a, b] = [0, 1].map(|worker| {
            let room = room.clone();
            thread::spawn(move || claim_all(&room, worker))
        });
        room.push(1);
        let mut claimed = a.join().unwrap();
        claimed.extend(b.join().unwrap());
        claimed.extend(claim_all(&room, 2));
        claimed.sort_unstable();
        assert_eq!(claimed, [0, 1]);
    });
}

#[test]
fn two_fronts_push_at_once_and_nothing_is_lost() {
    loom::model(|| {
        let room = Room::new(2, 1);
        let other = {
            let room = room.clone();
            thread::spawn(move || room.push(1))
        };
        let worker = {
            let room = room.clone();
            thread::spawn(move || claim_all(&room, 0))
        };
        room.push(0);
        other.join().unwrap();
        let mut claimed = worker.join().unwrap();
        claimed.extend(claim_all(&room, 1));
        claimed.sort_unstable();
        assert_eq!(claimed, [0, 1]);
    });
}

#[test]
fn a_stale_claimer_does_not_take_a_slot_that_was_reused() {
    loom::model(|| {
        let room = Room::new(1, 2);
        room.push(0);
        let slow = {
            let room = room.clone();
            thread::spawn(move || claim_all(&room, 0).len())
        };
        // The quick worker serves it, and the front queues the slot anew, while the slow one still looks.
        let mut claims = 0;
        let mut pushes = 1;
        if let Some(claim) = room.queue().claim(1) {
            room.touch(0);
            claims += 1;
            assert!(room.queue().finish(claim, 1));
            room.queue().release(0);
            room.push(0);
            pushes += 1;
        }
        claims += slow.join().unwrap();
        claims += claim_all(&room, 1).len();
        assert_eq!(claims, pushes);
    });
}
