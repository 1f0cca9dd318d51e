//! What becomes of requests whose worker is dead, or whose segment is.

use howdah_wire::Segment;
use howdah_wire::recover::Remains;

use crate::exchange::Mail;
use crate::fault::Fault;
use crate::slots::dispatch::{Dispatch, Inspected};
use crate::slots::own::{Hold, NOBODY, Slot};

impl Dispatch {
    /// Settles what a dead worker has left: requests that it had not begun go back into the queue, the one that it
    /// was running is lost, and what it had finished is passed on.
    pub(crate) fn worker_gone(&mut self, worker: u16, fault: Fault) {
        for slot in self.slots.taken(self.in_flight) {
            self.settle(slot, worker, fault);
        }
        if let Some(present) = self.present.get_mut(usize::from(worker)) {
            *present = false;
        }
        self.share_after(worker);
        self.wake_workers(howdah_sys::monotonic_ns());
    }

    fn settle(&mut self, slot: u32, worker: u16, fault: Fault) {
        let Some(&Slot { ticket, queued_at, .. }) = self.slots.out(slot) else { return };
        let remains = self.queue.recover(slot, ticket, worker, self.segment.workers());
        if remains == Remains::Unbegun {
            // What it has said of the request, before the application was called, is nothing to the next worker.
            self.control(slot).reset(queued_at);
        }
        match (remains, self.desk_of(slot)) {
            (Remains::None, _) => {}
            (Remains::Response, _) => {
                self.news(slot);
            }
            (Remains::Doubtful(what), _) => self.suspect(what),
            (Remains::Unbegun | Remains::Lost, None) => self.free_slot(slot),
            (Remains::Unbegun, Some(_)) if self.push(slot) => {}
            (Remains::Unbegun, Some(desk)) => self.lose(slot, desk, fault),
            (Remains::Lost, Some(desk)) => {
                // What it has said last of the response holds.
                self.look(slot);
                self.lose(slot, desk, fault);
                if let Some(own) = self.slots.get_mut(slot) {
                    (own.hold, own.lost_with) = (Hold::Left, Some(worker));
                }
            }
        }
    }

    /// Nobody has the slot any more, and its exchange will have no answer.
    pub(crate) fn lose(&mut self, slot: u32, desk: usize, fault: Fault) {
        if let Some(own) = self.slots.get_mut(slot) {
            own.hold = Hold::Ours;
        }
        self.desks.post(desk, Mail::Lost(fault));
    }

    /// No worker is left, nor will there be one: tells those whose requests have not been begun, and how many these are. In the queue
    /// their slots stay where they are.
    pub(crate) fn give_up_waiting(&self) -> usize {
        let slots = self.slots.taken(self.in_flight).into_iter();
        let waiting = slots.filter(|&slot| self.waits_in(&self.segment, slot));
        let told = waiting.filter_map(|slot| self.desk_of(slot));
        told.filter(|&desk| self.desks.post(desk, Mail::Lost(Fault::Unserved))).count()
    }

    /// Whether a worker says that it is at the request in `slot`. It says so before it begins it, and until it has ended it.
    pub(crate) fn is_at(&self, worker: u16, slot: u32) -> bool {
        let cell = self.segment.workers().get(usize::from(worker));
        cell.is_some_and(|cell| cell.is_at(slot))
    }

    /// Goes on with a new segment in the place of a damaged one, in which no worker is left. What waited waits there; of the
    /// rest nothing is left but for the log.
    pub(crate) fn replace(&mut self, segment: Segment) {
        let old = std::mem::replace(&mut self.segment, segment);
        let waited: Vec<(u32, bool)> = self
            .slots
            .taken(self.in_flight)
            .into_iter()
            .map(|slot| (slot, self.waits_in(&old, slot)))
            .collect();
        (self.queue, self.cell) = (segment.queue(), &segment.fronts()[self.thread as usize]);
        (self.damage, self.inspected, self.seen_head) = (None, Inspected::default(), 0);
        (self.workers_spin, self.serial, self.mate) = (false, 0, None);
        self.present.clear();
        for (slot, waited) in waited {
            self.carry_over(&old, slot, waited);
        }
    }

