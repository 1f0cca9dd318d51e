//! What to raise where the system gives no more processes, threads, descriptors or memory, for an error that ends a start or an
//! upgrade: the kernel's own words name no limit.
//!
//! `serve` asks for its start as a whole, `upgrade` for that of the new process; commands have their threads from here.

use std::io;
use std::os::unix::net::UnixStream;

use anyhow::{Context, anyhow};
use howdah_front::ListenError;
use howdah_supervisor::StartError;
use howdah_sys::shortage::{TOO_MANY_PROCESSES, what_to_raise};
use rustix::process::Resource;

/// In place of [`TOO_MANY_PROCESSES`] where the kernel gives no memory away that there may not be (vm.overcommit_memory=2): a thread for whose stack
/// there is none is refused as if there were too many.
const TOO_MANY_OR_NO_MEMORY: &str = "there is no memory for the stack of another thread, or the user or the container may have no more processes: raise \
     vm.overcommit_ratio or vm.overcommit_kbytes (sysctl), or ulimit -u, systemd's TasksMax or the cgroup's pids.max";

/// Bytes of addresses beyond which there is room for all that is reserved.
const RESERVED: u64 = 2 << 30;
/// Where the kernel says how much memory it gives away.
const STRICT: &str = "/proc/sys/vm/overcommit_memory";

/// Adds what is to be raised where there can be no more processes and threads, or no more memory is given out.
pub(crate) fn crowded(error: anyhow::Error) -> anyhow::Error {
    let addresses = rustix::process::getrlimit(Resource::As).current;
    let is_strict = std::fs::read_to_string(STRICT).is_ok_and(|mode| mode.trim() == "2");
    match error.chain().filter_map(reason).find_map(|reason| way_out(reason, addresses, is_strict)) {
        Some(hint) => anyhow!("{error:#}; {hint}"),
        None => error,
    }
}

/// Starts a thread beside a command. Where there can be none, the error says what to raise.
pub(crate) fn start_thread(body: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let started = std::thread::Builder::new().spawn(body).context("cannot start a thread");
    started.map(drop).map_err(crowded)
}

/// tokio panics where it gets no pair of sockets for signals, which it makes beside three descriptors of an event loop. Whether
/// it can is asked first.
pub(crate) fn try_sockets() -> io::Result<()> {
    let enough: io::Result<Vec<_>> = (0..3).map(|_| UnixStream::pair()).collect();
    enough.map(drop)
}

const FEW_FILES: &str = "; raise the limit of open files (ulimit -n)";

/// The kernel's words on what a command has tried, with its own limit where that is too low.
pub(crate) fn with_limit(error: &io::Error) -> String {
    let way_out = if howdah_sys::is_short_of_files(error) { FEW_FILES } else { "" };
    format!("{error}{way_out}")
}

/// The same of what has ended one.
pub(crate) fn short_of_files(error: anyhow::Error) -> anyhow::Error {
    let is_short = error.chain().filter_map(|cause| cause.downcast_ref()).any(howdah_sys::is_short_of_files);
    if is_short { anyhow!("{error:#}{FEW_FILES}") } else { error }
}

/// The kernel's reason, as far as a cause is that.
fn reason<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a io::Error> {
    if let Some(StartError::System { error, .. }) = cause.downcast_ref() {
        return Some(error);
    }
    match cause.downcast_ref() {
        Some(ListenError::System(_, error, _)) => Some(error),
        _ => cause.downcast_ref(),
    }
}

/// `addresses` is their limit, if there is one: a thread whose stack finds no room there is refused as if there were too many.
fn way_out(reason: &io::Error, addresses: Option<u64>, is_strict: bool) -> Option<&'static str> {
    match reason.kind() {
        io::ErrorKind::WouldBlock if is_strict && addresses.is_none_or(|most| most > RESERVED) => {
            Some(TOO_MANY_OR_NO_MEMORY)
        }
        io::ErrorKind::WouldBlock if addresses.is_none_or(|most| most > RESERVED) => Some(TOO_MANY_PROCESSES),
        io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock => Some(
            "the server reserves more addresses than it ever uses memory, 1.3 GB and more: raise ulimit -v, or bound its \
             memory by a cgroup instead",
        ),
        io::ErrorKind::FileTooLarge => Some(
            "shared memory counts as a file of 0.8 GB and more, whose size is not the memory that it takes: raise ulimit -f, or \
             systemd's LimitFSIZE=",
        ),
        _ => what_to_raise(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_raised_is_what_is_short() {
        let eagain = || io::Error::from(io::ErrorKind::WouldBlock);
        let (few, many) = (Some(20 << 20), Some(8 << 30));
        let few_files = io::Error::from(rustix::io::Errno::MFILE);
        assert!(way_out(&few_files, None, false).unwrap().contains("ulimit -n"));
        let strict = way_out(&eagain(), None, true).unwrap();
        assert!(strict.contains("vm.overcommit_kbytes") && strict.contains("ulimit -u"), "{strict}");
        for (kind, addresses, told) in [
            (io::ErrorKind::WouldBlock, None, Some("ulimit -u")),
            (io::ErrorKind::WouldBlock, many, Some("ulimit -u")),
            (io::ErrorKind::WouldBlock, few, Some("ulimit -v")),
            (io::ErrorKind::OutOfMemory, None, Some("ulimit -v")),
            (io::ErrorKind::FileTooLarge, None, Some("ulimit -f")),
            (io::ErrorKind::NotFound, few, None),
        ] {
            let hint = way_out(&kind.into(), addresses, false);
            assert_eq!(
                hint.map(|hint| hint.contains(told.unwrap_or("nothing"))),
                told.map(|_| true),
                "{kind} {addresses:?}"
            );
        }
        let start = StartError::System { what: "start a zygote", error: eagain() };
        for error in [anyhow::Error::from(eagain()).context("no thread"), start.into()] {
            assert!(crowded(error).to_string().contains("ulimit -"));
        }
    }
}
