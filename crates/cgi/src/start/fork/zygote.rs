//! One zygote: a process that waits for launches. Threads ask it one after the other; each time it forks, and the new
//! process says who it is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_sys::{Pid, Signal, recv_with_fds, send_with_fds};
use howdah_wire::{SCRIPT_DESCRIPTORS, ScriptRecord};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::files::Files;
use super::message::{self, Report};
use crate::start::launch::Launch;

/// A zygote that does not answer for so long has been stopped, and is ended. Its requests may have longer.
const ANSWER: Duration = Duration::from_secs(5);

/// A child in a process group of its own, which ends with this value.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    pub(super) fn new(child: Child) -> Self {
        Self(child)
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has nothing to lose; what it has forked is in other groups.
        if !self.has_ended() {
            let _ = rustix::process::kill_process_group(self.pid(), Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// A script's zygote.
#[derive(Debug)]
pub(super) struct Zygote {
    /// What it has compiled.
    pub(super) files: Files,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    // None once it is of no use.
    socket: Option<OwnedFd>,
    process: Process,
}

/// Why a zygote has not forked.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It had ended before: nothing has begun.
    Gone,
    /// It has ended meanwhile, or does not answer: perhaps something has begun.
    Lost,
    /// The kernel refuses.
    System(io::Error),
}

impl Zygote {
    pub(super) fn new(process: Process, socket: OwnedFd, files: Files) -> Self {
        Self { files, inside: Mutex::new(Inside { socket: Some(socket), process }) }
    }

    /// Has it fork for a launch, whose packet this is.
    pub(super) fn fork(&self, launch: &Launch, packet: &[u8]) -> Result<Pid, Trouble> {
        let mut inside = self.lock();
        let Some(socket) = &inside.socket else { return Err(Trouble::Gone) };
        let answer = send(socket, launch, packet).and_then(|()| answer(socket));
        if matches!(answer, Err(Trouble::Gone | Trouble::Lost)) {
            inside.socket = None;
        }
        answer
    }

    /// Whether its process has ended by itself; one that is just asked has not.
    pub(super) fn has_ended(&self) -> bool {
        self.inside.try_lock().is_ok_and(|mut inside| inside.process.has_ended())
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send(socket: &OwnedFd, launch: &Launch, packet: &[u8]) -> Result<(), Trouble> {
    let fds: [_; SCRIPT_DESCRIPTORS] = [launch.stdin.as_fd(), launch.stdout.as_fd(), launch.stderr.as_fd()];
    loop {
        match send_with_fds(socket, packet, &fds) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(socket, PollFlags::OUT)?,
            Err(error) if is_end(&error) => return Err(Trouble::Gone),
            Err(error) => return Err(Trouble::System(error)),
        }
    }
}

fn answer(socket: &OwnedFd) -> Result<Pid, Trouble> {
    let mut packet = [0; size_of::<ScriptRecord>() + 1];
    loop {
        let length = match recv_with_fds(socket, &mut packet) {
            Ok((0, _)) => return Err(Trouble::Lost),
            Ok((length, _)) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(socket, PollFlags::IN)?;
                continue;
            }
            // It left the launch unread.
            Err(error) if is_end(&error) => return Err(Trouble::Gone),
            Err(_) => return Err(Trouble::Lost),
        };
        return match message::report(&packet[..length]) {
            Some(Report::Forked(pid)) => Ok(pid),
            Some(Report::Refused(number)) => Err(Trouble::System(io::Error::from_raw_os_error(number))),
            _ => Err(Trouble::Lost),
        };
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn wait(socket: &OwnedFd, wanted: PollFlags) -> Result<(), Trouble> {
    let timeout = Timespec::try_from(ANSWER).map_err(|error| Trouble::System(io::Error::other(error)))?;
    match poll(&mut [PollFd::new(socket, wanted)], Some(&timeout)) {
        Ok(1..) | Err(rustix::io::Errno::INTR) => Ok(()),
        Ok(0) => Err(Trouble::Lost),
        Err(error) => Err(Trouble::System(error.into())),
    }
}
