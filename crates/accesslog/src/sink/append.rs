//! Appending to a file of whatever kind: one on a disk, or one with somebody at its other end who may not read.
//!
//! Used for every log, the server's error log included.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, AtFlags, CWD, FileType, OFlags, accessat, fstat};
use rustix::io::Errno;

use super::links::open_to_write;

/// Once a pipe is ready for writing, a write of this many bytes neither blocks nor is split (POSIX PIPE_BUF on Linux).
const PIPE_PIECE: usize = 4096;
/// How long one call waits for a pipe.
const PIPE_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Opens a file to append lines to, and creates it if it is missing, with mode 0666 less the umask. Does not wait for
/// the reader of a named pipe, nor follows another's link to what is not theirs, where root is asked to ([`open_to_write`]).
///
/// # Errors
/// Of the system; with words of our own where nobody is at the other end.
pub fn append_to(path: &Path) -> io::Result<File> {
    let file = open_to_write(path, OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK, 0o666);
    let file = file.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::new(error.kind(), nobody_there(path)),
        _ if may_write(path) || !path.exists() => with_way_in(directory_of(path), error),
        _ => error,
    })?;
    // Others may get it as their standard error, and do not expect a write to fail because it would take a moment.
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// Says it where a file is refused though its `directory` may be written to: a confined process may do so in those alone that were
/// there when it was confined, by whatever name.
#[must_use]
pub fn with_way_in(directory: &Path, error: io::Error) -> io::Error {
    if Errno::from_io_error(&error) != Some(Errno::ACCESS) || !may_write(directory) {
        return error;
    }
    let said = format!(
        "{error}, though the rights of {} allow it: the front may write only to directories that were there when it started; howdah upgrade \
         gives it this one",
        directory.display()
    );
    io::Error::new(error.kind(), said)
}

fn may_write(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Why the system finds nobody at the other end. /dev/stdout is a socket where a service manager listens, as systemd does.
fn nobody_there(path: &Path) -> &'static str {
    let kind = path.metadata().map(|metadata| metadata.file_type());
    match kind {
        Ok(kind) if kind.is_socket() => {
            "it is a socket, which cannot be opened; standard output is - and standard error needs no name"
        }
        Ok(kind) if kind.is_char_device() || kind.is_block_device() => {
            "it is a device that is not there, as /dev/tty is without a terminal"
        }
        _ => "it is a named pipe that nobody reads: start its reader first",
    }
}

/// Writes some of `lines`, at best all of it. Waits at most a few milliseconds for a pipe, a terminal or a socket, then
/// says WouldBlock; a file on a disk takes as long as it takes.
///
/// # Errors
/// Of the system.
pub fn write_lines(to: BorrowedFd<'_>, lines: &[u8]) -> io::Result<usize> {
    let is_plain = FileType::from_raw_mode(fstat(to)?.st_mode) == FileType::RegularFile;
    match if is_plain { rustix::io::write(to, lines)? } else { write_pipe(to, lines)? } {
        0 => Err(ErrorKind::WriteZero.into()),
        length => Ok(length),
    }
}

/// Writes whole lines as far as they fit into a piece, so that they mix with no other writer's.
pub(super) fn write_pipe(pipe: BorrowedFd<'_>, lines: &[u8]) -> io::Result<usize> {
    let mut ready = [PollFd::new(&pipe, PollFlags::OUT)];
    if poll(&mut ready, Some(&PIPE_WAIT))? == 0 {
        return Err(ErrorKind::WouldBlock.into());
    }
    Ok(rustix::io::write(pipe, piece(lines))?)
}

fn piece(lines: &[u8]) -> &[u8] {
    let most = &lines[..lines.len().min(PIPE_PIECE)];
    let end = most.iter().rposition(|byte| *byte == b'\n').map_or(most.len(), |at| at + 1);
    &most[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::os::fd::AsFd;

    #[test]
    fn a_piece_ends_with_a_line() {
        assert_eq!(piece(b"one\ntwo"), b"one\n");
        assert_eq!(piece(b"no end"), b"no end");
        let long = [b'x'; 5000];
        assert_eq!(piece(&long).len(), PIPE_PIECE);
        let two = [vec![b'x'; 3000], b"\n".to_vec(), vec![b'y'; 3000]].concat();
        assert_eq!(piece(&two).len(), 3001);
    }

    #[test]
    fn who_is_refused_in_spite_of_his_rights_hears_of_directories_that_are_new() {
        let dir = tempfile::tempdir().unwrap();
        let told = |directory: &Path, errno: Errno| with_way_in(directory, errno.into()).to_string();
        let said = told(dir.path(), Errno::ACCESS);
        assert!(
            said.starts_with("Permission denied") && said.ends_with("howdah upgrade gives it this one"),
            "{said}"
        );
        for (directory, errno) in [(dir.path(), Errno::NOSPC), (Path::new("/nonexistent"), Errno::ACCESS)] {
            assert_eq!(told(directory, errno), io::Error::from(errno).to_string());
        }
    }

    #[test]
    fn a_socket_is_no_named_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = append_to(&path).unwrap_err();
        assert!(error.to_string().contains("it is a socket"), "{error}");
    }

    #[test]
    fn a_named_pipe_without_a_reader_is_told_instead_of_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap();
        let error = append_to(&path).unwrap_err();
        assert!(error.to_string().contains("named pipe that nobody reads"), "{error}");
        let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let writer = append_to(&path).unwrap();
        let lines = b"0123456789\n".repeat(10_000);
        let mut written = 0;
        let error = loop {
            match write_lines(writer.as_fd(), &lines) {
                Ok(length) => written += length,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(written >= PIPE_PIECE);
        drop(reader);
        assert_eq!(write_lines(writer.as_fd(), &lines).unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
