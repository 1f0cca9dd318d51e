//! A response that is not whole yet, or comes from a file: sent as it grows.
//!
//! Bytes go straight from the slot's ring to the socket as long as the client keeps up. When it falls behind, they are
//! copied, so that the worker can go on and the slot is free: `send` holds them, in memory up to `--response-buffer`, in a
//! file up to `--response-spool`. Beyond that the ring fills up and the worker waits.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use howdah_accesslog::Source;
use howdah_http1::encode::{LAST_CHUNK, chunk_head};
use howdah_wire::{RESPONSE_BROKEN, RESPONSE_FILE};

use crate::conn::{Conn, Next};
use crate::departure::has_left;
use crate::head::{Framing, ResponseHead};
use crate::registry::{Mail, Rest};
use crate::reply::BodyFile;
use crate::ring::Ring;
pub(crate) use crate::send::Woken;
use crate::socket::Socket;
use crate::thread::here;

/// Bytes of a file to send before other connections have their turn.
const FILE_TURN: usize = 1 << 20;

/// A response under way.
struct Stream {
    slot: u32,
    ring: Ring,
    framing: Framing,
    /// Body bytes taken from the ring.
    taken: u64,
    /// Body bytes that may still be sent.
    left: u64,
    /// Body bytes that may be sent at all.
    most: u64,
    /// The last chunk is in the output.
    ended: bool,
}

impl Conn {
    /// Sends head and body as they come; `lines` bytes of header lines start the ring.
    pub(crate) async fn stream(
        &mut self,
        head: ResponseHead,
        slot: u32,
        lines: usize,
        file: Option<BodyFile>,
    ) -> Next {
        let mut output = std::mem::take(&mut self.output);
        let ring = Ring(slot);
        head.put(&mut output, ring.lines(lines), self.request_id());
        self.tally.keep_fields(Source::ResponseHeader, &output);
        self.output = output;
        let left = match head.framing {
            Framing::Length(length) => length,
            Framing::Empty(_) => 0,
            Framing::Chunked | Framing::Close => u64::MAX,
        };
        let mut stream =
            Stream { slot, ring, framing: head.framing, taken: 0, left, most: left, ended: false };
        stream.consume(lines);
        let whole = match file {
            Some(file) => {
                let whole = self.stream_file(&mut stream, file).await;
                self.await_report(slot).await;
                whole
            }
            None => self.stream_ring(&mut stream).await,
        };
        // Less may have been sent than was taken.
        self.tally.body = stream.taken.min(stream.most).min(self.tally.sent);
        match whole {
            true if head.keep_alive => Next::Continue,
            true => self.last_word(),
            false => {
                if head.framing == Framing::Close {
                    // An ordinary end would say that this was all (RFC 9112 8).
                    self.socket.reset();
                }
                Next::Cut
            }
        }
    }

    /// True when all of it is out, and the connection in step.
    async fn stream_ring(&mut self, stream: &mut Stream) -> bool {
        loop {
            let done = here().dispatch.borrow_mut().is_done(stream.slot);
            let broken = stream.ring.flags() & RESPONSE_BROKEN != 0;
            stream.take(self, done && !broken);
            if stream.write(self).is_err() {
                return false;
            }
            if done && stream.ring.available() == 0 {
                let in_step = !broken && stream.is_complete(self);
                if self.holds() {
                    self.part_with_slot();
                }
                return self.flush().await && in_step;
            }
            if !self.is_held_up() && stream.ring.available() > 0 {
                // The bound on the output held these back, and nobody would wake us for them.
                tokio::task::consume_budget().await;
                continue;
            }
            match self.wait(stream).await {
                Woken::Go | Woken::Behind | Woken::Due => {}
                Woken::Stalled | Woken::Lost => return false,
            }
        }
    }

