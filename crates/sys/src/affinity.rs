//! On which processors a thread may run.

use std::io;

use rustix::process::Pid;
pub use rustix::thread::CpuSet;
use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Where `thread` may run; none is the calling one.
///
/// # Errors
/// ESRCH when there is none; EINVAL when the machine has more processors than a set can name.
pub fn affinity(thread: Option<Pid>) -> io::Result<CpuSet> {
    Ok(sched_getaffinity(thread)?)
}

/// Has `thread` run there, from now on.
///
/// # Errors
/// ESRCH when there is none, EPERM when it belongs to another user, EINVAL when it may use none of these.
pub fn set_affinity(thread: Option<Pid>, set: &CpuSet) -> io::Result<()> {
    Ok(sched_setaffinity(thread, set)?)
}

/// One processor alone.
#[must_use]
pub fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    set
}

/// The processor on which the calling thread runs.
#[must_use]
pub fn current_cpu() -> usize {
    sched_getcpu()
}
