//! What a script prints goes into the slot's ring as the response: its header first, by `head`, then the body, which is read
//! straight into shared memory. `pump` calls this when there is something to read, and when nothing more will come.
//!
//! The front hears of it as it comes; but before the first word it has a moment to become whole, so that a short page leaves
//! with its length and in one piece.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use howdah_sys::{ExitKind, monotonic_ns};
use howdah_wire::{
    Answer, LENGTH_UNKNOWN, RESPONSE_BROKEN, RESPONSE_CLOSE, RESPONSE_FAILED, RESPONSE_HAS_DATE,
    RESPONSE_HAS_REQUEST_ID, RESPONSE_HAS_SERVER, RESPONSE_HEAD, RESPONSE_HEAD_READY, RESPONSE_REDIRECT,
    Work,
};
use rustix::io::Errno;

use crate::dechunk::Dechunk;
use crate::head::{self, Head, Reader};

/// Bytes that are read at once before it is known where they go.
const PIECE: usize = 16 * 1024;
/// The first bytes wait so long for more.
const HOLD: Duration = Duration::from_millis(5);
/// So long nobody looks for more: a page that ends in this time is read in two pieces, whatever it was written in.
pub(crate) const BREATH: Duration = Duration::from_millis(1);
/// So many do not wait.
const MUCH: u64 = 64 * 1024;

/// Why a body in chunks is none.
const BAD_CHUNKS: &str = "its body is not in chunks as its header says (RFC 9112 7.1)";

/// What a read has come to.
#[derive(Debug)]
pub(crate) enum Flow {
    /// So many bytes; there may be more.
    More(usize),
    /// All that there is for now.
    Drained,
    /// The script has closed its output.
    End,
    /// The ring is full.
    Full,
    /// This is no response: 500, and why.
    Fault(String),
}

#[derive(Debug)]
enum Stage {
    Head(Box<Reader>),
    Body,
    /// In chunks, which are undone.
    Chunks(Dechunk),
    /// There is no body, or nobody wants it.
    Dropped,
}

/// A response on its way.
pub(crate) struct Reply<'w> {
    pub(crate) work: &'w mut Work,
    stage: Stage,
    /// Bytes that were read.
    pub(crate) came: u64,
    /// The method is HEAD, or the status says so: nobody gets a body.
    bodyless: bool,
    /// What will be said of it.
    answer: Answer,
    published: bool,
    /// There is something that the front has not been told.
    fresh: bool,
    /// When the first of that came.
    since: Option<Instant>,
    buffer: Vec<u8>,
    /// Of a body in chunks, what has found no room.
    waiting: Vec<u8>,
}

impl<'w> Reply<'w> {
    pub(crate) fn new(work: &'w mut Work, nph: bool, bodyless: bool) -> Self {
        Self {
            work,
            stage: Stage::Head(Box::new(Reader::new(nph))),
            came: 0,
            bodyless,
            answer: Answer::default(),
            published: false,
            fresh: false,
            since: None,
            buffer: vec![0; PIECE],
            waiting: Vec::new(),
        }
    }

