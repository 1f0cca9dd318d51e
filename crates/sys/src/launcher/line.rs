//! What front and launcher say to each other, and the front's end of the socket to one launcher.
//!
//! ```text
//! to the launcher:    serial number (4 bytes), end of its time in nanoseconds of CLOCK_MONOTONIC (8), and one of
//!                     k                                 nothing, to see that it is there
//!                     m <process, 4 bytes>              its memory, as three numbers
//!                     s <recipe, 4 bytes> [=<value>]    + standard input, output, error, the descriptors, and a pipe by
//!                                                       which the new process tells why it cannot execute: the kernel's
//!                                                       number, or 0 and a sentence
//!                     d                                 + socket: a launcher like it at that, whose number it is
//!                     a                                 + descriptors that go ahead of the question with this serial number, for
//!                                                       which one packet has no room: nothing is answered
//! from the launcher:  serial number, error number or 0 (4 bytes each), letter of the question, three numbers (8 bytes each)
//! ```
//!
//! Nothing comes with an answer: the kernel may refuse to pass descriptors, and what has been done is to be told.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::channel::{MAX_FDS, recv_with_fds, send_with_fds, socketpair_seqpacket};
use crate::clock::monotonic_ns;
use crate::process::{Pid, Process, Signal, end_child};
use crate::readable::is_readable_within;

pub(super) const KNOCK: u8 = b'k';
pub(super) const MEMORY: u8 = b'm';
pub(super) const START: u8 = b's';
pub(super) const DOUBLE: u8 = b'd';
pub(super) const AHEAD: u8 = b'a';

/// Bytes of an answer.
pub(super) const REPLY: usize = 4 + 4 + 1 + 3 * 8;

/// A launcher that works answers within milliseconds, also when it starts something: it does not wait for that.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What a launcher is asked.
#[derive(Debug)]
pub(super) struct Question {
    words: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// What it says.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) numbers: [u64; 3],
    /// A program was started, and not a launcher or nothing.
    started: bool,
}

/// Why it does not say it.
#[derive(Debug)]
pub(super) enum Failure {
    /// Its process has ended.
    Gone,
    /// It does not answer: it has been stopped, or hangs.
    Silent,
    /// It cannot.
    Refused(io::Error),
}

impl Question {
    pub(super) fn knock() -> Self {
        Self { words: vec![KNOCK], fds: Vec::new() }
    }

    pub(super) fn memory(pid: Pid) -> Self {
        Self { words: [&[MEMORY][..], &pid.as_raw_pid().to_ne_bytes()].concat(), fds: Vec::new() }
    }

    /// `fds` begin with standard input, output and error, and end with the pipe.
    pub(super) fn start(number: u32, value: Option<&OsStr>, fds: Vec<OwnedFd>) -> Self {
        let mut words = [&[START][..], &number.to_ne_bytes()].concat();
        if let Some(value) = value {
            words.push(b'=');
            words.extend_from_slice(value.as_encoded_bytes());
        }
        Self { words, fds }
    }

    fn double(socket: OwnedFd) -> Self {
        Self { words: vec![DOUBLE], fds: vec![socket] }
    }

    /// What must not happen twice.
    pub(super) fn is_deed(&self) -> bool {
        self.words.first() == Some(&START)
    }
}

impl Answer {
    /// The process that was started.
    pub(super) fn pid(&self) -> Option<Pid> {
        i32::try_from(self.numbers[0]).ok().and_then(Pid::from_raw)
    }

    /// Ends the process that was started, if one was.
    pub(super) fn undo(&self) {
        if let (true, Some(pid)) = (self.started, self.pid()) {
            end_child(pid);
        }
    }
}

impl Failure {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Silent,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Gone,
            _ => Self::Refused(error),
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Gone => Self::new(io::ErrorKind::BrokenPipe, "the launcher is gone"),
            Failure::Silent => Self::new(io::ErrorKind::TimedOut, "the launcher does not answer"),
            Failure::Refused(error) => error,
        }
    }
}

/// One launcher.
#[derive(Debug)]
pub(super) struct Line {
    socket: OwnedFd,
    process: Process,
    // An answer that came too late must not be taken for the next one.
    serial: u32,
    silent: bool,
    gone: bool,
}

impl Line {
    /// `socket` must not block.
    pub(super) fn new(socket: OwnedFd, process: Process) -> Self {
        Self { socket, process, serial: 0, silent: false, gone: false }
    }

