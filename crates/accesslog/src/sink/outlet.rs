//! The far end of a sink: an open file, standard output, or the standard input of a command.

use std::fs::File;
use std::io::{self, ErrorKind, PipeWriter};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::append::{append_to, write_lines, write_pipe};
use super::command::{Child, Starter};
use super::target::Target;

/// How often the end of a command is looked for.
const STEP: Duration = Duration::from_millis(5);

pub(super) struct Outlet {
    target: Target,
    starter: Starter,
    end: End,
}

#[derive(Debug)]
enum End {
    File(File),
    Stdout,
    Command { child: Child, stdin: PipeWriter },
}

impl Outlet {
    pub(super) fn open(target: &Target, starter: Starter) -> io::Result<Self> {
        Ok(Self { target: target.clone(), end: End::open(target, &starter)?, starter })
    }

    /// Writes some of `lines`, at best all of it. Waits at most a few milliseconds for a pipe, then says WouldBlock.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let written = match &mut self.end {
            End::File(file) => write_lines(file.as_fd(), lines),
            End::Stdout => write_pipe(io::stdout().as_fd(), lines),
            End::Command { child, stdin } => {
                child.refuse_if_ended()?;
                write_pipe(stdin.as_fd(), lines)
            }
        };
        written.and_then(|bytes| if bytes == 0 { Err(ErrorKind::WriteZero.into()) } else { Ok(bytes) })
    }

    /// Whether a new end would be a new chance: the command has died.
    pub(super) fn can_restart(&self) -> bool {
        matches!(self.target, Target::Command(_))
    }

    /// Starts the command anew.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        self.end = End::open(&self.target, &self.starter)?;
        Ok(())
    }

    /// Opens the file anew; nothing for the others.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if matches!(self.end, End::File(_)) {
            self.end = End::open(&self.target, &self.starter)?;
        }
        Ok(())
    }

    /// Removes the last `bytes` of a file again: the beginning of a line whose rest cannot be written.
    /// Says whether it is gone.
    pub(super) fn take_back(&mut self, bytes: usize) -> bool {
        let End::File(file) = &self.end else { return false };
        let Ok(metadata) = file.metadata() else { return false };
        let shorter = metadata.len().checked_sub(bytes as u64).filter(|_| metadata.is_file());
        shorter.is_some_and(|len| file.set_len(len).is_ok())
    }

    /// Ends the input of a command and waits for it, at most until `deadline`.
    pub(super) fn finish(self, deadline: Instant) {
        if let End::Command { mut child, stdin } = self.end {
            drop(stdin);
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(STEP);
            }
        }
    }
}

impl End {
    fn open(target: &Target, starter: &Starter) -> io::Result<Self> {
        Ok(match target {
            Target::Stdout => Self::Stdout,
            Target::File(path) => Self::File(append_to(path)?),
            Target::Command(command) => {
                let (reader, stdin) = io::pipe()?;
                let pid = starter(command, reader.into())?;
                Self::Command { child: Child::of(pid), stdin }
            }
        })
    }
}
