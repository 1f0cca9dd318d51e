//! Memory of workers, for `collect`. To measure it the kernel walks a whole address space, so each worker is measured
//! every few seconds at most, and a look at the status spends a bounded time on it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use howdah_supervisor::Pid;
use howdah_sys::usage::memory_of;

/// A measurement is good for so long.
const FRESH: Duration = Duration::from_secs(3);
/// Time that a look may spend; the workers that it does not come to have their turn at the next one.
const PATIENCE: Duration = Duration::from_millis(50);

/// What is known of each process.
#[derive(Debug, Default)]
pub(super) struct Memories {
    known: HashMap<Pid, Measured>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    at: Instant,
    bytes: Option<u64>,
}

impl Memories {
    /// Measures those of `pids` whose turn it is, and forgets all others.
    pub(super) fn refresh(&mut self, pids: &[Pid]) {
        self.known.retain(|pid, _| pids.contains(pid));
        let start = Instant::now();
        let at = |pid: &Pid| self.known.get(pid).map(|measured| measured.at);
        let due = |pid: &&Pid| at(pid).is_none_or(|at| start - at >= FRESH);
        let mut due: Vec<Pid> = pids.iter().filter(due).copied().collect();
        // None comes first: a worker that was never measured.
        due.sort_by_key(at);
        for pid in due {
            let bytes = memory_of(pid).ok().map(|memory| memory.private);
            self.known.insert(pid, Measured { at: Instant::now(), bytes });
            if start.elapsed() > PATIENCE {
                break;
            }
        }
    }

    /// Bytes that a process has for itself; none when they are not known.
    pub(super) fn of(&self, pid: Pid) -> Option<u64> {
        self.known.get(&pid)?.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_live_are_known_and_others_forgotten() {
        let (own, gone) = (rustix::process::getpid(), Pid::from_raw(i32::MAX).unwrap());
        let mut memories = Memories::default();
        memories.refresh(&[own, gone]);
        assert!(memories.of(own).is_some_and(|bytes| bytes > 0));
        assert_eq!(memories.of(gone), None);
        memories.refresh(&[]);
        assert_eq!(memories.of(own), None);
    }
}
