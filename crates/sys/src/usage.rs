//! Memory that a process has for itself.
//!
//! Workers share most of their pages with the zygote until one of them writes. RSS counts those in every worker, so a
//! limit on RSS would recycle workers for memory that their end does not free; the supervisor limits `private`.

use std::io;

use crate::launcher;
use crate::process::Pid;
use crate::smaps::measure;

pub use crate::smaps::Memory;

/// The memory of `pid`. The kernel walks the whole address space for it, so ask every few seconds, not per request.
/// Looked at by the [`launcher`] if there is one: a confined process may not.
///
/// # Errors
/// NotFound when the process is gone or the kernel is older than 4.14, PermissionDenied when it belongs to another user.
pub fn memory_of(pid: Pid) -> io::Result<Memory> {
    launcher::memory_of(pid).unwrap_or_else(|| measure(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_readable() {
        let own = memory_of(rustix::process::getpid()).unwrap();
        assert!(own.private > 0 && own.private <= own.resident, "{own:?}");
    }
}
