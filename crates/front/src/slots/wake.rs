//! Wakes workers. Wake-ups are what a request costs most, so they are batched: all connections that are ready are read
//! first, and [`Dispatch::wake_workers`] runs when the thread is about to sleep, or every few requests when it never does.
//! A sleeper is only woken when those awake will not drain the queue soon; [`Dispatch::backstop`] finds out when that
//! estimate was wrong.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use howdah_wire::{WorkerCell, WorkerPhase};

use crate::slots::dispatch::Dispatch;

/// How long the workers that are awake may need for the queue before another one is woken.
const DRAIN_NS: u64 = 50_000;
/// The same once every processor has one: the next could only take turns with those, for the price of the turns.
const CROWDED_NS: u64 = 200_000;
/// A worker that is busy with one request for this long, and for eight times the average, is not waited for.
const LATE_NS: u64 = 300_000;
const BUSY: u32 = WorkerPhase::Busy as u32;
const IDLE: u32 = WorkerPhase::Idle as u32;
/// Requests one by one before waiting is worth a spin. Those of two connections may take turns for a while.
const SERIAL: u32 = 1024;
/// How long the thread looks for the answer to a single request before it sleeps.
pub(crate) const SPIN_NS: u64 = 50_000;
/// How long a worker looks for the next request: what the client and this thread need to bring it, wake-ups included.
const WORKER_SPIN_NS: u32 = 300_000;

impl Dispatch {
    /// True when a short wait for the answer is likely to cost less than to sleep and be woken: requests come one by one, and the last
    /// such waits were not in vain.
    pub(crate) fn looks_for_answer(&mut self) -> bool {
        self.is_serial() && self.looks.pay()
    }

    fn is_serial(&self) -> bool {
        self.come_one_by_one() && self.in_flight == 1 && self.mate.is_none()
    }

    /// True when none of the last requests was queued beside another one.
    pub(crate) fn come_one_by_one(&self) -> bool {
        self.serial >= SERIAL
    }

    /// Another request is queued.
    pub(super) fn count_serial(&mut self) {
        self.serial = if self.in_flight == 1 { self.serial.saturating_add(1) } else { 0 };
        let pays = self.come_one_by_one() && self.run_ns < SPIN_NS && self.mate.is_none();
        if self.workers_spin != pays {
            self.workers_spin = pays;
            self.queue.cells.spin.store(if pays { WORKER_SPIN_NS } else { 0 }, Relaxed);
        }
    }

    /// Wakes as many workers as the queue needs. So many requests wait.
    pub(crate) fn wake_workers(&mut self, now: u64) -> u64 {
        let waiting = self.queue.backlog();
        let sleepers = if waiting == 0 { 0 } else { self.queue.cells.sleepers() };
        if sleepers == 0 {
            return waiting;
        }
        self.share_on();
        let awake = self.come_soon(now);
        for _ in 0..self.wanted(waiting).saturating_sub(awake).min(waiting).min(u64::from(sleepers)) {
            self.wake_one();
        }
        waiting
    }

    /// How many workers should be awake for so many requests.
    fn wanted(&self, waiting: u64) -> u64 {
        let work = waiting * self.run_ns;
        // The one that shares this thread's processor is at hand; the others would be in the client's way.
        let cpus = if self.mate.is_some() { 1 } else { self.cpus };
        let at_once = work.div_ceil(DRAIN_NS).min(cpus);
        at_once.max(work.div_ceil(CROWDED_NS)).max(1)
    }

    /// True while requests wait though workers sleep: the estimate behind that must be checked soon.
    pub(crate) fn needs_backstop(&self) -> bool {
        self.queue.backlog() > 0 && self.queue.cells.sleepers() > 0
    }

    /// Wakes one more worker when the queue has not moved since the last call.
    pub(crate) fn backstop(&mut self) {
        let head = self.queue.cells.head.value.load(SeqCst);
        if head == self.seen_head && self.needs_backstop() {
            self.wake_one();
        }
        self.seen_head = head;
    }

