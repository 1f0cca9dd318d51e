//! Children of ours that have ended, and what follows when it is a zygote.
//!
//! Zygotes are ours from the start. Workers become ours when their zygote dies, since this process is their
//! subreaper; so do processes that workers started and left behind, which nobody here knows. Other supervisors have children in the
//! same process, which are theirs (`family`).

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use howdah_sys::process::{ended_child, is_stopped, signal_group, try_wait};
use howdah_sys::{ExitKind, Pid, Signal};

use crate::backoff::Backoff;
use crate::error::ReloadError;
use crate::generation::Role;
use crate::state::State;
use crate::worker::Worker;

/// Unknown children are collected this long after their end: another part of the program that started one has waited
/// for it by then.
const SWEEP_AFTER: Duration = Duration::from_secs(1);
/// A worker whose zygote died between the fork and the report writes its process id into its cell in this time, or
/// was never forked.
const UNKNOWN_FOR: Duration = Duration::from_secs(2);
/// Between two looks for such a process id.
const LOOK: Duration = Duration::from_millis(20);
/// A zygote reports the end of a worker at once, with its status; it has this time when it has been stopped...
const REPORT: Duration = Duration::from_secs(1);
/// ...and this when it is busy: a hook that runs before the fork, or a machine with too much to do.
const LATE_REPORT: Duration = Duration::from_secs(10);
/// Where one zygote after the other dies within this time of its load, the application is not loaded again and again without a rest.
const YOUNG: Duration = Duration::from_secs(10);
/// Unknown children that are collected in one go.
const SWEEP: usize = 1000;

impl State {
    /// Ends of zygotes: expected, or not.
    pub(crate) fn look_at_zygotes(&mut self, now: Instant) {
        for generation in &mut self.generations {
            generation.zygote.enforce(now);
        }
        for number in self.numbers(|generation| generation.zygote.is_gone() && !generation.orphaned) {
            self.lost_zygote(number, now);
        }
    }

    fn lost_zygote(&mut self, number: u32, now: Instant) {
        for (_, _, worker) in self.crew.workers_mut().filter(|(_, _, worker)| worker.generation == number) {
            worker.orphaned = Some(now);
        }
        self.end_scripts(number);
        let Some(generation) = self.generation_mut(number) else { return };
        generation.orphaned = true;
        let (role, status, started) = (generation.role, generation.zygote.status(), generation.started);
        let served = generation.serving.map(|since| since.elapsed());
        let hint = status.hint();
        if generation.zygote.was_told_to_stop() {
            tracing::debug!(generation = number, "zygote left ({status})");
        } else if generation.zygote.is_host {
            tracing::error!(
                generation = number,
                "the host of scripts died ({status}), and with it what it ran{hint}"
            );
        } else if role == Role::Serving {
            tracing::error!(generation = number, "the zygote died ({status}); its workers go on{hint}");
            self.fail_first_forks(number, status);
            if served.is_some_and(|served| served < YOUNG) {
                let reason = format!("zygotes die soon after they have loaded the application ({status})");
                self.loads.failed(started, now, reason);
            } else {
                self.loads = Backoff::default();
            }
        }
        self.reload_failed(number, &ReloadError::Zygote(format!("{status}{hint}")));
        self.reap();
    }

    /// The processes that workers of a dead host have run are children of ours now. Nobody reads what they print.
    fn end_scripts(&mut self, number: u32) {
        let user = self.user_of(number);
        let of_host = |worker: &Worker| worker.generation == number && worker.is_thread();
        for index in self.crew.pick(of_host) {
            let written = self.crew.cell(index).map(|cell| cell.pid.load(SeqCst));
            let pid = written.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
            if let Some(pid) = pid.filter(|&pid| self.shared.family.has_orphan(pid, user)) {
                let _ = signal_group(pid, Signal::KILL);
            }
        }
    }

    /// A child has ended, or may have.
    pub(crate) fn reap(&mut self) {
        for generation in &mut self.generations {
            generation.zygote.reap();
        }
        for index in self.crew.pick(|worker| worker.orphaned.is_some()) {
            self.reap_orphan(index);
        }
        if ended_child().is_some() {
            self.sweep_at.get_or_insert(Instant::now() + SWEEP_AFTER);
        }
    }

    fn reap_orphan(&mut self, index: u16) {
        let cell = self.crew.cell(index);
        let user = self.crew.get(index).and_then(|worker| self.user_of(worker.generation));
        let (Some(worker), Some(cell)) = (self.crew.get_mut(index), cell) else { return };
        worker.learn_pid(cell, &self.shared.family, user);
        if worker.is_thread() {
            let pid = worker.pid();
            return self.departed(index, pid, ExitKind::Unknown);
        }
        let Some(pid) = worker.pid() else {
            if worker.orphaned.is_some_and(|since| since.elapsed() > UNKNOWN_FOR) {
                self.departed(index, None, ExitKind::Unknown);
            }
            return;
        };
        match try_wait(pid) {
            Ok(None) => {}
            Ok(Some(status)) => self.departed(index, Some(pid), status),
            // Somebody else has it: its zygote, which is not quite dead, or the first process, as at an upgrade. Its end is told.
            Err(_) if worker.process.as_ref().is_some_and(|process| process.is_known_to_run()) => {}
            // The zygote waited for it, but died before it could say so.
            Err(_) => self.departed(index, Some(pid), ExitKind::Unknown),
        }
    }

