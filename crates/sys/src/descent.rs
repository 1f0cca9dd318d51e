//! Whose child a process is and who runs it, by the kernel's own word: /proc may hide it from us (hidepid). The supervisor asks by
//! [`process`](crate::process).

use std::os::fd::AsRawFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descent {
    pub(crate) parent: u32,
    /// The real one.
    pub(crate) user: u32,
}

/// None of a process that has ended, and where the kernel does not say (Linux before 6.13).
pub(crate) fn descent_of(pid: Pid) -> Option<Descent> {
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let wanted = u64::from(libc::PIDFD_INFO_PID | libc::PIDFD_INFO_CREDS);
    // SAFETY: a plain C structure of numbers, for which zeros are valid.
    let mut info: libc::pidfd_info = unsafe { std::mem::zeroed() };
    info.mask = wanted;
    // SAFETY: the request bears the size of what is written.
    let asked = unsafe { libc::ioctl(pidfd.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info) };
    let is_told = asked == 0 && info.mask & wanted == wanted;
    is_told.then_some(Descent { parent: info.ppid, user: info.ruid })
}

/// Whether the kernel lets us ask for its limits. A root without CAP_SYS_RESOURCE, as a confined front is, may ask its own processes
/// alone.
pub(crate) fn tells_limits(pid: Pid) -> bool {
    // SAFETY: a plain C structure of numbers, for which zeros are valid.
    let mut limits: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and the limits are valid for writing.
    let asked =
        unsafe { libc::prlimit(pid.as_raw_pid(), libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limits) };
    asked == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_whose_child_we_are() {
        let own = rustix::process::getpid();
        assert!(tells_limits(own));
        if let Some(descent) = descent_of(own) {
            let parent = rustix::process::getppid().unwrap().as_raw_pid().unsigned_abs();
            assert_eq!(descent, Descent { parent, user: rustix::process::getuid().as_raw() });
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        child.wait().unwrap();
        assert_eq!(descent_of(pid), None, "of one that is gone");
    }
}
