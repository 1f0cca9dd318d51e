//! A connection's transport as the `h2` crate wants it.
//!
//! The crate writes frame by frame. What it writes in a turn is gathered, in memory that the connections of a thread hand
//! on to each other, and leaves together: a response of many frames with few sends, and in records of TLS that are full.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::h2::meter::Meter;
use crate::others::come_back_behind;
use crate::server::Server;
use crate::transport::{Socket, Transport};

/// What came with a read that asked for less is kept in a buffer of at most this size between reads.
const KEEP_CAPACITY: usize = 4 * 1024;
/// Bytes to gather before they are sent: four full records of TLS, which seals so many at once.
const BATCH: usize = 64 * 1024;
/// Bytes that are no body's after which others have their turn, and somebody asks what the client does all this for: the crate
/// itself reads on as long as there is more, and many a frame takes longer to be obeyed than to be sent.
const TURN: u64 = 8 * 1024;
/// Bytes that are no body's to give to the crate at once, of which it obeys all frames before it asks for more.
const PORTION: usize = 512;

/// The head of a frame, the type of one with settings (RFC 9113 4.1, 6.5), and the setting that clients are to say of priorities what
/// we heed (RFC 9218 2.1), which the crate has no word for.
const HEAD: usize = 9;
const SETTINGS: u8 = 4;
const NO_RFC7540_PRIORITIES: [u8; 6] = [0, 9, 0, 0, 0, 1];

/// What both the `h2` crate and the connection's task look at.
#[derive(Debug)]
pub(crate) struct Wire {
    server: &'static Server,
    transport: RefCell<Transport>,
    /// Received, and not taken yet from there on.
    early: RefCell<(Vec<u8>, usize)>,
    /// Written by the crate, and sent up to there.
    out: RefCell<(Vec<u8>, usize)>,
    meter: RefCell<Meter>,
    /// Bytes that the crate has taken and that were no body's, and bytes sent.
    pub(crate) received: Cell<u64>,
    pub(crate) sent: Cell<u64>,
    /// The client takes no more now.
    pub(crate) blocked: Cell<bool>,
    /// The crate has more, for which there was no room when it asked last.
    held: Cell<bool>,
    /// The client has ended its side, or is gone.
    pub(crate) ended: Cell<bool>,
    /// The `h2` crate, which drops every stream when it hears of that, is not told yet.
    withholds: Cell<bool>,
    /// Nothing more was there in this turn, or it was enough: the crate asks again for each stream that it hands out.
    dry: Cell<bool>,
    /// What `received` and `sent` were when the turn began.
    turn: Cell<(u64, u64)>,
}

impl Wire {
    /// `early` was received already.
    pub(crate) fn new(server: &'static Server, transport: Transport, early: Vec<u8>) -> Self {
        Self {
            server,
            transport: RefCell::new(transport),
            early: RefCell::new((early, 0)),
            out: RefCell::default(),
            meter: RefCell::new(Meter::new(server.config.http2_streams)),
            received: Cell::new(0),
            sent: Cell::new(0),
            blocked: Cell::new(false),
            held: Cell::new(false),
            ended: Cell::new(false),
            withholds: Cell::new(false),
            dry: Cell::new(false),
            turn: Cell::default(),
        }
    }

    /// The connection's task has been woken.
    pub(crate) fn begin_turn(&self) {
        self.dry.set(false);
        self.turn.set((self.received.get(), self.sent.get()));
    }

    /// From now on the crate is not told of the end of the client's side, until [`Wire::tell_end`]: a client may have asked for
    /// all that it wants (RFC 9113 5.1, half-closed), and wait for its responses.
    pub(crate) fn withhold_end(&self) {
        self.withholds.set(true);
    }

    /// Whether the client has ended its side and the crate does not know.
    pub(crate) fn withholds(&self) -> bool {
        self.withholds.get() && self.ended.get()
    }