    /// Workers that are awake and will look at the queue soon. One that has been at its request for much longer than
    /// usual may never.
    fn come_soon(&self, now: u64) -> u64 {
        let late = now.saturating_sub((self.run_ns * 8).max(LATE_NS));
        let soon = |worker: &WorkerCell| match worker.phase.load(Relaxed) {
            BUSY => worker.since.load(Relaxed) > late,
            IDLE => worker.wake.load(Relaxed) == 1,
            _ => false,
        };
        // A dead one has left its last words in its cell.
        let workers = self.present.iter().zip(self.segment.workers());
        workers.filter(|&(&present, worker)| present && soon(worker)).count() as u64
    }

    fn wake_one(&self) {
        let workers = self.segment.workers();
        // The one that shares this thread's processor comes for the least.
        let mate = self.mate.map(|mate| mate.worker);
        let mate = mate.filter(|&mate| self.queue.cells.mark_woken(mate, &workers[usize::from(mate)]));
        if let Some(worker) = mate.or_else(|| self.queue.cells.pick_sleeper(workers)) {
            howdah_sys::futex_wake(&workers[usize::from(worker)].wake, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::bench::{Bench, Waiting};
    use crate::slots::dispatch::Mate;

    const NOW: u64 = 1_000_000_000;

    /// Requests that wait, beside workers that sleep from number 0 on, each longer than the next.
    fn bench(waiting: usize, sleepers: u16) -> (Bench, Vec<Waiting>) {
        let bench = Bench::of(64, 64);
        let requests = (0..waiting).map(|_| bench.queue("/a")).collect();
        for worker in 0..sleepers {
            bench.act(|dispatch| dispatch.worker_up(worker));
            let cell = &bench.segment.workers()[usize::from(worker)];
            cell.rest(0);
            bench.segment.queue().cells.enter_idle(worker, cell, u64::from(worker));
        }
        (bench, requests)
    }

    /// The workers that have been woken.
    fn woken(bench: &Bench, sleepers: u16) -> Vec<u16> {
        let cells = bench.segment.workers();
        (0..sleepers).filter(|&worker| cells[usize::from(worker)].wake.load(SeqCst) == 1).collect()
    }

    #[test]
    fn as_many_sleepers_are_woken_as_the_queue_needs() {
        // Processors, requests that wait, workers that sleep, how long a request runs, and how many are woken.
        for (cpus, waiting, sleepers, run, count) in [
            (16, 0, 4, 1_000_000, 0),
            (16, 1, 0, 1_000_000, 0),
            (16, 1, 4, 0, 1),
            (16, 5, 4, 0, 1),
            (16, 5, 4, 10_000, 1),
            (16, 5, 4, 10_001, 2),
            (16, 4, 4, 25_000, 2),
            (16, 4, 4, 50_000, 4),
            (16, 3, 4, 1_000_000, 3),
            (16, 5, 2, 1_000_000, 2),
            // One more than there are processors would have to wait for one, unless these are busy for long.
            (1, 4, 4, 50_000, 1),
            (1, 5, 4, 40_001, 2),
            (2, 4, 4, 50_000, 2),
            (2, 8, 8, 50_001, 3),
            (2, 3, 4, 1_000_000, 3),
        ] {
            let (bench, _requests) = bench(waiting, sleepers);
            bench.act(|dispatch| {
                dispatch.cpus = cpus;
                dispatch.run_ns = run;
                assert_eq!(dispatch.wake_workers(NOW), waiting as u64);
            });
            let woken = woken(&bench, sleepers);
            // Who has slept for the shortest time is the first.
            let expected: Vec<u16> = (sleepers - count..sleepers).collect();
            assert_eq!(woken, expected, "{cpus} processors, {waiting} wait, {sleepers} sleep, {run} ns each");
        }
    }

    #[test]
    fn beside_the_one_that_shares_the_processor_others_are_woken_for_much_work_alone() {
        // Requests that wait, how long each runs, and who is woken.
        for (waiting, run, expected) in
            [(1, 0, &[0][..]), (5, 40_000, &[0]), (5, 40_001, &[0, 3]), (5, 120_001, &[0, 1, 2, 3])]
        {
            let (bench, _requests) = bench(waiting, 4);
            bench.act(|dispatch| {
                dispatch.cpus = 16;
                dispatch.run_ns = run;
                dispatch.mate = Some(Mate { worker: 0, cpu: 0 });
                dispatch.wake_workers(NOW);
            });
            assert_eq!(woken(&bench, 4), expected, "{waiting} wait, {run} ns each");
        }
    }

    #[test]
    fn workers_that_will_come_by_themselves_count() {
        // What another worker does, since when, whether it was woken, how long requests run, and how many are woken for
        // three requests.
        for (phase, since, wake, run, count) in [
            (BUSY, NOW - 1, 0, 50_000, 2),
            (BUSY, NOW - 399_999, 0, 50_000, 2),
            (BUSY, NOW - 400_000, 0, 50_000, 3),
            (BUSY, NOW - 299_999, 0, 20_000, 1),
            (BUSY, NOW - 300_000, 0, 20_000, 2),
            (IDLE, 0, 1, 50_000, 2),
            (IDLE, NOW, 0, 50_000, 3),
            (WorkerPhase::Leaving as u32, NOW, 1, 50_000, 3),
        ] {
            let (bench, _requests) = bench(3, 4);
            let cell = &bench.segment.workers()[4];
            cell.phase.store(phase, Relaxed);
            cell.since.store(since, Relaxed);
            cell.wake.store(wake, Relaxed);
            bench.act(|dispatch| dispatch.run_ns = run);
            bench.act(|dispatch| dispatch.worker_up(4));
            bench.act(|dispatch| dispatch.wake_workers(NOW));
            let case = format!("phase {phase} for {} ns, woken {wake}, {run} ns each", NOW - since);
            assert_eq!(woken(&bench, 4).len(), count, "{case}");
        }
    }

    #[test]
    fn when_the_queue_does_not_move_one_more_is_woken_at_a_time() {
        let (bench, _requests) = bench(2, 3);
        let worker = bench.worker(7);
        let backstop = || {
            bench.act(Dispatch::backstop);
            woken(&bench, 3)
        };
        assert_eq!(backstop(), [0_u16; 0], "it is looked at for the first time");
        assert_eq!(backstop(), [2]);
        assert!(worker.claim().is_some());
        assert_eq!(backstop(), [2], "it has moved");
        assert_eq!(backstop(), [1, 2]);
        assert!(worker.claim().is_some());
        assert_eq!((backstop(), backstop()), (vec![1, 2], vec![1, 2]), "nothing waits");
    }

    #[test]
    fn a_second_look_is_due_while_requests_wait_though_workers_sleep() {
        for (waiting, sleepers, due) in [(0, 0, false), (1, 0, false), (0, 1, false), (1, 1, true)] {
            let (bench, _requests) = bench(waiting, sleepers);
            assert_eq!(bench.act(|dispatch| dispatch.needs_backstop()), due, "{waiting} {sleepers}");
        }
    }

    #[test]
    fn it_pays_to_look_for_a_moment_while_requests_come_one_by_one_and_are_short() {
        // How long requests run, and for how long workers are told to look.
        for (run, told) in [(SPIN_NS - 1, WORKER_SPIN_NS), (SPIN_NS, 0)] {
            let bench = Bench::of(16, 16);
            let worker = bench.worker(0);
            bench.act(|dispatch| dispatch.run_ns = run);
            let spin = || bench.segment.queue().cells.spin.load(Relaxed);
            for _ in 1..SERIAL {
                let waiting = bench.queue("/a");
                worker.serve();
                assert!(!bench.act(|dispatch| dispatch.is_serial()) && spin() == 0);
                bench.leave(waiting);
            }
            let waiting = bench.queue("/a");
            assert!(bench.act(|dispatch| dispatch.is_serial()), "the {SERIAL}th");
            assert_eq!(spin(), told);
            let second = bench.queue("/b");
            assert!(!bench.act(|dispatch| dispatch.is_serial()) && spin() == 0, "two at a time");
            bench.leave(waiting);
            bench.leave(second);
            let _third = bench.queue("/a");
            assert!(!bench.act(|dispatch| dispatch.is_serial()), "it is counted anew");
        }
    }
}