    pub(super) fn pid(&self) -> Pid {
        self.process.pid()
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// It lives, and has answered what it was asked.
    pub(super) fn is_well(&self) -> bool {
        !self.silent && !self.gone
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Asks, and waits for the answer. A launcher that comes to the question later than we wait for it leaves it alone;
    /// what it started in the very last moment is ended by [`Line::look`].
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) fn ask(&mut self, question: &Question, patience: Duration) -> Result<Answer, Failure> {
        let outcome = self.try_ask(question, patience);
        match &outcome {
            Err(Failure::Gone) => self.gone = true,
            Err(Failure::Silent) => self.silent = true,
            Ok(_) | Err(Failure::Refused(_)) => {}
        }
        outcome
    }

    /// Forks another launcher from it.
    ///
    /// # Errors
    /// When the system gives no descriptors or no process, or one of the two does not answer.
    pub(super) fn double(&mut self) -> io::Result<Self> {
        let (ours, theirs) = socketpair_seqpacket()?;
        let answer = self.ask(&Question::double(theirs), PATIENCE)?;
        let pid = answer.pid().ok_or(io::ErrorKind::InvalidData)?;
        let mut other = Self::new(ours, Process::open(pid));
        other.ask(&Question::knock(), PATIENCE)?;
        Ok(other)
    }

    /// Takes what has come unasked: late answers, which show that it is well again, or its end.
    pub(super) fn look(&mut self) {
        loop {
            match self.receive() {
                Ok((_, answer)) => self.heard_late(&answer),
                Err(Failure::Gone) => return self.gone = true,
                Err(_) => return,
            }
        }
    }

    /// Hangs up, upon which the process ends.
    pub(super) fn close(self) -> Process {
        self.process
    }

    /// Ends its process for good, also when that has been stopped.
    pub(super) fn end(&self) {
        // It may have ended by itself.
        let _ = self.process.signal(Signal::KILL);
    }

    fn try_ask(&mut self, question: &Question, patience: Duration) -> Result<Answer, Failure> {
        self.serial = self.serial.wrapping_add(1);
        let until = monotonic_ns() + u64::try_from(patience.as_nanos() / 2).unwrap_or(u64::MAX / 2);
        let head = [&self.serial.to_ne_bytes()[..], &until.to_ne_bytes()].concat();
        let fds: Vec<_> = question.fds.iter().map(AsFd::as_fd).collect();
        let say = |words: &[u8], fds: &[BorrowedFd<'_>]| {
            send_with_fds(&self.socket, &[&head, words].concat(), fds).map_err(Failure::of)
        };
        // A server may have more listeners than one packet has room for, all of which its successor is to get.
        let (ahead, last) = fds.split_at(fds.len().saturating_sub(1) / MAX_FDS * MAX_FDS);
        ahead.chunks(MAX_FDS).try_for_each(|fds| say(&[AHEAD], fds))?;
        say(&question.words, last)?;
        // After a pause of the whole machine or container the time is up before anybody could answer.
        for _ in 0..2 {
            if let Some(answer) = self.hear(patience / 2)? {
                return answer;
            }
        }
        Err(Failure::Silent)
    }

    /// The answer to the present question, if it comes in this time.
    fn hear(&mut self, patience: Duration) -> Result<Option<Result<Answer, Failure>>, Failure> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if !is_readable_within(&self.socket, left).map_err(Failure::Refused)? {
                return Ok(None);
            }
            match self.receive() {
                Ok((serial, answer)) if serial == self.serial => return Ok(Some(answer)),
                Ok((_, answer)) => self.heard_late(&answer),
                Err(Failure::Silent) => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    fn heard_late(&mut self, answer: &Result<Answer, Failure>) {
        self.silent = false;
        // Whoever asked does not know what was started, and never will.
        if let Ok(answer) = answer {
            answer.undo();
        }
    }

    /// An answer, with its serial number.
    fn receive(&self) -> Result<(u32, Result<Answer, Failure>), Failure> {
        let mut packet = [0; REPLY];
        let (length, _) = recv_with_fds(&self.socket, &mut packet).map_err(Failure::of)?;
        if length != REPLY {
            return Err(Failure::Gone);
        }
        parse(&packet).map_err(Failure::Refused)
    }
}

fn parse(mut packet: &[u8]) -> io::Result<(u32, Result<Answer, Failure>)> {
    let serial = u32::from_ne_bytes(take(&mut packet)?);
    let error = i32::from_ne_bytes(take(&mut packet)?);
    let started = take(&mut packet)? == [START];
    let mut number = || Ok::<_, io::Error>(u64::from_ne_bytes(take(&mut packet)?));
    let numbers = [number()?, number()?, number()?];
    let answer = match error {
        0 => Ok(Answer { numbers, started }),
        _ => Err(Failure::Refused(io::Error::from_raw_os_error(error))),
    };
    Ok((serial, answer))
}

/// The next bytes of a packet.
pub(super) fn take<const N: usize>(packet: &mut &[u8]) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    packet.read_exact(&mut bytes)?;
    Ok(bytes)
}
