//! Descriptors in tokio's event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::shortage::{TOO_MANY_WATCHED, WithWayOut};

/// Why the kernel watches no more, with what is to be raised: its own words are those of a full disk.
#[must_use]
pub fn unwatched(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::StorageFull {
        return error;
    }
    let told = WithWayOut(&error, Some(TOO_MANY_WATCHED)).to_string();
    io::Error::new(error.kind(), told)
}

/// Registers a non-blocking descriptor with the runtime of the calling task, for reading and writing.
///
/// # Errors
/// The kernel's, when epoll refuses the descriptor.
///
/// # Panics
/// Outside a tokio runtime.
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd names the same open descriptor from registration until it is dropped, after deregistration.
    unsafe { AsyncFd::register(fd) }.map_err(|refused| unwatched(refused.into()))
}

/// The same for one that others have, too.
///
/// # Errors
/// The kernel's, when epoll refuses the descriptor.
///
/// # Panics
/// Outside a tokio runtime.
pub fn watch_shared(fd: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: as in `watch`; our share keeps the descriptor open.
    unsafe { AsyncFd::register(fd) }.map_err(|refused| unwatched(refused.into()))
}

/// The same for reading only.
///
/// # Errors
/// The kernel's, when epoll refuses the descriptor.
///
/// # Panics
/// Outside a tokio runtime.
pub fn watch_readable(fd: impl Into<Arc<OwnedFd>>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    let fd = fd.into();
    // SAFETY: as in `watch`; our share keeps the descriptor open.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }
        .map_err(|refused| unwatched(refused.into()))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_bound_of_the_kernels_is_not_taken_for_a_full_disk() {
        let told = |errno: Errno| unwatched(errno.into()).to_string();
        assert!(told(Errno::NOSPC).ends_with("; raise fs.epoll.max_user_watches (sysctl)"));
        assert_eq!(told(Errno::NOMEM), io::Error::from(Errno::NOMEM).to_string());
    }
}
