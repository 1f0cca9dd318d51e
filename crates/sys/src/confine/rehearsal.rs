//! A measure that a child tries first. A service manager's filter of system calls may end whoever makes a call that is not on
//! its list (systemd's `SystemCallFilter=`), where another refuses it; nobody can ask a filter which of them it is.

use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior};

use crate::daemon::{exit, fork_alone};
use crate::process::{ExitKind, wait};

/// Whether this process is under a filter, by a manager or a container, so that there is something to find out.
#[must_use]
pub fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

/// Whether a child outlives the measure, which has no effect on this process. True when there is no child to be had. For
/// processes of one thread.
pub fn survived(measure: impl FnOnce()) -> bool {
    match fork_alone() {
        Ok(Some(child)) => !wait(child).is_ok_and(|end| end == ExitKind::Signaled(Signal::SYS.as_raw())),
        Ok(None) => {
            // Its end is nothing to be kept for anybody.
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            measure();
            exit(0)
        }
        Err(_) => true,
    }
}
