//! Has this thread and the worker that it wakes first share a processor while requests are quick and one worker is enough:
//! to wake a worker elsewhere, on a processor that sleeps, costs more than what it does. The kernel never does so by itself, since
//! it prefers a processor that is idle. Where requests come one by one, to look for them is better (`slots/wake.rs`). See
//! docs/decisions/28-share-cpu.md.
//!
//! The thread looks ten times a second. It sets its own affinity, and says in the worker's cell where that is to stay; the
//! worker sees it between two requests.

mod trial;

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use howdah_sys::affinity::{CpuSet, affinity, current_cpu, only, set_affinity};
use howdah_wire::WorkerPhase;

use self::trial::Trial;
use crate::app::Pool;
use crate::slots::Mate;

/// Requests of more than that, on average, are not quick.
const QUICK_NS: u64 = 50_000;
/// Nor is one that has run for so long.
const LONG_NS: u64 = 2_000_000;
/// Requests between two looks that make it worth while, and those with which it still is.
const MANY: u64 = 100;
const FEW: u64 = 50;
/// How long both stay apart when it was no good: that, and twice as long each time, at most 64 times.
const REST_NS: u64 = 1_000_000_000;
const DOUBLED: u32 = 6;

/// Where this process may run.
static HOME: OnceLock<CpuSet> = OnceLock::new();

/// Before there is a thread that shares its processor.
pub(crate) fn remember() {
    if let Ok(set) = affinity(None) {
        let _ = HOME.set(set);
    }
}

/// In a thread that has been started: it may have begun on a processor that is shared, and is none of the two.
pub(crate) fn leave() {
    if let (Some(home), Ok(set)) = (HOME.get(), affinity(None))
        && set.count() == 1
        && home.count() > 1
    {
        let _ = set_affinity(None, home);
    }
}

/// See the module. One for each thread.
#[derive(Debug)]
pub(crate) struct ShareCpu {
    on: bool,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    pair: Option<Pair>,
    trial: Trial,
    /// Requests that have ended, of each pool, and when that was.
    ended: Vec<u64>,
    at: u64,
    /// Apart until then.
    rests: u64,
    /// How often in a row it was no good.
    vain: u32,
}

#[derive(Debug)]
struct Pair {
    pool: usize,
    cpu: usize,
    home: CpuSet,
    since: u64,
    seen: Usage,
}

/// What both have had of processors, and how long they waited for one, in nanoseconds; and when that was.
#[derive(Clone, Copy, Debug)]
struct Usage {
    at: u64,
    thread: (u64, u64),
    /// Whose the next is; 0 where the kernel does not tell.
    pid: u32,
    worker: (u64, u64),
    /// Hundredths of a second in which processors were idle.
    idle: u64,
}

/// What is to become of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// They do as much as they can, and other processors are idle, or nobody knows who else had this one.
    Full,
    /// There is little to do.
    Over,
    /// Both are better off apart.
    Bad,
}

impl ShareCpu {
    pub(crate) fn new(on: bool) -> Self {
        Self { on, state: RefCell::default() }
    }

