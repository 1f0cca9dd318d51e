//! Who the workers are, by what their zygote says: process and generation of each, by the number of its cell.
//!
//! This is the front's own memory, not the segment. What is signalled or shown of a worker comes from here, since a
//! worker's cell says whatever the last process that wrote there wanted. The supervisor keeps it, front threads read it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crate::layout::MAX_WORKERS;

/// See the module. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Roster {
    /// Generation (upper half) and process id, 0 while that is not known.
    entries: Arc<[AtomicU64]>,
}

impl Default for Roster {
    fn default() -> Self {
        Self { entries: (0..MAX_WORKERS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Roster {
    /// A worker of this generation is about to be forked.
    pub fn expect(&self, worker: u16, generation: u32) {
        self.set(worker, generation, 0);
    }

    /// It has been.
    pub fn forked(&self, worker: u16, pid: u32) {
        self.set(worker, self.generation(worker), pid);
    }

    /// Process id; 0 when it is not known.
    #[must_use]
    pub fn pid(&self, worker: u16) -> u32 {
        self.entry(worker) as u32
    }

    /// The load of the application that it runs.
    #[must_use]
    pub fn generation(&self, worker: u16) -> u32 {
        (self.entry(worker) >> 32) as u32
    }

    fn entry(&self, worker: u16) -> u64 {
        self.entries.get(usize::from(worker)).map_or(0, |entry| entry.load(Relaxed))
    }

    fn set(&self, worker: u16, generation: u32, pid: u32) {
        if let Some(entry) = self.entries.get(usize::from(worker)) {
            entry.store(u64::from(generation) << 32 | u64::from(pid), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_known_from_its_fork_on() {
        let supervisor = Roster::default();
        let roster = supervisor.clone();
        supervisor.expect(3, 7);
        assert_eq!((roster.pid(3), roster.generation(3)), (0, 7));
        supervisor.forked(3, 4711);
        assert_eq!((roster.pid(3), roster.generation(3)), (4711, 7));
        roster.forked(u16::MAX, 1);
        assert_eq!(roster.pid(u16::MAX), 0);
    }
}