    async fn stream_file(&mut self, stream: &mut Stream, file: BodyFile) -> bool {
        if self.lent {
            self.socket.never_block();
        }
        let mut offset = rustix::fs::tell(&file.file).unwrap_or(0);
        let mut left = file.length.min(stream.left);
        if stream.left != u64::MAX
            && file.length != stream.left
            && !matches!(stream.framing, Framing::Empty(_))
        {
            self.tell_wrong_length(stream.framing, file.length);
        }
        if !self.flush().await {
            return false;
        }
        while left > 0 {
            match self.socket.try_send_file(
                file.file.as_fd(),
                &mut offset,
                left.min(FILE_TURN as u64) as usize,
            ) {
                Ok(0) => {
                    self.tell_wrong_length(stream.framing, file.length - left);
                    return false;
                }
                Ok(sent) => {
                    self.tally.wrote(sent);
                    left -= sent as u64;
                    stream.taken += sent as u64;
                    tokio::task::consume_budget().await;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.reader.tried(true);
                    if let Woken::Stalled | Woken::Lost = self.wait_for_client(false, false).await {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        !matches!(stream.framing, Framing::Length(length) if length != stream.taken)
    }

    /// True when the client has to be waited for, or the spool.
    fn is_held_up(&self) -> bool {
        self.holds() || self.reader.blocked || self.spool.is_some()
    }

    /// Waits for more of the response, or for room at the client's side.
    async fn wait(&mut self, stream: &Stream) -> Woken {
        if self.is_held_up() {
            return self.wait_for_client(true, stream.ring.available() > 0).await;
        }
        self.wait_for_nobody();
        self.note(Rest::No, 0);
        here().registry.borrow_mut().get(self.key).waiting = true;
        poll_fn(|context| poll_mail(&self.socket, self.key, context).map_or(Poll::Pending, Poll::Ready)).await
    }
}

impl Stream {
    /// Moves body bytes from the ring to what is held for the client: pieces that become chunks, and all for a client
    /// that is behind. Others go straight from the ring, see [`Stream::write`]. Ends the body when `done`.
    fn take(&mut self, conn: &mut Conn, done: bool) {
        let available = self.ring.available();
        if self.left > 0 && available > 0 && (self.framing == Framing::Chunked || conn.reader.behind) {
            let length = conn.room(available).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            if length > 0 {
                conn.forget_sent();
                self.copy(conn, length);
            }
        }
        self.drop_surplus();
        if done && self.framing == Framing::Chunked && !self.ended && self.ring.available() == 0 {
            conn.output.extend_from_slice(LAST_CHUNK);
            self.ended = true;
        }
        conn.relieve(self.ring.available() > 0);
    }

    fn copy(&mut self, conn: &mut Conn, length: usize) {
        let (first, second) = self.ring.bytes(0, length);
        let chunked = self.framing == Framing::Chunked && length > 0;
        if chunked {
            chunk_head(&mut conn.output, length);
        }
        conn.output.extend_from_slice(first);
        conn.output.extend_from_slice(second);
        if chunked {
            conn.output.extend_from_slice(b"\r\n");
        }
        self.took(length);
    }

    /// Writes what is held, and behind it body bytes straight from the ring.
    fn write(&mut self, conn: &mut Conn) -> io::Result<()> {
        loop {
            if self.straight(conn) == 0 {
                conn.send_held()?;
            }
            let length = self.straight(conn);
            if length == 0 || conn.reader.is_stuck() {
                self.drop_surplus();
                return Ok(());
            }
            match self.write_straight(conn, length) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    conn.reader.tried(true);
                    return Ok(());
                }
                written => written?,
            }
        }
    }

    /// Bytes of the ring that need not be held for the client.
    fn straight(&self, conn: &Conn) -> usize {
        if self.framing == Framing::Chunked || conn.reader.behind || conn.spool.is_some() {
            return 0;
        }
        self.ring.available().min(usize::try_from(self.left).unwrap_or(usize::MAX))
    }

    fn write_straight(&mut self, conn: &mut Conn, length: usize) -> io::Result<()> {
        let (first, second) = self.ring.bytes(0, length);
        let held = &conn.output[conn.sent..];
        let before = held.len();
        let runs = [held, first, second].map(IoSlice::new);
        let written = conn.socket.try_write_vectored(&runs)?;
        conn.wrote(written);
        if written >= before {
            conn.caught_up();
            self.took(written - before);
        }
        Ok(())
    }

    fn took(&mut self, length: usize) {
        self.taken += length as u64;
        self.left = self.left.saturating_sub(length as u64);
        self.consume(length);
    }

    /// Bytes beyond the Content-Length, or of a body that must not be, never reach the wire.
    fn drop_surplus(&mut self) {
        let surplus = self.ring.available();
        if self.left == 0 && surplus > 0 {
            self.taken += surplus as u64;
            self.consume(surplus);
        }
    }

    fn consume(&self, length: usize) {
        self.ring.consume(length);
    }

    /// True when the body has the length that was announced. Tells the log when not.
    fn is_complete(&self, conn: &Conn) -> bool {
        let complete = !matches!(self.framing, Framing::Length(length) if length != self.taken);
        if !complete && self.ring.flags() & RESPONSE_FILE == 0 {
            conn.tell_wrong_length(self.framing, self.taken);
        }
        complete
    }
}

pub(crate) fn poll_mail(socket: &Socket, key: usize, context: &Context<'_>) -> Option<Woken> {
    let mut registry = here().registry.borrow_mut();
    let entry = registry.get(key);
    entry.listen(context);
    if entry.mail.iter().any(|mail| matches!(mail, Mail::Lost { .. })) {
        return Some(Woken::Lost);
    }
    if std::mem::take(&mut entry.check_peer) && has_left(socket) {
        return Some(Woken::Lost);
    }
    std::mem::take(&mut entry.news).then_some(Woken::Go)
}
