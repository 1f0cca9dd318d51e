//! What status pages and the control socket get to see.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use howdah_sys::Pid;
use howdah_wire::WorkerCell;

use crate::crew::phase_of;
use crate::generation::Role;
use crate::snapshot::{Snapshot, WorkerInfo};
use crate::state::State;
use crate::worker::Worker;

impl State {
    /// The state at this moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let now = Instant::now();
        let serving = self.in_role(Role::Serving);
        Snapshot {
            generation: serving.map_or(0, |generation| generation.number),
            serving_since: serving.and_then(|generation| generation.serving),
            zygote: serving.and_then(|generation| generation.zygote.pid()),
            zygotes: self.generations.iter().filter_map(|generation| generation.zygote.pid()).collect(),
            perl: serving.map(|generation| generation.zygote.perl.clone()).unwrap_or_default(),
            templates: serving.map_or(0, |generation| generation.zygote.templates),
            reforks: serving.map_or(0, |generation| generation.reforks),
            reloading: !self.reload_replies.is_empty()
                || self.in_role(Role::Filling).is_some_and(|filling| filling.reforks == 0),
            target: self.target,
            workers: self.crew.workers().filter_map(|(index, _)| self.worker_info(index)).collect(),
            counts: self.counts.clone(),
            trouble: self.trouble(now),
        }
    }

    pub(crate) fn worker_info(&self, index: u16) -> Option<WorkerInfo> {
        let (worker, cell) = (self.crew.get(index)?, self.crew.cell(index)?);
        Some(WorkerInfo {
            index,
            pid: worker.pid(),
            process: if worker.is_thread() { runs(worker, cell) } else { worker.pid() },
            is_thread: worker.is_thread(),
            generation: worker.generation,
            phase: phase_of(cell),
            draining: worker.draining,
            requests: cell.requests.load(SeqCst),
            quota: worker.quota,
            slot: cell.slot.load(SeqCst).checked_sub(1),
            started: worker.born,
            since: cell.since.load(SeqCst),
            memory: worker.memory,
        })
    }
}

/// What a worker that is a thread runs, by the word of its host.
fn runs(worker: &Worker, cell: &WorkerCell) -> Option<Pid> {
    let process = Pid::from_raw(i32::try_from(cell.pid.load(SeqCst)).ok()?);
    process.filter(|_| process != worker.pid())
}
