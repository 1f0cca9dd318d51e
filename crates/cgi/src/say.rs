//! What goes to the error log: lines of scripts, and what this host has to say of them, each with the request that it belongs
//! to. Standard error is a pipe to the front; `crates/howdah/src/log` reads it, and `xs/errors.c` writes the same records for
//! Perl.
//!
//! ```text
//! MARK level \x1f pid \x1f worker or - \x1f request id \x1f method \x1f target \x1f length \n bytes
//! ```

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::message::Secret;
use crate::request::Request;

/// A pipe takes so many bytes as a whole, so no two records mix.
const RECORD: usize = 4096;
/// Bytes of a word, and of a target, that are shown.
const LONGEST: (usize, usize) = (128, 512);

/// How much an operator should mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
}

/// Whose words they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Who {
    /// The process.
    pub(crate) pid: u32,
    /// None for the host itself.
    pub(crate) worker: Option<u16>,
    /// Id, method and target of its request, harmless, parted and ended by separators.
    request: Vec<u8>,
}

impl Who {
    /// The process `pid`, at work for `worker` on a request.
    pub(crate) fn at_work(pid: u32, worker: u16, request: &Request) -> Self {
        let mut words = Vec::new();
        let id = request.field(b"HTTP_X_REQUEST_ID").unwrap_or_default();
        for (word, longest) in [(id, LONGEST.0), (&request.method, LONGEST.0), (&request.uri, LONGEST.1)] {
            let plain = |&byte: &u8| if byte < b' ' || byte == 0x7f { b'?' } else { byte };
            words.extend(word.iter().take(longest).map(plain));
            words.push(0x1f);
        }
        Self { pid, worker: Some(worker), request: words }
    }

    /// The host.
    pub(crate) fn host() -> Self {
        Self { pid: std::process::id(), worker: None, request: vec![0x1f; 3] }
    }
}

/// Standard error.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    secret: Option<Secret>,
}

impl Errors {
    pub(crate) fn new(secret: Option<Secret>) -> Self {
        Self { secret }
    }

    /// Says these lines. A log that cannot be written is nothing that could be said.
    pub(crate) fn say(&self, level: Level, who: &Who, text: &[u8]) {
        let header = self.header(level, who);
        let most = RECORD - header.len() - 16;
        for piece in text.chunks(most) {
            let record = match self.secret {
                Some(_) => [&header[..], piece.len().to_string().as_bytes(), b"\n", piece].concat(),
                None => piece.to_vec(),
            };
            let mut rest = &record[..];
            while let Ok(written @ 1..) = write(io::stderr(), rest) {
                rest = &rest[written..];
            }
        }
    }

    /// Before anybody has said where standard error goes.
    pub(crate) fn say_plainly(&self, text: &str) {
        let _ = write(io::stderr(), text.as_bytes());
    }

    fn header(&self, level: Level, who: &Who) -> Vec<u8> {
        let level = match level {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
        };
        let worker = who.worker.map_or("-".to_owned(), |worker| worker.to_string());
        let start = format!("{level}\x1f{}\x1f{worker}\x1f", who.pid);
        [&b"\x1e"[..], &self.secret.unwrap_or_default(), start.as_bytes(), &who.request].concat()
    }
}

/// At once, past the buffers of the standard library: a record is one write. Waits for room, also where a program that an
/// application runs has made the pipe non-blocking, which holds for all who write there.
fn write(log: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::io::write(&log, bytes) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&log, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
            other => return Ok(other?),
        }
    }
}

/// What a script writes to its standard error, line by line.
#[derive(Debug)]
pub(crate) struct Lines {
    /// What stands before each line.
    prefix: Vec<u8>,
    open: Vec<u8>,
}

/// A line that gets longer is cut.
const LONGEST_LINE: usize = 16 * 1024;

impl Lines {
    pub(crate) fn of(script: &[u8]) -> Self {
        Self { prefix: [script, b": "].concat(), open: Vec::new() }
    }

    /// Takes bytes; gives all lines that have ended, if any has.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.open.extend_from_slice(bytes);
        let end = match self.open.iter().rposition(|&byte| byte == b'\n') {
            Some(at) => at + 1,
            None if self.open.len() >= LONGEST_LINE => self.open.len(),
            None => return None,
        };
        let lines: Vec<u8> = self.open.drain(..end).collect();
        Some(self.prefixed(&lines))
    }

    /// No more will come: gives what has no end.
    pub(crate) fn end(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.open);
        (!rest.is_empty()).then(|| self.prefixed(&rest))
    }

    fn prefixed(&self, lines: &[u8]) -> Vec<u8> {
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines).split(|&byte| byte == b'\n');
        lines.flat_map(|line| [&self.prefix[..], line, b"\n"].concat()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn lines_come_whole_and_bear_the_script() {
        let mut lines = Lines::of(b"/x.cgi");
        assert_eq!(lines.take(b"one"), None);
        assert_eq!(lines.take(b" line\ntwo\nthr").as_deref(), Some(&b"/x.cgi: one line\n/x.cgi: two\n"[..]));
        assert_eq!(lines.end().as_deref(), Some(&b"/x.cgi: thr\n"[..]));
        assert_eq!(lines.end(), None);
        assert!(lines.take(&[b'x'; LONGEST_LINE]).is_some(), "an endless one is cut");
    }

    #[test]
    fn a_header_has_the_request_and_nothing_that_could_end_it() {
        let fields = vec![(b"HTTP_X_REQUEST_ID".to_vec(), b"i\nd".to_vec())];
        let request = Request { method: b"GET".into(), uri: vec![b'/'; 1000], fields, ..Request::default() };
        let who = Who::at_work(7, 3, &request);
        let header = Errors::new(Some(*b"0123456789abcdef")).header(Level::Warn, &who);
        let target = "/".repeat(512);
        let expected = format!("\x1e0123456789abcdefwarn\x1f7\x1f3\x1fi?d\x1fGET\x1f{target}\x1f");
        assert_eq!(String::from_utf8(header).unwrap(), expected);
    }

    #[test]
    fn a_pipe_that_somebody_has_made_non_blocking_is_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
        let mut filled = 0;
        while let Ok(length) = rustix::io::write(&writer, &[b'x'; RECORD]) {
            filled += length;
        }
        let reads = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        assert_eq!(write(&writer, b"and this").ok(), Some(8));
        drop(writer);
        let all = reads.join().unwrap().unwrap();
        assert_eq!(all.len(), filled + 8);
        assert!(all.ends_with(b"and this"));
    }
}
