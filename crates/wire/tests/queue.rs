//! The queue, the ring's counters and the sleepers, one thread at a time. The interleavings are in `loom/`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use howdah_wire::queue::{Claim, Queue, State};
use howdah_wire::*;
use std::sync::atomic::Ordering::SeqCst;

fn segment(workers: usize, slots: usize) -> Segment {
    common::segment(Shape { fronts: 1, workers, slots })
}

/// Queues a slot: its ticket.
fn push(queue: &Queue<'_>, slot: u32) -> Option<u64> {
    let ticket = queue.draw()?;
    queue.push(slot, ticket);
    Some(ticket)
}

fn claimed(queue: &Queue<'_>, worker: u16) -> Option<u32> {
    queue.claim(worker).map(|claim| claim.slot)
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
        push(&queue, slot).unwrap();
    }
    assert_eq!((queue.length(), queue.backlog(), queue.waiting()), (3, 3, 3));
    assert_eq!([0, 1, 0, 1].map(|worker| claimed(&queue, worker)), [Some(5), Some(0), Some(3), None]);
    for (slot, owner, ticket) in [(5, 0, 1), (0, 1, 2), (3, 0, 3)] {
        assert_eq!(queue.state(slot), State { phase: Phase::Running, owner, ticket });
    }
}

#[test]
fn the_oldest_request_is_found_wherever_it_stands() {
    let segment = segment(1, 4);
    let queue = segment.queue();
    let tickets = [0, 1, 2].map(|slot| push(&queue, slot).unwrap());
    for (slot, since) in [(0, 10), (1, 20), (2, 15)] {
        segment.controls()[slot].queued_at.store(since, SeqCst);
    }
    let mut oldest = vec![queue.oldest()];
    for slot in [0, 2, 1] {
        assert!(queue.cancel(slot, tickets[slot as usize]));
        oldest.push(queue.oldest());
    }
    assert_eq!(
        oldest,
        [Some(10), Some(15), Some(20), None],
        "behind cancelled ones, and behind younger ones"
    );
}

#[test]
fn a_queue_is_full_until_a_request_is_claimed_or_cancelled() {
    let queue = segment(1, 8).queue();
    let (mut found, mut full) = (None, Vec::new());
    let tickets = [0, 1, 2].map(|slot| {
        let ticket = push(&queue, slot).unwrap();
        full.push(queue.has_waiting(3, &mut found));
        ticket
    });
    assert_eq!(full, [false, false, true]);
    // One that has taken all the same, as what a dead worker has left does.
    let fourth = push(&queue, 3).unwrap();
    assert!(queue.has_waiting(3, &mut found));
    assert!(queue.cancel(3, fourth) && queue.has_waiting(3, &mut found));
    assert!(queue.cancel(1, tickets[1]) && !queue.has_waiting(3, &mut found), "two of four places");
    push(&queue, 4).unwrap();
    assert!(queue.has_waiting(3, &mut found));
    assert!(queue.claim(0).is_some() && !queue.has_waiting(3, &mut found));
}

#[test]
fn a_cancelled_request_is_passed_over() {
    let queue = segment(1, 4).queue();
    let [first, second] = [0, 1].map(|slot| push(&queue, slot).unwrap());
    assert!(!queue.cancel(0, second), "another ticket");
    assert!(queue.cancel(0, first) && !queue.cancel(0, first));
    assert_eq!((queue.length(), queue.waiting()), (2, 1));
    assert_eq!(claimed(&queue, 0), Some(1));
    assert!(!queue.cancel(1, second));
}

#[test]
fn a_slot_is_finished_by_its_owner_only() {
    let queue = segment(2, 1).queue();
    let ticket = push(&queue, 0).unwrap();
    let claim = queue.claim(1).unwrap();
    assert_eq!(claim, Claim { slot: 0, ticket });
    assert!(!queue.finish(claim, 0));
    assert!(!queue.finish(Claim { ticket: ticket + 1, ..claim }, 1));
    assert!(queue.finish(claim, 1));
    assert!(!queue.finish(claim, 1));
    queue.release(0);
    assert_eq!(queue.state(0).phase, Phase::Free);
}

