//! The processes that supervisors know: those of one are children of the same process as those of the others.
//!
//! A child that has ended is collected by the supervisor that knows it, which wants to know how it ended. Only those that
//! nobody knows are anybody's to collect (`reap`).

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use howdah_sys::process::{Process, is_child_run_by};
use howdah_sys::{Pid, set_subreaper};

/// See the module. There is one for the process; clones are the same.
#[derive(Clone, Debug)]
pub struct Family {
    /// By how many: a worker that has ended may still be known when another process gets its number.
    known: Arc<Mutex<HashMap<Pid, usize>>>,
}

impl Family {
    /// Makes this process the parent of descendants that have lost theirs.
    ///
    /// # Errors
    /// When the system has no subreapers.
    pub fn new() -> io::Result<Self> {
        set_subreaper()?;
        Ok(Self { known: Arc::default() })
    }

    /// A zygote or a worker, known until this is dropped.
    pub(crate) fn know(&self, pid: Pid) -> Relative {
        *self.known().entry(pid).or_default() += 1;
        Relative { process: Process::open(pid), family: self.clone() }
    }

    /// Whether some supervisor knows it.
    pub(crate) fn knows(&self, pid: Pid) -> bool {
        self.known().contains_key(&pid)
    }

    /// Whether it is a child of this process that no supervisor knows, and run by `user`, as what a zygote leaves behind is.
    pub(crate) fn has_orphan(&self, pid: Pid, user: Option<u32>) -> bool {
        !self.knows(pid) && user.is_some_and(|user| is_child_run_by(pid, user))
    }

    fn forget(&self, pid: Pid) {
        let mut known = self.known();
        if let Some(times) = known.get_mut(&pid) {
            *times -= 1;
            if *times == 0 {
                known.remove(&pid);
            }
        }
    }

    /// Supervisors share a thread, so nobody waits here.
    fn known(&self) -> MutexGuard<'_, HashMap<Pid, usize>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that is known.
#[derive(Debug)]
pub(crate) struct Relative {
    process: Process,
    family: Family,
}

impl Deref for Relative {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl Drop for Relative {
    fn drop(&mut self) {
        self.family.forget(self.process.pid());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_process_is_known_as_long_as_somebody_knows_it() {
        let (family, pid) = (Family { known: Arc::default() }, Pid::INIT);
        assert!(!family.knows(pid));
        let (one, other) = (family.know(pid), family.know(pid));
        assert!(family.knows(pid) && one.pid() == pid);
        drop(one);
        assert!(family.knows(pid));
        drop(other);
        assert!(!family.knows(pid));
    }

    #[test]
    fn an_orphan_is_a_child_of_the_zygotes_user_that_nobody_knows() {
        let family = Family { known: Arc::default() };
        let user = std::fs::metadata("/proc/self").unwrap().uid();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(family.has_orphan(pid, Some(user)));
        assert!(!family.has_orphan(pid, Some(user + 1)), "what this process has started for itself");
        assert!(!family.has_orphan(pid, None), "of a zygote that has said nothing");
        let known = family.know(pid);
        assert!(!family.has_orphan(pid, Some(user)));
        drop(known);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!family.has_orphan(pid, Some(user)));
    }
}
