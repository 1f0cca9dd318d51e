//! Descriptors in tokio's event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a non-blocking descriptor with the runtime of the calling task, for reading and writing.
///
/// # Errors
/// The kernel's, when epoll refuses the descriptor.
///
/// # Panics
/// Outside a tokio runtime.
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd names the same open descriptor from registration until it is dropped, after deregistration.
    Ok(unsafe { AsyncFd::register(fd) }?)
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
    Ok(unsafe { AsyncFd::register(fd) }?)
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
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}
