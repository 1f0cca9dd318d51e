//! A response that is not whole yet, or comes from a file: sent as it grows.
//!
//! Bytes go straight from the slot's ring to the transport as long as the client keeps up. When it falls behind, they are
//! copied, so that the worker can go on and the slot is free: `outflow` holds them, in memory up to `--response-buffer`, in
//! a file up to `--response-spool`. Beyond that the ring fills up and the worker waits.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use howdah_http1::encode::{LAST_CHUNK, chunk_head};
use howdah_metrics::Failure;
use howdah_wire::{RESPONSE_ASKS, RESPONSE_BROKEN};
use rustix::io::Errno;

use crate::delivery::framing::Framing;
use crate::delivery::piece::Source;
use crate::exchange::{Exchange, More};
use crate::others::let_others;
use crate::outflow::{Outflow, Taken, Woken};
use crate::repeated::Repeated;
use crate::response::{Body, BodyFile};
use crate::route::Handling;
use crate::server::Server;
use crate::slots::Ring;
use crate::timers::Timer;
use crate::transport::{Peer, Transport};

/// Bytes of a file to send before other connections have their turn.
const FILE_TURN: usize = 1 << 20;
/// Bytes of a file to read at once where they must be sealed: as many as one send takes.
const PIECE: usize = 64 << 10;

/// Bytes beyond its Content-Length after which a body is no longer listened to. An end of line too many, as scripts print it,
/// is no reason to interrupt whoever makes it; a device that has no end is.
const SURPLUS: u64 = 1 << 20;
/// So long a worker goes on behind a head that is all its client gets, though that has asked for something else. Most bodies have come to
/// their end by then.
const MOMENT: u64 = 1_000_000_000;

/// A body under way.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) framing: Framing,
    /// Body bytes taken from where they are.
    pub(super) taken: u64,
    /// Body bytes that may still be sent.
    pub(super) left: u64,
    /// The worker was through with it when it was first seen: what the client does not take at once need not keep its slot.
    whole: bool,
    /// The last chunk is in the output.
    ended: bool,
    /// Since when it is under way, in nanoseconds that the thread has served.
    begun: u64,
}

/// What follows when a body has not the length that its head has said, for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reactions {
    pub(crate) too_short: &'static str,
    pub(crate) too_long: &'static str,
}

/// What has come of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// All of it is out, and it is as long as it was said to be.
    Whole,
    /// All that was promised is out. What came behind that is nothing to the client, but for the connection.
    Longer,
    /// The client has not all that it was promised.
    Broken,
}

/// What sends a response: parts of a connection, or of one of its streams.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    pub(crate) server: &'static Server,
    pub(crate) out: &'a mut Outflow,
    pub(crate) timer: &'a Timer,
    pub(crate) exchange: &'a mut Exchange,
    pub(crate) handling: &'a mut Handling,
    pub(crate) reactions: Reactions,
    /// The application has the descriptor, too.
    pub(crate) lent: bool,
    /// The client has asked for something else behind it already.
    pub(crate) asks_more: bool,
}

