//! Where events come from.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::bpftrace::{Bpftrace, Line};
use crate::connector::Connector;
use crate::event::Event;
use crate::proc;

/// bpftrace compiles its program first.
const START: Duration = Duration::from_secs(20);

/// Which one is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// bpftrace where it works, else the connector.
    Best,
    /// That or none.
    Bpftrace,
    /// That or none.
    Connector,
}

/// An open one.
#[derive(Debug)]
pub struct Source(Inner);

#[derive(Debug)]
enum Inner {
    Bpftrace(Bpftrace),
    Connector(Connector),
}

/// Why there is none, and the way out.
#[derive(Debug)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl Source {
    /// Opens one.
    ///
    /// # Errors
    /// Where nobody may be told, or what is wanted is not there; the message says what to do.
    pub fn open(wanted: Wanted) -> Result<Self, Refusal> {
        if proc::is_enclosed() {
            return Err(enclosed());
        }
        match wanted {
            Wanted::Bpftrace => bpftrace(),
            Wanted::Connector => connector(),
            Wanted::Best => bpftrace().or_else(|_| connector()),
        }
    }

    /// One that is told by the other end of a socket.
    #[cfg(test)]
    pub(crate) fn stand_in() -> (Self, std::os::fd::OwnedFd) {
        let (source, kernel) = Connector::stand_in();
        (Self(Inner::Connector(source)), kernel)
    }

    /// For people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.0 {
            Inner::Bpftrace(_) => "bpftrace",
            Inner::Connector(_) => "the process connector",
        }
    }

    /// What keeps the kernel from losing events.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.0 {
            Inner::Bpftrace(_) => "give bpftrace more room (BPFTRACE_PERF_RB_PAGES=1024 in the environment)",
            Inner::Connector(_) => "trace by bpftrace",
        }
    }

    /// Has it tell the rest, and its end behind that.
    pub(crate) fn end(&mut self) {
        match &self.0 {
            Inner::Bpftrace(source) => source.end(),
            Inner::Connector(_) => {}
        }
    }

    /// Whether more may come of what has been until now.
    pub(crate) fn has_more(&self) -> bool {
        match &self.0 {
            // Its end is told.
            Inner::Bpftrace(_) => true,
            Inner::Connector(source) => source.has_more(),
        }
    }

    /// What has come within that time, and when that was, in the kernel's nanoseconds.
    pub(crate) fn read(&mut self, patience: Duration) -> io::Result<Option<(u64, Event)>> {
        match &mut self.0 {
            Inner::Bpftrace(source) => Ok(source.read(patience)?.and_then(|line| match line {
                Line::Event(at, event) => Some((at, event)),
                Line::Ready | Line::Remark(_) => None,
            })),
            Inner::Connector(source) => source.read(patience),
        }
    }
}

/// The one source would stay silent there, the other one has numbers that mean other processes.
fn enclosed() -> Refusal {
    Refusal(
        "the kernel does not tell of processes in here: it tells of all by the numbers that they have on the machine, and in a \
         container (a namespace of process ids or users) they have others. Trace the server from the machine outside, by \
         --control with the path of its socket there, or start the container with the machine's numbers (docker run \
         --pid=host)"
            .to_owned(),
    )
}

fn bpftrace() -> Result<Source, Refusal> {
    let refuse = |why: &dyn fmt::Display| {
        Refusal(format!(
            "bpftrace does not work here ({why}): run as root, install it (on Debian: apt install bpftrace), and see that \
             tracefs is mounted (mount -t tracefs nodev /sys/kernel/tracing)"
        ))
    };
    let end = Instant::now() + START;
    let mut why = String::new();
    for source in Bpftrace::ways() {
        let mut source = source.map_err(|error| refuse(&error))?;
        while Instant::now() < end {
            match source.read(Duration::from_millis(100)) {
                Ok(Some(Line::Ready)) => return Ok(Source(Inner::Bpftrace(source))),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        source.complaint().clone_into(&mut why);
    }
    let is_late = Instant::now() >= end;
    Err(if is_late { refuse(&"it does not come to trace within 20 s") } else { refuse(&why) })
}

fn connector() -> Result<Source, Refusal> {
    Connector::open().map(|source| Source(Inner::Connector(source))).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "run as root, or give the program CAP_NET_ADMIN",
            _ => "the kernel has none (CONFIG_PROC_EVENTS), or a container hides it: run it on the host",
        };
        Refusal(format!("the kernel does not tell of processes ({error}): {hint}"))
    })
}