    /// Ten times a second. Whether this thread alone has connections; for so long it has looked for requests so far, which it
    /// need not have done (`lookout`).
    pub(crate) fn look(&self, pools: &[&'static Pool], alone: bool, now: u64, looked: u64) {
        if !self.on {
            return;
        }
        let state = &mut *self.state.borrow_mut();
        let ended: Vec<u64> = pools.iter().map(|pool| pool.dispatch.borrow().ended).collect();
        let before = std::mem::replace(&mut state.ended, ended.clone());
        let done: Vec<u64> = ended.iter().zip(&before).map(|(now, before)| now - before).collect();
        let time = now - std::mem::replace(&mut state.at, now);
        let all = done.iter().sum();
        match &mut state.pair {
            _ if !alone => state.part(pools, now),
            Some(pair) => match pair.judge(pools, &done, now, looked) {
                Verdict::Good => state.trial.pause(),
                Verdict::Full if !state.trial.full(all, time, now) => {}
                Verdict::Full | Verdict::Over => state.part(pools, now),
                Verdict::Bad => {
                    state.part(pools, now);
                    state.rest(now);
                }
            },
            None if state.trial.is_under_way() => match state.trial.apart(all, time, now) {
                Some(true) => state.rest(now),
                Some(false) => state.pair = Pair::join(pools, &done, now, looked),
                None => {}
            },
            None if now >= state.rests => state.pair = Pair::join(pools, &done, now, looked),
            None => {}
        }
    }
}

impl State {
    fn part(&mut self, pools: &[&'static Pool], now: u64) {
        let Some(pair) = self.pair.take() else { return };
        pair.part(pools[pair.pool]);
        self.trial.pause();
        // What was good for long has not been tried in vain.
        if now - pair.since > REST_NS << DOUBLED {
            self.vain = 0;
        }
    }

    fn rest(&mut self, now: u64) {
        self.rests = now + (REST_NS << self.vain);
        self.vain = (self.vain + 1).min(DOUBLED);
    }
}

impl Pair {
    fn join(pools: &[&'static Pool], done: &[u64], now: u64, looked: u64) -> Option<Self> {
        let pool = (0..done.len()).max_by_key(|&pool| done[pool])?;
        let dispatch = &mut *pools[pool].dispatch.borrow_mut();
        if done[pool] < MANY
            || !is_most(done, pool)
            || dispatch.run_ns >= QUICK_NS
            || dispatch.come_one_by_one()
        {
            return None;
        }
        let (home, cpu) = (affinity(None).ok()?, current_cpu());
        if home.count() < 2 || !home.is_set(cpu) {
            return None;
        }
        let pid = pools[pool].setup.roster.pid(dispatch.share(cpu)?);
        let seen = Usage::now(pid, now, looked).filter(|_| set_affinity(None, &only(cpu)).is_ok());
        if seen.is_none() {
            dispatch.share_no_more();
        }
        Some(Self { pool, cpu, home, since: now, seen: seen? })
    }

    fn judge(&mut self, pools: &[&'static Pool], done: &[u64], now: u64, looked: u64) -> Verdict {
        let dispatch = pools[self.pool].dispatch.borrow();
        let Some(Mate { worker, .. }) = dispatch.mate else { return Verdict::Over };
        if done[self.pool] < FEW || dispatch.come_one_by_one() {
            return Verdict::Over;
        }
        let cell = &dispatch.segment.workers()[usize::from(worker)];
        let long = cell.phase.load(Relaxed) == WorkerPhase::Busy as u32
            && now.saturating_sub(cell.since.load(Relaxed)) > LONG_NS;
        if long || dispatch.run_ns >= QUICK_NS || !is_most(done, self.pool) {
            return Verdict::Bad;
        }
        let pid = pools[self.pool].setup.roster.pid(worker);
        let Some(usage) = Usage::now(pid, now, looked) else { return Verdict::Bad };
        let before = std::mem::replace(&mut self.seen, usage);
        usage.judge(&before)
    }

    /// Whoever has given the thread another affinity meanwhile is obeyed.
    fn part(&self, pool: &Pool) {
        if affinity(None).is_ok_and(|set| set == only(self.cpu)) {
            let _ = set_affinity(None, &self.home);
        }
        pool.dispatch.borrow_mut().share_no_more();
    }
}

impl Usage {
    fn now(pid: u32, at: u64, looked: u64) -> Option<Self> {
        let (ran, waited) = schedstat("/proc/thread-self/schedstat")?;
        let thread = (ran.saturating_sub(looked), waited);
        // One that is about to go may be gone.
        let (pid, worker) =
            schedstat(&format!("/proc/{pid}/schedstat")).map_or((0, (0, 0)), |worker| (pid, worker));
        Some(Self { at, thread, pid, worker, idle: idle()? })
    }

    /// What several workers had one after the other went with them, so that others' part is unknown: then the trial has to tell.
    fn judge(&self, before: &Self) -> Verdict {
        let since = |now: (u64, u64), before: (u64, u64)| {
            (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1))
        };
        let time = (self.at - before.at).max(1);
        let thread = since(self.thread, before.thread);
        let same = self.pid == before.pid && self.pid != 0;
        let worker = if same { since(self.worker, before.worker) } else { (thread.1, thread.0) };
        // Each waits while the other one runs; what is more is due to others.
        let others = thread.1.saturating_sub(worker.0) + worker.1.saturating_sub(thread.0);
        let idle = self.idle.saturating_sub(before.idle) * 10_000_000;
        let full = (thread.0 + worker.0) * 10 > time * 9;
        if others * 5 > time {
            Verdict::Bad
        } else if full && (idle * 2 > time || !same) {
            Verdict::Full
        } else {
            Verdict::Good
        }
    }
}

/// Whether three of four requests are of this pool.
fn is_most(done: &[u64], pool: usize) -> bool {
    done[pool] * 4 >= done.iter().sum::<u64>() * 3
}

/// Nanoseconds on a processor, and of waiting for one.
fn schedstat(path: &str) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace().map_while(|word| word.parse().ok());
    Some((words.next()?, words.next()?))
}

/// Of all processors together, in hundredths of a second.
fn idle() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().next()?.split_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_pair_is_good_until_others_wait_for_its_processor_or_it_is_full_and_another_one_idle() {
        let before = Usage { at: 0, thread: (0, 0), pid: 1, worker: (0, 0), idle: 0 };
        let ms = |time: u64| time * 1_000_000;
        // Milliseconds of 100: the thread's run and wait, the worker's, and how long processors were idle.
        for (thread, worker, idle, verdict) in [
            ((40, 30), (30, 40), 100, Verdict::Good),
            ((40, 51), (30, 40), 100, Verdict::Bad),
            ((40, 30), (30, 61), 100, Verdict::Bad),
            ((60, 35), (35, 60), 40, Verdict::Good),
            ((60, 35), (35, 60), 60, Verdict::Full),
            ((60, 35), (35, 85), 60, Verdict::Bad),
        ] {
            let pair = |(run, wait)| (ms(run), ms(wait));
            let (thread, worker) = (pair(thread), pair(worker));
            let after = Usage { at: ms(100), thread, pid: 1, worker, idle: idle / 10 };
            assert_eq!(after.judge(&before), verdict, "{thread:?} {worker:?} {idle}");
        }
        // Several workers, or one that was gone at either look: the thread's run and wait.
        for (thread, idle, verdict) in [
            ((40, 51), 100, Verdict::Full),
            ((40, 51), 0, Verdict::Full),
            ((40, 30), 100, Verdict::Good),
            ((1, 80), 100, Verdict::Good),
        ] {
            for pids in [(1, 2), (0, 0), (0, 1), (1, 0)] {
                let before = Usage { pid: pids.0, ..before };
                let thread = (ms(thread.0), ms(thread.1));
                let after = Usage { at: ms(100), thread, pid: pids.1, worker: (1, 0), idle: idle / 10 };
                assert_eq!(after.judge(&before), verdict, "{thread:?} {idle} {pids:?}");
            }
        }
    }

    #[test]
    fn what_the_kernel_tells_is_understood() {
        let pid = std::process::id();
        let begun = Instant::now();
        let mut usage = Usage::now(pid, 1, 0).unwrap();
        while usage.thread.0 == 0 && begun.elapsed() < Duration::from_secs(30) {
            usage = Usage::now(pid, 1, 0).unwrap(); // the kernel counts from time to time
        }
        assert!(usage.pid == pid && usage.thread.0 > 0 && usage.worker.0 > 0 && usage.idle > 0, "{usage:?}");
        assert_eq!(Usage::now(u32::MAX, 1, 0).map(|usage| usage.pid), Some(0), "there is no such process");
    }

    #[test]
    fn a_thread_begins_where_it_may_run_and_not_where_another_is_kept() {
        let kept = || {
            remember();
            let home = affinity(None).unwrap();
            set_affinity(None, &only(current_cpu())).unwrap();
            let started = std::thread::spawn(|| {
                leave();
                affinity(None).unwrap()
            });
            assert!(started.join().unwrap() == home);
        };
        std::thread::spawn(kept).join().unwrap();
    }
}
