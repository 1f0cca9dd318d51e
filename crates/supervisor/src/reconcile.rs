//! The next step: compares what is with what should be.
//!
//! Called after every piece of news. Each part is harmless when there is nothing for it to do, and none waits.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use howdah_sys::shortage::with_way_out;
use howdah_sys::{Pid, socketpair_seqpacket};
use howdah_wire::WorkerPhase;

use crate::crew::phase_of;
use crate::end::YOUNG;
use crate::event::Event;
use crate::generation::{Generation, Role};
use crate::pid::pid_number;
use crate::state::{Startup, State};
use crate::worker::{Reason, Worker};

/// How often a worker that is starting is looked at: it has no way to call.
const WATCH_START: Duration = Duration::from_millis(2);
/// The same once its start takes long (the application is loaded in the worker).
const WATCH_SLOW_START: Duration = Duration::from_millis(50);
/// A start that takes longer than this is a slow one.
const SLOW: Duration = Duration::from_millis(500);
/// Nobody tells that a worker leaves by itself; most have done so before this time.
const LEAVERS: Duration = Duration::from_secs(1);
/// A worker near its quota reaches it by itself under load; without load it is drained after this time.
const QUOTA_GRACE: Duration = Duration::from_secs(1);

impl State {
    /// Does what is due. Returns when to look again without any news.
    pub(crate) fn step(&mut self, now: Instant) -> Option<Instant> {
        self.look_at_zygotes(now);
        self.look_at_loads(now);
        self.look_at_starts();
        self.look_at_leavers();
        let again = self.replace_segment(now);
        if self.shutdown.is_none() {
            self.mark_for_recycling(now);
            self.revive(now);
            self.look_at_reforks(now);
            self.fill(now);
            self.finish_start();
            self.finish_reload();
            self.drain_retired(now);
            self.drain_surplus();
            self.look_at_guests();
        }
        self.enforce_limits();
        self.bury_unreported(now);
        self.sweep(now);
        self.forget_generations();
        self.look_for_the_end();
        self.next_look(now).into_iter().chain(again).min()
    }

    /// The cells of starting workers say when they are ready; who they are must be known by then.
    fn look_at_starts(&mut self) {
        let (mut ready, mut well) = (Vec::new(), Vec::new());
        for (index, cell, worker) in self.crew.workers_mut() {
            let phase = phase_of(cell);
            let served = cell.requests.load(SeqCst) > 0;
            let known = worker.process.is_some();
            if !worker.up && known && (served || matches!(phase, WorkerPhase::Idle | WorkerPhase::Busy)) {
                worker.up = true;
                tracing::debug!(worker = index, pid = pid_number(worker.pid()), "worker is ready");
                ready.push(worker.generation);
            }
            if worker.up && (served || worker.started.elapsed() >= YOUNG) {
                well.push((worker.generation, worker.started));
            }
        }
        for number in ready {
            self.generation_mut(number).into_iter().for_each(|generation| generation.proven = true);
        }
        for (number, started) in well {
            self.note_well(number, started);
        }
    }

    /// Whoever leaves by itself serves nobody any more: another takes its place, and its hooks have their time.
    fn look_at_leavers(&mut self) {
        let grace = self.config.grace();
        for (_, cell, worker) in self.crew.workers_mut() {
            if !worker.leaving && phase_of(cell) == WorkerPhase::Leaving {
                worker.leaving = true;
                grace.into_iter().for_each(|grace| worker.limit(grace));
            }
        }
    }

    /// A worker has served, or is too old to be one of those that die before they do.
    fn note_well(&mut self, number: u32, started: Instant) {
        let Some(generation) = self.generation_mut(number) else { return };
        if generation.crashes.worked(started) {
            tracing::info!("workers start again");
        }
    }

    /// Starts workers that are missing.
    fn fill(&mut self, now: Instant) {
        if self.damage.is_under_way() {
            return;
        }
        for at in 0..self.generations.len() {
            let generation = &self.generations[at];
            let wanted = generation.wants(self.target);
            let able = wanted > 0 && generation.zygote.can_fork();
            let waits = generation.crashes.wait_until(now).is_some();
            if !able || waits && !self.is_called_for(generation) {
                continue;
            }
            for _ in self.staying(generation.number)..wanted {
                if !self.start_worker(at) {
                    break;
                }
            }
        }
    }