    /// Reads once, at most `most` bytes: 0 when nothing more is to be read.
    pub(crate) fn read(&mut self, stdout: &OwnedFd, most: usize) -> Flow {
        if !self.put_waiting() {
            return Flow::Full;
        }
        if most == 0 {
            return Flow::End;
        }
        let place = match self.stage {
            Stage::Body => self.work.room(),
            Stage::Head(_) | Stage::Chunks(_) | Stage::Dropped => &mut self.buffer,
        };
        if place.is_empty() {
            return Flow::Full;
        }
        let most = most.min(place.len());
        match rustix::io::read(stdout, &mut place[..most]) {
            Ok(0) => Flow::End,
            Ok(length) => {
                self.came += length as u64;
                match self.take(length) {
                    // A pipe gives what it has.
                    None if length < most => Flow::Drained,
                    None => Flow::More(length),
                    Some(why) => Flow::Fault(why),
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => Flow::Drained,
            Err(error) => Flow::Fault(format!("its output cannot be read: {}", io::Error::from(error))),
        }
    }

    /// So many bytes have been read. Why they are no response, if they are none.
    fn take(&mut self, length: usize) -> Option<String> {
        match &mut self.stage {
            Stage::Body => {
                self.work.produce(length);
                self.note();
            }
            Stage::Dropped if self.bodyless => self.work.drop_piece(monotonic_ns()),
            Stage::Dropped => {}
            Stage::Chunks(dechunk) => {
                if !dechunk.take(&self.buffer[..length], &mut self.waiting) {
                    return Some(BAD_CHUNKS.into());
                }
                self.put_waiting();
            }
            Stage::Head(reader) => match reader.take(&self.buffer[..length]) {
                Ok(None) => {}
                Ok(Some((answer, used))) => return self.begin(answer, used, length),
                Err(fault) => return Some(fault.to_string()),
            },
        }
        None
    }

    /// The header is complete, and `used` bytes of those read belonged to it.
    fn begin(&mut self, answer: head::Answer, used: usize, length: usize) -> Option<String> {
        let (lines, stage) = match answer {
            head::Answer::Redirect(path) => {
                (self.answer.status, self.answer.flags) = (302, RESPONSE_REDIRECT);
                // There will be a response, and its head is not this script's.
                self.bodyless = false;
                (path, Stage::Dropped)
            }
            head::Answer::Response(head) => (self.lines(&head), self.stage_of(&head)),
        };
        if lines.len() > RESPONSE_HEAD {
            return Some(format!("its header is longer than {RESPONSE_HEAD} bytes"));
        }
        self.answer.head_length = lines.len() as u32;
        self.put(&lines);
        self.stage = stage;
        self.note();
        let rest = self.buffer[used..length].to_vec();
        match &mut self.stage {
            Stage::Body => drop(self.put(&rest)),
            Stage::Chunks(dechunk) => {
                if !dechunk.take(&rest, &mut self.waiting) {
                    return Some(BAD_CHUNKS.into());
                }
                self.put_waiting();
            }
            Stage::Dropped | Stage::Head(_) => {}
        }
        None
    }

    /// What to do with what follows.
    fn stage_of(&mut self, head: &Head) -> Stage {
        self.bodyless |= matches!(head.status, 204 | 205 | 304);
        match head {
            _ if self.bodyless => Stage::Dropped,
            Head { chunked: true, .. } => Stage::Chunks(Dechunk::new()),
            _ => Stage::Body,
        }
    }

    /// The field lines, and what the front must know of them.
    fn lines(&mut self, head: &Head) -> Vec<u8> {
        self.answer.flags = [
            (head.has("Date"), RESPONSE_HAS_DATE),
            (head.has("Server"), RESPONSE_HAS_SERVER),
            (head.has("X-Request-Id"), RESPONSE_HAS_REQUEST_ID),
            (head.close, RESPONSE_CLOSE),
        ]
        .into_iter()
        .fold(0, |flags, (set, flag)| if set { flags | flag } else { flags });
        self.answer.status = head.status.into();
        self.answer.content_length = head.length.unwrap_or(LENGTH_UNKNOWN);
        head.lines()
    }

    /// Into the ring: how many bytes found room there. For a header and a piece there is room.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = self.work.room();
            let length = rest.len().min(room.len());
            if length == 0 {
                break;
            }
            room[..length].copy_from_slice(&rest[..length]);
            self.work.produce(length);
            rest = &rest[length..];
        }
        bytes.len() - rest.len()
    }

