//! Workers that have served long enough, or have grown too large: each is marked, and leaves when its replacement is
//! ready (`reconcile`).
//!
//! A worker leaves by itself at its quota, told in its cell before the fork. So that the crew is not one short in the
//! meantime, its replacement is started when it is near. The next look is taken in half the time in which the busiest
//! worker could come there, and after each end at a quota; while there is nothing to do, once a second. So only the
//! first of a burst after a rest leave before they were seen to be near.

use std::cmp::Reverse;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use howdah_sys::Pid;
use howdah_sys::process::Process;
use howdah_sys::usage::memory_of;
use howdah_wire::WorkerCell;

use crate::backoff::Backoff;
use crate::generation::Role;
use crate::notice::Notice;
use crate::pid::pid_number;
use crate::state::State;
use crate::watch::MEMORY_LOOKS;
use crate::worker::{Reason, Worker};

/// Shortest and longest time between two looks at the workers' counters.
const QUOTA_LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));
/// So short a life has no "near": the replacement comes when it has ended.
const SHORT: u64 = 10;

impl State {
    /// Marks workers whose time has come; no more than a quarter of the crew at once, except those near their quota:
    /// they leave soon in any case, and the jitter keeps most of them apart.
    pub(crate) fn mark_for_recycling(&mut self, now: Instant) {
        let Some(number) = self.in_role(Role::Serving).map(|serving| serving.number) else { return };
        if self.watch.quota_at.is_some_and(|at| at <= now) {
            self.watch.quota_at = Some(now + self.look_at_quotas(number, now));
        }
        self.measure_memory(now);
        let room = self.room_for_retiring();
        let due = |worker: &Worker| worker.retires_at.is_some_and(|at| at <= now);
        let mut old = self.crew.pick(|worker| worker.generation == number && worker.stays() && due(worker));
        // New ones take the lowest cells: by those, the last would never have its turn where lives are short.
        old.sort_by_key(|&index| self.crew.get(index).and_then(|worker| worker.retires_at));
        for index in old.into_iter().take(room) {
            self.retire(index, Reason::Lifetime, now);
        }
    }

    /// Returns when to look again.
    fn look_at_quotas(&mut self, number: u32, now: Instant) -> Duration {
        // Those of a worker that is started after this look.
        let mut left = near(self.config.max_requests);
        let mut pace = self.watch.pace / 2.0;
        for (_, cell, worker) in self.crew.workers_mut() {
            if worker.generation != number || !worker.stays() || worker.quota < SHORT {
                continue;
            }
            let requests = cell.requests.load(SeqCst);
            let (before, then) = std::mem::replace(&mut worker.seen, (requests, now));
            pace = pace.max(per_second(requests.saturating_sub(before), now - then));
            match near(worker.quota).saturating_sub(requests) {
                0 if worker.up => worker.retire(Reason::Quota, now),
                0 => {}
                some => left = left.min(some),
            }
        }
        self.watch.pace = pace;
        // Half the way from near to the end is near enough.
        next_look(left.max(self.config.max_requests / 10), pace)
    }

    /// A worker has ended at its quota: so quickly that may go, and others may be as near.
    pub(crate) fn note_life(&mut self, requests: u64, age: Duration) {
        self.watch.pace = self.watch.pace.max(per_second(requests, age));
        self.watch.quota_at = self.watch.quota_at.map(|_| Instant::now());
    }

    fn room_for_retiring(&self) -> usize {
        let most = self.target.div_ceil(4);
        most.saturating_sub(self.crew.count(|worker| worker.retiring.is_some() && !worker.draining))
    }

    /// Reading another process's page tables takes milliseconds, so it is done beside the front. Of hundreds of workers that may
    /// take longer than it is until the next look, which therefore waits for its end.
    fn measure_memory(&mut self, now: Instant) {
        if self.watch.memory_at.is_none_or(|at| at > now) {
            return;
        }
        self.watch.memory_at = None;
        let up = self.crew.workers().filter(|(_, worker)| worker.up);
        let list: Vec<(u16, Pid)> = up.filter_map(|(index, worker)| Some((index, worker.pid()?))).collect();
        let mailbox = self.mailbox.clone();
        tokio::task::spawn_blocking(move || {
            let (mut found, mut hidden) = (Vec::new(), None);
            for (index, pid) in list {
                match memory_of(pid) {
                    Ok(memory) => found.push((index, pid, memory.private)),
                    Err(error) => hidden = Some((pid, error)).filter(is_hidden).or(hidden),
                }
            }
            let _ = mailbox.send(Notice::Memory { found, hidden });
        });
    }

    /// Tells once why nobody is replaced.
    pub(crate) fn note_hidden(&mut self, pid: Pid, error: &io::Error) {
        if !std::mem::replace(&mut self.watch.told_hidden, true) {
            tracing::warn!(
                "--max-memory replaces nobody whose memory cannot be read, as that of worker {} ({error}): give the server CAP_SYS_PTRACE and a \
                 /proc without hidepid, or start it as the user of its workers, without --user",
                pid_number(Some(pid))
            );
        }
    }

