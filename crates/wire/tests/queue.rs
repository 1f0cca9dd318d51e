//! The queue, the ring's counters and the sleepers, one thread at a time. The interleavings are in `loom/`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

use howdah_wire::queue::State;
use howdah_wire::*;

fn segment(workers: usize, slots: usize) -> Segment {
    let shape = Shape { fronts: 1, workers, slots };
    let layout = std::alloc::Layout::from_size_align(shape.total(), 4096).unwrap();
    // SAFETY: not of size zero.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    // SAFETY: zeroed, page-aligned, never freed.
    unsafe { Segment::create(memory, shape.total(), shape) }.unwrap()
}

#[test]
fn a_state_survives_packing() {
    for phase in [Phase::Free, Phase::Queued, Phase::Running, Phase::Done] {
        for (owner, ticket) in [(0, 1), (4095, (1 << 48) - 1), (1023, 0x1234_5678_9abc)] {
            let state = State { phase, owner, ticket };
            assert_eq!(State::unpack(state.pack()), state);
        }
    }
    assert_eq!(State::unpack(u64::MAX).phase, Phase::Free);
}

#[test]
fn requests_are_served_in_the_order_of_their_arrival() {
    let queue = segment(2, 8).queue();
    for slot in [5, 0, 3] {
        assert!(queue.push(slot));
    }
    assert_eq!((queue.length(), queue.waiting()), (3, 3));
    assert_eq!(
        [queue.claim(0), queue.claim(1), queue.claim(0), queue.claim(1)],
        [Some(5), Some(0), Some(3), None]
    );
    assert_eq!(queue.held_by(0).collect::<Vec<_>>(), [3, 5]);
    assert_eq!(queue.state(0), State { phase: Phase::Running, owner: 1, ticket: 2 });
}

#[test]
fn a_cancelled_request_is_passed_over() {
    let queue = segment(1, 4).queue();
    assert!(queue.push(0) && queue.push(1));
    assert!(queue.cancel(0));
    assert!(!queue.cancel(0));
    assert_eq!((queue.length(), queue.waiting()), (2, 1));
    assert_eq!(queue.claim(0), Some(1));
    assert!(!queue.cancel(1));
}

#[test]
fn a_slot_is_finished_by_its_owner_only() {
    let queue = segment(2, 1).queue();
    assert!(queue.push(0));
    assert_eq!(queue.claim(1), Some(0));
    assert!(!queue.finish(0, 0));
    assert!(queue.finish(0, 1));
    assert!(!queue.finish(0, 1));
    queue.release(0);
    assert_eq!(queue.state(0).phase, Phase::Free);
}

#[test]
fn the_ring_lasts_for_ever_and_refuses_when_full() {
    let queue = segment(1, 2).queue();
    for round in 0..1000 {
        assert!(queue.push(0), "round {round}");
        assert!(if round % 2 == 0 { queue.cancel(0) } else { queue.claim(0) == Some(0) });
        queue.release(0);
    }
    // Behind a request that waits, cancelled places stay; in the end the ring is full, and empties again.
    assert!(queue.push(1));
    let mut cancelled = 0;
    while queue.push(0) {
        assert!(queue.cancel(0));
        cancelled += 1;
    }
    assert!(cancelled > 2 * 3, "only {cancelled} places");
    assert_eq!(queue.claim(0), Some(1));
    assert!(queue.push(0));
    assert_eq!(queue.claim(0), Some(0));
}

#[test]
fn the_last_to_sleep_is_the_first_to_be_woken() {
    let segment = segment(130, 1);
    let (cells, workers) = (segment.queue().cells, segment.workers());
    for (order, worker) in [129, 0, 64].into_iter().enumerate() {
        cells.enter_idle(worker, &workers[worker as usize], order as u64);
    }
    assert_eq!(cells.sleepers(), 3);
    cells.leave_idle(0);
    assert_eq!([(); 3].map(|()| cells.pick_sleeper(workers)), [Some(64), Some(129), None]);
}

#[test]
fn the_ring_counts_room_and_bytes_across_its_end() {
    let segment = segment(1, 1);
    let control = &segment.controls()[0];
    control.reset(7);
    for _ in 0..10 {
        assert_eq!(control.room_left(), RESPONSE_RING);
        control.produce(RESPONSE_RING - 1);
        assert_eq!((control.room_left(), control.available()), (1, RESPONSE_RING - 1));
        assert!(!control.consume(RESPONSE_RING - 1));
        assert_eq!(control.available(), 0);
    }
    // More than the ring holds can only come from a worker gone mad.
    control.produce(RESPONSE_RING + 1);
    assert_eq!((control.room_left(), control.available()), (0, 0));
}

#[test]
fn news_is_taken_once() {
    let segment = segment(1, 1);
    let front = &segment.fronts()[0];
    assert!(front.try_sleep());
    assert!(front.tell(700));
    assert!(!front.tell(3) && !front.tell(700));
    assert!(!front.try_sleep());
    let mut heard = Vec::new();
    front.take_news(|slot| heard.push(slot));
    assert_eq!(heard, [3, 700]);
    assert!(!front.has_news());
}
