//! A worker is gone: what follows from it.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use howdah_sys::{ExitKind, Pid};
use howdah_wire::Leave;

use crate::counts::Cause;
use crate::crew::leave_of;
use crate::end::End;
use crate::error::{ReloadError, StartError};
use crate::event::{Event, Recovery};
use crate::generation::Role;
use crate::state::State;
use crate::worker::{Reason, Worker};

/// Failures in a row after which a reload is given up.
const ENOUGH: u32 = 3;

impl State {
    /// A worker's process has ended.
    pub(crate) fn departed(&mut self, index: u16, pid: Option<Pid>, status: ExitKind) {
        let (Some(worker), Some(cell)) = (self.crew.get(index), self.crew.cell(index)) else { return };
        // A zygote that was stopped reports the end of one whose cell has another worker by now. Of each worker it reports
        // the fork first.
        if pid.is_some() && worker.pid() != pid {
            return;
        }
        let requests = cell.requests.load(SeqCst);
        let leave = leave_of(cell);
        let end = End {
            leave,
            status,
            requests,
            serving: cell.slot.load(SeqCst) != 0 && leave == Leave::Unsaid,
            hurried: self.stops_at_once(),
            host_died: worker.is_thread() && worker.orphaned.is_some(),
            asked: worker.was_asked(),
            unborn: worker.process.is_none(),
            wish: self.wish(worker),
            signalled: worker.signalled,
            up: worker.up || requests > 0,
            age: worker.started.elapsed(),
        };
        let Some(worker) = self.crew.vacate(index) else { return };
        self.note_end_of_asked(index, pid.or(worker.pid()));
        self.counts.exit(end.cause());
        if leave == Leave::Quota {
            self.note_life(requests, end.age);
        }
        end.log(index, pid.or(worker.pid()), worker.generation);
        let done = Recovery::new(index, self.mailbox.clone());
        let _ = self.events.send(Event::WorkerGone { index, status, done });
        self.judge(&worker, end);
    }

    /// Why we want a worker to go; none when we do not.
    fn wish(&self, worker: &Worker) -> Option<Cause> {
        let generation = self.generations.iter().find(|generation| generation.number == worker.generation);
        if self.shutdown.is_some() {
            Some(Cause::Stop)
        } else if self.damage.is_under_way() {
            Some(Cause::Crash)
        } else if let Some(retirement) = worker.retiring {
            Some(retirement.reason.cause())
        } else if generation.is_some_and(|generation| generation.role == Role::Leaving) {
            Some(Cause::Reload)
        } else {
            worker.draining.then_some(Cause::Resize)
        }
    }

    /// A worker that ends before it serves anything makes the next one wait, and may fail a start or a reload.
    fn judge(&mut self, worker: &Worker, end: End) {
        if !end.is_failure() || self.shutdown.is_some() {
            return;
        }
        let Some(generation) = self.generation_mut(worker.generation) else { return };
        let reason = end.complaint();
        let (number, role, proven) = (generation.number, generation.role, generation.proven);
        let wait = generation.crashes.failed(worker.started, Instant::now(), reason.clone());
        generation.crashed_ready = end.up;
        let hopeless = !proven || generation.crashes.failures() >= ENOUGH;
        if let Some(wait) = wait {
            tracing::error!("{reason}; the next is started in {:.1} s", wait.as_secs_f64());
        }
        match role {
            Role::Filling if hopeless => self.reload_failed(number, &ReloadError::Workers(end.status)),
            Role::Serving if hopeless => self.fail_first_workers(end.status),
            _ => {}
        }
    }

    /// The zygote has died that was to fork the first workers.
    pub(crate) fn fail_first_forks(&mut self, number: u32, status: ExitKind) {
        let unborn = self.crew.count(|worker| worker.generation == number && worker.process.is_none());
        if unborn > 0 {
            self.fail_start(|| StartError::Forks(status));
        }
    }

    fn fail_first_workers(&mut self, status: ExitKind) {
        self.fail_start(|| StartError::Workers(status));
        if self.program.is_some() {
            return;
        }
        // With a zygote from plackup a reload only replaces workers: those still there stay.
        for (_, _, worker) in self.crew.workers_mut() {
            worker.retiring = worker.retiring.filter(|retirement| retirement.reason != Reason::Reload);
        }
        self.answer_reload(&Err(ReloadError::Workers(status)));
    }
}
