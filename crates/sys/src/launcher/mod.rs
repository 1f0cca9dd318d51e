//! Starting processes, by ourselves or through a launcher.
//!
//! ```text
//! front (confined) ── recipe number, descriptors ──> launcher (not confined) ── fork, exec ──> zygote, heir, log command
//!        ^──────────────────────────────── is the parent of ────────────────────────────────────────┘
//! ```
//!
//! What confines a process (no_new_privs, seccomp, Landlock, a lack of capabilities) also confines whatever it starts,
//! and the application must be free to do as its user may. So a front that confines itself leaves a launcher behind
//! first: the same program, started anew, that keeps the front's rights, knows a fixed list of [`Recipe`]s, and waits on
//! a socket to be told the number of one. It forks with CLONE_PARENT, which makes the new process a child of the front:
//! that waits for it and signals it as if it had forked itself. The launcher leaves when the front does.
//!
//! It also measures memory for the front ([`memory_of`](crate::usage::memory_of)), since Landlock hides the memory of
//! other processes.
//!
//! Supervisor, upgrade and access log have a [`Job`] each. `serve` is the launcher's side.

mod serve;

use std::ffi::OsStr;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::channel::{recv_with_fds, send_with_fds, set_blocking, socketpair_seqpacket};
use crate::process::{Pid, spawn};
use crate::recipe::{Recipe, encode};
use crate::usage::Memory;

pub use serve::serve;

/// The first descriptor that a started process gets beside standard input, output and error; the others follow.
pub const FIRST_FD: RawFd = 3;

/// Name and argument by which the program knows that it is to be the launcher.
pub const CALLED: [&str; 2] = ["howdah:", "launcher"];

/// Starting a program takes milliseconds; a launcher that does not answer for so long has been stopped.
const PATIENCE: Duration = Duration::from_secs(20);

/// The launcher of this process, once it has one.
static LAUNCHER: OnceLock<Launcher> = OnceLock::new();

#[derive(Debug)]
struct Launcher {
    socket: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    socket: OwnedFd,
    // A reply that came too late must not be taken for the next one.
    serial: u32,
}

/// A process that can be started, again and again.
#[derive(Clone, Debug)]
pub struct Job(How);

#[derive(Clone, Debug)]
enum How {
    Here(Box<Recipe>),
    Launcher(u32),
}

/// Starts a launcher for this process, which must not have one: the jobs that it can do, in the order of `recipes`.
///
/// # Errors
/// When the program cannot be started again (it needs /proc), or the launcher does not answer.
pub fn start(recipes: Vec<Recipe>) -> io::Result<Vec<Job>> {
    let (ours, theirs) = socketpair_seqpacket()?;
    set_blocking(&ours)?;
    set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))?;
    let mut list =
        std::fs::File::from(rustix::fs::memfd_create(c"recipes", rustix::fs::MemfdFlags::CLOEXEC)?);
    list.write_all(&encode(&recipes))?;
    list.rewind()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(CALLED[0]).arg(CALLED[1]).process_group(0);
    // The supervisor collects children that it does not know.
    spawn(&mut command, None, &[theirs.as_fd(), list.as_fd()])?;
    let launcher = Launcher { socket: Mutex::new(Line { socket: ours, serial: 0 }) };
    launcher.ask(&[KNOCK], &[])?;
    LAUNCHER.set(launcher).map_err(|_| io::Error::other("there is a launcher already"))?;
    Ok((0..).zip(recipes).map(|(number, _)| Job(How::Launcher(number))).collect())
}

impl Job {
    /// One that this process does itself.
    #[must_use]
    pub fn here(recipe: Recipe) -> Self {
        Self(How::Here(Box::new(recipe)))
    }

    /// Starts the program. It is a child of this process, has `input` (or /dev/null) as its standard input, our
    /// standard output and error, copies of `fds` from [`FIRST_FD`] on, and nothing else of ours. `value` is that of
    /// the variable which the recipe leaves open.
    ///
    /// # Errors
    /// As [`Command::spawn`]: NotFound when there is no such program. BrokenPipe when the launcher is gone.
    pub fn start(
        &self,
        value: Option<&OsStr>,
        input: Option<BorrowedFd<'_>>,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<Pid> {
        match &self.0 {
            How::Here(recipe) => spawn(&mut recipe.command(value)?, input, fds),
            How::Launcher(number) => here()?.start(*number, value, input, fds),
        }
    }
}

fn here() -> io::Result<&'static Launcher> {
    LAUNCHER.get().ok_or_else(|| io::Error::other("there is no launcher"))
}

/// The launcher's measurement; none when this process has no launcher and can look itself.
pub(crate) fn memory_of(pid: Pid) -> Option<io::Result<Memory>> {
    let launcher = LAUNCHER.get()?;
    let mut packet = vec![MEMORY];
    packet.extend_from_slice(&pid.as_raw_pid().to_ne_bytes());
    Some(launcher.ask(&packet, &[]).map(|[private, proportional, resident]| Memory {
        private,
        proportional,
        resident,
    }))
}

// First byte of a request; behind it what is said there, behind the serial number of four bytes.
/// Nothing, to see that the launcher is there.
const KNOCK: u8 = b'k';
/// A process's number, four bytes: its memory, as three numbers.
const MEMORY: u8 = b'm';
/// The recipe's number, four bytes, and the value if there is one, behind a `=`; with it standard input, output, error
/// and the descriptors: the new process's number.
const START: u8 = b's';

/// What comes back: the serial number, an error number or 0, and three numbers.
const REPLY: usize = 4 + 4 + 3 * 8;

impl Launcher {
    fn start(
        &self,
        number: u32,
        value: Option<&OsStr>,
        input: Option<BorrowedFd<'_>>,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<Pid> {
        let mut packet = vec![START];
        packet.extend_from_slice(&number.to_ne_bytes());
        if let Some(value) = value {
            packet.push(b'=');
            packet.extend_from_slice(value.as_encoded_bytes());
        }
        let null = std::fs::File::open("/dev/null")?;
        let (output, error) = (io::stdout(), io::stderr());
        let mut all = vec![input.unwrap_or(null.as_fd()), output.as_fd(), error.as_fd()];
        all.extend_from_slice(fds);
        let [pid, ..] = self.ask(&packet, &all)?;
        i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process id"))
    }

    fn ask(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<[u64; 3]> {
        let mut line = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        line.ask(packet, fds).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::WouldBlock => {
                io::Error::new(
                    error.kind(),
                    "the launcher, which starts processes for the confined front, is gone or stopped: restart howdah",
                )
            }
            _ => error,
        })
    }
}

impl Line {
    fn ask(&mut self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<[u64; 3]> {
        self.serial = self.serial.wrapping_add(1);
        let request = [&self.serial.to_ne_bytes()[..], packet].concat();
        send_with_fds(&self.socket, &request, fds)?;
        loop {
            let mut reply = [0; REPLY];
            let (length, _) = recv_with_fds(&self.socket, &mut reply)?;
            if length != REPLY {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let mut words = &reply[..];
            let serial = u32::from_ne_bytes(take(&mut words)?);
            let error = i32::from_ne_bytes(take(&mut words)?);
            if serial != self.serial {
                continue;
            }
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            let mut number = || Ok::<_, io::Error>(u64::from_ne_bytes(take(&mut words)?));
            return Ok([number()?, number()?, number()?]);
        }
    }
}

/// The next bytes of a packet.
fn take<const N: usize>(packet: &mut &[u8]) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    packet.read_exact(&mut bytes)?;
    Ok(bytes)
}
