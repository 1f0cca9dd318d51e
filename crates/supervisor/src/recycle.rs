//! Workers that have served long enough, or have grown too large: each is marked, and leaves when its replacement is
//! ready (`reconcile`).
//!
//! A worker leaves by itself at its quota, told in its cell before the fork. So that the crew is not one short in the
//! meantime, its replacement is started when it is near. How near is looked at as often as its pace demands, and not
//! at all while nothing happens faster than once a second.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use howdah_sys::Pid;
use howdah_sys::usage::memory_of;
use howdah_wire::WorkerCell;

use crate::generation::Role;
use crate::notice::Notice;
use crate::pid::pid_number;
use crate::state::State;
use crate::watch::MEMORY_LOOKS;
use crate::worker::{Reason, Worker};

/// Shortest and longest time between two looks at the workers' counters.
const QUOTA_LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));
/// More than that many times the last look ahead, nothing is known of a quota.
const MOST_LEFT: f64 = 1e6;
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
        let old = self.crew.pick(|worker| worker.generation == number && worker.stays() && due(worker));
        for index in old.into_iter().take(room) {
            self.retire(index, Reason::Lifetime, now);
        }
    }

    /// Returns when the next worker may come near its quota.
    fn look_at_quotas(&mut self, number: u32, now: Instant) -> Duration {
        let mut next = QUOTA_LOOKS.1;
        for (_, cell, worker) in self.crew.workers_mut() {
            if worker.generation != number || !worker.stays() {
                continue;
            }
            let wait = pace(worker, cell, now);
            if wait > Duration::ZERO {
                next = next.min(wait / 2);
            } else if worker.up {
                worker.retire(Reason::Quota, now);
            }
        }
        next.max(QUOTA_LOOKS.0)
    }

    fn room_for_retiring(&self) -> usize {
        let most = self.target.div_ceil(4);
        most.saturating_sub(self.crew.count(|worker| worker.retiring.is_some() && !worker.draining))
    }

    /// Reading another process's page tables takes milliseconds, so it is done beside the front.
    fn measure_memory(&mut self, now: Instant) {
        if self.watch.memory_at.is_none_or(|at| at > now) {
            return;
        }
        self.watch.memory_at = Some(now + MEMORY_LOOKS);
        let up = self.crew.workers().filter(|(_, worker)| worker.up);
        let list: Vec<(u16, Pid)> = up.filter_map(|(index, worker)| Some((index, worker.pid()?))).collect();
        let mailbox = self.mailbox.clone();
        tokio::task::spawn_blocking(move || {
            let measured =
                list.into_iter().filter_map(|(index, pid)| Some((index, pid, memory_of(pid).ok()?.private)));
            let _ = mailbox.send(Notice::Memory(measured.collect()));
        });
    }

    /// The answer to `measure_memory`.
    pub(crate) fn note_memory(&mut self, found: &[(u16, Pid, u64)]) {
        let now = Instant::now();
        let most = self.config.max_memory.unwrap_or(u64::MAX);
        for &(index, pid, bytes) in found {
            let room = self.room_for_retiring();
            let Some(worker) = self.crew.get_mut(index).filter(|worker| worker.pid() == Some(pid)) else {
                continue;
            };
            worker.memory = Some(bytes);
            if bytes > most && room > 0 && worker.stays() {
                let mebibytes = bytes >> 20;
                tracing::info!(
                    worker = index,
                    pid = pid_number(Some(pid)),
                    mebibytes,
                    "worker has grown too large"
                );
                self.retire(index, Reason::Memory, now);
            }
        }
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

/// Time until a worker is near its quota, by its pace since the last look; zero when it is.
fn pace(worker: &mut Worker, cell: &WorkerCell, now: Instant) -> Duration {
    let quota = worker.quota;
    let requests = cell.requests.load(SeqCst);
    let (before, then) = std::mem::replace(&mut worker.seen, (requests, now));
    if quota == 0 || quota < 10 {
        // So short a life has no "near": the replacement comes when it has left.
        return QUOTA_LOOKS.1 * 2;
    }
    let left = (quota - quota / 10).saturating_sub(requests);
    match requests.saturating_sub(before) {
        0 if left > 0 => QUOTA_LOOKS.1 * 2,
        // A cell may say anything, the product still is a time.
        done => (now - then).mul_f64((left as f64 / done.max(1) as f64).min(MOST_LEFT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_tells_when_to_look_again() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        // (quota, requests before, requests now, milliseconds between, expected milliseconds)
        let cases = [
            (100, 0, 45, 10, 10),
            (100, 0, 10, 10, 80),
            (100, 0, 0, 10, 2000),
            (100, 80, 90, 10, 0),
            (100, 90, 90, 10, 0),
            (100, 90, 99, 10, 0),
            (5, 0, 4, 10, 2000),
        ];
        for (quota, before, requests, between, expected) in cases {
            let (_, segment) =
                howdah_sys::create_segment(howdah_wire::Shape { fronts: 1, workers: 1, slots: 1 }).unwrap();
            let cell = &segment.workers()[0];
            cell.requests.store(requests, SeqCst);
            let mut worker = Worker::new(1, None, quota);
            worker.seen = (before, start);
            let wait = pace(&mut worker, cell, after(between));
            assert_eq!(wait.as_millis(), expected, "quota {quota}, {before} to {requests}");
        }
    }
}
