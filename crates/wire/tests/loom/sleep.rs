//! A worker that sleeps while a request waits has been woken.

use crate::room::{Room, bounded, work_until_asleep};
use howdah_wire::layout::Command;
use howdah_wire::model::Ordering::SeqCst;
use loom::thread;

#[test]
fn a_push_and_a_falling_asleep_never_miss_each_other() {
    loom::model(|| {
        let room = Room::new(1, 1);
        let worker = {
            let room = room.clone();
            thread::spawn(move || work_until_asleep(&room, 0, |_| {}))
        };
        room.push(0);
        let _ = room.wake_one();
        worker.join().unwrap();
        assert!(!(room.queue().has_entry() && room.still_asleep(0)), "asleep beside a waiting request");
    });
}

#[test]
fn of_two_sleepers_one_is_woken_for_one_request() {
    bounded(3, || {
        let room = Room::new(1, 2);
        let workers = [0, 1].map(|worker| {
            let room = room.clone();
            thread::spawn(move || work_until_asleep(&room, worker, |_| {}))
        });
        room.push(0);
        let _ = room.wake_one();
        for worker in workers {
            worker.join().unwrap();
        }
        let all_asleep = room.still_asleep(0) && room.still_asleep(1);
        assert!(!(room.queue().has_entry() && all_asleep), "both asleep beside a waiting request");
    });
}

#[test]
fn two_fronts_do_not_leave_the_only_worker_asleep() {
    bounded(3, || {
        let room = Room::new(2, 1);
        let worker = {
            let room = room.clone();
            thread::spawn(move || work_until_asleep(&room, 0, |_| {}))
        };
        let other = {
            let room = room.clone();
            thread::spawn(move || {
                room.push(1);
                let _ = room.wake_one();
            })
        };
        room.push(0);
        let _ = room.wake_one();
        other.join().unwrap();
        worker.join().unwrap();
        assert!(!(room.queue().has_entry() && room.still_asleep(0)), "asleep beside a waiting request");
    });
}

#[test]
fn two_fronts_never_spend_two_wakeups_on_one_sleeper() {
    loom::model(|| {
        let room = Room::new(1, 2);
        for worker in 0..2 {
            room.cells.enter_idle(worker, &room.workers[worker as usize], u64::from(worker));
        }
        let other = {
            let room = room.clone();
            thread::spawn(move || room.wake_one())
        };
        let mut woken = [room.wake_one(), other.join().unwrap()];
        woken.sort_unstable();
        assert_eq!(woken, [Some(0), Some(1)]);
    });
}

#[test]
fn a_worker_asked_to_drain_does_not_sleep_on() {
    loom::model(|| {
        let room = Room::new(1, 1);
        let worker = {
            let room = room.clone();
            thread::spawn(move || {
                let cell = &room.workers[0];
                room.cells.enter_idle(0, cell, 1);
                room.queue().may_sleep(cell)
            })
        };
        let cell = &room.workers[0];
        cell.command.store(Command::Drain as u32, SeqCst);
        let _ = room.cells.mark_woken(0, cell);
        let sleeps = worker.join().unwrap();
        assert!(!(sleeps && room.still_asleep(0)), "asleep although it shall leave");
    });
}
