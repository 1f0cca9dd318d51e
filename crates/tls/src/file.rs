//! Reads a file that an option names, which may be a pipe at a start (`--tls-key <(decrypt KEY)`): it is waited for as long as a
//! program takes that writes it, and no longer. A FIFO to which nobody writes would else keep a start waiting without a word.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// Time for whoever writes into a pipe, in all.
const PATIENCE: Duration = Duration::from_secs(30);

/// All bytes of it, and one more than `most` where there are more.
///
/// # Errors
/// When it cannot be read, or not in that time.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_within(path, most, PATIENCE)
}

fn read_within(path: &Path, most: u64, patience: Duration) -> io::Result<Vec<u8>> {
    let end = Instant::now() + patience;
    // Who would wait for a writer does not come back from the call that opens a FIFO.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    let (is_regular, mut from, mut bytes) = (file.metadata()?.is_file(), (&file).take(most + 1), Vec::new());
    loop {
        if !is_regular && !is_ready(&file, end)? {
            return Err(io::Error::new(ErrorKind::TimedOut, "it is a pipe, and nobody writes to it"));
        }
        // What has come stands in `bytes` whatever is returned.
        match from.read_to_end(&mut bytes) {
            Ok(_) => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_ready(file: &std::fs::File, end: Instant) -> io::Result<bool> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let time = Timespec::try_from(left).map_err(|_| ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&time)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_pipe_is_read_to_its_end_and_one_without_a_writer_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let silent = read_within(&fifo, 10, Duration::from_millis(50)).unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::TimedOut, "{silent}");

        let other = fifo.clone();
        let writer = std::thread::spawn(move || {
            let mut to = OpenOptions::new().write(true).open(other).unwrap();
            for part in ["some ", "words"] {
                to.write_all(part.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        assert_eq!(read_file(&fifo, 100).unwrap(), b"some words");
        writer.join().unwrap();

        let plain = dir.path().join("plain");
        std::fs::write(&plain, "words").unwrap();
        assert_eq!(read_within(&plain, 3, Duration::ZERO).unwrap(), b"word", "one more than was wanted");
        assert_eq!(read_file(Path::new("/dev/null"), 3).unwrap(), b"");
    }
}
