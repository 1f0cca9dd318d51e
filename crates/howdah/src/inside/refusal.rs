//! Why the kernel does not let us look into a worker, and the way out.

use std::fs;
use std::io;

use crate::shortage::with_limit;

/// Where Yama says who may look at whom.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// The worker is not there any more: no reason to complain.
pub(super) fn is_gone(error: &io::Error) -> bool {
    /// What reading from /proc says of a process that has ended.
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

/// A sentence for the person who asked.
pub(super) fn explain(pid: u32, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {}
        // It says which.
        io::ErrorKind::InvalidData => return error.to_string(),
        _ => return format!("cannot look into process {pid}: {}", with_limit(error)),
    }
    let scope = fs::read_to_string(YAMA).unwrap_or_default();
    let root = rustix::process::geteuid().is_root();
    format!("the kernel does not let us look into process {pid}: {}", way_out(root, scope.trim()))
}

fn way_out(root: bool, scope: &str) -> &'static str {
    match (root, scope) {
        (_, "3") => {
            "kernel.yama.ptrace_scope is 3, which forbids it to all until the next boot of the machine"
        }
        (false, _) => "ask as root",
        (true, _) => {
            "root needs CAP_SYS_PTRACE for it; in a container it is given at the start, by --cap-add SYS_PTRACE, or ask \
             from the machine outside"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_has_a_way_out() {
        for (root, scope, way) in [
            (false, "", "ask as root"),
            (false, "1", "ask as root"),
            (true, "1", "root needs CAP_SYS_PTRACE"),
            (true, "3", "kernel.yama.ptrace_scope is 3"),
        ] {
            assert!(way_out(root, scope).starts_with(way), "{root} {scope}");
        }
        let other = explain(7, &io::Error::from(io::ErrorKind::OutOfMemory));
        assert!(other.starts_with("cannot look into process 7: "), "{other}");
    }

    #[test]
    fn a_process_that_has_ended_is_told_from_one_that_we_may_not_see() {
        assert!(is_gone(&fs::read("/proc/0/stat").unwrap_err()));
        assert!(is_gone(&io::Error::from_raw_os_error(3)));
        assert!(!is_gone(&io::Error::from(io::ErrorKind::PermissionDenied)));
    }
}
