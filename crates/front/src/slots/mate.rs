//! The worker that shares this thread's processor (`share_cpu`): it is told by a word in its cell, and looks between two requests.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::slots::dispatch::Dispatch;

impl Dispatch {
    /// From now on the worker that had something to do last shares the processor `cpu`. None where there is no worker.
    pub(crate) fn share(&mut self, cpu: usize) -> Option<u16> {
        let cells = self.segment.workers();
        let present = (0..self.present.len()).filter(|&worker| self.present[worker]);
        let worker = present.max_by_key(|&worker| cells[worker].idle_order.load(Relaxed))?;
        cells[worker].cpu.store(cpu as u32 + 1, SeqCst);
        self.mate_cpu = cpu;
        self.mate = Some(worker as u16);
        self.mate
    }

    /// Nobody shares it any more.
    pub(crate) fn share_no_more(&mut self) {
        if let Some(mate) = self.mate.take() {
            self.segment.workers()[usize::from(mate)].cpu.store(0, SeqCst);
        }
    }

    /// Another one takes its place at once: one that serves a hundred requests is there for some milliseconds.
    pub(super) fn share_after(&mut self, gone: u16) {
        if self.mate == Some(gone) {
            self.mate = None;
            self.share(self.mate_cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::sample::bench::Bench;

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
        // Who goes, who has the place then, and what the cells say; the supervisor clears those of new workers.
        for (gone, mate, cpus) in [(0, Some(1), [0, 6, 0]), (1, Some(2), [0, 6, 6]), (2, None, [0, 6, 6])] {
            let now = bench.act(|dispatch| {
                dispatch.worker_gone(gone, Fault::WorkerExited);
                dispatch.mate
            });
            assert_eq!((now, told()), (mate, cpus), "{gone}");
        }
        bench.act(|dispatch| {
            dispatch.worker_up(2);
            dispatch.share(0);
            dispatch.share_no_more();
        });
        assert_eq!((bench.act(|dispatch| dispatch.mate), told()), (None, [0, 6, 0]));
    }
}
