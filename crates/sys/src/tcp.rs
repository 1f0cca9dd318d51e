//! What sockets are told and asked that no safe wrapper has.

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

/// Bytes written to a connected stream socket that have not arrived at the other end (SIOCOUTQ, tcp(7) and unix(7)); on
/// a Unix socket those not read yet, with what the kernel adds to them.
///
/// # Errors
/// The kernel's, for a descriptor that is no such socket.
pub fn outstanding(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open for as long as it is borrowed, and the call writes one int.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(u64::from(bytes.unsigned_abs())) } else { Err(io::Error::last_os_error()) }
}