    /// The crate is to know when it reads next.
    pub(crate) fn tell_end(&self) {
        self.withholds.set(false);
    }

    /// Whether the crate has nothing that it wanted to send before what was sent last.
    pub(crate) fn has_all(&self) -> bool {
        !self.held.get()
    }

    /// Whether nobody is there for responses any more.
    pub(crate) fn has_left(&self) -> bool {
        self.server.has_left(&self.transport.borrow())
    }

    /// Bytes that have been sent and have not arrived at the client.
    pub(crate) fn on_its_way(&self) -> u64 {
        self.transport.borrow().outstanding()
    }

    /// How many bytes have arrived at the client, and whether none are on their way.
    pub(crate) fn arrived(&self) -> (i64, bool) {
        let on_its_way = self.on_its_way() + u64::from(self.blocked.get());
        (self.sent.get().cast_signed().saturating_sub_unsigned(on_its_way), on_its_way == 0)
    }

    /// Whether frames have come in this turn and nothing was sent that acknowledges them.
    pub(crate) fn is_silent(&self) -> bool {
        let (received, sent) = self.turn.get();
        self.received.get() > received && self.sent.get() == sent
    }

    /// Has `tell` hear of streams whose priority the client has changed, and how urgent each is now.
    pub(crate) fn updates(&self, tell: impl FnMut((u32, u8))) {
        self.meter.borrow_mut().updates.news().for_each(tell);
    }

    /// Why the connection has to end for what was said of priorities, if it has.
    pub(crate) fn wrong_update(&self) -> Option<(Reason, &'static str)> {
        self.meter.borrow_mut().updates.wrong()
    }

    /// By how much the client has opened the window of all streams together since this was asked last.
    pub(crate) fn take_opened(&self) -> u64 {
        self.meter.borrow_mut().updates.take_opened()
    }

    /// Streams that the client has opened.
    pub(crate) fn opened(&self) -> u64 {
        self.meter.borrow().updates.count
    }

    /// A stream's task begins. How urgent the client has said beside its request that it is.
    pub(crate) fn begin_stream(&self, stream: u32) -> Option<u8> {
        self.meter.borrow_mut().updates.begin_stream(stream)
    }

    /// See [`Transport::acknowledge`].
    pub(crate) fn acknowledge(&self) {
        self.transport.borrow().acknowledge();
    }

    /// What the client has not taken is forgotten.
    pub(crate) fn reset(&self) {
        self.transport.borrow().reset();
    }

    /// The transport, of which nobody else wants anything any more.
    pub(crate) fn take(&self) -> Transport {
        self.transport.replace(Transport::Plain(Socket::Gone))
    }

