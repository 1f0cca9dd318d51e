//! The far end of a sink: an open file, standard output, or the standard input of a command.

use std::fs::File;
use std::io::{self, ErrorKind, Seek};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::append::{append_to, write_lines, write_pipe};
use super::command::{Child, Starter};
use super::pending::lines;
use super::pipe::Pipe;
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
    Command { child: Child, pipe: Pipe },
}

impl Outlet {
    pub(super) fn open(target: &Target, starter: Starter) -> io::Result<Self> {
        Ok(Self { target: target.clone(), end: End::open(target, &starter)?, starter })
    }

    /// Writes some of `text`, at best all of it. Waits at most a few milliseconds for a pipe, then says WouldBlock.
    pub(super) fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let written = match &mut self.end {
            End::File(file) => write_lines(file.as_fd(), text),
            End::Stdout => write_pipe(io::stdout().as_fd(), text),
            End::Command { child, pipe } => {
                child.refuse_if_ended()?;
                pipe.write(text)
            }
        };
        written.and_then(|bytes| if bytes == 0 { Err(ErrorKind::WriteZero.into()) } else { Ok(bytes) })
    }

    /// Of lines that were `written` since this was asked last, those that have arrived: all of them, but in the pipe to a command,
    /// where it is those that the command has read meanwhile.
    pub(super) fn arrived(&mut self, written: u64) -> u64 {
        match &mut self.end {
            End::Command { pipe, .. } => pipe.look(),
            End::File(_) | End::Stdout => written,
        }
    }

    /// Whether the command may still read what it was given, when that was asked last.
    pub(super) fn is_unread(&self) -> bool {
        matches!(&self.end, End::Command { pipe, .. } if !pipe.is_empty())
    }

    /// Whether lines that are handed over arrive, as far as is known: a command that was started has read some.
    pub(super) fn is_taken(&self) -> bool {
        !matches!(&self.end, End::Command { pipe, .. } if !pipe.is_read())
    }

    /// Says if the command has ended without having read all.
    pub(super) fn refuse_if_left(&mut self) -> io::Result<()> {
        match &mut self.end {
            End::Command { child, pipe } if !pipe.is_empty() => child.refuse_if_ended(),
            _ => Ok(()),
        }
    }

    /// Whether a new end would be a new chance: the command has died.
    pub(super) fn can_restart(&self) -> bool {
        matches!(self.target, Target::Command(_))
    }

    /// Starts the command anew. Returns what the one before was given and has not read by the last look, whole lines.
    pub(super) fn restart(&mut self) -> io::Result<Vec<u8>> {
        let before = std::mem::replace(&mut self.end, End::open(&self.target, &self.starter)?);
        Ok(match before {
            End::Command { mut pipe, .. } => pipe.take_back(),
            End::File(_) | End::Stdout => Vec::new(),
        })
    }

    /// Opens the file anew; nothing for the others.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if matches!(self.end, End::File(_)) {
            self.end = End::open(&self.target, &self.starter)?;
        }
        Ok(())
    }

    /// Removes the last `bytes` of a file again: the beginning of a line whose rest cannot be written.
    /// Says whether it is gone. Where somebody else has written behind it, or has cut the file, it stays as it is.
    pub(super) fn take_back(&mut self, bytes: usize) -> bool {
        let End::File(file) = &mut self.end else { return false };
        let Ok(metadata) = file.metadata() else { return false };
        // Where our last write has ended, as the kernel has it for a file that is appended to.
        let Ok(end) = file.stream_position() else { return false };
        let is_last = metadata.is_file() && metadata.len() == end;
        let shorter = end.checked_sub(bytes as u64).filter(|_| is_last);
        shorter.is_some_and(|len| file.set_len(len).is_ok())
    }

    /// Lines that a command has not read, but may: it lives, and nobody takes its pipe away.
    pub(super) fn bequeathed(&mut self) -> u64 {
        let End::Command { child, pipe } = &mut self.end else { return 0 };
        child.refuse_if_ended().map_or(0, |()| lines(&pipe.take_back()))
    }

    /// Ends the input of a command and waits for it, at most until `deadline`.
    pub(super) fn finish(self, deadline: Instant) {
        if let End::Command { mut child, pipe } = self.end {
            drop(pipe);
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
                Self::Command { child: Child::of(pid), pipe: Pipe::new(stdin) }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn only_what_it_has_written_last_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let starter: Starter = Arc::new(|_, _| Err(ErrorKind::Unsupported.into()));
        let mut outlet = Outlet::open(&Target::File(path.clone()), starter).unwrap();
        let content = || std::fs::read_to_string(&path).unwrap();
        let mut other = append_to(&path).unwrap();
        other.write_all(b"theirs\n").unwrap();
        outlet.write(b"ours\nhalf").unwrap();
        assert!(outlet.take_back(4));
        assert_eq!(content(), "theirs\nours\n");
        outlet.write(b"half").unwrap();
        other.write_all(b" theirs\n").unwrap();
        assert!(!outlet.take_back(4), "another process has written behind it");
        assert_eq!(content(), "theirs\nours\nhalf theirs\n");
        outlet.write(b"half").unwrap();
        other.set_len(7).unwrap();
        assert!(!outlet.take_back(4), "somebody has cut the file");
        assert_eq!(content(), "theirs\n");
    }
}
