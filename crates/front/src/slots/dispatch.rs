//! Hands out slots, queues requests, and passes slots' news on to the exchanges that wait for them.
//!
//! Which slots are at hand, and which ticket each has, is this thread's own knowledge (`own`). A word in the segment
//! counts only where it fits that; one that cannot be true makes the whole segment suspect, see `inspect`. `wake` sees to
//! it that workers come.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use howdah_wire::queue::{Full, Queue};
use howdah_wire::{Answer, FrontCell, Phase, RESPONSE_HEAD_READY, Roster, Segment, SlotControl};
use tokio::sync::mpsc::UnboundedSender;

use crate::exchange::Desks;
use crate::reports::Damaged;
use crate::slots::body::Spool;
use crate::slots::looks::Looks;
use crate::slots::own::{Hold, NOBODY, Position, Slot, Slots};

/// The longest run time that counts towards the average: one slow request says little about the next.
const SAMPLE_NS: u64 = 1_000_000;
/// Requests under way with which a slot that held a large response gives its memory back: so many slots keep theirs.
const WARM: u32 = 32;
/// A response that leaves much memory in its slot, in bytes.
const LARGE: u64 = 128 * 1024;

/// A worker that shares this thread's processor, which is that one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mate {
    pub(crate) worker: u16,
    pub(crate) cpu: usize,
}

/// How an inspection has found the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inspected {
    pub(crate) head: u64,
    /// Inspections in a row in which it did not move though it should have.
    pub(crate) stuck: u8,
}

/// The slots of one front thread in the segment of one application.
pub(crate) struct Dispatch {
    pub(crate) segment: Segment,
    /// The thread's number.
    pub(crate) thread: u32,
    pub(crate) queue: Queue<'static>,
    pub(crate) cell: &'static FrontCell,
    /// Slots at hand; the last one used is the first to be used again, because it is warm.
    free: Vec<u32>,
    pub(crate) slots: Slots,
    /// Bodies of requests in slots of this thread.
    kept: HashMap<u32, Spool>,
    /// Moving average of run times in nanoseconds.
    pub(crate) run_ns: u64,
    /// Workers that live, by the number of their cell.
    pub(crate) present: Vec<bool>,
    /// Requests queued and not yet given back.
    pub(crate) in_flight: u32,
    /// Requests in a row that were queued with none other in flight.
    pub(crate) serial: u32,
    /// Looks for the answer to a single request.
    pub(crate) looks: Looks,
    /// Workers have been told to look for the next request before they sleep.
    pub(crate) workers_spin: bool,
    /// Who shares this thread's processor, see `share_cpu`.
    pub(crate) mate: Option<Mate>,
    /// Requests whose end has been seen.
    pub(crate) ended: u64,
    /// Head of the queue when the backstop last looked.
    pub(crate) seen_head: u64,
    max_queue: usize,
    /// When the queue was last found full.
    full: Option<Full>,
    /// Processors that this server may use.
    pub(crate) cpus: u64,
    /// Where those wait whose requests are in the slots.
    pub(crate) desks: &'static Desks,
    /// What is wrong with the segment: it will be replaced.
    pub(crate) damage: Option<&'static str>,
    pub(crate) damaged: UnboundedSender<Damaged>,
    /// Who its workers are.
    pub(crate) roster: Roster,
    /// The queue at the last inspection.
    pub(crate) inspected: Inspected,
}

impl Dispatch {
    pub(crate) fn new(
        segment: Segment,
        thread: u32,
        max_queue: usize,
        cpus: u64,
        desks: &'static Desks,
        damaged: UnboundedSender<Damaged>,
        roster: Roster,
    ) -> Self {
        let own = segment.slots_of(thread);
        Self {
            segment,
            thread,
            queue: segment.queue(),
            cell: &segment.fronts()[thread as usize],
            free: own.clone().rev().collect(),
            slots: Slots::new(own),
            kept: HashMap::new(),
            run_ns: 0,
            in_flight: 0,
            serial: 0,
            looks: Looks::default(),
            workers_spin: false,
            mate: None,
            ended: 0,
            present: Vec::new(),
            seen_head: 0,
            max_queue,
            full: None,
            cpus,
            desks,
            damage: None,
            damaged,
            roster,
            inspected: Inspected::default(),
        }
    }

