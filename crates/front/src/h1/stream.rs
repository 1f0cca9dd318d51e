//! A response that is not whole yet, or comes from a file: sent as it grows.
//!
//! Bytes go straight from the slot's ring to the transport as long as the client keeps up. When it falls behind, they are
//! copied, so that the worker can go on and the slot is free: `outflow` holds them, in memory up to `--response-buffer`, in
//! a file up to `--response-spool`. Beyond that the ring fills up and the worker waits.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use howdah_http1::encode::{LAST_CHUNK, chunk_head};
use howdah_wire::RESPONSE_BROKEN;

use crate::exchange::{Exchange, More};
use crate::h1::head::Framing;
use crate::h1::reply::{Say, put_head};
use crate::h1::server::Server;
use crate::h1::state::{Conn, Next, has_left};
use crate::outflow::{Outflow, Woken};
use crate::response::{Body, BodyFile};
use crate::slots::Ring;
use crate::transport::Transport;

/// Bytes of a file to send before other connections have their turn.
const FILE_TURN: usize = 1 << 20;

/// A body under way.
#[derive(Debug)]
struct Stream {
    framing: Framing,
    /// Body bytes taken from where they are.
    taken: u64,
    /// Body bytes that may still be sent.
    left: u64,
    /// The last chunk is in the output.
    ended: bool,
}

impl Conn {
    /// Sends head and body as they come.
    pub(crate) async fn stream(&mut self, say: &Say, body: Body) -> Next {
        self.out.put(|out| put_head(out, self.server, &mut self.exchange.account, say));
        let most = say.framing.most();
        let mut stream = Stream { framing: say.framing, taken: 0, left: most, ended: false };
        let lines = say.head.lines.len();
        let whole = match body {
            Body::Ring(ring, _) => {
                ring.consume(lines);
                self.stream_ring(&mut stream, ring).await
            }
            Body::File(file) => {
                file.ring.consume(lines);
                let whole = self.stream_file(&mut stream, file).await;
                if let Some(job) = self.handling.job() {
                    job.await_report(&self.exchange).await;
                }
                whole
            }
            Body::Bytes(_) => false,
        };
        // Less may have been sent than was taken.
        self.exchange.account.body = stream.taken.min(most).min(self.out.sent().bytes);
        if !whole && say.framing == Framing::Close {
            // An ordinary end would say that this was all (RFC 9112 8).
            self.out.transport.reset();
        }
        self.end(whole, say.keep_alive, true)
    }

    /// True when all of it is out, and the connection in step.
    async fn stream_ring(&mut self, stream: &mut Stream, ring: Ring) -> bool {
        loop {
            let look = ring.look();
            let broken = look.answer.flags & RESPONSE_BROKEN != 0;
            stream.take(&mut self.out, ring, look.done && !broken);
            if stream.write(&mut self.out, ring).is_err() {
                return false;
            }
            if look.done && ring.available() == 0 {
                let in_step = !broken && self.is_complete(stream);
                if self.out.holds() {
                    self.part();
                }
                return self.out.flush(&self.timer).await && in_step;
            }
            if !self.out.is_held_up() && ring.available() > 0 {
                // The bound on the output held these back, and nobody would wake us for them.
                tokio::task::consume_budget().await;
                continue;
            }
            match self.wait(ring).await {
                Woken::Go | Woken::Behind | Woken::Due => {}
                Woken::Stalled | Woken::Lost => return false,
            }
        }
    }

    /// True when the body has the length that was announced. Tells the log when not.
    fn is_complete(&self, stream: &Stream) -> bool {
        let complete = !matches!(stream.framing, Framing::Length(length) if length != stream.taken);
        if !complete {
            self.tell_wrong_length(stream.framing, stream.taken);
        }
        complete
    }

    async fn stream_file(&mut self, stream: &mut Stream, file: BodyFile) -> bool {
        if self.lent {
            self.out.transport.never_block();
        }
        let mut offset = rustix::fs::tell(&file.file).unwrap_or(0);
        let mut left = file.length.min(stream.left);
        if stream.left != u64::MAX
            && file.length != stream.left
            && !matches!(stream.framing, Framing::Empty(_))
        {
            self.tell_wrong_length(stream.framing, file.length);
        }
        if !self.out.flush(&self.timer).await {
            return false;
        }
        while left > 0 {
            let turn = left.min(FILE_TURN as u64) as usize;
            match self.out.transport.try_send_file(file.file.as_fd(), &mut offset, turn) {
                Ok(0) => {
                    self.tell_wrong_length(stream.framing, file.length - left);
                    return false;
                }
                Ok(sent) => {
                    self.out.sent_of_file(Some(sent));
                    left -= sent as u64;
                    stream.taken += sent as u64;
                    tokio::task::consume_budget().await;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.out.sent_of_file(None);
                    let woken = self.out.wait(&self.timer, false, |_, _| Poll::Pending).await;
                    if let Woken::Stalled | Woken::Lost = woken {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        !matches!(stream.framing, Framing::Length(length) if length != stream.taken)
    }

    /// Waits for more of the response, or for room at the client's side.
    async fn wait(&mut self, ring: Ring) -> Woken {
        let Self { out, timer, exchange, server, .. } = self;
        let news = |transport: &Transport, context: &Context<'_>| news(exchange, server, transport, context);
        if out.is_held_up() {
            exchange.answer();
            return out.wait(timer, ring.available() > 0, news).await;
        }
        out.wait_for_nobody();
        timer.stop();
        exchange.watch();
        poll_fn(|context| news(&out.transport, context)).await
    }
}

/// What there is of the worker, or the client's end.
fn news(exchange: &Exchange, server: &Server, transport: &Transport, context: &Context<'_>) -> Poll<Woken> {
    loop {
        return match exchange.poll_more(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(More::Lost) => Poll::Ready(Woken::Lost),
            Poll::Ready(More::News) => Poll::Ready(Woken::Go),
            Poll::Ready(More::Look) if has_left(transport, server) => Poll::Ready(Woken::Lost),
            Poll::Ready(More::Look) => continue,
        };
    }
}

impl Stream {
    /// Moves body bytes from the ring to what is held for the client: pieces that become chunks, and all for a client
    /// that is behind. Others go straight from the ring, see [`Stream::write`]. Ends the body when `done`.
    fn take(&mut self, out: &mut Outflow, ring: Ring, done: bool) {
        let available = ring.available();
        if self.left > 0 && available > 0 && (self.framing == Framing::Chunked || out.is_behind()) {
            let length = out.room(available).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            if length > 0 {
                out.forget_sent();
                self.copy(out, ring, length);
            }
        }
        self.drop_surplus(ring);
        if done && self.framing == Framing::Chunked && !self.ended && ring.available() == 0 {
            out.put(|out| out.extend_from_slice(LAST_CHUNK));
            self.ended = true;
        }
        out.relieve(ring.available() > 0);
    }

    fn copy(&mut self, out: &mut Outflow, ring: Ring, length: usize) {
        let (first, second) = ring.bytes(0, length);
        let chunked = self.framing == Framing::Chunked;
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

    /// Bytes beyond the Content-Length, or of a body that must not be, never reach the wire.
    fn drop_surplus(&mut self, ring: Ring) {
        let surplus = ring.available();
        if self.left == 0 && surplus > 0 {
            self.taken += surplus as u64;
            ring.consume(surplus);
        }
    }
}
