//! For tests: a transport whose bytes come by a script, and whose output can be read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::transport::socket::{Peer, length};

/// What comes from the client next.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// Nothing, until [`Scripted::go_on`].
    Pause,
    /// It ends its side.
    End,
    /// The same, without a word of the protocol below.
    Cut,
}

/// The other end.
#[derive(Debug)]
struct Script {
    input: VecDeque<Piece>,
    output: Vec<u8>,
    /// Bytes that it takes before a write blocks.
    takes: usize,
    /// Bytes that are on their way to it.
    held: u64,
    writes: usize,
    /// Pieces of memory in the last of them.
    runs: usize,
    peer: Peer,
    reset: bool,
    shut: bool,
    waker: Option<Waker>,
}

/// See the module. Clones are the same transport.
#[derive(Clone, Debug)]
pub(crate) struct Scripted(Rc<RefCell<Script>>);

impl Scripted {
    /// A client that sends this and takes everything.
    pub(crate) fn new(input: impl IntoIterator<Item = Piece>) -> Self {
        Self(Rc::new(RefCell::new(Script {
            input: input.into_iter().collect(),
            output: Vec::new(),
            takes: usize::MAX,
            held: 0,
            writes: 0,
            runs: 0,
            peer: Peer::There,
            reset: false,
            shut: false,
            waker: None,
        })))
    }

    /// Ends a pause.
    pub(crate) fn go_on(&self) {
        let script = &mut *self.0.borrow_mut();
        if matches!(script.input.front(), Some(Piece::Pause)) {
            script.input.pop_front();
        }
        script.waker.take().into_iter().for_each(Waker::wake);
    }

    /// From now on the client takes so many more bytes.
    pub(crate) fn take(&self, bytes: usize) {
        self.0.borrow_mut().takes = bytes;
        self.go_on();
    }

    /// From now on so much of what it takes is on its way to it.
    pub(crate) fn hold(&self, bytes: u64) {
        self.0.borrow_mut().held = bytes;
    }

    /// The client is like this from now on.
    pub(crate) fn become_of(&self, peer: Peer) {
        self.0.borrow_mut().peer = peer;
    }

    pub(crate) fn output(&self) -> Vec<u8> {
        self.0.borrow().output.clone()
    }

    pub(crate) fn writes(&self) -> usize {
        self.0.borrow().writes
    }

    pub(crate) fn runs(&self) -> usize {
        self.0.borrow().runs
    }

    pub(crate) fn was_reset(&self) -> bool {
        self.0.borrow().reset
    }

    pub(crate) fn was_shut(&self) -> bool {
        self.0.borrow().shut
    }

    /// Nobody has the transport any more.
    pub(crate) fn is_closed(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let script = &mut *self.0.borrow_mut();
        match script.input.front_mut() {
            None | Some(Piece::Pause) => Err(ErrorKind::WouldBlock.into()),
            Some(Piece::End) => Ok(0),
            Some(Piece::Cut) => Err(ErrorKind::UnexpectedEof.into()),
            Some(Piece::Bytes(bytes)) => {
                let length = bytes.len().min(buffer.len());
                buffer[..length].copy_from_slice(&bytes[..length]);
                bytes.drain(..length);
                if bytes.is_empty() {
                    script.input.pop_front();
                }
                Ok(length)
            }
        }
    }

    pub(super) fn poll_read(&self, context: &Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.try_read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.0.borrow_mut().waker = Some(context.waker().clone());
                Poll::Pending
            }
            read => Poll::Ready(read),
        }
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    pub(super) fn try_write_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        let script = &mut *self.0.borrow_mut();
        script.writes += 1;
        script.runs = runs.iter().filter(|run| !run.is_empty()).count();
        if script.peer == Peer::Gone {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let all = runs.iter().flat_map(|run| run.iter().copied());
        let before = script.output.len();
        script.output.extend(all.take(script.takes));
        let written = script.output.len() - before;
        script.takes -= if script.takes == usize::MAX { 0 } else { written };
        if written == 0 && runs.iter().any(|run| !run.is_empty()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(written)
    }

    pub(super) fn try_write_last(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = self.try_write_vectored(runs)?;
        if written == length(runs) {
            self.shut_write();
        }
        Ok(written)
    }

    pub(super) fn poll_writable(&self, context: &Context<'_>, stale: &mut bool) -> Poll<io::Result<()>> {
        *stale = false;
        if self.0.borrow().takes > 0 {
            return Poll::Ready(Ok(()));
        }
        self.0.borrow_mut().waker = Some(context.waker().clone());
        Poll::Pending
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as other transports")]
    pub(super) fn forget_writable(&self) -> io::Result<()> {
        Ok(())
    }

    /// Something is on its way to a client that takes nothing.
    pub(super) fn outstanding(&self) -> u64 {
        let script = self.0.borrow();
        script.held + u64::from(script.takes == 0)
    }

    pub(super) fn has_more(&self) -> bool {
        matches!(self.0.borrow().input.front(), Some(Piece::Bytes(_)))
    }

    pub(super) fn peer(&self) -> Peer {
        self.0.borrow().peer
    }

    pub(super) fn reset(&self) {
        self.0.borrow_mut().reset = true;
    }

    pub(super) fn shut_write(&self) {
        self.0.borrow_mut().shut = true;
    }
}