    /// A slot to write a request into, or none when too many requests wait.
    pub(crate) fn take_slot(&mut self) -> Option<u32> {
        if self.queue.has_waiting(self.max_queue, &mut self.full) {
            return None;
        }
        let slot = self.free.pop()?;
        *self.slots.get_mut(slot)? = Slot { hold: Hold::Ours, ..Slot::default() };
        Some(slot)
    }

    /// Whether one is at hand.
    pub(crate) fn has_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Gives back a slot that was taken and not queued.
    pub(crate) fn put_back(&mut self, slot: u32) {
        if let Some(own) = self.slots.get_mut(slot) {
            own.hold = Hold::Free;
            self.free.push(slot);
        }
    }

    /// Queues the request in `slot`; news will go to that desk. False when the queue has no room.
    pub(crate) fn queue(&mut self, slot: u32, place: Position, desk: usize, now: u64) -> bool {
        let control = self.control(slot);
        let Some(own) = self.slots.get_mut(slot) else { return false };
        control.reset(now);
        *own = Slot { hold: Hold::Ours, desk, place, queued_at: now, ..Slot::default() };
        let queued = self.push(slot);
        self.in_flight += 1;
        self.count_serial();
        if !queued {
            self.free_slot(slot);
        }
        queued
    }

    /// Gives a slot of ours its ticket and its place in the queue. Where the segment is to be replaced it waits for that.
    pub(crate) fn push(&mut self, slot: u32) -> bool {
        let ticket = if self.damage.is_none() { self.queue.draw() } else { None };
        if ticket.is_none() {
            self.inspect_queue();
        }
        let waits = self.damage.is_some();
        let Some(own) = self.slots.get_mut(slot) else { return false };
        own.consumed = 0;
        own.seen_at = None;
        own.answer = Answer::default();
        let Some(ticket) = ticket else {
            own.hold = if waits { Hold::Kept } else { Hold::Ours };
            return waits;
        };
        (own.hold, own.ticket) = (Hold::Out, ticket);
        self.segment.stamp(slot, own.place.near, ticket);
        if let Some(extent) = own.place.extent.and_then(|extent| self.segment.extent_ticket(extent)) {
            extent.store(ticket, Relaxed);
        }
        self.queue.push(slot, ticket);
        true
    }

    /// The exchange is through with `slot`: it is dropped from the queue, left to run for nobody, or free again.
    pub(crate) fn give_back(&mut self, slot: u32) {
        let Some(&Slot { hold, ticket, .. }) = self.slots.get(slot) else { return };
        match hold {
            Hold::Free => {}
            Hold::Ours | Hold::Kept | Hold::Left => self.free_slot(slot),
            Hold::Out if self.look(slot).done => self.release(slot),
            Hold::Out if self.queue.cancel(slot, ticket) => self.free_slot(slot),
            Hold::Out => self.abandon(slot),
        }
    }

    pub(crate) fn release(&mut self, slot: u32) {
        self.queue.release(slot);
        self.free_slot(slot);
    }

    /// A worker has it and may even be done by now; whatever comes is for nobody.
    fn abandon(&mut self, slot: u32) {
        if let Some(own) = self.slots.get_mut(slot) {
            own.desk = NOBODY;
        }
        let control = self.control(slot);
        if control.abandon() {
            howdah_sys::futex_wake(&control.room, 1);
        }
    }

    /// The worker that has claimed `slot` and has not finished it.
    pub(crate) fn runner(&self, slot: u32) -> Option<u16> {
        self.owner(slot).filter(|_| self.queue.state(slot).phase == Phase::Running)
    }

    /// At each sweep: which requests have a worker that had none before.
    pub(crate) fn see_runners(&mut self, served: u64) {
        for slot in self.slots.taken(self.in_flight) {
            let runs = self.runner(slot).is_some();
            if let Some(own) = self.slots.get_mut(slot).filter(|own| runs && own.seen_at.is_none()) {
                own.seen_at = Some(served);
            }
        }
    }

    /// The worker that has been seen at `slot` for more than `limit`, in nanoseconds of service.
    pub(crate) fn stuck_worker(&self, slot: u32, limit: u64, served: u64) -> Option<u16> {
        let seen_at = self.slots.get(slot)?.seen_at?;
        self.runner(slot).filter(|_| served.saturating_sub(seen_at) > limit)
    }

