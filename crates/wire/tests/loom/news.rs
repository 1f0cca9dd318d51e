//! A front thread that sleeps while a slot has news has been woken.

use crate::room::{Room, bounded};
use loom::thread;

/// The front thread's loop up to the point where it sleeps: the slots that it heard of.
fn listen_until_asleep(room: &Room) -> Vec<u32> {
    let mut heard = Vec::new();
    loop {
        room.front.take_news(|slot| heard.push(slot));
        if room.front.try_sleep() {
            return heard;
        }
    }
}

fn told_and_heard(slots: [u32; 2]) {
    bounded(3, move || {
        let room = Room::new(1, 2);
        let tellers = slots.map(|slot| {
            let room = room.clone();
            thread::spawn(move || room.front.tell(slot))
        });
        let mut heard = listen_until_asleep(&room);
        let woken = tellers.map(|teller| teller.join().unwrap());
        if woken.contains(&true) {
            room.front.wake_up();
            room.front.take_news(|slot| heard.push(slot));
        }
        heard.sort_unstable();
        assert_eq!(heard, slots, "woken: {woken:?}");
    });
}

#[test]
fn news_of_two_slots_in_one_word_are_both_heard() {
    told_and_heard([3, 4]);
}

#[test]
fn news_of_two_slots_under_one_summary_bit_are_both_heard() {
    told_and_heard([3, 64]);
}

#[test]
fn news_of_two_slots_far_apart_are_both_heard() {
    told_and_heard([3, 1000]);
}

#[test]
fn a_response_is_whole_when_its_end_is_heard() {
    loom::model(|| {
        let room = Room::new(1, 1);
        let ticket = room.push(0);
        let claim = room.queue().claim(0).unwrap();
        let worker = {
            let room = room.clone();
            thread::spawn(move || {
                room.touch(0);
                assert!(room.answer(0, claim, 5));
                room.front.tell(0)
            })
        };
        room.front.take_news(|slot| {
            room.touch(slot);
            assert_eq!(room.controls[0].answer(ticket).map(|answer| answer.produced), Some(5));
            assert_eq!(room.queue().state(slot).phase, howdah_wire::layout::Phase::Done);
        });
        let _ = worker.join().unwrap();
    });
}
