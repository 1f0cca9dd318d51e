//! Socket options that no safe wrapper has.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Lets `accept` wait for the client's first bytes, for up to about `seconds` (TCP_DEFER_ACCEPT, tcp(7)).
///
/// # Errors
/// The kernel's, for a socket that is not TCP.
pub fn defer_accept(socket: impl AsFd, seconds: i32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let size = size_of::<i32>() as libc::socklen_t;
    let value = (&raw const seconds).cast();
    // SAFETY: the descriptor is open for as long as it is borrowed, and `value` points to `size` bytes.
    let result = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, value, size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