#[test]
fn the_ring_lasts_for_ever_and_refuses_when_full() {
    let queue = segment(1, 2).queue();
    for round in 0..1000 {
        let ticket = push(&queue, 0).unwrap();
        assert!(
            if round % 2 == 0 { queue.cancel(0, ticket) } else { claimed(&queue, 0) == Some(0) },
            "{round}"
        );
        queue.release(0);
    }
    // Behind a request that waits, cancelled places stay; in the end the ring is full, and empties again.
    push(&queue, 1).unwrap();
    let mut cancelled = 0;
    while let Some(ticket) = push(&queue, 0) {
        assert!(queue.cancel(0, ticket));
        cancelled += 1;
    }
    assert_eq!(cancelled + 1, queue.ring.len() - MAX_FRONTS, "room for each front thread's next is kept");
    assert_eq!(claimed(&queue, 0), Some(1));
    assert!(push(&queue, 0).is_some());
    assert_eq!(claimed(&queue, 0), Some(0));
}

#[test]
fn cancelled_requests_alone_never_fill_the_ring() {
    let queue = segment(1, 2).queue();
    for round in 0..1000 {
        let ticket = push(&queue, 0).unwrap_or_else(|| panic!("no room in round {round}"));
        assert!(queue.cancel(0, ticket));
    }
    assert!(queue.length() < queue.ring.len() as u64);
    assert_eq!(claimed(&queue, 0), None);
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
    assert!(!cells.mark_woken(0, &workers[0]) && workers[0].wake.load(SeqCst) == 0, "it does not sleep");
    assert_eq!([(); 3].map(|()| cells.pick_sleeper(workers)), [Some(64), Some(129), None]);
}

#[test]
fn the_ring_counts_room_and_bytes_across_its_end() {
    let segment = segment(1, 1);
    let control = &segment.controls()[0];
    control.reset(7);
    let mut response = Outgoing::new(7);
    response.set_head(control, Answer { flags: RESPONSE_HEAD_READY, ..Answer::default() });
    for round in 1..10 {
        assert_eq!(response.room_left(control), RESPONSE_RING);
        response.produce(control, RESPONSE_RING - 1);
        let produced = round * (RESPONSE_RING as u64 - 1);
        assert_eq!((response.room_left(control), control.answer(7).unwrap().produced), (1, produced));
        assert!(!control.consume(produced));
    }
    for nonsense in [u64::MAX, 0, 1 << 40] {
        control.consumed.store(nonsense, SeqCst);
        assert_eq!(response.room_left(control), 0, "consumed {nonsense}");
    }
}

#[test]
fn before_the_head_is_out_nothing_is_consumed_whatever_is_said() {
    let segment = segment(1, 1);
    let control = &segment.controls()[0];
    control.consumed.store(524_283, SeqCst);
    let mut response = Outgoing::new(7);
    response.produce(control, 100);
    assert_eq!(response.room_left(control), RESPONSE_RING - 100);
    assert_eq!(control.answer(7), None, "nor said");
    response.close(control);
    assert_eq!(control.answer(7), Some(Answer { produced: 100, ..Answer::default() }), "the last word");
}

#[test]
fn one_wrong_word_and_a_response_does_not_count() {
    let segment = segment(1, 1);
    let control = &segment.controls()[0];
    assert_eq!(control.answer(0), None, "memory that nobody has written to");
    control.reset(7);
    assert_eq!(control.answer(9), None, "nothing has been said");
    let mut response = Outgoing::new(9);
    let flags = RESPONSE_HEAD_READY | RESPONSE_ASKS;
    let head = Answer { status: 200, head_length: 10, content_length: 3, flags, ..Answer::default() };
    response.produce(control, 13);
    response.set_head(control, head);
    response.sent(control, 2);
    let said = Answer { produced: 13, direct: 2, ..head };
    assert_eq!((control.answer(9), control.answer(8)), (Some(said), None), "by its ticket");
    for word in [&control.produced, &control.content_length, &control.direct, &control.seal] {
        let right = word.load(SeqCst);
        for wrong in [0, u64::MAX, right ^ 1, right ^ 1 << 63] {
            word.store(wrong, SeqCst);
            assert_eq!(control.answer(9).is_some(), wrong == right);
        }
        word.store(right, SeqCst);
    }
    for half in [&control.flags, &control.status, &control.head_length] {
        let right = half.load(SeqCst);
        for wrong in [0, u32::MAX, right ^ 1, right ^ 1 << 31] {
            half.store(wrong, SeqCst);
            assert_eq!(control.answer(9).is_some(), wrong == right);
        }
        half.store(right, SeqCst);
    }
    assert_eq!(control.answer(9), Some(said));
}