    /// The answer to `measure_memory`.
    pub(crate) fn note_memory(&mut self, found: &[(u16, Pid, u64)]) {
        for &(index, pid, bytes) in found {
            let measured = self.crew.get_mut(index).filter(|worker| worker.pid() == Some(pid));
            measured.into_iter().for_each(|worker| worker.memory = Some(bytes));
        }
        let now = Instant::now();
        self.watch.memory_at = Some(now + MEMORY_LOOKS);
        let mut large = self.too_large();
        self.leave_fresh(&mut large);
        let room = self.room_for_retiring();
        for (bytes, index) in large.into_iter().take(room) {
            if !self.may_replace_large(index, now) {
                return;
            }
            let pid = pid_number(self.crew.get(index).and_then(Worker::pid));
            let mebibytes = bytes >> 20;
            tracing::info!(worker = index, pid, mebibytes, "worker has grown too large");
            self.retire(index, Reason::Memory, now);
        }
    }

    /// Leaves those out that have served nothing: the next one would be as large. Tells so once of each generation.
    fn leave_fresh(&mut self, large: &mut Vec<(u64, u16)>) {
        let all = large.len();
        let (mut least, number) = (u64::MAX, self.in_role(Role::Serving).map(|serving| serving.number));
        large.retain(|&(bytes, index)| {
            let is_fresh = self.crew.cell(index).is_some_and(has_served_nothing);
            least = if is_fresh { least.min(bytes) } else { least };
            !is_fresh
        });
        let known = self.watch.born_large.as_ref().map(|(number, ..)| *number);
        if let Some(number) = number.filter(|_| large.len() < all && known != number) {
            self.watch.born_large = Some((number, least, Backoff::default()));
            tracing::warn!(generation = number, "{}", born_large(least, self.config.max_memory));
        }
    }

    /// Where workers are too large from the start, each one that is replaced has the next one stay longer, as in a crash loop.
    fn may_replace_large(&mut self, index: u16, now: Instant) -> bool {
        let (Some(worker), Some((number, _, pause))) = (self.crew.get(index), &mut self.watch.born_large)
        else {
            return true;
        };
        if worker.generation != *number {
            return true;
        }
        let may = pause.wait_until(now).is_none();
        if may {
            pause.failed(now, now, String::new());
        }
        may
    }

    /// That the limit is below what workers have from the start, for the status.
    pub(crate) fn small_limit(&self) -> Option<String> {
        let serving = self.in_role(Role::Serving)?.number;
        let (_, bytes, _) = self.watch.born_large.as_ref().filter(|(number, ..)| *number == serving)?;
        Some(born_large(*bytes, self.config.max_memory))
    }

    /// What they have and who they are; first who has most.
    fn too_large(&self) -> Vec<(u64, u16)> {
        let most = self.config.max_memory.unwrap_or(u64::MAX);
        let serving = self.in_role(Role::Serving).map(|serving| serving.number);
        let mine = |worker: &Worker| worker.stays() && Some(worker.generation) == serving;
        let staying = self.crew.workers().filter(|(_, worker)| mine(worker));
        let mut large: Vec<_> = staying.filter_map(|(index, worker)| Some((worker.memory?, index))).collect();
        large.retain(|(bytes, _)| *bytes > most);
        large.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
        large
    }

    fn retire(&mut self, index: u16, reason: Reason, now: Instant) {
        if let Some(worker) = self.crew.get_mut(index) {
            worker.retire(reason, now);
        }
    }

    /// When to look again.
    pub(crate) fn next_watch(&self, now: Instant) -> Option<Instant> {
        if self.shutdown.is_some() {
            return None;
        }
        let ages = self.crew.workers().filter(|(_, worker)| worker.stays());
        // One that is due already waits for room, which comes with news.
        let oldest = ages.filter_map(|(_, worker)| worker.retires_at).filter(|at| *at > now).min();
        [self.watch.quota_at, self.watch.memory_at, oldest].into_iter().flatten().min()
    }
}

/// Whether the worker of that cell has begun no request.
fn has_served_nothing(cell: &WorkerCell) -> bool {
    cell.requests.load(SeqCst) == 0 && cell.slot.load(SeqCst) == 0
}

fn born_large(bytes: u64, most: Option<u64>) -> String {
    let (has, may) = (bytes >> 10, most.unwrap_or(0) >> 10);
    format!(
        "a worker that has served nothing has {has} KiB of its own, and may have {may} by --max-memory: raise that, since another one is as large; \
         those that have served are replaced less and less often"
    )
}

/// Requests after which a worker is near its quota.
fn near(quota: u64) -> u64 {
    quota - quota / 10
}

/// What was done in a time shorter than between two looks may have been a batch.
fn per_second(requests: u64, time: Duration) -> f64 {
    requests as f64 / time.max(QUOTA_LOOKS.0).as_secs_f64()
}

/// Whether a process lives of which the kernel does not tell us.
fn is_hidden((pid, error): &(Pid, io::Error)) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        && !Process::open(*pid).has_ended()
}