    /// Workers of it come up, and die when there is nothing to do for them; now there is, and nobody to do it.
    fn is_called_for(&self, generation: &Generation) -> bool {
        let is_there = |worker: &Worker| worker.generation == generation.number && worker.stays();
        generation.crashed_ready
            && self.crew.count(is_there) == 0
            && self.segments.borrow().queue().oldest().is_some()
    }

    /// False when it must wait: for a free cell, or for descriptors.
    fn start_worker(&mut self, at: usize) -> bool {
        let Some(index) = self.crew.free() else { return false };
        let (ours, theirs) = match channels(self.shared.eventfds.len()) {
            Ok(pairs) => pairs,
            Err(error) => {
                let reason = format!("no channel for a new worker: {}", with_way_out(&error));
                tracing::error!("{reason}");
                let now = Instant::now();
                self.generations[at].crashes.failed(now, now, reason);
                return false;
            }
        };
        let mut quota = self.jitter.around(self.config.max_requests);
        let mut lifetime = self.config.max_lifetime.map(|lifetime| self.jitter.around_time(lifetime));
        let generation = &mut self.generations[at];
        if let Some(guest) = &mut generation.guest {
            guest.forked = true;
            (quota, lifetime) = (0, None);
        }
        self.counts.spawns += 1;
        self.shared.roster.expect(index, generation.number);
        let worker = Worker::new(generation.number, lifetime, quota);
        self.crew.occupy(index, worker.in_host(generation.zygote.orders(index)));
        // The fronts hear of it first: then the worker's first message finds someone who reads.
        let _ = self.events.send(Event::WorkerUp { index, channels: ours });
        generation.zygote.fork(index, theirs);
        true
    }

    /// The zygote has forked a worker. What it says of one that is known, as something else that has its socket might, changes nothing:
    /// each process that is known takes descriptors.
    pub(crate) fn forked(&mut self, index: u16, pid: Pid) {
        if let Some(worker) = self.crew.get_mut(index).filter(|worker| worker.process.is_none()) {
            worker.forked(index, pid, &self.shared.family, &self.mailbox);
        }
    }

    /// Workers marked for replacement leave once the pool is full without them.
    fn drain_retired(&mut self, now: Instant) {
        let Some(serving) = self.in_role(Role::Serving) else { return };
        let number = serving.number;
        let ready = self.crew.count(|worker| worker.generation == number && worker.stays() && worker.up);
        let mut retiring: Vec<_> = self
            .crew
            .workers()
            .filter(|(_, worker)| worker.generation == number && !worker.draining)
            .filter_map(|(index, worker)| Some((worker.retiring?, index, worker.leaving)))
            .collect();
        // Whoever leaves by itself serves nobody any more, and is none of those who make the pool full.
        let able = ready + retiring.iter().filter(|(_, _, leaving)| !leaving).count();
        let surplus = able.saturating_sub(self.target);
        retiring.retain(|(retirement, _, _)| {
            retirement.reason != Reason::Quota || retirement.since + QUOTA_GRACE <= now
        });
        retiring.sort_by_key(|(retirement, _, _)| retirement.since);
        let (left, there): (Vec<_>, Vec<_>) = retiring.into_iter().partition(|(_, _, leaving)| *leaving);
        let left = left.into_iter().filter(|_| able >= self.target);
        let leave: Vec<_> = left.chain(there.into_iter().take(surplus)).collect();
        for (retirement, index, _) in leave {
            let limit = self.config.grace().filter(|_| retirement.reason == Reason::Reload);
            match retirement.reason {
                Reason::Refork => self.crew.promote(index),
                _ => self.crew.drain(index, limit),
            }
        }
    }

    /// After the number of workers was lowered: the youngest cells go.
    fn drain_surplus(&mut self) {
        let staffed: Vec<u32> =
            self.generations.iter().filter(|generation| generation.is_staffed()).map(|g| g.number).collect();
        for number in staffed {
            let surplus = self.staying(number).saturating_sub(self.target);
            let members = self.crew.pick(|worker| worker.generation == number && worker.stays());
            for index in members.into_iter().rev().take(surplus) {
                self.crew.drain(index, None);
            }
        }
    }

