//! The pipe to a command. What the command has not read yet is kept, for the next one should this one die.

use std::io::{self, PipeWriter};
use std::os::fd::AsFd;

use rustix::io::ioctl_fionread;

use super::append::write_pipe;
use super::pending::Pending;

#[derive(Debug)]
pub(super) struct Pipe {
    stdin: PipeWriter,
    /// What is in the pipe, from the beginning of its first line on: no more than a pipe holds, and a line.
    held: Pending,
    /// The command has read something.
    is_read: bool,
}

impl Pipe {
    pub(super) fn new(stdin: PipeWriter) -> Self {
        Self { stdin, held: Pending::default(), is_read: false }
    }

    /// As [`write_pipe`].
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let bytes = write_pipe(self.stdin.as_fd(), lines)?;
        self.held.push(&lines[..bytes]);
        Ok(bytes)
    }

    /// Lines that the command has read whole since the last look.
    pub(super) fn look(&mut self) -> u64 {
        // A system that does not tell has taken all.
        let unread =
            ioctl_fionread(&self.stdin).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let read = self.held.rest().len().saturating_sub(unread);
        self.is_read |= read > 0;
        let lines = self.held.advance(read);
        self.held.forget();
        lines
    }

    /// Whether the last look has found nothing unread.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_done()
    }

    pub(super) fn is_read(&self) -> bool {
        self.is_read
    }

    /// What is left of it, beginning with a whole line.
    pub(super) fn take_back(&mut self) -> Vec<u8> {
        self.held.rewind();
        std::mem::take(&mut self.held).text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_the_command_has_not_read_is_taken_back_from_the_beginning_of_its_line() {
        // (bytes read, lines that are read whole by then, what comes back)
        for (read, lines, back) in [
            (0, 0, "one\ntwo\nthr"),
            (3, 0, "one\ntwo\nthr"),
            (4, 1, "two\nthr"),
            (6, 1, "two\nthr"),
            (11, 2, "thr"),
        ] {
            let (mut reader, stdin) = io::pipe().unwrap();
            let mut pipe = Pipe::new(stdin);
            assert_eq!(pipe.write(b"one\n").unwrap(), 4);
            assert_eq!(pipe.write(b"two\nthr").unwrap(), 4, "whole lines, as far as there are some");
            assert_eq!(pipe.write(b"thr").unwrap(), 3);
            reader.read_exact(&mut vec![0; read]).unwrap();
            assert_eq!((pipe.look(), pipe.look()), (lines, 0), "{read}");
            assert_eq!((pipe.is_empty(), pipe.is_read()), (read == 11, read > 0), "{read}");
            drop(reader);
            assert_eq!(pipe.look(), 0, "its end reads nothing");
            assert_eq!(String::from_utf8(pipe.take_back()).unwrap(), back, "{read}");
        }
    }

    #[test]
    fn no_more_is_kept_than_is_in_the_pipe() {
        let (mut reader, stdin) = io::pipe().unwrap();
        let mut pipe = Pipe::new(stdin);
        for _ in 0..1000 {
            let bytes = pipe.write(&b"0123456789\n".repeat(300)).unwrap();
            reader.read_exact(&mut vec![0; bytes - 5]).unwrap();
            pipe.look();
            assert_eq!(pipe.held.text.len(), 11);
            reader.read_exact(&mut [0; 5]).unwrap();
            pipe.look();
            assert_eq!(pipe.held.text.len(), 0);
        }
    }
}
