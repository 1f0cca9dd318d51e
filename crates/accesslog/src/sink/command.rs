//! The command of a piped log, which an `outlet` writes to.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use rustix::process::{Pid, WaitOptions, waitpid};

/// Starts a command of the shell with that as its standard input, and tells its process id.
pub type Starter = Arc<dyn Fn(&str, OwnedFd) -> io::Result<u32> + Send + Sync>;

/// Starts a command as a child of this process, with a process group of its own: a Ctrl-C in the terminal is for the
/// server, whose last lines the command is to read.
pub(super) fn start(command: &str, stdin: OwnedFd) -> io::Result<u32> {
    Ok(Command::new("/bin/sh").args(["-c", command]).stdin(stdin).process_group(0).spawn()?.id())
}

/// A command, by its process id: it was perhaps not this code that started it, but it is a child of this process.
#[derive(Debug)]
pub(super) struct Child {
    pid: Option<Pid>,
    /// How it ended, once that is known.
    ended: Option<ExitStatus>,
}

impl Child {
    pub(super) fn of(pid: u32) -> Self {
        Self { pid: i32::try_from(pid).ok().and_then(Pid::from_raw), ended: None }
    }

    /// How it ended, once it has. The id is not used again after that: it may be another process's.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        let Some(pid) = self.pid else { return Err(ErrorKind::NotFound.into()) };
        let ended = waitpid(Some(pid), WaitOptions::NOHANG);
        if !matches!(ended, Ok(None)) {
            self.pid = None;
        }
        self.ended = ended?.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        Ok(self.ended)
    }

    /// A pipe takes bytes even when its reader has just died: look before.
    pub(super) fn refuse_if_ended(&mut self) -> io::Result<()> {
        match self.try_wait() {
            Ok(Some(status)) => {
                Err(io::Error::new(ErrorKind::BrokenPipe, format!("the command ended ({status})")))
            }
            // Somebody else may have reaped it; then the pipe tells.
            Ok(None) | Err(_) => Ok(()),
        }
    }
}
