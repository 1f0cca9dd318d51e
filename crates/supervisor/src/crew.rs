//! The cells of the segment and the workers in them.
//!
//! A cell goes from free to a worker, from there to "recovering" when the process has ended, and is free again when
//! every front thread has recovered the worker's slots: their owner number is the cell's.

use std::time::Duration;

use howdah_sys::{futex_wake, monotonic_ns};
use howdah_wire::{Command, Leave, Segment, WorkerCell, WorkerPhase};
use std::sync::atomic::Ordering::SeqCst;

use crate::worker::Worker;

enum Occupancy {
    Free,
    Taken(Box<Worker>),
    Recovering,
}

/// All cells.
pub(crate) struct Crew {
    segment: Segment,
    occupancy: Vec<Occupancy>,
}

impl Crew {
    pub(crate) fn new(segment: Segment) -> Self {
        let occupancy = segment.workers().iter().map(|_| Occupancy::Free).collect();
        Self { segment, occupancy }
    }

    /// Cells in all.
    pub(crate) fn cells(&self) -> usize {
        self.occupancy.len()
    }

    /// A free cell.
    pub(crate) fn free(&self) -> Option<u16> {
        let index = self.occupancy.iter().position(|occupancy| matches!(occupancy, Occupancy::Free))?;
        u16::try_from(index).ok()
    }

    /// No worker is left and none is being recovered.
    pub(crate) fn is_empty(&self) -> bool {
        self.occupancy.iter().all(|occupancy| matches!(occupancy, Occupancy::Free))
    }

    /// Puts a worker that is about to be forked into a free cell.
    pub(crate) fn occupy(&mut self, index: u16, worker: Worker) {
        let Some(cell) = self.cell(index) else { return };
        cell.generation.store(worker.generation, SeqCst);
        cell.quota.store(worker.quota, SeqCst);
        cell.cpu.store(0, SeqCst);
        cell.command.store(Command::Run as u32, SeqCst);
        cell.leave.store(Leave::Unsaid as u32, SeqCst);
        cell.pid.store(0, SeqCst);
        cell.slot.store(0, SeqCst);
        cell.requests.store(0, SeqCst);
        cell.ask_nothing();
        cell.since.store(monotonic_ns(), SeqCst);
        cell.phase.store(WorkerPhase::Starting as u32, SeqCst);
        self.occupancy[usize::from(index)] = Occupancy::Taken(Box::new(worker));
    }

    /// Takes a dead worker out. Its cell waits for [`Crew::recovered`].
    pub(crate) fn vacate(&mut self, index: u16) -> Option<Worker> {
        let occupancy = self.occupancy.get_mut(usize::from(index))?;
        if !matches!(occupancy, Occupancy::Taken(_)) {
            return None;
        }
        let Occupancy::Taken(worker) = std::mem::replace(occupancy, Occupancy::Recovering) else {
            return None;
        };
        // Nobody shall spend a wake-up on it.
        self.segment.queue().cells.leave_idle(index);
        Some(*worker)
    }

    /// The slots of the dead worker are recovered.
    pub(crate) fn recovered(&mut self, index: u16) {
        if let Some(occupancy @ Occupancy::Recovering) = self.occupancy.get_mut(usize::from(index)) {
            *occupancy = Occupancy::Free;
            self.segment.workers()[usize::from(index)].phase.store(WorkerPhase::Absent as u32, SeqCst);
        }
    }

    /// Asks a worker to leave after its current request, and wakes it when it sleeps.
    pub(crate) fn drain(&mut self, index: u16, limit: Option<Duration>) {
        self.dismiss(index, limit, Command::Drain);
    }

    /// The same, and to leave the next zygote behind.
    pub(crate) fn promote(&mut self, index: u16) {
        self.dismiss(index, None, Command::Promote);
    }

    fn dismiss(&mut self, index: u16, limit: Option<Duration>, command: Command) {
        let segment = self.segment;
        let Some(worker) = self.get_mut(index) else { return };
        if let Some(limit) = limit {
            worker.limit(limit);
        }
        if std::mem::replace(&mut worker.draining, true) {
            return;
        }
        let cell = &segment.workers()[usize::from(index)];
        cell.command.store(command as u32, SeqCst);
        if segment.queue().cells.mark_woken(index, cell) {
            futex_wake(&cell.wake, 1);
        }
    }

    /// What the worker says of itself.
    pub(crate) fn cell(&self, index: u16) -> Option<&'static WorkerCell> {
        self.segment.workers().get(usize::from(index))
    }

    pub(crate) fn get(&self, index: u16) -> Option<&Worker> {
        match self.occupancy.get(usize::from(index)) {
            Some(Occupancy::Taken(worker)) => Some(worker),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, index: u16) -> Option<&mut Worker> {
        match self.occupancy.get_mut(usize::from(index)) {
            Some(Occupancy::Taken(worker)) => Some(worker),
            _ => None,
        }
    }

    /// Living workers with their cells' numbers.
    pub(crate) fn workers(&self) -> impl Iterator<Item = (u16, &Worker)> {
        (0..).zip(&self.occupancy).filter_map(|(index, occupancy)| match occupancy {
            Occupancy::Taken(worker) => Some((index, &**worker)),
            _ => None,
        })
    }

    /// As [`Crew::workers`], to change them.
    pub(crate) fn workers_mut(&mut self) -> impl Iterator<Item = (u16, &'static WorkerCell, &mut Worker)> {
        let cells = self.segment.workers();
        (0..).zip(cells).zip(&mut self.occupancy).filter_map(|((index, cell), occupancy)| match occupancy {
            Occupancy::Taken(worker) => Some((index, cell, &mut **worker)),
            _ => None,
        })
    }

    /// Numbers of the workers that `wanted` picks.
    pub(crate) fn pick(&self, wanted: impl Fn(&Worker) -> bool) -> Vec<u16> {
        self.workers().filter(|(_, worker)| wanted(worker)).map(|(index, _)| index).collect()
    }

    /// How many workers `wanted` picks.
    pub(crate) fn count(&self, wanted: impl Fn(&Worker) -> bool) -> usize {
        self.workers().filter(|(_, worker)| wanted(worker)).count()
    }
}

/// A cell's phase; an impossible one reads as starting.
pub(crate) fn phase_of(cell: &WorkerCell) -> WorkerPhase {
    WorkerPhase::read(cell.phase.load(SeqCst)).unwrap_or(WorkerPhase::Starting)
}

/// Why a worker says it left; an impossible reason reads as none.
pub(crate) fn leave_of(cell: &WorkerCell) -> Leave {
    Leave::read(cell.leave.load(SeqCst)).unwrap_or(Leave::Unsaid)
}