    fn poll_receive(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.dry.get() {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let most = buffer.remaining().min(self.meter.borrow().body_left() + PORTION);
        if !self.take_early(buffer, most) {
            ready!(self.poll_read(context, buffer, most))?;
        }
        self.count(&buffer.filled()[before..], context);
        Poll::Ready(Ok(()))
    }

    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        most: usize,
    ) -> Poll<io::Result<()>> {
        if self.withholds() {
            return Poll::Pending;
        }
        if self.ended.get() {
            return Poll::Ready(Ok(()));
        }
        // A smaller buffer might not hold a record of TLS.
        let input = &mut self.server.scratch.borrow_mut().input;
        let read = self.transport.borrow_mut().poll_read(context, input);
        self.dry.set(read.is_pending());
        let read = match ready!(read) {
            // By TLS and without a word of that. Frames tell what is whole.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        };
        let length = *read.as_ref().unwrap_or(&0);
        if length == 0 {
            self.ended.set(true);
        }
        read?;
        if self.withholds() {
            return Poll::Pending;
        }
        let now = length.min(most);
        buffer.put_slice(&input[..now]);
        if now < length {
            let early = &mut *self.early.borrow_mut();
            early.0.extend_from_slice(&input[now..length]);
        }
        Poll::Ready(Ok(()))
    }

    /// Sees to it that a turn ends that has brought much, and that another follows.
    fn count(&self, taken: &[u8], context: &mut Context<'_>) {
        self.received.set(self.received.get() + self.meter.borrow_mut().measure(taken));
        if self.received.get() - self.turn.get().0 >= TURN {
            self.dry.set(true);
            come_back_behind(context);
        }
    }

    fn take_early(&self, buffer: &mut ReadBuf<'_>, most: usize) -> bool {
        let (bytes, from) = &mut *self.early.borrow_mut();
        if bytes.is_empty() {
            return false;
        }
        let now = (bytes.len() - *from).min(most);
        buffer.put_slice(&bytes[*from..*from + now]);
        *from += now;
        if *from == bytes.len() {
            bytes.clear();
            *from = 0;
            bytes.shrink_to(KEEP_CAPACITY);
        }
        true
    }

    /// Takes what there is room for. What was left from an earlier turn has to go first.
    fn poll_gather(&self, context: &mut Context<'_>, runs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.blocked.get() || self.out.borrow().0.len() >= BATCH {
            self.held.set(true);
            ready!(self.poll_send(context))?;
        }
        self.held.set(false);
        let out = &mut self.out.borrow_mut().0;
        if out.capacity() < BATCH {
            *out = std::mem::take(&mut self.server.scratch.borrow_mut().batch);
            out.reserve_exact(BATCH);
        }
        let before = out.len();
        for run in runs {
            let room = BATCH - out.len();
            out.extend_from_slice(&run[..run.len().min(room)]);
        }
        let taken = out.len() - before;
        if self.sent.get() == 0 && before == 0 {
            add_setting(out);
        }
        Poll::Ready(Ok(taken))
    }

    /// Sends what was gathered, at the end of a turn, and waits until all of it is out.
    pub(crate) fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (out, from) = &mut *self.out.borrow_mut();
        let mut stale = true;
        while *from < out.len() {
            let transport = &mut *self.transport.borrow_mut();
            match transport.try_write(&out[*from..]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked.set(true);
                    keep_little(out, from);
                    ready!(transport.poll_writable(context, &mut stale))?;
                    stale = true;
                }
                sent => {
                    let sent = sent?;
                    *from += sent;
                    self.sent.set(self.sent.get() + sent as u64);
                }
            }
        }
        self.blocked.set(false);
        *from = 0;
        out.clear();
        if out.capacity() >= BATCH {
            self.server.scratch.borrow_mut().batch = std::mem::take(out);
        }
        Poll::Ready(Ok(()))
    }
}

/// Adds ours to the crate's settings, which are what it says first.
fn add_setting(out: &mut Vec<u8>) {
    let Some(&[0, high, low, SETTINGS, ..]) = out.first_chunk::<HEAD>() else { return };
    let length = u16::from_be_bytes([high, low]);
    let end = HEAD + usize::from(length);
    if end <= out.len() {
        let longer = length.saturating_add(NO_RFC7540_PRIORITIES.len() as u16);
        out[1..3].copy_from_slice(&longer.to_be_bytes());
        out.splice(end..end, NO_RFC7540_PRIORITIES);
    }
}

/// A client may be waited for for long: the memory is as large as what there is for it.
fn keep_little(out: &mut Vec<u8>, from: &mut usize) {
    if out.len() - *from <= KEEP_CAPACITY && out.capacity() > KEEP_CAPACITY {
        *out = out[*from..].to_vec();
        *from = 0;
    }
}

/// The end of a [`Wire`] that the `h2` crate has.
#[derive(Debug)]
pub(crate) struct Io(pub(crate) Rc<Wire>);

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_receive(context, buffer)
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_gather(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        runs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_gather(context, runs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The crate asks for this after each frame; see [`Wire::poll_send`].
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_send(context))?;
        self.0.transport.borrow().shut_write();
        Poll::Ready(Ok(()))
    }
}
