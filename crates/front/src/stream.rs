//! A response that is not whole yet, or comes from a file: sent as it grows.
//!
//! Bytes go from the slot's ring to the socket; what the socket does not take is copied, up to the bound of
//! `--response-buffer`, so that the worker can go on. Beyond it the ring fills up and the worker waits.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Acquire;
use std::task::{Context, Poll};

use howdah_accesslog::Source;
use howdah_http1::encode::{LAST_CHUNK, chunk_head};
use howdah_wire::{RESPONSE_BROKEN, RESPONSE_FILE, SlotControl};

use crate::conn::{Conn, Next};
use crate::departure::has_left;
use crate::head::{Framing, ResponseHead};
use crate::registry::{Mail, Rest};
use crate::reply::BodyFile;
use crate::socket::Socket;
use crate::thread::here;

/// Bytes of a file to send before other connections have their turn.
const FILE_TURN: usize = 1 << 20;

/// A response goes on with this much memory, whatever `--response-buffer` says.
const LEAST_BUFFER: usize = 4096;

/// A response under way.
struct Stream {
    slot: u32,
    control: &'static SlotControl,
    framing: Framing,
    /// Body bytes taken from the ring.
    taken: u64,
    /// Body bytes that may still be sent.
    left: u64,
    /// Body bytes that may be sent at all.
    most: u64,
    /// The last chunk is in the output.
    ended: bool,
    /// The last write would have blocked.
    blocked: bool,
    /// The client has taken something since its deadline was set, or had nothing to take.
    moved: bool,
}

