//! Waking someone: a front thread by its eventfd, a worker by a futex in its cell.
//!
//! `wire` says when a wake-up is due; the functions here make the system call.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec};
use rustix::thread::futex;

/// A non-blocking eventfd, close-on-exec.
///
/// # Errors
/// EMFILE or ENFILE when there are no descriptors left.
pub fn eventfd() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Wakes whoever waits for `fd` to become readable. A full counter is fine: then it is readable already.
///
/// # Errors
/// EBADF when `fd` is none.
pub fn signal_eventfd(fd: impl AsFd) -> io::Result<()> {
    match rustix::io::write(fd, &1_u64.to_ne_bytes()) {
        Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes `fd` unreadable until the next signal. True when it had been signalled.
///
/// # Errors
/// EBADF when `fd` is none.
pub fn drain_eventfd(fd: impl AsFd) -> io::Result<bool> {
    match rustix::io::read(fd, &mut [0_u8; 8]) {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Wakes up to `count` threads, of any process, that sleep on `word`. Returns how many did.
pub fn futex_wake(word: &AtomicU32, count: u32) -> usize {
    // Only a bad address can fail, and a reference is none.
    futex::wake(word, futex::Flags::empty(), count).unwrap_or(0)
}

/// Sleeps on `word` while it reads `seen`, until somebody wakes it or `time` has passed. False in the latter case.
pub fn futex_wait(word: &AtomicU32, seen: u32, time: Duration) -> bool {
    // A time that is too long for the kernel is none.
    let time = Timespec::try_from(time).ok();
    futex::wait(word, futex::Flags::empty(), seen, time.as_ref()) != Err(rustix::io::Errno::TIMEDOUT)
}
