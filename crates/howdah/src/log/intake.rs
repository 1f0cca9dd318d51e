//! The pipe that is Perl's standard error, and the thread that reads it: always, also while the log cannot be written,
//! because workers wait when the pipe is full.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use howdah_supervisor::{Errors, Secret};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use super::line::{Message, Source};
use super::look::{Look, look};
use super::outlet::{begin_writing, deadline, write_patiently};
use super::records::Records;
use crate::options::logs::Level;

/// What is read at once.
const PIECE: usize = 64 * 1024;
/// What the pipe holds, where the system allows that.
const PIPE: usize = 256 * 1024;
/// Who opens /dev/stderr opens the pipe anew, by its mode, and is another user where `--user` is given. There is no way to it but
/// `/proc/PID/fd` of a process that has it, into which that one's user and root alone may look.
const OPENED_BY_ALL: Mode = Mode::from_raw_mode(0o622);
/// The thread rests so long after it has read, unless there was much: whoever writes meanwhile has nobody to wake, and so
/// an application that writes a line for each request costs few wake-ups.
const REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
/// A line that has begun is written without its end when nothing has come to it for so long; for twice as long at most, while
/// others have more to say.
const PAUSE: Duration = Duration::from_millis(100);

/// The thread. Dropping it writes what has come through the pipe so far, and ends it.
#[derive(Debug)]
pub(crate) struct Intake {
    thread: Option<JoinHandle<()>>,
    /// Its other end is closed to end the thread.
    stop: Option<OwnedFd>,
}

impl Intake {
    /// Starts the thread. The second value is for the zygotes.
    ///
    /// # Errors
    /// When the system gives no pipe or no thread.
    pub(crate) fn start() -> io::Result<(Self, Errors)> {
        begin_writing()?;
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let _ = rustix::fs::fchmod(&writer, OPENED_BY_ALL);
        rustix::io::ioctl_fionbio(&reader, true)?;
        let _ = fcntl_setpipe_size(&reader, PIPE);
        let much = fcntl_getpipe_size(&reader)? / 8;
        let (ended, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let secret = letters(howdah_sys::random()?);
        let records = Records::new([&b"\x1e"[..], &secret[..]].concat());
        let looked = Instant::now();
        let body = move || Reader { reader, much, ended, records, look: look(), looked }.run();
        let thread = std::thread::Builder::new().name("error-log".into()).spawn(body)?;
        Ok((Self { thread: Some(thread), stop: Some(stop) }, Errors { pipe: writer, secret }))
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        deadline();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Letters that nobody can guess who cannot guess the number.
fn letters(number: u64) -> Secret {
    format!("{number:016x}").into_bytes().try_into().expect("64 bits are 16 digits")
}

struct Reader {
    reader: OwnedFd,
    /// So many bytes at a time that the pipe could be full before long.
    much: usize,
    ended: OwnedFd,
    records: Records,
    look: Look,
    /// When lines without an end were looked for.
    looked: Instant,
}

impl Reader {
    fn run(mut self) {
        let mut piece = vec![0; PIECE];
        while self.wait() {
            let mut length = 0;
            while length < PIPE
                && let Some(more) = self.read(&mut piece)
            {
                length += more;
            }
            self.look_at_open();
            if length < self.much {
                self.rest();
            }
        }
        // There may be those who never cease.
        let deadline = deadline();
        while self.read(&mut piece).is_some() && Instant::now() < deadline {}
        self.flush();
    }

    /// False at the end of the server.
    fn wait(&mut self) -> bool {
        let mut fds = [
            PollFd::from_borrowed_fd(self.reader.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.ended.as_fd(), PollFlags::IN),
        ];
        let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos().into() };
        let ready = poll(&mut fds, self.records.has_open().then_some(&pause));
        let ended = !fds[1].revents().is_empty();
        // Nobody has the pipe, or has it no longer.
        let abandoned = fds[0].revents() == PollFlags::HUP;
        if ready == Ok(0) {
            self.flush();
        }
        !ended && !abandoned
    }

    /// Lets lines gather, unless the server ends.
    fn rest(&self) {
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.ended.as_fd(), PollFlags::IN)], Some(&REST));
    }

    /// The bytes that were there; there may be more of them. None when there was nothing.
    fn read(&mut self, piece: &mut [u8]) -> Option<usize> {
        let length = rustix::io::read(&self.reader, &mut *piece).ok().filter(|&length| length > 0)?;
        self.write(|records, line| records.take(&piece[..length], line));
        Some(length)
    }

    fn flush(&mut self) {
        self.write(|records, line| records.flush(line));
    }

    /// Those who never cease must not keep the last words of others.
    fn look_at_open(&mut self) {
        if self.records.has_open() && self.looked.elapsed() >= PAUSE {
            self.looked = Instant::now();
            self.write(|records, line| records.look(line));
        }
    }

    /// Writes what the records give.
    fn write(&mut self, ask: impl FnOnce(&mut Records, &mut dyn FnMut(Level, &Source, &[u8]))) {
        let mut lines = Vec::new();
        let (look, time) = (self.look, Timestamp::now());
        ask(&mut self.records, &mut |level, source, text| {
            look.render(&Message { time, level, source, text, fields: &[] }, &mut lines);
        });
        if !lines.is_empty() {
            write_patiently(&lines);
        }
    }
}