    fn finish_start(&mut self) {
        let ready = self.crew.count(|worker| worker.up && worker.stays());
        if ready < self.target || !matches!(self.startup, Startup::Waiting(_)) {
            return;
        }
        tracing::info!(workers = ready, "all workers are ready");
        if let Startup::Waiting(replies) = std::mem::replace(&mut self.startup, Startup::Done) {
            replies.into_iter().for_each(|reply| drop(reply.send(Ok(()))));
        }
    }

    fn enforce_limits(&mut self) {
        let hurried = self.stops_at_once();
        for (index, _, worker) in self.crew.workers_mut() {
            if worker.enforce() && !hurried {
                let pid = pid_number(worker.pid());
                tracing::warn!(worker = index, pid, "worker did not leave in time and is killed");
            }
        }
        self.end_deaf_hosts();
        self.end_deaf_zygotes();
    }

    /// A host that was told to kill a worker and does not come to it has been stopped, or hangs: it is killed itself.
    fn end_deaf_hosts(&mut self) {
        let late = self
            .crew
            .workers_mut()
            .filter_map(|(_, _, worker)| worker.has_deaf_host().then_some(worker.generation));
        let late: Vec<u32> = late.collect();
        for generation in self.generations.iter_mut().filter(|generation| late.contains(&generation.number)) {
            if generation.zygote.end() {
                let (number, pid) = (generation.number, generation.zygote.pid_number());
                tracing::error!(
                    generation = number,
                    pid,
                    "the host of scripts does not end a script that it was told to end, and is killed; it may have been stopped"
                );
            }
        }
    }

    /// A worker whose fork is not reported cannot be killed: it is the zygote that does not come to it. One that is still
    /// wanted may take its time.
    fn end_deaf_zygotes(&mut self) {
        let stops = self.shutdown.is_some();
        let deaf = self.crew.workers_mut().filter_map(|(_, _, worker)| {
            let unknown = worker.process.is_none() && worker.orphaned.is_none();
            (unknown && worker.is_overdue()).then_some(worker.generation)
        });
        let deaf: Vec<u32> = deaf.collect();
        let leaves = |generation: &&mut Generation| stops || generation.role == Role::Leaving;
        for generation in self.generations.iter_mut().filter(leaves) {
            if deaf.contains(&generation.number) {
                generation.zygote.end();
            }
        }
    }

    /// Workers of a generation that are to stay, ready or not.
    fn staying(&self, number: u32) -> usize {
        self.crew.count(|worker| worker.generation == number && worker.stays())
    }

    fn next_look(&mut self, now: Instant) -> Option<Instant> {
        let starts = self.crew.workers().filter(|(_, worker)| !worker.up && worker.process.is_some());
        let starts = starts.map(|(_, worker)| now + watch_interval(now - worker.started));
        let graces = self.crew.workers().filter(|(_, worker)| !worker.draining);
        let graces = graces.filter_map(|(_, worker)| Some(worker.retiring?.since + QUOTA_GRACE));
        let workers = starts.chain(graces.filter(|at| *at > now)).min();
        let limits = self.crew.workers_mut().filter_map(|(_, _, worker)| worker.next_look());
        let limits = limits.min().map(|wait| now + wait);
        let zygotes =
            self.generations.iter_mut().filter_map(|generation| generation.zygote.enforce(now)).min();
        let waits =
            self.generations.iter().filter(|generation| self.staying(generation.number) < self.target);
        let waits = waits.filter_map(|generation| generation.crashes.wait_until(now)).min();
        let others = [
            self.loads.wait_until(now),
            self.next_watch(now),
            self.next_refork(),
            self.sweep_at,
            self.next_orphan(now),
            self.next_unreported(now),
            self.next_load(now),
            Some(now + LEAVERS),
        ];
        [workers, limits, zygotes, waits].into_iter().chain(others).flatten().min()
    }

