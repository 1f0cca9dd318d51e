//! The worker that shares this thread's processor (`share_cpu`): it is told by a word in its cell, and looks between two requests.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use howdah_wire::{WorkerCell, WorkerPhase};

use crate::slots::dispatch::{Dispatch, Mate};

impl Dispatch {
    /// From now on the worker that had something to do last shares the processor `cpu`. None where there is no worker.
    pub(crate) fn share(&mut self, cpu: usize) -> Option<u16> {
        let cells = self.segment.workers();
        let stays = |&worker: &usize| self.present[worker] && !is_leaving(&cells[worker]);
        let worker = (0..self.present.len())
            .filter(stays)
            .max_by_key(|&worker| cells[worker].idle_order.load(Relaxed))?;
        cells[worker].cpu.store(cpu as u32 + 1, SeqCst);
        let worker = worker as u16;
        self.mate = Some(Mate { worker, cpu });
        Some(worker)
    }

    /// Nobody shares it any more.
    pub(crate) fn share_no_more(&mut self) {
        if let Some(mate) = self.mate.take() {
            self.segment.workers()[usize::from(mate.worker)].cpu.store(0, SeqCst);
        }
    }

    /// Another one takes its place at once: one that serves a hundred requests is there for some milliseconds.
    pub(super) fn share_after(&mut self, gone: u16) {
        if let Some(mate) = self.mate.take_if(|mate| mate.worker == gone) {
            self.share(mate.cpu);
        }
    }

    /// The same as soon as it says that it takes no further request. It needs a moment for that.
    pub(super) fn share_on(&mut self) {
        if let Some(Mate { worker, .. }) = self.mate
            && is_leaving(&self.segment.workers()[usize::from(worker)])
        {
            self.share_after(worker);
        }
    }
}

fn is_leaving(worker: &WorkerCell) -> bool {
    worker.phase.load(Relaxed) == WorkerPhase::Leaving as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::sample::bench::Bench;

    /// The worker that shares the processor.
    fn mate(dispatch: &mut Dispatch) -> Option<u16> {
        dispatch.mate.map(|mate| mate.worker)
    }

    #[test]
    fn a_worker_that_takes_no_further_request_has_the_place_no_more() {
        let bench = Bench::of(8, 8);
        let cells = bench.segment.workers();
        for (worker, order) in [(0, 8), (1, 9), (2, 7)] {
            bench.act(|dispatch| dispatch.worker_up(worker));
            cells[usize::from(worker)].idle_order.store(order, Relaxed);
        }
        let share_on = || {
            bench.act(|dispatch| {
                dispatch.share_on();
                mate(dispatch)
            })
        };
        assert_eq!(share_on(), None, "nobody has it");
        assert_eq!(bench.act(|dispatch| dispatch.share(5)), Some(1));
        for (leaves, next) in [(0, Some(1)), (1, Some(2)), (2, None)] {
            cells[leaves].phase.store(WorkerPhase::Leaving as u32, Relaxed);
            assert_eq!(share_on(), next, "{leaves} is on its way out");
        }
        bench.act(|dispatch| dispatch.worker_gone(2, Fault::WorkerExited));
        assert_eq!(bench.act(|dispatch| dispatch.share(5)), None);
    }

    #[test]
    fn a_worker_that_goes_leaves_its_place_to_the_one_that_was_awake_last() {
        let bench = Bench::of(8, 8);
        let cells = bench.segment.workers();
        let told = || [0, 1, 2].map(|worker: usize| cells[worker].cpu.load(SeqCst));
        assert_eq!(bench.act(|dispatch| dispatch.share(5)), None, "there is none");
        for (worker, order) in [(0, 7), (1, 9), (2, 8)] {
            bench.act(|dispatch| dispatch.worker_up(worker));
            cells[usize::from(worker)].idle_order.store(order, Relaxed);
        }
        assert_eq!((bench.act(|dispatch| dispatch.share(5)), told()), (Some(1), [0, 6, 0]));
        cells[2].idle_order.store(10, Relaxed);
        // Who goes, who has the place then, and what the cells say; the supervisor clears those of new workers.
        for (gone, next, cpus) in [(0, Some(1), [0, 6, 0]), (1, Some(2), [0, 6, 6]), (2, None, [0, 6, 6])] {
            let now = bench.act(|dispatch| {
                dispatch.worker_gone(gone, Fault::WorkerExited);
                mate(dispatch)
            });
            assert_eq!((now, told()), (next, cpus), "{gone}");
        }
        bench.act(|dispatch| {
            dispatch.worker_up(2);
            dispatch.share(0);
            dispatch.share_no_more();
        });
        assert_eq!((bench.act(mate), told()), (None, [0, 6, 0]));
    }
}
