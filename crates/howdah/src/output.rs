//! What commands print on standard output, and the files that they leave.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Context;
use howdah_metrics::printable;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::directory;

/// What could not be done, when a disk is full for instance.
pub(crate) const WHERE: &str = "cannot write to standard output";

/// Writes it at once. A reader that has seen enough (`howdah status | head`) is no failure.
///
/// # Errors
/// When it cannot be written, which is told of standard output.
pub(crate) fn write(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    match put(io::stdout().lock(), text.as_ref()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context(WHERE),
        _ => Ok(()),
    }
}

/// A program that has the same pipe, such as ssh or whoever started us, may have made it non-blocking.
fn put(mut out: impl Write + AsFd, mut text: &[u8]) -> io::Result<()> {
    loop {
        let done = if text.is_empty() { out.flush().map(|()| 0) } else { out.write(text) };
        match done {
            Ok(0) if text.is_empty() => return Ok(()),
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => text = &text[length..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&out)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn wait(out: impl AsFd) -> io::Result<()> {
    match poll(&mut [PollFd::new(&out, PollFlags::OUT)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The same lines for a terminal. What a server or an application says may come from anybody, so that nothing of it goes
/// there but text.
pub(crate) fn for_people(text: &str) -> String {
    text.lines().map(|line| printable(line.as_bytes()) + "\n").collect()
}

/// Whether a file can be written, said before a look that would be in vain. It is not made yet: nothing is left, however that ends.
///
/// # Errors
/// When it cannot, with the way out.
pub(crate) fn check_file(file: &Path) -> anyhow::Result<()> {
    let place = if file.exists() { file } else { directory::of(file) };
    access(place, Access::WRITE_OK).with_context(|| cannot_write(file))
}

/// What could not be done, and the way out.
pub(crate) fn cannot_write(file: &Path) -> String {
    format!("cannot write {}: name another by --output", file.display())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::BorrowedFd;

    use super::*;

    /// Standard output has such a buffer.
    struct Buffered(io::LineWriter<io::PipeWriter>);

    impl AsFd for Buffered {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.get_ref().as_fd()
        }
    }

    impl Write for Buffered {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    #[test]
    fn a_pipe_that_somebody_has_made_non_blocking_takes_all() {
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
        let text = "a line\n".repeat(100_000) + "and no end";
        let reads = std::thread::spawn(move || {
            let mut all = String::new();
            reader.read_to_string(&mut all).map(|_| all)
        });
        put(Buffered(io::LineWriter::new(writer)), text.as_bytes()).unwrap();
        assert!(reads.join().unwrap().unwrap() == text);
    }
}
