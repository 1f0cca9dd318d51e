//! Process ids in the log.

use howdah_sys::Pid;

/// The number; 0 for none.
pub(crate) fn pid_number(pid: Option<Pid>) -> i32 {
    pid.map_or(0, |pid| pid.as_raw_nonzero().get())
}
