//! Finds out when the segment cannot be relied upon any more: ten times a second, or once while nobody is there, each
//! front thread compares what stands there with what it knows.
//!
//! Words that only the front writes, and tickets, must be right at once. What a worker is just about to write may be
//! doubtful for an instant: it counts when it has been so several times in a row. A look at which that worker cannot have got
//! further, because it was stopped by a signal or a debugger, waits for its memory to come from a disk, or has no processor, is none
//! of these, for then the instant lasts until it goes on. News that was lost is passed on.

use std::sync::atomic::Ordering::Relaxed;

use howdah_sys::process::may_have_moved;
use howdah_wire::queue::State;
use howdah_wire::{Phase, RESPONSE_HEAD_READY};

use crate::reports::Damaged;
use crate::slots::dispatch::{Dispatch, Inspected};
use crate::slots::own::Hold;

/// Inspections in a row that may find something doubtful.
const DOUBTS: u8 = 5;

/// What an inspection makes of a slot.
enum Verdict {
    Fine,
    /// It has news that its exchange has not heard of.
    News,
    /// For an instant this may be.
    Doubtful(&'static str),
    Wrong(&'static str),
}

impl Dispatch {
    /// Looks after everything once.
    pub(crate) fn inspect(&mut self) {
        if self.damage.is_none() && !self.segment.has_its_header() {
            self.suspect("its header was overwritten");
        }
        self.inspect_queue();
        for slot in self.slots.taken(self.in_flight) {
            if self.damage.is_some() {
                return;
            }
            self.inspect_slot(slot);
        }
    }

    /// The queue's two ends, and whether it moves.
    pub(crate) fn inspect_queue(&mut self) {
        if self.damage.is_some() {
            return;
        }
        let before = self.inspected;
        let mut head = before.head;
        if let Some(what) = self.queue.doubt(&mut head) {
            return self.suspect(what);
        }
        let tickets = self.queue.tickets;
        tickets.has_pushed(self.thread);
        let pushed = tickets.is_pushed(head, self.segment.fronts().len());
        let still = pushed && self.queue.is_stuck() && head == before.head;
        let stuck = if still { before.stuck.saturating_add(1) } else { 0 };
        self.inspected = Inspected { head, stuck };
        if stuck >= DOUBTS {
            self.suspect("the queue does not move");
        }
    }

    fn inspect_slot(&mut self, slot: u32) {
        let verdict = self.verdict(slot);
        let Some(own) = self.slots.get_mut(slot) else { return };
        let doubts = std::mem::take(&mut own.doubts);
        match verdict {
            Verdict::Fine => {}
            Verdict::News => {
                self.news(slot);
            }
            Verdict::Doubtful(what) => {
                let worker = self.roster.pid(self.queue.state(slot).owner);
                own.doubts = doubts.saturating_add(u8::from(may_have_moved(worker, &mut own.spent)));
                if own.doubts >= DOUBTS {
                    self.suspect(what);
                }
            }
            Verdict::Wrong(what) => self.suspect(what),
        }
    }

    fn verdict(&self, slot: u32) -> Verdict {
        let Some(own) = self.slots.get(slot).filter(|own| own.hold == Hold::Out) else {
            return Verdict::Fine;
        };
        let state = self.queue.state(slot);
        if state.ticket != own.ticket {
            return Verdict::Wrong("a slot bears a ticket that it was not given");
        }
        match state.phase {
            Phase::Free => Verdict::Wrong("a slot is free that was not given back"),
            Phase::Queued => match self.queue.doubt_waiting(slot, own.ticket) {
                Some(what) => Verdict::Wrong(what),
                None => Verdict::Fine,
            },
            Phase::Running => self.verdict_on_running(slot, state),
            // The look makes sure of the response.
            Phase::Done if own.ended => Verdict::Fine,
            Phase::Done => Verdict::News,
        }
    }

    fn verdict_on_running(&self, slot: u32, state: State) -> Verdict {
        let Some(own) = self.slots.get(slot) else { return Verdict::Fine };
        let control = self.control(slot);
        if control.consumed.load(Relaxed) != own.consumed {
            return Verdict::Wrong("a count of the front's was overwritten");
        }
        if !self.is_present(state.owner) || !self.is_at(state.owner, slot) {
            return Verdict::Doubtful("a request has a worker that does not know of it");
        }
        match control.answer(own.ticket) {
            Some(answer) if answer == own.answer => Verdict::Fine,
            Some(_) => Verdict::News,
            None if control.flags.load(Relaxed) & RESPONSE_HEAD_READY == 0 => Verdict::Fine,
            None => Verdict::Doubtful("a response is not what its worker has made"),
        }
    }

    /// Something cannot be true, so nothing there can be relied upon. Says so, once.
    pub(crate) fn suspect(&mut self, what: &'static str) {
        if self.damage.is_none() {
            self.damage = Some(what);
            // Without a listener the server ends.
            let _ = self.damaged.send(Damaged { segment: self.segment, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use howdah_sys::process::state_in;
    use howdah_sys::{Pid, Signal};
    use howdah_wire::{LENGTH_UNKNOWN, Roster, Shape};
    use rustix::process::kill_process;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::config::Config;
    use crate::exchange::Desks;
    use crate::sample::bench::Bench;
    use crate::sample::forever;
    use crate::sample::worker::{Claimed, Worker};
    use crate::sample::world::{World, run};

    /// Inspects until something is said; how often that was, and what.
    fn found(bench: &mut Bench) -> (usize, Vec<&'static str>) {
        for count in 1..20 {
            bench.act(Dispatch::inspect);
            let said = bench.damage();
            if !said.is_empty() {
                return (count, said);
            }
        }
        (0, vec![])
    }

    fn store(bench: &Bench, slot: u32, change: impl FnOnce(State) -> State) {
        let state = bench.segment.queue().state(slot);
        bench.segment.controls()[slot as usize].state.store(change(state).pack(), Relaxed);
    }

    #[test]
    fn what_is_written_over_while_a_request_waits_is_found() {
        type Scribble = fn(&Bench, u32, usize);
        let cases: [(&str, Scribble, usize, &str); 10] = [
            (
                "the header",
                |bench, _, _| assert_eq!(rustix::io::pwrite(&bench.file, &[0; 8], 0), Ok(8)),
                1,
                "its header was overwritten",
            ),
            (
                "the tail, far ahead",
                |bench, _, _| bench.segment.queue().cells.tail.value.store(1000, Relaxed),
                1,
                "the queue's tail is not where the front has put it",
            ),
            (
                "the head, far ahead",
                |bench, _, _| bench.segment.queue().cells.head.value.store(1000, Relaxed),
                1,
                "the queue's head is outside of the queue",
            ),
            (
                "the head, back",
                |bench, _, _| bench.segment.queue().cells.head.value.store(0, Relaxed),
                1,
                "the queue's head is outside of the queue",
            ),
            (
                "the head, behind the request",
                |bench, _, _| bench.segment.queue().cells.head.value.store(2, Relaxed),
                1,
                "the queue has passed a request that waits",
            ),
            (
                "its place in the queue",
                |bench, _, at| bench.segment.queue().ring[at].store(0, Relaxed),
                1,
                "the queue has lost a request",
            ),
            (
                "its ticket",
                |bench, slot, _| store(bench, slot, |state| State { ticket: 9, ..state }),
                1,
                "a slot bears a ticket that it was not given",
            ),
            (
                "its phase",
                |bench, slot, _| store(bench, slot, |state| State { phase: Phase::Free, ..state }),
                1,
                "a slot is free that was not given back",
            ),
            (
                "its phase, for that of one that runs",
                |bench, slot, _| store(bench, slot, |state| State { phase: Phase::Running, ..state }),
                5,
                "a request has a worker that does not know of it",
            ),
            (
                "the tail, by a ticket that nobody uses",
                |bench, slot, _| {
                    bench.act(|dispatch| dispatch.give_back(slot));
                    let _ = bench.segment.queue().claim(0);
                    let _ = bench.segment.queue().draw();
                },
                6,
                "the queue does not move",
            ),
        ];
        for (what, scribble, after, said) in cases {
            let mut bench = Bench::of(16, 16);
            let waiting = bench.queue("/a");
            bench.act(Dispatch::inspect);
            assert!(bench.damage().is_empty(), "{what}: all is well before");
            scribble(&bench, waiting.slot, 1);
            assert_eq!(found(&mut bench), (after, vec![said]), "{what}");
            bench.act(Dispatch::inspect);
            assert!(bench.damage().is_empty(), "{what}: it is said once");
        }
    }

    #[test]
    fn what_is_written_over_while_a_worker_has_the_request_is_found() {
        type Scribble = fn(&Bench, &Worker, Claimed);
        let cases: [(&str, Scribble, usize, &str); 7] = [
            (
                "a count of ours",
                |bench, _, _| bench.segment.controls()[0].consumed.store(5, Relaxed),
                1,
                "a count of the front's was overwritten",
            ),
            (
                "where the worker is",
                |bench, _, _| bench.segment.workers()[0].slot.store(0, Relaxed),
                5,
                "a request has a worker that does not know of it",
            ),
            (
                "who the worker is, for one that is not there",
                |bench, _, _| store(bench, 0, |state| State { owner: 3, ..state }),
                5,
                "a request has a worker that does not know of it",
            ),
            (
                "who the worker is, for one that is elsewhere",
                |bench, _, _| store(bench, 0, |state| State { owner: 1, ..state }),
                5,
                "a request has a worker that does not know of it",
            ),
            (
                "what it has said",
                |bench, worker, mut claimed| {
                    worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
                    bench.segment.controls()[0].status.store(404, Relaxed);
                },
                5,
                "a response is not what its worker has made",
            ),
            (
                "what it has said in the end",
                |bench, worker, claimed| {
                    worker.finish(claimed);
                    bench.segment.controls()[0].status.store(404, Relaxed);
                },
                1,
                "a response is not what its worker has made",
            ),
            (
                "its ticket",
                |bench, _, _| store(bench, 0, |state| State { ticket: 9, ..state }),
                1,
                "a slot bears a ticket that it was not given",
            ),
        ];
        for (what, scribble, after, said) in cases {
            let mut bench = Bench::of(16, 16);
            let (worker, _other) = (bench.worker(0), bench.worker(1));
            let _waiting = bench.queue("/a");
            let claimed = worker.claim().unwrap();
            worker.begin(&claimed);
            bench.act(Dispatch::inspect);
            assert!(bench.damage().is_empty(), "{what}: all is well before");
            scribble(&bench, &worker, claimed);
            assert_eq!(found(&mut bench), (after, vec![said]), "{what}");
        }
    }

    #[test]
    fn a_doubt_passes_and_is_counted_anew() {
        let mut bench = Bench::of(16, 16);
        let worker = bench.worker(0);
        let _waiting = bench.queue("/a");
        let _claimed = worker.claim().unwrap();
        let cell = &bench.segment.workers()[0];
        for _ in 0..3 {
            cell.slot.store(0, Relaxed);
            (1..DOUBTS).for_each(|_| bench.act(Dispatch::inspect));
            cell.slot.store(1, Relaxed);
            bench.act(Dispatch::inspect);
        }
        let queue = bench.segment.queue();
        for _ in 0..3 {
            let ticket = queue.draw().unwrap();
            (1..DOUBTS).for_each(|_| bench.act(Dispatch::inspect));
            // A slot of another thread's, which it gives up.
            queue.push(15, ticket);
            assert!(queue.cancel(15, ticket) && queue.claim(1).is_none());
            bench.act(Dispatch::inspect);
        }
        assert!(bench.damage().is_empty());
    }

    #[test]
    fn a_thread_that_gets_no_processor_before_it_has_pushed_is_no_doubt() {
        let (_file, segment) =
            howdah_sys::create_segment(Shape { fronts: 2, workers: 8, slots: 16 }).expect("a segment");
        let (damage, mut damaged) = unbounded_channel();
        let desks = forever(Desks::default());
        let mut dispatch = Dispatch::new(segment, 0, 16, 16, desks, damage, Roster::default());
        let queue = segment.queue();
        queue.tickets.has_pushed(1);
        let _ticket = queue.draw().unwrap();
        (0..10 * DOUBTS).for_each(|_| dispatch.inspect());
        assert!(damaged.try_recv().is_err(), "it may be the other's");
        queue.tickets.has_pushed(1);
        (0..=DOUBTS).for_each(|_| dispatch.inspect());
        assert_eq!(damaged.try_recv().unwrap().what, "the queue does not move");
    }

    #[test]
    fn what_a_stopped_worker_leaves_half_done_is_doubted_when_it_goes_on() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let becomes = |state| {
            let stat = format!("/proc/{}/stat", child.id());
            while state_in(&std::fs::read_to_string(&stat).unwrap()) != Some(state) {
                std::thread::yield_now();
            }
        };
        becomes('S');
        let mut bench = Bench::of(16, 16);
        let worker = bench.worker(0);
        bench.act(|dispatch| dispatch.roster.forked(0, child.id()));
        let _waiting = bench.queue("/a");
        let mut claimed = worker.claim().unwrap();
        worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
        bench.segment.controls()[0].produced.store(1, Relaxed);
        bench.act(Dispatch::inspect);
        kill_process(pid, Signal::STOP).unwrap();
        becomes('T');
        assert_eq!(found(&mut bench), (0, vec![]));
        kill_process(pid, Signal::CONT).unwrap();
        becomes('S');
        assert_eq!(found(&mut bench), (4, vec!["a response is not what its worker has made"]));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn news_that_was_lost_is_passed_on_once() {
        let bench = Bench::of(16, 16);
        let worker = bench.worker(0);
        let waiting = bench.queue("/a");
        let inspected = || {
            // Whatever was told is lost.
            bench.segment.fronts()[0].take_news(|_| ());
            bench.act(Dispatch::inspect);
            waiting.notes()
        };
        let news = ["News".to_owned()];
        let mut claimed = worker.claim().unwrap();
        assert_eq!(inspected(), [""; 0], "it has said nothing");
        worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
        assert_eq!((inspected(), inspected()), (news.to_vec(), vec![]), "it has begun to answer");
        worker.write(&mut claimed, b"more");
        assert_eq!((inspected(), inspected()), (news.to_vec(), vec![]), "it goes on");
        worker.finish(claimed);
        assert_eq!((inspected(), inspected()), (news.to_vec(), vec![]), "it has ended");
    }

    #[test]
    fn the_program_hears_which_segment_is_damaged() {
        run(async {
            let mut world = World::new(Config::default());
            let segment = world.pool().setup.segment;
            segment.queue().cells.head.value.store(1000, Relaxed);
            world.wait(Duration::from_millis(1));
            assert!(world.damaged.try_recv().unwrap().segment.is(&segment));
        });
    }

    #[test]
    fn a_slot_of_ours_is_no_matter_for_doubts() {
        let mut bench = Bench::of(16, 16);
        let (slot, _) = bench.write("/a");
        bench.act(|dispatch| dispatch.in_flight = 1);
        store(&bench, slot, |state| State { ticket: 9, phase: Phase::Done, ..state });
        assert_eq!(found(&mut bench), (0, vec![]));
    }
}