    /// The process of a worker has ended. Its zygote is to say how; but requests do not wait for that forever.
    pub(crate) fn note_end(&mut self, index: u16, pid: Pid) {
        let worker = self.crew.get_mut(index).filter(|worker| worker.pid() == Some(pid));
        let Some(worker) = worker else { return };
        worker.ended.get_or_insert_with(Instant::now);
        if worker.orphaned.is_some() {
            self.reap_orphan(index);
        }
    }

    /// Does without the reports that do not come.
    pub(crate) fn bury_unreported(&mut self, now: Instant) {
        let late = |worker: &Worker| {
            let since = worker.ended.map(|at| now - at);
            let stopped = || self.zygote_of(worker).is_some_and(is_stopped);
            since.is_some_and(|since| since >= LATE_REPORT || since >= REPORT && stopped())
        };
        for index in self.crew.pick(late) {
            let Some(worker) = self.crew.get(index) else { continue };
            let (pid, generation) = (worker.pid(), worker.generation);
            tracing::warn!(
                worker = index,
                generation,
                "the zygote does not report that a worker has ended; it may have been stopped"
            );
            self.departed(index, pid, ExitKind::Unknown);
        }
    }

    /// Who runs the processes of a generation.
    fn user_of(&self, number: u32) -> Option<u32> {
        self.generations.iter().find(|generation| generation.number == number)?.zygote.user
    }

    fn zygote_of(&self, worker: &Worker) -> Option<Pid> {
        let mut generations = self.generations.iter();
        generations.find(|generation| generation.number == worker.generation)?.zygote.pid()
    }

    /// When to do that.
    pub(crate) fn next_unreported(&self, now: Instant) -> Option<Instant> {
        let ends = self.crew.workers().filter_map(|(_, worker)| worker.ended);
        ends.map(|at| if at + REPORT > now { at + REPORT } else { now + REPORT }).min()
    }

    /// When to look for the process ids of orphans.
    pub(crate) fn next_orphan(&self, now: Instant) -> Option<Instant> {
        let unknown = self.crew.count(|worker| worker.orphaned.is_some() && worker.process.is_none());
        (unknown > 0).then_some(now + LOOK)
    }

    /// Collects ended children that nobody knows, so that they do not fill the process table.
    pub(crate) fn sweep(&mut self, now: Instant) {
        if self.next_orphan(now).is_some() {
            self.reap();
        }
        if self.sweep_at.is_none_or(|at| at > now) {
            return;
        }
        self.sweep_at = None;
        for _ in 0..SWEEP {
            let Some(pid) = ended_child() else { return };
            if self.knows(pid) {
                self.reap();
            } else if self.shared.family.knows(pid) {
                // It is in the way of those behind it until whoever knows it has heard of its end.
                self.sweep_at = Some(now + SWEEP_AFTER);
                return;
            } else {
                let _ = try_wait(pid);
            }
        }
        // There may be more.
        self.sweep_at = Some(now + SWEEP_AFTER);
    }

    /// Children of ours that [`State::reap`] collects.
    fn knows(&self, pid: Pid) -> bool {
        self.generations.iter().any(|generation| generation.zygote.pid() == Some(pid))
            || self.crew.workers().any(|(_, worker)| worker.orphaned.is_some() && worker.pid() == Some(pid))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use howdah_sys::process::Process;

    use super::*;
    use crate::config::Config;
    use crate::notice::Notice;
    use crate::scene::Scene;

    #[tokio::test]
    async fn an_orphan_that_is_no_child_of_ours_is_there_until_its_process_ends() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (grandchild, gone) = (Pid::from_raw(line.trim().parse().unwrap()).unwrap(), 0);
        let mut scene = Scene::new(Config { workers: 1, ..Config::default() });
        let state = &mut scene.state;
        let lives = state.crew.free().unwrap();
        state.crew.occupy(lives, Worker::new(1, None, 0));
        state.forked(lives, grandchild);
        state.crew.workers_mut().for_each(|(_, _, worker)| worker.orphaned = Some(Instant::now()));
        state.reap();
        assert!(state.crew.get(gone).is_none());
        assert!(state.crew.get(lives).is_some(), "its slots are its own");
        let process = Process::open(grandchild);
        process.signal(Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!(process.has_ended());
        state.note(Notice::WorkerEnded { index: lives, pid: grandchild });
        assert!(state.crew.get(lives).is_none());
    }
}