impl Delivery<'_> {
    /// Sends a body behind its head, as it comes; `lines` bytes of the ring are the head's. Of a body that is whole so many bytes are
    /// `out` already.
    pub(crate) async fn send(
        &mut self,
        framing: Framing,
        lines: usize,
        body: Body,
        out: Option<usize>,
    ) -> Delivered {
        let (sent, whole) = (out.unwrap_or(0), out.is_some());
        let left = framing.most().saturating_sub(sent as u64);
        let begun = self.server.clock.served();
        let mut stream = Stream { framing, taken: sent as u64, left, whole, ended: false, begun };
        match body {
            Body::Ring(ring, _) => {
                ring.consume(lines + sent);
                let asks = ring.look().answer.flags & RESPONSE_ASKS != 0;
                let delivered = if !asks || self.lend(&mut stream, ring).await {
                    self.stream_ring(&mut stream, ring).await
                } else {
                    Delivered::Broken
                };
                self.tell_end(&stream);
                delivered
            }
            Body::File(file) => {
                file.ring.consume(lines);
                let whole = self.stream_file(&mut stream, file).await;
                self.tell_end(&stream);
                if let Some(job) = self.handling.job() {
                    job.await_report(self.exchange).await;
                }
                if whole { Delivered::Whole } else { Delivered::Broken }
            }
            Body::Bytes(_) => Delivered::Broken,
        }
    }

    /// Tells the log that the application's Content-Length is not the length of its body.
    pub(crate) fn tell_wrong_length(&self, framing: Framing, body: u64) {
        self.tell_length(framing, body, body > framing.most());
    }

    fn tell_length(&self, framing: Framing, body: impl fmt::Display, is_longer: bool) {
        if let Framing::Length(given) = framing {
            let reaction = if is_longer { self.reactions.too_long } else { self.reactions.too_short };
            self.server.tell_wrong_length(self.exchange, self.handling, given, body, reaction);
        }
    }

    async fn stream_ring(&mut self, stream: &mut Stream, ring: Ring) -> Delivered {
        let mut orphaned = false;
        loop {
            let look = ring.look();
            let done = look.done || orphaned;
            let broken = orphaned || look.answer.flags & RESPONSE_BROKEN != 0;
            if broken && !orphaned {
                self.exchange.account.breaks.set(Some(Failure::Application));
            }
            stream.take(self.out, ring, done && !broken);
            if stream.write(self.out, ring).is_err() {
                return Delivered::Broken;
            }
            if stream.whole && self.out.is_held_up() {
                stream.take(self.out, ring, false);
            }
            if done && ring.available() == 0 {
                let in_step = !broken && self.is_complete(stream);
                if self.out.holds() {
                    self.handling.part(&mut self.exchange.account);
                }
                return self.flush_last(stream, in_step).await;
            }
            if stream.goes_on() {
                self.tell_length(stream.framing, format_args!("more than {}", stream.taken), true);
                // The client has, or will have, what it was promised, and the worker hears that nobody waits for the rest.
                self.handling.part(&mut self.exchange.account);
                return self.flush_last(stream, false).await;
            }
            if !self.out.is_held_up() && ring.available() > 0 {
                // The bound on the output held these back, and nobody would wake us for them.
                tokio::task::consume_budget().await;
                continue;
            }
            // The worker may be about something else by now.
            self.tell_end(stream);
            match self.wait(stream, ring, orphaned).await {
                Woken::Go | Woken::Behind | Woken::Due => {}
                Woken::Lost if !orphaned && self.is_orphaned() => orphaned = true,
                Woken::Lost if self.has_nobody_left(stream) => {
                    self.handling.part(&mut self.exchange.account);
                    // What it has asked for behind that it is to have.
                    return if self.asks_again(stream) { Delivered::Whole } else { Delivered::Longer };
                }
                Woken::Stalled | Woken::Lost => return Delivered::Broken,
            }
        }
    }

    /// Sends what is left of a body, which may be `whole`.
    async fn flush_last(&mut self, stream: &Stream, whole: bool) -> Delivered {
        match self.out.flush(self.timer).await {
            true if whole => Delivered::Whole,
            true if stream.has_all() => Delivered::Longer,
            _ => Delivered::Broken,
        }
    }

    /// The worker is lost, and the client is to have what that had handed over. One that has nothing yet can be told instead.
    fn is_orphaned(&self) -> bool {
        self.exchange.loss().is_some() && self.out.has_begun()
    }

    /// Whether the worker goes on for nobody, but not because its client broke off: that has all there is for it.
    fn has_nobody_left(&self, stream: &Stream) -> bool {
        self.exchange.loss().is_none() && self.is_served(stream) && !self.server.has_left(&self.out.transport)
    }

    /// Whether a client that waits has all it can have: a head without a body, and it asks for nothing more, or for something else, which
    /// would have to wait. Nothing that is written to it would tell whether it is still there.
    fn is_served(&self, stream: &Stream) -> bool {
        let has_all = matches!(stream.framing, Framing::Empty(_));
        has_all && (self.out.transport.has_said_all() || self.asks_again(stream))
    }

    /// Whether it has gone on to something else, a while ago.
    fn asks_again(&self, stream: &Stream) -> bool {
        let asks = self.asks_more || !self.lent && self.out.transport.has_more();
        asks && self.server.clock.served().saturating_sub(stream.begun) >= MOMENT
    }

    /// Says the end of a body as soon as all is out that was promised, whatever its worker does or says behind that.
    fn tell_end(&self, stream: &Stream) {
        if stream.has_all() && !self.out.is_held_up() {
            self.out.transport.tell_end();
        }
    }

    /// True when the body has the length that was announced. Tells the log when not.
    fn is_complete(&self, stream: &Stream) -> bool {
        let complete = stream.framing.fits(stream.taken);
        if !complete {
            self.tell_wrong_length(stream.framing, stream.taken);
        }
        complete
    }

    async fn stream_file(&mut self, stream: &mut Stream, file: BodyFile) -> bool {
        if self.lent {
            self.out.transport.never_block();
        }
        if !stream.framing.fits(file.length) {
            self.tell_wrong_length(stream.framing, file.length);
        }
        let (offset, left) = (rustix::fs::tell(&file.file).unwrap_or(0), file.length.min(stream.left));
        let mut source = Source::new(file.file, Some(file.permit));
        let sent = if self.out.transport.is_plain() {
            self.send_file(stream, &mut source, offset, left).await
        } else {
            self.seal_file(stream, &mut source, offset, left).await
        };
        sent && stream.framing.fits(stream.taken)
    }

    /// Has the kernel send `left` bytes of a file.
    async fn send_file(
        &mut self,
        stream: &mut Stream,
        source: &mut Source,
        mut offset: u64,
        mut left: u64,
    ) -> bool {
        if !self.flush_file().await {
            return false;
        }
        let mut since = 0;
        while left > 0 {
            let sent = match self.send_piece(source, offset, left).await {
                Ok(sent) => sent,
                Err(error) => {
                    self.tell_unsent(&error);
                    return false;
                }
            };
            if sent == Taken::default() {
                self.tell_wrong_length(stream.framing, stream.taken);
                return false;
            }
            (offset, left) = (offset + sent.bytes, left - sent.bytes);
            stream.taken += sent.bytes;
            since += sent.bytes;
            if since >= FILE_TURN as u64 {
                since = 0;
                let_others().await;
            }
            if sent.blocked {
                let Self { out, timer, exchange, handling, .. } = &mut *self;
                let client = out.wait(timer, false, |_, _| Poll::Pending);
                if let Woken::Stalled | Woken::Lost = let_go(exchange, handling, client).await {
                    return false;
                }
            }
        }
        true
    }

    /// As much as the client takes now. Nothing when the file has ended.
    async fn send_piece(&mut self, source: &mut Source, offset: u64, left: u64) -> io::Result<Taken> {
        let length = left.min(FILE_TURN as u64) as usize;
        if source.is_at_hand(offset, length, self.server.clock.now()) {
            self.out.try_send_file(source.descriptor(), offset, length)
        } else {
            let_go(self.exchange, self.handling, source.send(self.out, offset, length)).await
        }
    }

    /// Sends `left` bytes of a file that the kernel cannot send by itself, because they must be sealed. The head goes with
    /// the first of them.
    async fn seal_file(
        &mut self,
        stream: &mut Stream,
        source: &mut Source,
        mut offset: u64,
        mut left: u64,
    ) -> bool {
        while left > 0 {
            let length = left.min(PIECE as u64) as usize;
            let read = source.read(offset, length);
            let piece = match let_go(self.exchange, self.handling, read).await {
                Ok(piece) if !piece.is_empty() => piece,
                Ok(_) => {
                    self.tell_wrong_length(stream.framing, stream.taken);
                    return false;
                }
                Err(error) => {
                    self.tell_unsent(&error);
                    return false;
                }
            };
            let read = piece.len() as u64;
            (offset, left) = (offset + read, left - read);
            stream.taken += read;
            let Ok(out) = self.out.write_through(&piece, &[]) else { return false };
            self.out.put(|held| held.extend_from_slice(&piece[out.unwrap_or(0)..]));
            if !self.flush_file().await {
                return false;
            }
            let_others().await;
        }
        self.flush_file().await
    }

    /// Tells the log why a file does not go on. Where the client has left, that is why.
    fn tell_unsent(&self, error: &io::Error) {
        static TOLD: Repeated = Repeated::new();
        if self.out.transport.peer() == Peer::Gone {
            return;
        }
        let lacks = Errno::from_io_error(error) == Some(Errno::MFILE);
        let why = if lacks { Failure::Resources } else { Failure::Application };
        self.exchange.account.breaks.set(Some(why));
        if let Some(again) = TOLD.pass() {
            let request = self.handling.request(&self.exchange.account);
            tracing::error!(
                request_id = %self.exchange.account.id.bytes().escape_ascii(),
                "cannot send the file that is the response to {} {}: {error}; {}{again}",
                request.method().escape_ascii(),
                request.uri().escape_ascii(),
                self.reactions.too_short,
            );
        }
    }

    async fn flush_file(&mut self) -> bool {
        let_go(self.exchange, self.handling, self.out.flush(self.timer)).await
    }

    /// Waits for more of the response, or for room at the client's side. Of one that is `orphaned` there is no more to come.
    async fn wait(&mut self, stream: &Stream, ring: Ring, orphaned: bool) -> Woken {
        let Self { out, timer, exchange, server, .. } = &mut *self;
        if out.is_held_up() {
            exchange.answer();
            let news = |transport: &Transport, context: &Context<'_>| match orphaned {
                true => Poll::Pending,
                false => news(exchange, context, || server.has_left(transport)),
            };
            return out.wait(timer, ring.available() > 0, news).await;
        }
        out.wait_for_nobody();
        timer.stop();
        exchange.watch();
        poll_fn(|context| {
            if orphaned {
                return Poll::Pending;
            }
            let this = &*self;
            let has_left = || this.server.has_left(&this.out.transport) || this.is_served(stream);
            let woken = news(this.exchange, context, has_left);
            if woken.is_pending() && self.out.is_deaf() { Poll::Ready(Woken::Lost) } else { woken }
        })
        .await
    }
}