/// How a wait ended.
pub(crate) enum Woken {
    Go,
    Stalled,
    Lost,
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
        let thread = here();
        let mut output = std::mem::take(&mut self.output);
        head.put(&mut output, &thread.segment.response(slot, 0).0[..lines], self.request_id());
        self.tally.keep_fields(Source::ResponseHeader, &output);
        self.output = output;
        let control = thread.dispatch.borrow().control(slot);
        let left = match head.framing {
            Framing::Length(length) => length,
            Framing::Empty(_) => 0,
            Framing::Chunked | Framing::Close => u64::MAX,
        };
        let mut stream = Stream {
            slot,
            control,
            framing: head.framing,
            taken: 0,
            left,
            most: left,
            ended: false,
            blocked: false,
            moved: true,
        };
        stream.consume(lines);
        let whole = match file {
            Some(file) => {
                let whole = self.stream_file(&mut stream, file).await;
                self.await_report(slot).await;
                whole
            }
            None => self.stream_ring(&mut stream).await,
        };
        self.tally.body = stream.taken.min(stream.most);
        match whole {
            true if head.keep_alive => Next::Continue,
            true => self.last_word(),
            false => Next::Cut,
        }
    }

    /// True when all of it is out, and the connection in step.
    async fn stream_ring(&mut self, stream: &mut Stream) -> bool {
        loop {
            let done = here().dispatch.borrow().is_done(stream.slot);
            let broken = stream.control.flags.load(Acquire) & RESPONSE_BROKEN != 0;
            stream.take(self, done && !broken);
            if stream.write(self).is_err() {
                return false;
            }
            if done && stream.control.available() == 0 {
                let in_step = !broken && stream.is_complete(self);
                if !self.output.is_empty() {
                    self.part_with_slot();
                }
                return self.flush().await && in_step;
            }
            if !stream.blocked && self.output.is_empty() && stream.control.available() > 0 {
                // The bound on the output held these back, and nobody would wake us for them.
                tokio::task::consume_budget().await;
                continue;
            }
            match self.wait(stream).await {
                Woken::Go => {}
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
                    stream.blocked = true;
                    if !matches!(self.wait_writable(stream).await, Woken::Go) {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        !matches!(stream.framing, Framing::Length(length) if length != stream.taken)
    }

    /// Sends all of the output. False when the client is gone or too slow.
    pub(crate) async fn flush(&mut self) -> bool {
        while self.sent < self.output.len() {
            match self.socket.try_write(&self.output[self.sent..]) {
                Ok(written) => self.wrote(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.write_deadline();
                    let mut blocked = true;
                    let woken =
                        poll_fn(|context| poll_writable(&mut self.socket, self.key, context, &mut blocked))
                            .await;
                    if !matches!(woken, Woken::Go) {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        self.output.clear();
        self.sent = 0;
        true
    }

    /// Waits for more of the response, or for room at the client's side.
    async fn wait(&mut self, stream: &mut Stream) -> Woken {
        let pending = !self.output.is_empty() || stream.blocked;
        if !pending {
            stream.moved = true;
            self.note(Rest::No, 0);
            here().registry.borrow_mut().get(self.key).waiting = true;
        } else if std::mem::take(&mut stream.moved) {
            // News of the worker, which repeats that it waits for room, must not put the client's deadline off.
            self.write_deadline();
        }
        poll_fn(|context| {
            if let Some(woken) = poll_mail(&self.socket, self.key, context) {
                return Poll::Ready(woken);
            }
            if pending {
                poll_writable(&mut self.socket, self.key, context, &mut stream.blocked)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Some more of the output is out.
    fn wrote(&mut self, bytes: usize) {
        self.sent += bytes;
        self.tally.wrote(bytes);
    }

    async fn wait_writable(&mut self, stream: &mut Stream) -> Woken {
        self.write_deadline();
        poll_fn(|context| poll_writable(&mut self.socket, self.key, context, &mut stream.blocked)).await
    }

    fn write_deadline(&self) {
        let thread = here();
        self.note(Rest::No, thread.clock.after(thread.config.write_timeout));
    }
}

impl Stream {
    /// Moves body bytes from the ring to the connection's output, where they wait for the socket; ends the body when
    /// `done`. Bytes that are delimited by length go straight from the ring, see [`Stream::write`].
    fn take(&mut self, conn: &mut Conn, done: bool) {
        let thread = here();
        let straight = conn.output.is_empty() && self.framing != Framing::Chunked && !self.blocked;
        let held = conn.output.len() - conn.sent;
        let room = thread.config.response_buffer.max(LEAST_BUFFER).saturating_sub(held);
        let available = self.control.available();
        if !straight && available > 0 && (room > 0 || self.left == 0) {
            let length = available.min(room.max(1)).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.copy(conn, length);
            self.drop_surplus();
        }
        if done && self.framing == Framing::Chunked && !self.ended && self.control.available() == 0 {
            conn.output.extend_from_slice(LAST_CHUNK);
            self.ended = true;
        }
    }

    fn copy(&mut self, conn: &mut Conn, length: usize) {
        let thread = here();
        let (first, second) = thread.segment.response(self.slot, 0);
        let first = &first[..length.min(first.len())];
        let second = &second[..length - first.len()];
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

    /// Writes output, or when there is none, body bytes straight from the ring.
    fn write(&mut self, conn: &mut Conn) -> std::io::Result<()> {
        loop {
            let written = if conn.output.is_empty() {
                let length = self.control.available().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                if length == 0 || self.framing == Framing::Chunked {
                    self.drop_surplus();
                    return Ok(());
                }
                let written = self.write_ring(conn, length);
                let length = *written.as_ref().unwrap_or(&0);
                conn.tally.wrote(length);
                self.took(length);
                written
            } else {
                write_output(conn)
            };
            match written {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
                Ok(_) => {
                    self.blocked = false;
                    self.moved = true;
                }
            }
        }
    }

    fn write_ring(&self, conn: &Conn, length: usize) -> std::io::Result<usize> {
        let thread = here();
        let (first, second) = thread.segment.response(self.slot, 0);
        let first = &first[..length.min(first.len())];
        conn.socket.try_write_vectored(&[IoSlice::new(first), IoSlice::new(&second[..length - first.len()])])
    }

    fn took(&mut self, length: usize) {
        self.taken += length as u64;
        self.left = self.left.saturating_sub(length as u64);
        self.consume(length);
    }

    /// Bytes beyond the Content-Length, or of a body that must not be, never reach the wire.
    fn drop_surplus(&mut self) {
        let surplus = self.control.available();
        if self.left == 0 && surplus > 0 {
            self.taken += surplus as u64;
            self.consume(surplus);
        }
    }

    fn consume(&self, length: usize) {
        if self.control.consume(length) {
            howdah_sys::futex_wake(&self.control.room, 1);
        }
    }

    /// True when the body has the length that was announced. Tells the log when not.
    fn is_complete(&self, conn: &Conn) -> bool {
        let complete = !matches!(self.framing, Framing::Length(length) if length != self.taken);
        if !complete && self.control.flags.load(Acquire) & RESPONSE_FILE == 0 {
            conn.tell_wrong_length(self.framing, self.taken);
        }
        complete
    }
}

fn write_output(conn: &mut Conn) -> std::io::Result<usize> {
    let written = conn.socket.try_write(&conn.output[conn.sent..])?;
    conn.wrote(written);
    if conn.sent == conn.output.len() {
        conn.output.clear();
        conn.sent = 0;
    }
    Ok(written)
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

fn poll_writable(
    socket: &mut Socket,
    key: usize,
    context: &mut Context<'_>,
    blocked: &mut bool,
) -> Poll<Woken> {
    {
        let mut registry = here().registry.borrow_mut();
        let entry = registry.get(key);
        entry.listen(context);
        if std::mem::take(&mut entry.expired) {
            return Poll::Ready(Woken::Stalled);
        }
    }
    socket.poll_writable(context, blocked).map(|ready| if ready.is_ok() { Woken::Go } else { Woken::Stalled })
}
