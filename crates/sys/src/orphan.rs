//! Parting with the process that one was started by, for a server that outlives the one that it replaces.
//!
//! Who manages services hears of the end of its own children alone. systemd takes a main process that is somebody else's
//! child as one that it cannot wait for: told to stop the service, it kills that at once. So the new process forks, the one that
//! is left in between is ended, and the first process of the system (or systemd's of the user) has the new one, while the old still lives.
//!
//! ```text
//! old ── starts ──> keeper ── forks ──> new         [`behind_keeper`], in the new one
//! old ── ends the keeper, while it is no subreaper itself        [`orphan`], in the old one
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{child_subreaper, getpid, set_child_subreaper};

use crate::daemon::{exit, fork_alone};
use crate::process::{Process, Signal};
use crate::readable::is_readable_within;

/// A killed process is gone in no time, unless the machine is stuck.
const TO_END: Duration = Duration::from_secs(1);

/// Whether [`orphan`] can do its work here: it needs pidfds (Linux 5.3).
#[must_use]
pub fn is_possible() -> bool {
    Process::open(getpid()).end().is_some()
}

/// Goes on in a child of this process. What is left behind, the keeper, does nothing but be the parent; it ends when what is returned
/// is dropped, if nobody ends it before.
///
/// # Errors
/// When threads run already, or the kernel refuses to fork.
pub fn behind_keeper() -> io::Result<OwnedFd> {
    let (end, held) = io::pipe()?;
    if fork_alone()?.is_some() {
        drop(held);
        let _ = File::from(OwnedFd::from(end)).read(&mut [0]);
        exit(0);
    }
    Ok(held.into())
}

/// Ends `keeper`, a child of this process, and leaves its children to the first process of the system, or whoever else takes
/// orphans above this one. Waits a second at most: never call it on a front thread.
///
/// # Errors
/// Unsupported without pidfds, TimedOut when the keeper does not end.
pub fn orphan(keeper: &Process) -> io::Result<()> {
    let end = keeper.end().ok_or(io::ErrorKind::Unsupported)?;
    let _passed_over = PassedOver::begin()?;
    // It may have ended by itself.
    let _ = keeper.signal(Signal::KILL);
    if is_readable_within(&*end, TO_END)? { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

/// While it lives, this process takes no orphans.
struct PassedOver {
    takes: bool,
}

impl PassedOver {
    fn begin() -> io::Result<Self> {
        let takes = child_subreaper()?.is_some();
        set_child_subreaper(None)?;
        Ok(Self { takes })
    }
}

impl Drop for PassedOver {
    fn drop(&mut self) {
        if self.takes {
            // Nothing can be wrong with what was so before.
            let _ = set_child_subreaper(Some(getpid()));
        }
    }
}