    /// Whether the request in `slot` has not been begun, by the words of a segment that may be damaged.
    fn waits_in(&self, old: &Segment, slot: u32) -> bool {
        let Some(own) = self.slots.get(slot) else { return false };
        own.hold == Hold::Kept || own.hold == Hold::Out && old.queue().is_unbegun(slot, own.ticket)
    }

    fn carry_over(&mut self, old: &Segment, slot: u32, waited: bool) {
        let Some(own) = self.slots.get_mut(slot) else { return };
        if own.hold == Hold::Left {
            // What its worker had handed over is gone.
            own.hold = Hold::Ours;
        }
        let Slot { hold, desk, ticket, place, queued_at, .. } = *own;
        let sound = self.segment.take_over(old, slot, place.near, ticket);
        match (hold, desk) {
            // Its request is being written, or its exchange knows already.
            (Hold::Free | Hold::Ours, _) => {}
            (_, NOBODY) => self.free_slot(slot),
            _ => {
                self.control(slot).reset(queued_at);
                if !(waited && sound && self.push(slot)) {
                    self.lose(slot, desk, Fault::WorkerLost);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::sample::bench::{self, Bench, Waiting};
    use crate::sample::worker::Worker;

    fn hold(bench: &Bench, slot: u32) -> Hold {
        bench.act(|dispatch| dispatch.slots.get(slot).unwrap().hold)
    }

    /// The targets that a worker finds.
    fn claims(worker: &Worker) -> Vec<String> {
        std::iter::from_fn(|| worker.claim()).map(|claimed| claimed.target).collect()
    }

    #[test]
    fn what_a_dead_worker_had_depends_on_how_far_it_had_come() {
        type Prepare = fn(&Bench, &Worker);
        // How far worker 0 has come with the request, what its exchange hears, and what worker 1 finds then.
        let cases: [(&str, Prepare, &[&str], &[&str]); 6] = [
            ("it had not seen it", |_, _| (), &[], &["/a"]),
            ("it had claimed it", |_, dead| drop(dead.claim()), &[], &["/a"]),
            ("it ran it", |_, dead| dead.begin(&dead.claim().unwrap()), &["WorkerExited"], &[]),
            (
                "it had answered and not told",
                |bench, dead| {
                    dead.serve();
                    bench.segment.fronts()[0].take_news(|_| ());
                },
                &["News"],
                &[],
            ),
            ("another has it", |bench, _| drop(bench.worker(2).claim()), &[], &[]),
            (
                "it cannot have had it",
                |bench, dead| {
                    dead.begin(&dead.claim().unwrap());
                    bench.segment.workers()[0].slot.store(3, Relaxed);
                },
                &[],
                &[],
            ),
        ];
        for (what, prepare, notes, found) in cases {
            let mut bench = Bench::of(8, 8);
            let (dead, other) = (bench.worker(0), bench.worker(1));
            let waiting = bench.queue("/a");
            prepare(&bench, &dead);
            bench.act(|dispatch| dispatch.worker_gone(0, Fault::WorkerExited));
            assert_eq!(
                (waiting.notes(), claims(&other)),
                (
                    notes.iter().map(ToString::to_string).collect(),
                    found.iter().map(ToString::to_string).collect()
                ),
                "{what}"
            );
            let doubt: &[&str] = if what.contains("cannot") {
                &["a request has a worker that does not know of it"]
            } else {
                &[]
            };
            assert_eq!(bench.damage(), doubt, "{what}");
            assert!(bench.act(|dispatch| !dispatch.is_present(0) && dispatch.is_present(1)), "{what}");
        }
    }

    #[test]
    fn what_a_dead_worker_has_said_of_a_request_that_it_had_not_begun_is_nothing_to_the_next() {
        let mut bench = Bench::of(8, 8);
        let (dead, other) = (bench.worker(0), bench.worker(1));
        let waiting = bench.queue("/a");
        let mut claimed = dead.claim().unwrap();
        dead.head(&mut claimed, 500, 0, 0);
        bench.act(|dispatch| dispatch.look(waiting.slot));
        bench.act(|dispatch| dispatch.worker_gone(0, Fault::WorkerLost));
        assert_eq!(bench.act(|dispatch| dispatch.control(waiting.slot).claimed_at.load(Relaxed)), 0);
        let claimed = other.claim().unwrap();
        other.begin(&claimed);
        (0..20).for_each(|_| bench.act(Dispatch::inspect));
        assert_eq!((waiting.notes(), bench.damage()), (vec![], vec![]));
        // Less than the dead one had said.
        other.finish(claimed);
        bench.act(Dispatch::take_news);
        assert_eq!((waiting.notes(), bench.damage()), (vec!["News".to_owned()], vec![]));
    }

    #[test]
    fn the_next_worker_has_as_much_time_as_the_dead_one_had() {
        let bench = Bench::of(8, 8);
        let (dead, other) = (bench.worker(0), bench.worker(1));
        let slot = bench.queue("/a").slot;
        let stuck = |served| {
            bench.act(|dispatch| {
                dispatch.see_runners(served);
                dispatch.stuck_worker(slot, 10, served)
            })
        };
        let _claimed = dead.claim();
        assert_eq!((stuck(1000), stuck(1011)), (None, Some(0)));
        bench.act(|dispatch| dispatch.worker_gone(0, Fault::WorkerLost));
        let _claimed = other.claim();
        assert_eq!((stuck(2000), stuck(2011)), (None, Some(1)));
    }

    #[test]
    fn the_cause_of_a_death_is_passed_on_and_a_slot_that_is_lost_is_ours_again() {
        for (fault, said) in [(Fault::WorkerExited, "WorkerExited"), (Fault::WorkerLost, "WorkerLost")] {
            let bench = Bench::of(8, 8);
            let worker = bench.worker(0);
            let waiting = bench.queue("/a");
            worker.begin(&worker.claim().unwrap());
            bench.act(|dispatch| dispatch.worker_gone(0, fault));
            assert_eq!((waiting.notes(), hold(&bench, waiting.slot)), (vec![said.to_owned()], Hold::Left));
            let slot = bench.leave(waiting);
            assert_eq!(hold(&bench, slot), Hold::Free);
        }
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_freed() {
        type Prepare = fn(&Worker) -> bool;
        let cases: [(&str, Prepare); 2] = [
            ("claimed", |dead| dead.claim().is_some()),
            ("begun", |dead| {
                dead.begin(&dead.claim().unwrap());
                true
            }),
        ];
        for (what, prepare) in cases {
            let bench = Bench::of(8, 8);
            let (dead, other) = (bench.worker(0), bench.worker(1));
            let waiting = bench.queue("/a");
            assert!(prepare(&dead));
            let slot = bench.leave(waiting);
            assert_eq!(hold(&bench, slot), Hold::Out, "{what}: the worker may still be at it");
            bench.act(|dispatch| dispatch.worker_gone(0, Fault::WorkerLost));
            assert_eq!((hold(&bench, slot), claims(&other)), (Hold::Free, vec![]), "{what}");
        }
    }

    #[test]
    fn somebody_is_woken_for_what_is_queued_again() {
        let bench = Bench::of(8, 8);
        let dead = bench.worker(0);
        let _waiting = bench.queue("/a");
        let _claimed = dead.claim();
        bench.act(|dispatch| dispatch.worker_up(1));
        let cell = &bench.segment.workers()[1];
        bench.segment.queue().cells.enter_idle(1, cell, 1);
        bench.act(|dispatch| dispatch.worker_gone(0, Fault::WorkerLost));
        assert_eq!(cell.wake.load(Relaxed), 1);
    }

    #[test]
    fn what_cannot_be_queued_again_is_lost() {
        let bench = Bench::of(16, 16);
        let dead = bench.worker(0);
        let waiting = bench.queue("/a");
        let _claimed = dead.claim();
        let _second = bench.queue("/waits");
        while bench.segment.queue().draw().is_some() {}
        bench.act(|dispatch| dispatch.worker_gone(0, Fault::WorkerExited));
        assert_eq!(waiting.notes(), ["WorkerExited"]);
    }

    #[test]
    fn a_worker_says_at_which_request_it_is() {
        let bench = Bench::of(8, 8);
        let worker = bench.worker(0);
        let waiting = bench.queue("/a");
        let _claimed = worker.claim();
        let at = |worker, slot| bench.act(|dispatch| dispatch.is_at(worker, slot));
        let slot = waiting.slot;
        assert_eq!([at(0, slot), at(0, slot + 1), at(1, slot), at(99, slot)], [true, false, false, false]);
    }

    /// Replaces the segment; what its first worker finds there.
    fn replaced(bench: &mut Bench) -> Vec<String> {
        let (file, segment) = bench::segment(16);
        bench.act(|dispatch| dispatch.replace(segment));
        (bench.file, bench.segment) = (file, segment);
        claims(&bench.worker(0))
    }

    #[test]
    fn what_waited_waits_in_the_new_segment_and_the_rest_is_lost() {
        let mut bench = Bench::of(16, 16);
        let (worker, other) = (bench.worker(0), bench.worker(1));
        let lost = bench.queue("/lost");
        worker.begin(&worker.claim().unwrap());
        bench.act(|dispatch| dispatch.worker_gone(0, Fault::WorkerExited));
        assert_eq!(lost.notes(), ["WorkerExited"]);
        let worker = bench.worker(0);
        let runs = bench.queue("/runs");
        worker.begin(&worker.claim().unwrap());
        let done = bench.queue("/done");
        other.serve();
        let claimed = bench.queue("/claimed");
        let _ = other.claim();
        let abandoned = bench.queue("/abandoned");
        let _ = other.claim();
        let abandoned = bench.leave(abandoned);
        let waits = bench.queue("/waits");
        let odd = bench.queue("/odd");
        bench.segment.controls()[odd.slot as usize].begun.store(1, Relaxed);
        let scribbled = bench.queue("/scribbled");
        bench.segment.stamp(scribbled.slot, true, 999);
        bench.act(|dispatch| dispatch.suspect("something"));
        let kept = bench.queue("/kept");
        let found = replaced(&mut bench);
        assert_eq!(found, ["/claimed", "/waits", "/odd", "/kept"]);
        let heard = |waiting: &Waiting| waiting.notes().contains(&"WorkerLost".to_owned());
        let heard = [&lost, &runs, &done, &claimed, &waits, &odd, &scribbled, &kept].map(heard);
        assert_eq!(heard, [false, true, true, false, false, false, true, false]);
        assert_eq!((hold(&bench, abandoned), hold(&bench, lost.slot)), (Hold::Free, Hold::Ours));
        assert_eq!(bench.act(|dispatch| dispatch.in_flight), 8);
    }

    #[test]
    fn nothing_of_the_old_segment_is_believed_any_more() {
        let mut bench = Bench::of(16, 16);
        for _ in 0..40 {
            let waiting = bench.queue("/a");
            bench.worker(0).serve();
            bench.leave(waiting);
        }
        bench.act(Dispatch::inspect);
        bench.act(|dispatch| dispatch.suspect("something"));
        assert_eq!(bench.damage(), ["something"]);
        let (_, segment) = bench::segment(16);
        bench.act(|dispatch| {
            dispatch.replace(segment);
            assert!(!dispatch.is_present(0) && !dispatch.workers_spin && dispatch.serial == 0);
            dispatch.inspect();
        });
        assert!(bench.damage().is_empty(), "its queue begins anew");
        bench.segment = segment;
        let waiting = bench.queue("/a");
        assert_eq!(waiting.notes(), [""; 0]);
        bench.worker(1).serve();
        assert!(bench.act(Dispatch::take_news));
        assert_eq!(waiting.notes(), ["News"]);
    }

    #[test]
    fn what_was_taken_of_a_response_does_not_count_in_the_next_segment() {
        let mut bench = Bench::of(16, 16);
        let waiting = bench.queue("/a");
        let control = |bench: &Bench| bench.act(|dispatch| dispatch.control(waiting.slot));
        bench.act(|dispatch| dispatch.slots.get_mut(waiting.slot).unwrap().consumed = 5);
        assert_eq!(replaced(&mut bench), ["/a"]);
        let own = bench.act(|dispatch| *dispatch.slots.get(waiting.slot).unwrap());
        assert_eq!((own.consumed, control(&bench).queued_at.load(Relaxed)), (0, own.queued_at));
        assert_eq!(own.queued_at, 1, "it has waited since it first was queued");
    }
}