/// What there is of the worker, or the client's end.
pub(super) fn news(exchange: &Exchange, context: &Context<'_>, has_left: impl Fn() -> bool) -> Poll<Woken> {
    loop {
        return match exchange.poll_more(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(More::Lost) => Poll::Ready(Woken::Lost),
            Poll::Ready(More::News) => Poll::Ready(Woken::Go),
            Poll::Ready(More::Look) if has_left() => Poll::Ready(Woken::Lost),
            Poll::Ready(More::Look) => continue,
        };
    }
}

/// Waits for a client or a disk that has a part in sending a file, and meanwhile gives the slot back as soon as its worker is
/// through with it: that takes as long as they like, and there are only so many slots for all requests.
async fn let_go<T>(exchange: &mut Exchange, handling: &mut Handling, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        let outcome = work.as_mut().poll(context);
        if outcome.is_pending() && is_through(exchange, handling, context) {
            handling.part(&mut exchange.account);
        }
        outcome
    })
    .await
}

/// Whether the worker of a response that has begun is through with it, or dead. Else the task is woken for that.
fn is_through(exchange: &Exchange, handling: &Handling, context: &Context<'_>) -> bool {
    while handling.job().is_some_and(|job| !job.is_done()) {
        match exchange.poll_more(context) {
            Poll::Ready(More::News | More::Look) => {}
            Poll::Ready(More::Lost) => break,
            Poll::Pending => return false,
        }
    }
    true
}