    /// Nobody waits for `slot` any more, but its worker may be at it for no longer than before.
    pub(crate) fn limit(&mut self, slot: u32, nanoseconds: u64) {
        if let Some(own) = self.slots.get_mut(slot).filter(|own| own.hold == Hold::Out) {
            own.limit = nanoseconds;
        }
    }

    /// Slots whose worker has not begun to answer in that time, though nobody waits for it, and those workers; each is
    /// named once.
    pub(crate) fn overdue(&mut self, served: u64) -> Vec<(u32, u16)> {
        let mut overdue = Vec::new();
        for slot in self.slots.taken(self.in_flight) {
            let Some(limit) = self.slots.out(slot).map(|own| own.limit).filter(|&limit| limit > 0) else {
                continue;
            };
            let begun = self.control(slot).flags.load(Relaxed) & RESPONSE_HEAD_READY != 0;
            let stuck = self.stuck_worker(slot, limit, served).filter(|_| !begun);
            if let (Some(worker), Some(own)) = (stuck, self.slots.get_mut(slot)) {
                own.limit = 0;
                overdue.push((slot, worker));
            }
        }
        overdue
    }

    /// Keeps the body of the request in `slot` until the slot is free again.
    pub(crate) fn keep(&mut self, slot: u32, body: Spool) {
        self.kept.insert(slot, body);
    }

    /// The body kept for `slot`.
    pub(crate) fn kept(&self, slot: u32) -> Option<&Spool> {
        self.kept.get(&slot)
    }

    /// The worker that has or had the request in `slot`.
    pub(crate) fn owner(&self, slot: u32) -> Option<u16> {
        let (own, state) = (self.slots.out(slot)?, self.queue.state(slot));
        let ours = state.ticket == own.ticket && matches!(state.phase, Phase::Running | Phase::Done);
        ours.then_some(state.owner)
    }

    /// True once the worker is through with `slot`.
    pub(crate) fn is_done(&mut self, slot: u32) -> bool {
        self.look(slot).done
    }

    /// The desk of the exchange that waits for `slot`, when this worker has its request.
    pub(crate) fn desk_served_by(&self, worker: u16, slot: u32) -> Option<usize> {
        self.desk_of(slot).filter(|_| self.owner(slot) == Some(worker))
    }

    /// The desk of the exchange that waits for `slot`.
    pub(crate) fn desk_of(&self, slot: u32) -> Option<usize> {
        self.slots.get(slot).map(|own| own.desk).filter(|&desk| desk != NOBODY)
    }

