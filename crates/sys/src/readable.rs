//! Waiting for one descriptor, for what may wait: never on a front thread.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Whether `fd` has something to read, or its end, within `patience`. Of a pidfd that is the end of its process.
///
/// # Errors
/// Of the system. A signal is none.
pub(crate) fn is_readable_within(fd: impl AsFd, patience: Duration) -> io::Result<bool> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