    /// False when not all of it found room.
    fn put_waiting(&mut self) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let length = self.put(&waiting);
        waiting.drain(..length);
        self.waiting = waiting;
        self.note();
        self.waiting.is_empty()
    }

    fn note(&mut self) {
        self.fresh = true;
        self.since.get_or_insert_with(Instant::now);
    }

    /// When the front is to be told, if it is; a moment in the past for at once.
    pub(crate) fn due(&self) -> Option<Instant> {
        let since = self.since.filter(|_| self.fresh)?;
        let hurry = self.published || self.work.produced() >= MUCH;
        Some(if hurry { since } else { since + HOLD })
    }

    /// Whether what comes next is best read together with what comes behind it: most pages end soon.
    pub(crate) fn is_fresh(&self) -> bool {
        self.since.is_some_and(|since| !self.published && since.elapsed() < BREATH)
    }

    /// Has the front be told: true when it must be.
    pub(crate) fn publish(&mut self) -> bool {
        if !self.published && !matches!(self.stage, Stage::Head(_)) {
            self.published = true;
            self.work.set_head(Answer { flags: self.answer.flags | RESPONSE_HEAD_READY, ..self.answer });
        }
        std::mem::take(&mut self.fresh)
    }

    /// Whether there may be more of it, now that its script has ended: not when it has failed before it said anything, nor when the body
    /// has the length that was said, there is none, or it is that of a redirect.
    pub(crate) fn is_awaited(&self, end: ExitKind) -> bool {
        match self.stage {
            Stage::Head(_) => end == ExitKind::Exited(0),
            Stage::Body => {
                let Answer { status, head_length, content_length, .. } = self.answer;
                !(300..400).contains(&status)
                    && self.work.produced() < u64::from(head_length).saturating_add(content_length)
            }
            Stage::Chunks(_) => true,
            Stage::Dropped => false,
        }
    }

    /// What comes from now on is for nobody.
    pub(crate) fn drop_rest(&mut self) {
        if matches!(self.stage, Stage::Body | Stage::Chunks(_)) {
            self.stage = Stage::Dropped;
            self.waiting.clear();
        }
    }

    /// It has made a body that nobody gets until it was told to end. The head is all of the response.
    fn has_gone_on_in_vain(&self) -> bool {
        self.bodyless && self.published && self.work.is_abandoned()
    }

    /// Nothing more will come, of a script that was `killed` or not. Why that is no response, if it is none.
    pub(crate) fn end(&mut self, killed: bool) -> Option<String> {
        if killed && !self.has_gone_on_in_vain() {
            // However much of it is there, it need not be all.
            self.fail(502);
            return None;
        }
        let fault = match &self.stage {
            Stage::Head(reader) => Some(reader.ended().to_string()),
            Stage::Chunks(dechunk) if !dechunk.is_done() => Some(BAD_CHUNKS.into()),
            Stage::Body | Stage::Chunks(_) | Stage::Dropped => None,
        };
        if fault.is_none() {
            self.publish();
        }
        fault
    }

    /// There is no response: 500 or 502, or an end of the connection if its head is out.
    pub(crate) fn fail(&mut self, status: u32) {
        if self.published {
            self.work.add_flags(RESPONSE_BROKEN);
            return;
        }
        fail(self.work, status);
        self.published = true;
    }
}

/// The answer of a request for which there is no response.
pub(crate) fn fail(work: &mut Work, status: u32) {
    work.set_head(Answer { status, flags: RESPONSE_HEAD_READY | RESPONSE_FAILED, ..Answer::default() });
}

/// A response of our own, of text.
pub(crate) fn refuse(work: &mut Work, status: u16, bodyless: bool) {
    let text = match status {
        403 => "403 Forbidden\n",
        404 => "404 Not Found\n",
        503 => "503 Service Unavailable\n",
        504 => "504 Gateway Timeout\n",
        _ => "500 Internal Server Error\n",
    };
    let mut reply = Reply::new(work, false, bodyless);
    let fields = vec![(b"Content-Type".to_vec(), b"text/plain".to_vec())];
    let head = Head { status, fields, length: Some(text.len() as u64), ..Head::default() };
    reply.buffer = text.into();
    let _ = reply.begin(head::Answer::Response(head), 0, text.len());
    reply.publish();
}