#[test]
fn ends_of_the_queue_that_cannot_be_are_found_out() {
    let segment = segment(2, 4);
    let queue = segment.queue();
    let tickets = [0, 1, 2].map(|slot| push(&queue, slot).unwrap());
    assert_eq!(claimed(&queue, 0), Some(0));
    let mut head = 0;
    assert_eq!(queue.doubt(&mut head), None);
    assert_eq!(head, tickets[1]);
    let (first, last) = (&queue.cells.head.value, &queue.cells.tail.value);
    for (end, wrong) in
        [(first, 0), (first, 1), (first, tickets[2] + 2), (first, 1 << 47), (last, 1 << 47), (last, u64::MAX)]
    {
        let right = end.swap(wrong, SeqCst);
        assert!(queue.doubt(&mut tickets[1].clone()).is_some(), "{wrong} for {right}");
        assert!(queue.backlog() <= queue.ring.len() as u64);
        end.store(right, SeqCst);
    }
    assert_eq!(queue.doubt(&mut head), None);
}

#[test]
fn ends_of_the_queue_that_can_be_are_not_doubted() {
    let queue = segment(1, 4).queue();
    let mut head = 0;
    assert!(queue.doubt(&mut head).is_none() && !queue.is_stuck(), "nothing has been queued");
    push(&queue, 0).unwrap();
    assert_eq!(claimed(&queue, 0), Some(0));
    assert_eq!(queue.doubt(&mut head), None, "all has been claimed");
    // Each front thread may have drawn a ticket that its tail does not show yet.
    queue.tickets.next.fetch_add(MAX_FRONTS as u64, SeqCst);
    assert_eq!(queue.doubt(&mut head), None);
    queue.tickets.next.fetch_add(1, SeqCst);
    assert_eq!(queue.doubt(&mut head), Some("the queue's tail is not where the front has put it"));
}

#[test]
fn a_waiting_request_that_nobody_will_find_is_found_out() {
    let segment = segment(2, 4);
    let queue = segment.queue();
    let ticket = push(&queue, 3).unwrap();
    assert!(queue.doubt_waiting(3, ticket).is_none() && !queue.is_stuck());
    for entry in queue.ring {
        entry.swap(65535, SeqCst);
    }
    assert!(queue.is_stuck() && queue.claim(0).is_none() && queue.oldest().is_some());
    assert_eq!(queue.doubt_waiting(3, ticket), Some("the queue has lost a request"));
    queue.push(3, ticket);
    queue.cells.head.value.store(ticket + 1, SeqCst);
    assert_eq!(queue.doubt_waiting(3, ticket), Some("the queue has passed a request that waits"));
    queue.cells.head.value.store(ticket, SeqCst);
    assert_eq!(claimed(&queue, 1), Some(3));
    assert_eq!(queue.doubt_waiting(3, ticket), None, "it does not wait any more");
}

#[test]
fn numbers_beyond_the_last_slot_lead_nowhere() {
    let segment = segment(1, 1);
    let queue = segment.queue();
    let ticket = queue.draw().unwrap();
    for entry in queue.ring {
        entry.store(65_535 << 48 | ticket, SeqCst);
    }
    assert_eq!((queue.claim(0), queue.oldest()), (None, None));
    assert_eq!(queue.state(65_535).phase, Phase::Free);
    queue.release(65_535);
    queue.push(65_535, ticket);
}

#[test]
fn news_is_taken_once() {
    let segment = segment(1, 1);
    let front = &segment.fronts()[0];
    assert!(front.try_sleep());
    assert!(front.tell(700));
    assert!(!front.tell(3) && !front.tell(700) && !front.tell(MAX_SLOTS as u32 - 1));
    assert!(!front.try_sleep());
    let mut heard = Vec::new();
    front.take_news(|slot| heard.push(slot));
    assert_eq!(heard, [3, 700, MAX_SLOTS as u32 - 1]);
    assert!(!front.has_news() && front.try_sleep());
    front.wake_up();
    assert!(!front.tell(3), "a thread that is awake looks by itself");
}