    fn forget_generations(&mut self) {
        let pool = &self.crew;
        self.generations.retain_mut(|generation| {
            let empty = pool.count(|worker| worker.generation == generation.number) == 0;
            if generation.role == Role::Leaving && empty {
                generation.zygote.expect_exit();
            }
            !(generation.role == Role::Leaving && empty && generation.zygote.is_gone())
        });
    }
}

fn watch_interval(age: Duration) -> Duration {
    if age < SLOW { WATCH_START } else { WATCH_SLOW_START }
}

/// A channel to each front thread: our ends, the worker's ends.
fn channels(fronts: usize) -> std::io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
    (0..fronts).map(|_| socketpair_seqpacket()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::scene::{Scene, pid_of};

    #[tokio::test]
    async fn who_leaves_by_itself_is_none_of_those_who_make_the_pool_full() {
        let mut scene = Scene::new(Config { workers: 4, ..Config::default() });
        let now = Instant::now();
        let crew = &mut scene.state.crew;
        for (index, reason) in [(0, Reason::Quota), (1, Reason::Lifetime)] {
            crew.get_mut(index).unwrap().retire(reason, now);
        }
        crew.get_mut(0).unwrap().leaving = true;
        scene.worker();
        scene.state.drain_retired(now);
        assert_eq!(scene.draining(), [0; 0], "three and the old one serve");
        scene.worker();
        scene.state.drain_retired(now);
        assert_eq!(scene.draining(), [1]);
        scene.state.drain_retired(now + QUOTA_GRACE);
        assert_eq!(scene.draining(), [0, 1]);
    }

    #[tokio::test]
    async fn who_has_to_go_for_another_reason_than_a_reload_may_finish_what_it_does() {
        for (reason, is_bounded) in [
            (Some(Reason::Quota), false),
            (Some(Reason::Lifetime), false),
            (Some(Reason::Memory), false),
            (Some(Reason::Refork), false),
            (Some(Reason::Reload), true),
            // There are to be fewer.
            (None, false),
        ] {
            let brief = Duration::from_millis(1);
            let mut scene = Scene::new(Config { workers: 2, graceful_timeout: brief, ..Config::default() });
            let now = Instant::now();
            if let Some(reason) = reason {
                scene.state.crew.get_mut(1).unwrap().retire(reason, now);
                scene.worker();
            } else {
                scene.state.target = 1;
            }
            scene.state.drain_retired(now + QUOTA_GRACE);
            scene.state.drain_surplus();
            assert_eq!(scene.draining(), [1], "{reason:?}");
            assert_eq!(scene.overdue().contains(&1), is_bounded, "{reason:?}");
        }
    }

    #[tokio::test]
    async fn a_worker_is_one_process_whatever_is_said_of_it_later() {
        let mut scene = Scene::new(Config { workers: 1, ..Config::default() });
        let other = Pid::from_raw(std::process::id().cast_signed()).unwrap();
        scene.state.forked(0, other);
        assert_eq!(scene.state.crew.get(0).and_then(Worker::pid), Some(pid_of(0)));
        assert!(!scene.state.shared.family.knows(other));
    }

    #[tokio::test]
    async fn a_request_that_waits_has_one_tried_at_once_where_the_last_had_been_ready_and_nobody_is_there() {
        // Whether the last one to die had been ready, whether a request waits, whether another worker is there.
        for (ready, waits, other) in
            [(true, true, false), (false, true, false), (true, false, false), (true, true, true)]
        {
            let mut scene = Scene::new(Config { workers: 2, ..Config::default() });
            let (state, now) = (&mut scene.state, Instant::now());
            for index in u16::from(other)..2 {
                state.crew.vacate(index);
                state.crew.recovered(index);
            }
            state.generations[0].crashes.failed(now, now, "they die".to_owned());
            state.generations[0].crashed_ready = ready;
            if waits {
                state.segments.borrow().queue().push(0, 0);
            }
            let before = state.crew.count(|_| true);
            state.fill(now);
            let is_tried = state.crew.count(|_| true) > before;
            assert_eq!(is_tried, ready && waits && !other, "{ready} {waits} {other}");
        }
    }
}