fn next_look(left: u64, pace: f64) -> Duration {
    let (shortest, longest) = QUOTA_LOOKS;
    // Nothing is done at no pace, and a cell may say anything: the time is bounded before it is a Duration.
    Duration::from_secs_f64((left as f64 / pace / 2.0).min(longest.as_secs_f64())).max(shortest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::scene::{Scene, pid_of};

    #[tokio::test]
    async fn a_quarter_of_the_crew_leaves_at_a_time_and_first_who_is_overdue_longest() {
        let mut scene = Scene::new(Config { workers: 8, ..Config::default() });
        let now = Instant::now();
        let overdue = [1, 2, 7, 3, 4, 5, 9, 6].map(Duration::from_millis);
        for ((_, _, worker), by) in scene.state.crew.workers_mut().zip(overdue) {
            worker.retires_at = Some(now - by);
        }
        scene.state.mark_for_recycling(now);
        assert_eq!(scene.retiring(), [2, 6]);
    }

    #[tokio::test]
    async fn a_quarter_of_the_crew_leaves_at_a_time_and_first_who_is_largest() {
        let mut scene = Scene::new(Config { workers: 8, max_memory: Some(100), ..Config::default() });
        scene.state.crew.workers_mut().for_each(|(_, cell, _)| cell.requests.store(1, SeqCst));
        let sizes = [101, 102, 107, 103, 100, 99, 109, 106];
        let found: Vec<_> = (0..).zip(sizes).map(|(index, bytes)| (index, pid_of(index), bytes)).collect();
        scene.state.note_memory(&found);
        assert_eq!(scene.retiring(), [2, 6]);
        scene.state.crew.workers_mut().for_each(|(_, _, worker)| worker.retiring = None);
        scene.state.note_memory(&[(0, pid_of(1), 1000)]);
        assert_eq!(scene.retiring(), [2, 6], "what another process has is not theirs");
    }

    #[tokio::test]
    async fn who_has_served_nothing_is_no_larger_than_the_next_and_others_are_replaced_less_and_less_often() {
        let mut scene = Scene::new(Config { workers: 2, max_memory: Some(100), ..Config::default() });
        let found = [(0, pid_of(0), 5000), (1, pid_of(1), 6000)];
        let retired = |scene: &mut Scene| {
            scene.state.note_memory(&found);
            let retired = !scene.retiring().is_empty();
            scene.state.crew.workers_mut().for_each(|(_, _, worker)| worker.retiring = None);
            retired
        };
        let told = |scene: &Scene| scene.state.trouble(Instant::now()).unwrap_or_default();
        assert!(!told(&scene).contains("--max-memory"));
        assert!(!retired(&mut scene), "both are fresh");
        assert!(
            told(&scene).contains("a worker that has served nothing has 4 KiB of its own, and may have 0")
        );
        scene.state.crew.workers_mut().for_each(|(_, cell, _)| cell.requests.store(1, SeqCst));
        assert!(retired(&mut scene), "they have served");
        assert!(!retired(&mut scene), "not again at once");
        scene.load(0).role = Role::Serving;
        scene.state.generations.remove(0);
        assert!(!told(&scene).contains("--max-memory"), "a new generation may be smaller");
    }

    #[tokio::test]
    async fn memory_is_measured_again_once_the_last_measurement_has_ended() {
        let mut scene = Scene::new(Config { workers: 1, max_memory: Some(100), ..Config::default() });
        let due = |scene: &Scene| scene.state.watch.memory_at;
        scene.state.mark_for_recycling(due(&scene).unwrap());
        assert_eq!(due(&scene), None, "it is under way, and may take long");
        scene.state.note(Notice::Memory { found: Vec::new(), hidden: None });
        assert!(due(&scene).is_some());
    }

    #[tokio::test]
    async fn nobody_is_replaced_but_those_to_whom_requests_go() {
        let mut scene = Scene::new(Config { workers: 1, max_memory: Some(100), ..Config::default() });
        scene.load(0).role = Role::Guest;
        scene.state.target = 8;
        let now = Instant::now();
        scene.state.crew.workers_mut().for_each(|(_, _, worker)| worker.retires_at = Some(now));
        scene.state.mark_for_recycling(now);
        assert_eq!(scene.retiring(), [0], "a guest is as old as may be");
        scene.state.note_memory(&[(1, pid_of(1), 101)]);
        assert_eq!(scene.retiring(), [0], "and as large");
    }

    #[test]
    fn the_next_look_is_half_way_to_the_quota() {
        // (requests done, in milliseconds, requests left, expected milliseconds)
        let cases = [
            (45, 90, 45, 45),
            (10, 10, 80, 40),
            (10, 10, 1, 2),
            (1, 1000, 90, 1000),
            (0, 10, 90, 1000),
            (0, 0, 90, 1000),
            (32, 0, 320, 10),
            (u64::MAX, 10, 90, 2),
            (1, 10, u64::MAX, 1000),
        ];
        for (requests, time, left, expected) in cases {
            let pace = per_second(requests, Duration::from_millis(time));
            let wait = next_look(left, pace);
            assert_eq!(wait.as_millis(), expected, "{requests} in {time} ms, {left} left");
        }
    }
}