impl Stream {
    /// Moves body bytes from the ring to what is held for the client: pieces that become chunks, and all for a client
    /// that is behind. Others go straight from the ring, see [`Stream::write`]. Ends the body when `done`.
    fn take(&mut self, out: &mut Outflow, ring: Ring, done: bool) {
        let available = ring.available();
        let is_held = self.framing == Framing::Chunked || out.is_behind() || self.whole && out.is_held_up();
        if self.left > 0 && available > 0 && is_held {
            let length = out.room(available).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            if length > 0 {
                out.forget_sent();
                self.copy(out, ring, length);
            }
        }
        self.drop_surplus(ring);
        if done && self.framing == Framing::Chunked && !self.ended && ring.available() == 0 {
            out.put(|out| out.extend_from_slice(LAST_CHUNK));
            out.frame(LAST_CHUNK.len());
            self.ended = true;
        }
        out.relieve(ring.available() > 0);
    }

    fn copy(&mut self, out: &mut Outflow, ring: Ring, length: usize) {
        let (first, second) = ring.bytes(0, length);
        let chunked = self.framing == Framing::Chunked;
        let before = out.in_memory();
        out.put(|out| {
            if chunked {
                chunk_head(out, length);
            }
            out.extend_from_slice(first);
            out.extend_from_slice(second);
            if chunked {
                out.extend_from_slice(b"\r\n");
            }
        });
        out.frame(out.in_memory() - before - length);
        self.took(ring, length);
    }

    /// Writes what is held, and behind it body bytes straight from the ring.
    fn write(&mut self, out: &mut Outflow, ring: Ring) -> io::Result<()> {
        loop {
            if self.straight(out, ring) == 0 {
                out.send_held()?;
            }
            let length = self.straight(out, ring);
            if length == 0 || out.is_stuck() {
                self.drop_surplus(ring);
                return Ok(());
            }
            let (first, second) = ring.bytes(0, length);
            match out.write_through(first, second)? {
                Some(written) => self.took(ring, written),
                None => return Ok(()),
            }
        }
    }

    /// Bytes of the ring that need not be held for the client.
    fn straight(&self, out: &Outflow, ring: Ring) -> usize {
        if self.framing == Framing::Chunked || !out.is_clear() {
            return 0;
        }
        ring.available().min(usize::try_from(self.left).unwrap_or(usize::MAX))
    }

    fn took(&mut self, ring: Ring, length: usize) {
        self.taken += length as u64;
        self.left = self.left.saturating_sub(length as u64);
        ring.consume(length);
    }

    /// Whether all is out that was promised.
    fn has_all(&self) -> bool {
        matches!(self.framing, Framing::Length(length) if self.taken >= length)
    }

    /// The body goes on and on beyond its Content-Length.
    fn goes_on(&self) -> bool {
        matches!(self.framing, Framing::Length(length) if self.taken.saturating_sub(length) > SURPLUS)
    }

    /// Bytes beyond the Content-Length, or of a body that must not be, never reach the wire.
    fn drop_surplus(&mut self, ring: Ring) {
        let surplus = ring.available();
        if self.left == 0 && surplus > 0 {
            self.taken += surplus as u64;
            ring.consume(surplus);
        }
    }
}

#[cfg(test)]
mod tests;