    /// The request in `slot`, as it stands there now: whoever writes to the segment may have changed it.
    pub(crate) fn request(&self, slot: u32) -> &'static [u8] {
        match self.slots.get(slot) {
            Some(own) => self.segment.request_area(slot, own.place.near),
            None => &[],
        }
    }

    /// That request will be looked at soon.
    pub(crate) fn prefetch_request(&self, slot: u32) {
        if let Some(own) = self.slots.get(slot) {
            self.segment.prefetch_request(slot, own.place.near);
        }
    }

    /// The words of a slot of ours.
    pub(crate) fn control(&self, slot: u32) -> &'static SlotControl {
        &self.segment.controls()[slot as usize]
    }

    pub(crate) fn worker_up(&mut self, worker: u16) {
        let index = usize::from(worker);
        if index < self.segment.workers().len() {
            self.present.resize(self.present.len().max(index + 1), false);
            self.present[index] = true;
        }
    }

    pub(crate) fn is_present(&self, worker: u16) -> bool {
        self.present.get(usize::from(worker)).is_some_and(|&present| present)
    }

    /// Passes news of slots on to their exchanges. True when one was woken: news may have been taken already with
    /// that of a neighbour, or be of a slot that nobody waits for.
    pub(crate) fn take_news(&mut self) -> bool {
        let mut woken = false;
        if self.cell.has_news() {
            let cell = self.cell;
            cell.take_news(|slot| woken |= self.news(slot));
        }
        woken
    }

    /// True when an exchange was woken.
    pub(crate) fn news(&mut self, slot: u32) -> bool {
        let Some(own) = self.slots.out(slot) else { return false };
        let (desk, ended) = (own.desk, own.ended);
        let done = self.is_done(slot);
        if done && !ended {
            self.sample(slot);
        }
        if desk == NOBODY {
            if done {
                self.release(slot);
            }
            return false;
        }
        self.desks.tell(desk);
        true
    }

    fn sample(&mut self, slot: u32) {
        if let Some(own) = self.slots.get_mut(slot) {
            own.ended = true;
        }
        self.ended += 1;
        let control = self.control(slot);
        let run =
            control.finished_at.load(Relaxed).saturating_sub(control.claimed_at.load(Relaxed)).min(SAMPLE_NS);
        self.run_ns = (self.run_ns * 15 + run) / 16;
    }

    pub(crate) fn free_slot(&mut self, slot: u32) {
        let Some(own) = self.slots.get_mut(slot) else { return };
        let produced = own.answer.produced;
        *own = Slot::default();
        self.in_flight = self.in_flight.saturating_sub(1);
        if !self.kept.is_empty() {
            self.kept.remove(&slot);
        }
        if self.in_flight >= WARM && produced > LARGE {
            // Refused, the memory stays with the slot.
            let _ = howdah_sys::discard(self.segment.slot_area(slot));
        }
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use howdah_wire::RequestReader;

    use super::*;
    use crate::clock::Clock;
    use crate::sample;
    use crate::sample::bench::Bench;
    use crate::sample::worker::Claimed;
    use crate::slots::body::Extents;

    /// Whether there would be a slot for another request.
    fn takes(bench: &Bench) -> bool {
        let slot = bench.act(Dispatch::take_slot);
        slot.into_iter().for_each(|slot| bench.act(|dispatch| dispatch.put_back(slot)));
        slot.is_some()
    }

    fn hold(bench: &Bench, slot: u32) -> Hold {
        bench.act(|dispatch| dispatch.slots.get(slot).unwrap().hold)
    }

    #[test]
    fn the_queue_is_full_when_as_many_wait_as_may() {
        let bench = Bench::of(16, 2);
        let worker = bench.worker(0);
        let _first = bench.queue("/1");
        assert!(takes(&bench));
        let second = bench.queue("/2");
        assert!(!takes(&bench));
        bench.leave(second);
        assert!(takes(&bench), "what was dropped from the queue does not wait");
        let _third = bench.queue("/3");
        assert!(!takes(&bench));
        let _claimed = worker.claim();
        assert!(takes(&bench), "what a worker has does not wait");
    }

    #[test]
    fn slots_are_handed_out_until_none_is_left_and_the_last_used_is_the_next() {
        let bench = Bench::of(3, 100);
        let taken: Vec<_> = std::iter::from_fn(|| bench.act(Dispatch::take_slot)).collect();
        assert_eq!(taken, [0, 1, 2]);
        assert!(taken.iter().all(|&slot| hold(&bench, slot) == Hold::Ours));
        for slot in [1, 7, 2] {
            bench.act(|dispatch| dispatch.put_back(slot));
        }
        let again: Vec<_> = std::iter::from_fn(|| bench.act(Dispatch::take_slot)).collect();
        assert_eq!(again, [2, 1], "and there is no slot 7");
    }

    #[test]
    fn a_slot_comes_back_at_once_unless_a_worker_has_it() {
        type Prepare = fn(&Bench) -> Option<Claimed>;
        let cases: [(&str, Prepare, Hold); 3] = [
            ("waits", |_| None, Hold::Free),
            ("runs", |bench| bench.worker(0).claim(), Hold::Out),
            (
                "done",
                |bench| {
                    bench.worker(0).serve();
                    None
                },
                Hold::Free,
            ),
        ];
        for (what, prepare, expected) in cases {
            let bench = Bench::of(4, 4);
            let waiting = bench.queue("/a");
            let claimed = prepare(&bench);
            let control = bench.act(|dispatch| dispatch.control(waiting.slot));
            control.waiting.store(1, Relaxed);
            let slot = bench.leave(waiting);
            assert_eq!(hold(&bench, slot), expected, "{what}");
            let count = bench.act(|dispatch| dispatch.in_flight);
            assert_eq!(count, u32::from(expected == Hold::Out), "{what}");
            assert!(bench.worker(1).claim().is_none(), "{what}: no worker finds it");
            let Some(claimed) = claimed else { continue };
            let told = (control.abandoned.load(Relaxed), control.room.load(Relaxed));
            assert_eq!(told, (1, 1), "{what}: the worker hears that nobody wants it");
            bench.worker(0).finish(claimed);
            assert!(!bench.act(Dispatch::take_news), "{what}: nobody is woken by what is for nobody");
            assert_eq!((hold(&bench, slot), bench.act(|dispatch| dispatch.in_flight)), (Hold::Free, 0));
            bench.act(|dispatch| dispatch.give_back(slot));
            assert_eq!(bench.act(|dispatch| dispatch.free.len()), 4, "{what}: a slot comes back once");
        }
    }

    #[test]
    fn news_wakes_who_waits_for_it_and_nobody_else() {
        let bench = Bench::of(4, 4);
        let (first, second) = (bench.queue("/1"), bench.queue("/2"));
        assert!(!bench.act(Dispatch::take_news));
        bench.worker(0).serve();
        assert!(bench.act(Dispatch::take_news));
        assert_eq!((first.notes(), second.notes()), (vec!["News".to_owned()], vec![]));
        assert!(!bench.act(Dispatch::take_news), "it is taken once");
        let slot = bench.leave(first);
        for slot in [slot, 3, 4000] {
            assert!(!bench.act(|dispatch| dispatch.news(slot)), "of a slot that has no request: {slot}");
        }
    }

    #[test]
    fn run_times_are_averaged_and_a_long_one_says_little() {
        // How long it ran, what the average was, and is.
        for (run, before, after) in [
            (160, 0, 10),
            (160, 1600, 1510),
            (SAMPLE_NS, 0, SAMPLE_NS / 16),
            (SAMPLE_NS * 5, 0, SAMPLE_NS / 16),
        ] {
            let bench = Bench::of(4, 4);
            let waiting = bench.queue("/a");
            bench.act(|dispatch| dispatch.run_ns = before);
            bench.worker(0).serve();
            let control = bench.act(|dispatch| dispatch.control(waiting.slot));
            control.claimed_at.store(1000, Relaxed);
            control.finished_at.store(1000 + run, Relaxed);
            bench.act(Dispatch::take_news);
            bench.act(|dispatch| dispatch.news(waiting.slot));
            assert_eq!(bench.act(|dispatch| dispatch.run_ns), after, "{run} after {before}, counted once");
        }
    }

    #[test]
    fn whose_request_it_is_depends_on_who_has_claimed_it() {
        let bench = Bench::of(4, 4);
        let worker = bench.worker(1);
        let waiting = bench.queue("/a");
        let slot = waiting.slot;
        // Its worker, the worker that runs it, and whether workers 0 and 1 serve its exchange.
        let known = || {
            let serves = |worker| bench.act(|dispatch| dispatch.desk_served_by(worker, slot).is_some());
            let (owner, runner) = bench.act(|dispatch| (dispatch.owner(slot), dispatch.runner(slot)));
            (owner, runner, serves(0), serves(1))
        };
        assert_eq!(known(), (None, None, false, false));
        let claimed = worker.claim().unwrap();
        let control = bench.act(|dispatch| dispatch.control(slot));
        assert_eq!(known(), (Some(1), Some(1), false, true));
        worker.finish(claimed);
        assert_eq!(known(), (Some(1), None, false, true), "it is done");
        let state = bench.segment.queue().state(slot);
        let other = howdah_wire::queue::State { ticket: state.ticket + 1, ..state };
        control.state.store(other.pack(), Relaxed);
        assert_eq!(known(), (None, None, false, false), "this is another request");
    }

    #[test]
    fn a_worker_is_stuck_that_has_been_seen_at_its_request_for_too_long() {
        let bench = Bench::of(4, 4);
        let waiting = bench.queue("/a");
        let slot = waiting.slot;
        let stuck = |served| {
            bench.act(|dispatch| {
                dispatch.see_runners(served);
                dispatch.stuck_worker(slot, 10, served)
            })
        };
        assert_eq!(stuck(1000), None, "nobody has it");
        let claimed = bench.segment.queue().claim(1).unwrap();
        assert_eq!((stuck(2000), stuck(2010), stuck(2011)), (None, None, Some(1)), "it has not entered it");
        assert!(bench.segment.queue().finish(claimed, 1));
        assert_eq!(stuck(2011), None, "it is done");
    }

    #[test]
    fn the_words_of_a_request_and_its_body_are_there_until_its_slot_is_free() {
        let bench = Bench::of(4, 4);
        let waiting = bench.queue("/a?b");
        let slot = waiting.slot;
        let room = sample::room(sample::forever(Clock::new()));
        let extents = Extents::new(bench.segment, 0, std::env::temp_dir(), room);
        let extent = sample::forever(extents).extent(None).unwrap();
        bench.act(|dispatch| dispatch.keep(slot, Spool::Extent(extent)));
        assert_eq!(RequestReader::new(bench.act(|dispatch| dispatch.request(slot))).uri(), b"/a?b");
        assert!(bench.act(|dispatch| dispatch.kept(slot).is_some() && dispatch.kept(slot + 1).is_none()));
        assert!(bench.act(|dispatch| dispatch.request(4000)).is_empty());
        bench.leave(waiting);
        assert!(bench.act(|dispatch| dispatch.kept(slot).is_none()));
    }

    #[test]
    fn an_extent_bears_the_ticket_of_the_request_whose_body_it_has() {
        let bench = Bench::of(4, 4);
        let (slot, place) = bench.write("/a");
        assert!(bench.act(|dispatch| dispatch.queue(slot, Position { extent: Some(3), ..place }, 0, 1)));
        let ticket = bench.act(|dispatch| dispatch.slots.get(slot).unwrap().ticket);
        assert_eq!(bench.segment.extent_ticket(3).unwrap().load(Relaxed), ticket);
    }

    #[test]
    fn a_large_response_leaves_no_memory_behind_while_many_are_under_way() {
        // How large, how many others, and whether the memory is still there.
        for (length, others, stays) in [(131_073, 32, false), (131_072, 32, true), (131_073, 31, true)] {
            let bench = Bench::of(64, 64);
            let worker = bench.worker(0);
            let waiting = bench.queue("/a");
            let slot = waiting.slot;
            let mut claimed = worker.claim().unwrap();
            assert_eq!(worker.write(&mut claimed, &vec![b'x'; length as usize]) as u64, length);
            worker.finish(claimed);
            let _others: Vec<_> = (0..others).map(|_| bench.queue("/b")).collect();
            bench.leave(waiting);
            let first = bench.segment.response(slot, 0, 1).0[0];
            assert_eq!(first == b'x', stays, "{length} beside {others}");
        }
    }

    #[test]
    fn a_ring_full_of_dropped_requests_behind_one_that_waits_has_no_room() {
        let mut bench = Bench::of(16, 8);
        let first = bench.queue("/first");
        let mut count = 0;
        let refused = loop {
            let (slot, place) = bench.write("/x");
            if !bench.act(|dispatch| dispatch.queue(slot, place, NOBODY, 1)) {
                break slot;
            }
            bench.act(|dispatch| dispatch.give_back(slot));
            count += 1;
            assert!(count < 1000, "there is an end");
        };
        assert_eq!((hold(&bench, refused), bench.act(|dispatch| dispatch.in_flight)), (Hold::Free, 1));
        assert!(bench.damage().is_empty(), "and nothing is wrong");
        bench.leave(first);
        assert_eq!(hold(&bench, bench.queue("/y").slot), Hold::Out, "once that is gone there is room");
    }

    #[test]
    fn what_comes_while_the_segment_is_suspect_is_kept() {
        let mut bench = Bench::of(4, 4);
        bench.act(|dispatch| dispatch.suspect("something"));
        let waiting = bench.queue("/a");
        assert_eq!((hold(&bench, waiting.slot), bench.worker(0).claim().is_none()), (Hold::Kept, true));
        let slot = bench.leave(waiting);
        assert_eq!(hold(&bench, slot), Hold::Free);
        assert_eq!(bench.damage(), ["something"]);
    }

    #[test]
    fn workers_are_present_whose_cells_there_are() {
        let bench = Bench::of(4, 4);
        for worker in [2, 8, u16::MAX] {
            bench.act(|dispatch| dispatch.worker_up(worker));
        }
        let present = [0, 2, 3, 8, u16::MAX].map(|worker| bench.act(|dispatch| dispatch.is_present(worker)));
        assert_eq!(present, [false, true, false, false, false]);
    }
}
