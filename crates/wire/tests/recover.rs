//! What becomes of a slot whose worker is dead, case by case. Deaths at every step are in `loom/kill.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use howdah_wire::queue::State;
use howdah_wire::recover::Remains;
use howdah_wire::*;
use std::sync::atomic::Ordering::SeqCst;

const SLOT: u32 = 1;
const TICKET: u64 = 7;
const DEAD: u16 = 2;

/// A segment in which only the words of `SLOT` and of the dead worker say something.
fn segment(state: State, begun: u32, at: u32) -> Segment {
    let segment = common::segment(Shape { fronts: 1, workers: 4, slots: 4 });
    segment.controls()[SLOT as usize].state.store(state.pack(), SeqCst);
    segment.controls()[SLOT as usize].begun.store(begun, SeqCst);
    segment.workers()[usize::from(DEAD)].slot.store(at, SeqCst);
    segment
}

#[test]
fn what_was_not_begun_comes_back_and_what_ran_is_lost() {
    const DOUBT: Remains = Remains::Doubtful("a request has a worker that does not know of it");
    let (here, elsewhere, nowhere) = (SLOT + 1, SLOT + 2, 0);
    // (phase, owner, ticket, begun, where the dead worker says that it is, remains, may wait in another segment)
    let cases = [
        (Phase::Free, DEAD, TICKET, 0, nowhere, Remains::None, false),
        (Phase::Queued, 0, TICKET, 0, nowhere, Remains::None, true),
        (Phase::Queued, DEAD, TICKET, 0, nowhere, Remains::None, true),
        (Phase::Running, DEAD, TICKET, 0, nowhere, Remains::Unbegun, true),
        (Phase::Running, DEAD, TICKET, 0, elsewhere, Remains::Unbegun, true),
        (Phase::Running, DEAD, TICKET, 0, here, Remains::Unbegun, true),
        (Phase::Running, DEAD, TICKET, 1, here, Remains::Lost, false),
        (Phase::Running, DEAD, TICKET, 1, nowhere, DOUBT, false),
        (Phase::Running, DEAD, TICKET, 1, elsewhere, DOUBT, false),
        (Phase::Running, DEAD + 1, TICKET, 0, here, Remains::None, true),
        (Phase::Running, DEAD, TICKET - 1, 0, here, Remains::None, false),
        (Phase::Done, DEAD, TICKET, 1, here, Remains::Response, false),
        (Phase::Done, DEAD, TICKET, 1, nowhere, Remains::Response, false),
        (Phase::Done, DEAD + 1, TICKET, 1, nowhere, Remains::None, false),
        (Phase::Done, DEAD, TICKET + 1, 1, nowhere, Remains::None, false),
    ];
    for (phase, owner, ticket, begun, at, remains, waits) in cases {
        let state = State { phase, owner, ticket };
        let segment = segment(state, begun, at);
        let queue = segment.queue();
        let case = format!("{state:?}, begun {begun}, at {at}");
        assert_eq!(queue.is_unbegun(SLOT, TICKET), waits, "{case}");
        assert_eq!(queue.recover(SLOT, TICKET, DEAD, segment.workers()), remains, "{case}");
        let taken = matches!(remains, Remains::Unbegun | Remains::Lost);
        let after = if taken { State { phase: Phase::Free, owner: 0, ticket: 0 } } else { state };
        assert_eq!(queue.state(SLOT), after, "{case}");
    }
}

#[test]
fn numbers_out_of_range_have_no_remains() {
    let running = State { phase: Phase::Running, owner: 900, ticket: TICKET };
    let segment = segment(running, 1, SLOT + 1);
    let queue = segment.queue();
    assert_eq!(queue.recover(u32::MAX, TICKET, DEAD, segment.workers()), Remains::None);
    // A worker that has no cell is at no request.
    assert!(matches!(queue.recover(SLOT, TICKET, 900, segment.workers()), Remains::Doubtful(_)));
}

#[test]
fn a_worker_is_at_a_slot_from_its_entering_until_it_has_finished() {
    let segment = segment(State { phase: Phase::Running, owner: DEAD, ticket: TICKET }, 0, 0);
    let (cell, control) = (&segment.workers()[usize::from(DEAD)], &segment.controls()[SLOT as usize]);
    cell.quota.store(2, SeqCst);
    cell.start(4711, 10);
    assert_eq!((cell.pid.load(SeqCst), cell.phase.load(SeqCst)), (4711, WorkerPhase::Starting as u32));
    assert!(!cell.is_at(SLOT));
    cell.enter(SLOT, control, 20);
    assert_eq!((control.claimed_at.load(SeqCst), cell.since.load(SeqCst)), (20, 20));
    assert!(cell.is_at(SLOT) && !cell.is_at(SLOT + 1) && !control.is_begun());
    control.begin();
    assert!(control.is_begun());
    cell.finished();
    assert!(!cell.is_at(SLOT));
    assert_eq!([cell.count(), cell.count()], [false, true], "the quota is two");
    cell.retire(Leave::Quota as u32);
    assert_eq!((cell.leave.load(SeqCst), cell.phase.load(SeqCst)), (2, WorkerPhase::Leaving as u32));
}
