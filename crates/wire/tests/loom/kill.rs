//! SIGKILL at each step of a worker costs at most the request that it had claimed.
//!
//! Worker 0 is mortal, worker 1 lives. After the death the front does what it does on a worker's exit: it takes the
//! dead worker out of the idle set, recovers every slot that it has queued, queues anew what was not begun, and wakes
//! another worker when requests wait.

use crate::room::{Room, bounded, work_until_asleep};
use howdah_wire::layout::Phase;
use howdah_wire::model::mortal;
use howdah_wire::queue::Claim;
use howdah_wire::recover::Remains;
use loom::thread;

/// Steps that a worker takes at most in these models; the last kills come too late.
const STEPS: usize = 80;
const VICTIM: u16 = 0;

fn at_each_step(model: fn(usize)) {
    for steps in 0..STEPS {
        bounded(2, move || model(steps));
    }
}

/// Serves until the queue is empty: whether the front was to be woken.
fn serve_all(room: &Room, worker: u16) -> bool {
    let mut wakes = false;
    while let Some(claim) = room.queue().claim(worker) {
        wakes |= room.serve(worker, claim);
    }
    wakes
}

/// What the front does about a slot when it hears of the death: the status that it knows then, if any.
fn recover(room: &Room, slot: u32, ticket: &mut u64) -> Option<u32> {
    match room.queue().recover(slot, *ticket, VICTIM, &room.workers) {
        Remains::None => None,
        Remains::Response => Some(200),
        Remains::Lost => Some(502),
        Remains::Unbegun => {
            assert_eq!(room.calls(slot), 0, "begun, and queued anew");
            *ticket = room.push(slot);
            None
        }
        Remains::Doubtful(what) => panic!("{what}"),
    }
}

/// A request was answered by the one worker that was called with it, or was lost with that.
fn assert_settled(room: &Room, slot: u32, ticket: u64, known: Option<u32>) {
    assert_eq!(room.calls(slot), 1, "called once");
    if known == Some(502) {
        return assert_eq!(room.queue().state(slot).phase, Phase::Free);
    }
    let answer = room.controls[slot as usize].answer(ticket);
    assert_eq!(answer.map(|answer| answer.produced), Some(1), "done, but not sealed");
    assert_eq!(room.queue().state(slot).phase, Phase::Done);
}

#[test]
fn no_slot_and_no_news_is_lost() {
    at_each_step(|steps| {
        let room = Room::new(2, 2);
        let mut tickets = [room.push(0), room.push(1)];
        assert!(room.front.try_sleep());
        let victim = {
            let room = room.clone();
            thread::spawn(move || mortal(steps, || serve_all(&room, VICTIM)))
        };
        let woken = serve_all(&room, 1);
        let end = victim.join().unwrap();
        assert!(end.is_some() || steps < STEPS - 1, "more steps than are tried");

        assert!(woken || end.is_none_or(|woken| woken) || !room.front.has_news(), "the front sleeps on");
        let mut heard = Vec::new();
        room.front.take_news(|slot| heard.push(slot));
        for slot in heard {
            assert_eq!(room.queue().state(slot).phase, Phase::Done, "slot {slot} has news");
        }
        let mut known = [None; 2];
        if end.is_none() {
            room.cells.leave_idle(VICTIM);
            known = [0, 1].map(|slot| recover(&room, slot, &mut tickets[slot as usize]));
        }
        // Whatever the victim left alone or had not begun is still to be had.
        serve_all(&room, 1);
        for slot in 0..2 {
            assert_settled(&room, slot, tickets[slot as usize], known[slot as usize]);
        }
        assert!(known.iter().filter(|&&status| status == Some(502)).count() <= 1, "{known:?}");
        assert!(!room.queue().has_entry());
    });
}

#[test]
fn what_was_not_begun_is_served_by_one_that_looks_meanwhile() {
    at_each_step(|steps| {
        let room = Room::new(1, 2);
        let mut ticket = room.push(0);
        let victim = {
            let room = room.clone();
            thread::spawn(move || mortal(steps, || serve_all(&room, VICTIM)))
        };
        let died = victim.join().unwrap().is_none();
        let survivor = {
            let room = room.clone();
            thread::spawn(move || serve_all(&room, 1))
        };
        let known = if died { recover(&room, 0, &mut ticket) } else { None };
        let _ = survivor.join().unwrap();
        serve_all(&room, 1);
        assert_settled(&room, 0, ticket, known);
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
