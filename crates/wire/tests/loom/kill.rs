//! SIGKILL at each step of a worker costs at most the request that it had claimed.
//!
//! Worker 0 is mortal, worker 1 lives. After the death the front does what it does on a worker's exit: it takes the
//! dead worker out of the idle set, wakes itself, looks at every slot that bears its number, and wakes another worker
//! when requests wait.

use crate::room::{Room, bounded, work_until_asleep};
use howdah_wire::layout::Phase;
use howdah_wire::model::mortal;
use howdah_wire::queue::Claim;
use loom::thread;

/// Steps that a worker takes at most in these models; the last kills come too late.
const STEPS: usize = 60;
const VICTIM: u16 = 0;

fn at_each_step(model: fn(usize)) {
    for steps in 0..STEPS {
        bounded(2, move || model(steps));
    }
}

fn serve(room: &Room, worker: u16, claim: Claim) -> bool {
    room.touch(claim.slot);
    assert!(room.answer(worker, claim, 1));
    room.front.tell(claim.slot)
}

/// Serves until the queue is empty: whether the front was to be woken.
fn serve_all(room: &Room, worker: u16) -> bool {
    let mut wakes = false;
    while let Some(claim) = room.queue().claim(worker) {
        wakes |= serve(room, worker, claim);
    }
    wakes
}

#[test]
fn no_slot_and_no_news_is_lost() {
    at_each_step(|steps| {
        let room = Room::new(2, 2);
        let tickets = [room.push(0), room.push(1)];
        assert!(room.front.try_sleep());
        let victim = {
            let room = room.clone();
            thread::spawn(move || mortal(steps, || serve_all(&room, VICTIM)))
        };
        let woken = serve_all(&room, 1);
        let end = victim.join().unwrap();

        let mut answered = [0; 2];
        let mut take = |slot: u32| match room.queue().state(slot).phase {
            Phase::Done => {
                let answer = room.controls[slot as usize].answer(tickets[slot as usize]);
                assert_eq!(answer.map(|answer| answer.produced), Some(1), "done, but not sealed");
                answered[slot as usize] = 200;
            }
            Phase::Running => answered[slot as usize] = 502,
            Phase::Queued | Phase::Free => {
                panic!("slot {slot} has news but is {:?}", room.queue().state(slot))
            }
        };
        assert!(woken || end.is_none_or(|woken| woken) || !room.front.has_news(), "the front sleeps on");
        room.front.take_news(&mut take);
        if end.is_none() {
            room.cells.leave_idle(VICTIM);
            room.queue().held_by(VICTIM).for_each(&mut take);
        }
        // Whatever the victim left alone is still to be had.
        while let Some(Claim { slot, .. }) = room.queue().claim(1) {
            room.touch(slot);
            answered[slot as usize] = 200;
        }
        assert!(!answered.contains(&0), "{answered:?}");
        assert!(answered.iter().filter(|&&status| status == 502).count() <= 1, "{answered:?}");
        assert!(!room.queue().has_entry());
    });
}

#[test]
fn every_slot_serves_again_after_a_death() {
    at_each_step(|steps| {
        let room = Room::new(1, 2);
        let ticket = room.push(0);
        let victim = {
            let room = room.clone();
            thread::spawn(move || mortal(steps, || serve_all(&room, VICTIM)))
        };
        serve_all(&room, 1);
        victim.join().unwrap();
        let _ = room.queue().cancel(0, ticket);
        room.queue().release(0);
        let ticket = room.push(0);
        assert_eq!(room.queue().claim(1), Some(Claim { slot: 0, ticket }));
        assert_eq!(room.queue().claim(1), None);
    });
}

#[test]
fn a_wakeup_spent_on_a_dying_worker_is_spent_anew() {
    at_each_step(|steps| {
        let room = Room::new(1, 2);
        room.cells.enter_idle(1, &room.workers[1], 0);
        let victim = {
            let room = room.clone();
            thread::spawn(move || mortal(steps, || work_until_asleep(&room, VICTIM, |_| {})).is_none())
        };
        room.push(0);
        let _ = room.wake_one();
        let died = victim.join().unwrap();
        if died {
            room.cells.leave_idle(VICTIM);
            if room.queue().has_entry() {
                let _ = room.wake_one();
            }
        }
        let victim_sleeps = died || room.still_asleep(VICTIM);
        assert!(!(room.queue().has_entry() && victim_sleeps && room.still_asleep(1)), "nobody awake");
    });
}
