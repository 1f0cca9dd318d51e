//! What to raise where the kernel is short of something: its own words name no limit.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// What to say where a process or a thread is refused with EAGAIN, unless it is for want of memory.
pub const TOO_MANY_PROCESSES: &str = "the user or the container may have no more processes and threads: raise ulimit -u, systemd's TasksMax or \
     the cgroup's pids.max";

/// What to do where there was no descriptor left for a worker.
pub const TOO_FEW_FILES: &str =
    "raise the limit of open files (ulimit -n, systemd's LimitNOFILE=), or have fewer workers";

const TOO_MANY_ON_THE_WAY: &str = "more descriptors are on their way between this user's processes than the limit of open files allows: \
     raise it (ulimit -n, systemd's LimitNOFILE=)";
/// What to say where there is no descriptor left for anybody.
pub const TABLE_FULL: &str = "the whole system has no descriptor left: raise fs.file-max (sysctl)";
const TOO_LITTLE_MEMORY: &str =
    "there is no memory for it: raise the cgroup's memory.max or ulimit -v, or look at vm.overcommit_memory";
/// What to say where the kernel watches no more descriptors.
pub(crate) const TOO_MANY_WATCHED: &str = "raise fs.epoll.max_user_watches (sysctl)";

/// Whether there was no descriptor left for what was tried, here or in the whole system.
#[must_use]
pub fn is_short_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether the same packet may pass a moment later: there was no memory, or too much is on its way.
#[must_use]
pub fn may_pass_later(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS))
}

/// What to raise where a process or a thread is refused, a descriptor, or a packet.
#[must_use]
pub fn what_to_raise(error: &io::Error) -> Option<&'static str> {
    Some(match Errno::from_io_error(error)? {
        Errno::AGAIN => TOO_MANY_PROCESSES,
        Errno::MFILE => TOO_FEW_FILES,
        Errno::NFILE => TABLE_FULL,
        Errno::NOMEM | Errno::NOBUFS => TOO_LITTLE_MEMORY,
        Errno::TOOMANYREFS => TOO_MANY_ON_THE_WAY,
        _ => return None,
    })
}

/// The same where a packet is to be passed. One that would have to wait for its reader (EAGAIN) is short of nothing.
#[must_use]
pub fn what_to_raise_to_pass(error: &io::Error) -> Option<&'static str> {
    if error.kind() == io::ErrorKind::WouldBlock { None } else { what_to_raise(error) }
}

/// An error with what to raise behind it, for a message.
#[derive(Debug)]
pub struct WithWayOut<'e>(pub &'e io::Error, pub Option<&'static str>);

impl fmt::Display for WithWayOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(way_out) => write!(f, "{}; {way_out}", self.0),
            None => self.0.fmt(f),
        }
    }
}

/// An error with what to raise behind it, if it is one of those for which something can be raised.
#[must_use]
pub fn with_way_out(error: &io::Error) -> WithWayOut<'_> {
    WithWayOut(error, what_to_raise(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_named() {
        for (errno, named) in [
            (Errno::AGAIN, "ulimit -u"),
            (Errno::MFILE, "ulimit -n"),
            (Errno::NFILE, "fs.file-max"),
            (Errno::NOMEM, "memory.max"),
            (Errno::NOBUFS, "memory.max"),
            (Errno::TOOMANYREFS, "on their way between this user's processes than the limit of open files"),
        ] {
            let error = io::Error::from(errno);
            let said = with_way_out(&error).to_string();
            assert!(said.starts_with(&format!("{error}; ")) && said.contains(named), "{said}");
        }
        let other = io::Error::from(Errno::PERM);
        assert_eq!(with_way_out(&other).to_string(), other.to_string());
        assert_eq!(what_to_raise_to_pass(&Errno::AGAIN.into()), None);
    }
}
