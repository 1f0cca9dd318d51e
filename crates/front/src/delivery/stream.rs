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
        let mut stream = Stream { framing, taken: sent as u64, left, whole, ended: false };
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
            match self.wait(stream.framing, ring, orphaned).await {
                Woken::Go | Woken::Behind | Woken::Due => {}
                Woken::Lost if !orphaned && self.is_orphaned() => orphaned = true,
                Woken::Lost if self.has_nobody_left(stream.framing) => {
                    self.handling.part(&mut self.exchange.account);
                    return Delivered::Longer;
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
    fn has_nobody_left(&self, framing: Framing) -> bool {
        self.exchange.loss().is_none()
            && is_served(framing, &self.out.transport)
            && !self.server.has_left(&self.out.transport)
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
    async fn wait(&mut self, framing: Framing, ring: Ring, orphaned: bool) -> Woken {
        let Self { out, timer, exchange, server, .. } = self;
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
        let has_left = || server.has_left(&out.transport) || is_served(framing, &out.transport);
        poll_fn(|context| if orphaned { Poll::Pending } else { news(exchange, context, has_left) }).await
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

/// Whether a client that waits has all it can have: a head without a body, and it asks for nothing more. Nothing that is written to
/// it would tell whether it is still there.
fn is_served(framing: Framing, transport: &Transport) -> bool {
    matches!(framing, Framing::Empty(_)) && transport.has_said_all()
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
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use howdah_metrics::Failure;
    use howdah_wire::{LENGTH_UNKNOWN, RESPONSE_BROKEN, RESPONSE_FILE, RESPONSE_RING};

    use super::SURPLUS;
    use crate::capacity::Kind;
    use crate::config::Config;
    use crate::exchange::Mail;
    use crate::h1::serve;
    use crate::reports::Loss;
    use crate::sample::frames::{get, greeting};
    use crate::sample::worker::Claimed;
    use crate::sample::world::{World, pieces, run};
    use crate::transport::scripted::{Piece, Scripted};
    use crate::transport::{Peer, Socket, Transport};

    /// A client whose request a worker has, which has said its head.
    struct Scene {
        world: World,
        script: Scripted,
        connection: tokio::task::JoinHandle<()>,
        claimed: Claimed,
    }

    async fn scene(config: Config, version: &str, length: u64, flags: u32) -> Scene {
        let world = World::new(config);
        let script = Scripted::new(pieces(&format!(
            "GET /a HTTP/{version}\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"
        )));
        let connection = world.connect(&script);
        world.run(false).await;
        let mut claimed = world.worker.claim().unwrap();
        world.worker.begin(&claimed);
        world.worker.head(&mut claimed, 200, length, flags);
        Scene { world, script, connection, claimed }
    }

    impl Scene {
        /// The worker writes that, and tells.
        async fn write(&mut self, bytes: &[u8]) -> usize {
            let first = self.world.worker.write(&mut self.claimed, bytes);
            // Which may have come to the ring's end.
            let written = first + self.world.worker.write(&mut self.claimed, &bytes[first..]);
            self.world.worker.tell(&self.claimed);
            self.world.run(false).await;
            written
        }

        async fn finish(self) -> (World, Scripted, tokio::task::JoinHandle<()>) {
            self.world.worker.finish(self.claimed);
            self.world.run(false).await;
            (self.world, self.script, self.connection)
        }

        fn body(&self) -> String {
            body(&self.script)
        }
    }

    fn body(script: &Scripted) -> String {
        let text = String::from_utf8(script.output()).unwrap();
        text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned())
    }

    #[test]
    fn each_piece_goes_out_when_it_is_there() {
        // Version, length that is given, what each piece looks like, what the end adds, and whether the connection stays.
        for (version, length, shown, end, stays) in [
            ("1.1", LENGTH_UNKNOWN, ["3\r\none\r\n", "3\r\ntwo\r\n"], "0\r\n\r\n", true),
            ("1.1", 6, ["one", "two"], "", true),
            ("1.1", 7, ["one", "two"], "", false),
            ("1.1", 5, ["one", "tw"], "", false),
            ("1.0", LENGTH_UNKNOWN, ["one", "two"], "", false),
        ] {
            run(async {
                let mut scene = scene(Config::default(), version, length, 0).await;
                scene.write(b"one").await;
                assert_eq!(scene.body(), shown[0], "{version} {length}");
                scene.write(b"two").await;
                assert_eq!(scene.body(), shown.concat());
                let (_, script, connection) = scene.finish().await;
                assert_eq!(body(&script), shown.concat() + end);
                assert_eq!(!connection.is_finished() && !script.was_shut(), stays, "{version} {length}");
                assert!(!script.was_reset());
            });
        }
    }

    #[test]
    fn a_body_that_has_no_end_is_not_waited_for() {
        run(async {
            let mut scene = scene(Config::default(), "1.1", 5, 0).await;
            let piece = vec![b'x'; RESPONSE_RING / 2];
            for _ in 0..SURPLUS as usize / piece.len() {
                assert_eq!(scene.write(&piece).await, piece.len());
                assert!(!scene.connection.is_finished() && !scene.world.worker.is_abandoned(&scene.claimed));
            }
            scene.write(&piece).await;
            assert_eq!(scene.body(), "xxxxx");
            assert!(scene.script.was_shut() && scene.world.worker.is_abandoned(&scene.claimed));
        });
    }

    #[test]
    fn a_body_that_breaks_off_does_not_look_whole() {
        for (version, length, reset) in
            [("1.1", LENGTH_UNKNOWN, false), ("1.1", 6, false), ("1.0", LENGTH_UNKNOWN, true)]
        {
            run(async {
                let mut scene = scene(Config::default(), version, length, 0).await;
                scene.write(b"one").await;
                scene.world.pool().worker_gone(0, Loss::Killed);
                scene.world.run(false).await;
                assert!(scene.connection.is_finished() && !scene.body().ends_with("0\r\n\r\n"));
                assert_eq!(scene.script.was_reset(), reset, "an ordinary end would say that this was all");
            });
        }
    }

    #[test]
    fn what_a_client_has_nothing_of_yet_is_taken_back_when_its_worker_is_lost() {
        for (taken, what, stays) in [
            (0, "HTTP/1.1 502 Bad Gateway", true),
            (4, "HTTP/1.1 200 OK", false),
            (15, "HTTP/1.1 200 OK", false),
        ] {
            run(async {
                let mut scene = scene(Config::default(), "1.1", 6, 0).await;
                scene.script.take(taken);
                scene.write(b"one").await;
                scene.world.pool().worker_gone(0, Loss::Killed);
                scene.world.run(false).await;
                scene.script.take(usize::MAX);
                scene.world.run(false).await;
                let output = String::from_utf8(scene.script.output()).unwrap();
                assert_eq!(output.lines().next(), Some(what));
                assert_eq!(output.ends_with("\r\n\r\n502 Bad Gateway\n"), stays, "{taken}");
                assert_eq!(!scene.connection.is_finished(), stays, "{taken}");
                assert_eq!(scene.world.totals().failures[Failure::WorkerLost], 1);
            });
        }
    }

    #[test]
    fn what_a_lost_worker_had_handed_over_goes_to_a_client_that_is_slow() {
        for (length, is_behind) in
            [(LENGTH_UNKNOWN, false), (LENGTH_UNKNOWN, true), (200_000, false), (200_000, true)]
        {
            run(async {
                let mut scene = scene(Config::default(), "1.1", length, 0).await;
                scene.script.take(300);
                let written = scene.write(&[b'y'; 100_000]).await;
                if is_behind {
                    scene.world.wait(Duration::from_millis(60));
                    tokio::time::sleep(Duration::from_millis(15)).await;
                    scene.world.run(false).await;
                }
                scene.world.pool().worker_gone(0, Loss::Killed);
                scene.world.run(false).await;
                assert!(!scene.connection.is_finished(), "{length} {is_behind}");
                scene.script.take(usize::MAX);
                scene.world.run(false).await;
                assert_eq!(scene.body().matches('y').count(), written, "{length} {is_behind}");
                assert!(scene.connection.is_finished() && !scene.body().ends_with("0\r\n\r\n"));
            });
        }
    }

    #[test]
    fn a_worker_is_free_when_its_client_is_behind_and_memory_takes_the_response() {
        run(async {
            let config = Config { response_buffer: 4 << 20, response_spool: 0, ..Config::default() };
            let mut scene = scene(config, "1.1", LENGTH_UNKNOWN, 0).await;
            scene.script.take(0);
            let piece = vec![b'x'; RESPONSE_RING / 2];
            let mut written = 0;
            for _ in 0..12 {
                written += scene.write(&piece).await;
                scene.world.wait(Duration::from_millis(60));
                tokio::time::sleep(Duration::from_millis(15)).await;
                scene.world.run(false).await;
            }
            assert_eq!(written, 12 * piece.len(), "nothing held the worker up");
            scene.script.take(usize::MAX);
            let (_, script, connection) = scene.finish().await;
            assert_eq!(body(&script).matches('x').count(), written);
            assert!(body(&script).ends_with("0\r\n\r\n") && !connection.is_finished());
        });
    }

    #[test]
    fn beyond_the_bounds_the_worker_waits() {
        run(async {
            let config = Config { response_buffer: 8192, response_spool: 0, ..Config::default() };
            let mut scene = scene(config, "1.1", LENGTH_UNKNOWN, 0).await;
            scene.script.take(0);
            let mut written = 0;
            for _ in 0..20 {
                written += scene.write(&vec![b'x'; RESPONSE_RING / 2]).await;
                scene.world.wait(Duration::from_millis(60));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(written <= RESPONSE_RING + 16384, "{written}");
        });
    }

    #[test]
    fn a_client_that_takes_nothing_is_cut_off_and_one_that_leaves_is_noticed() {
        for (peer, seconds) in [(Peer::There, 61), (Peer::Gone, 8)] {
            run(async {
                let config = Config { min_send_rate: 0, ..Config::default() };
                let mut scene = scene(config, "1.1", LENGTH_UNKNOWN, 0).await;
                scene.script.take(0);
                scene.write(b"one").await;
                assert!(!scene.connection.is_finished());
                scene.script.become_of(peer);
                for _ in 0..2 * seconds {
                    scene.world.wait(Duration::from_millis(500));
                    scene.world.run(false).await;
                }
                assert!(scene.connection.is_finished(), "{peer:?}");
                assert_eq!(scene.script.was_reset(), peer == Peer::There);
                let failure = if peer == Peer::There { Failure::WriteTimeout } else { Failure::ClientGone };
                let failures = scene.world.totals().failures;
                assert_eq!(failures[failure], 1);
            });
        }
    }

    #[test]
    fn a_response_that_breaks_off_counts_as_the_doing_of_whoever_has_it_break_off() {
        type Ends = fn(&World, Claimed);
        let is_through: Ends = |world, claimed| world.worker.finish(claimed);
        let dies: Ends = |world, mut claimed| {
            world.worker.flag(&mut claimed, RESPONSE_BROKEN);
            world.worker.finish(claimed);
        };
        let is_killed: Ends = |world, _| world.pool().worker_gone(0, Loss::Killed);
        let asked = [greeting(), get(1, "/a")].concat();
        let by = [("HTTP/2", asked), ("HTTP/1.1", b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n".to_vec())];
        // Whether some of it is out before its worker ends, its length as the worker says, how that ends, and what counts.
        for (what, grows, length, ends, expected) in [
            ("whole and short", false, 9, is_through, Some(Failure::Application)),
            ("short", true, 9, is_through, Some(Failure::Application)),
            ("whole and long", false, 2, is_through, None),
            ("long", true, 2, is_through, None),
            ("half", true, LENGTH_UNKNOWN, dies, Some(Failure::Application)),
            ("killed", true, LENGTH_UNKNOWN, is_killed, Some(Failure::WorkerLost)),
        ] {
            for (protocol, asked) in &by {
                run(async {
                    let world = World::new(Config::default());
                    let script = Scripted::new([Piece::Bytes(asked.clone())]);
                    world.connect(&script);
                    world.run(false).await;
                    let mut claimed = world.worker.claim().unwrap();
                    world.worker.begin(&claimed);
                    world.worker.head(&mut claimed, 200, length, 0);
                    world.worker.write(&mut claimed, b"four");
                    if grows {
                        world.worker.tell(&claimed);
                        world.run(false).await;
                    }
                    ends(&world, claimed);
                    world.run(false).await;
                    let totals = world.totals();
                    assert_eq!(totals.all_requests(), 1, "{what} by {protocol}");
                    let failures = totals.failures.iter().filter(|(_, count)| **count > 0);
                    let failed: Vec<_> = failures.map(|(failure, _)| failure).collect();
                    assert_eq!(failed, expected.into_iter().collect::<Vec<_>>(), "{what} by {protocol}");
                });
            }
        }
    }

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    #[test]
    fn a_file_is_sent_as_long_as_it_was_said_to_be() {
        // What is in it, its length as the worker says, the length of the head, and whether the connection stays.
        for (bytes, length, given, sent, stays) in [
            (&b"0123456789"[..], 10, LENGTH_UNKNOWN, "0123456789", true),
            (b"0123456789", 10, 10, "0123456789", true),
            (b"0123456789", 10, 4, "0123", true),
            (b"0123", 10, LENGTH_UNKNOWN, "0123", false),
            (b"0123456789", 10, 12, "0123456789", false),
            (b"", 0, LENGTH_UNKNOWN, "", true),
        ] {
            run(async {
                let mut scene = scene(Config::default(), "1.1", given, RESPONSE_FILE).await;
                scene.world.worker.tell(&scene.claimed);
                scene.world.run(false).await;
                assert!(scene.script.output().is_empty(), "the file is not there yet");
                let permit = scene.world.thread.entrance.room.permit_for_file().unwrap();
                let mail = Mail::File { file: Some((file(bytes).into(), permit)), length };
                assert!(scene.world.thread.desks.post(0, mail));
                scene.write(b"").await;
                let (_, script, connection) = scene.finish().await;
                assert_eq!(body(&script), sent, "{length} {given}");
                assert_eq!(!connection.is_finished(), stays, "{length} {given}");
            });
        }
    }

    #[test]
    fn a_slot_is_free_while_a_client_takes_a_file_slowly() {
        // Whether the worker is through with it before the client has to be waited for, behind that, or dies instead.
        for (when, dies) in [("before", false), ("behind", false), ("behind", true)] {
            run(async {
                let mut scene = scene(Config::default(), "1.1", LENGTH_UNKNOWN, RESPONSE_FILE).await;
                scene.script.take(0);
                let permit = scene.world.thread.entrance.room.permit_for_file().unwrap();
                let mail = Mail::File { file: Some((file(b"0123456789").into(), permit)), length: 10 };
                assert!(scene.world.thread.desks.post(0, mail));
                if when == "behind" {
                    scene.write(b"").await;
                }
                let in_flight = |world: &World| world.pool().dispatch.borrow().in_flight;
                assert_eq!(in_flight(&scene.world), 1, "{when}: the worker may still be at it");
                let Scene { world, script, connection, claimed } = scene;
                match dies {
                    true => world.pool().worker_gone(0, Loss::Killed),
                    false => world.worker.finish(claimed),
                }
                world.run(false).await;
                assert_eq!(in_flight(&world), 0, "{when}");
                assert!(body(&script).is_empty() && !connection.is_finished());
                script.take(usize::MAX);
                world.run(false).await;
                assert_eq!((body(&script).as_str(), connection.is_finished()), ("0123456789", false));
                assert_eq!(world.totals().all_requests(), 1, "{when}");
            });
        }
    }

    #[test]
    fn who_has_a_head_and_nothing_to_come_is_not_waited_with_once_he_has_ended_his_side() {
        for (method, is_let_go) in [("HEAD", true), ("GET", false)] {
            run(async {
                let world = World::new(Config::default());
                let script = Scripted::new(pieces(&format!("{method} /a HTTP/1.1\r\nHost: h\r\n\r\n")));
                let connection = world.connect(&script);
                world.run(false).await;
                let mut claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
                world.worker.tell(&claimed);
                world.run(false).await;
                assert!(script.output().ends_with(b"\r\n\r\n"));
                for peer in [Peer::There, Peer::Silent] {
                    assert!(!world.worker.is_abandoned(&claimed), "{method} {peer:?}");
                    script.become_of(peer);
                    world.wait(Duration::from_millis(100));
                    world.run(false).await;
                }
                assert_eq!(world.worker.is_abandoned(&claimed), is_let_go, "{method}");
                assert_eq!(connection.is_finished() || script.was_shut(), is_let_go, "{method}");
                assert_eq!(world.totals().failures[Failure::ClientGone], 0);
            });
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_its_clients_doing() {
        run(async {
            let world = World::new(Config::default());
            let (mut client, socket) = UnixStream::pair().unwrap();
            client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            socket.set_nonblocking(true).unwrap();
            let permit = world.capacity.enter(Kind::Connection).unwrap();
            let transport = Transport::Plain(Socket::Fresh(socket.into()));
            let (server, who) = (world.thread.entrance.server, crate::sample::client(""));
            tokio::task::spawn_local(serve(server, transport, who, permit));
            let mut claimed = world.until(|| world.worker.claim()).await.unwrap();
            world.worker.begin(&claimed);
            world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, RESPONSE_FILE);
            let permit = world.thread.entrance.room.permit_for_file().unwrap();
            let mail = Mail::File { file: Some((File::open("/").unwrap().into(), permit)), length: 10 };
            assert!(world.thread.desks.post(0, mail));
            world.worker.finish(claimed);
            let over = world.until(|| (world.totals().all_requests() > 0).then_some(())).await;
            let failures = world.totals().failures;
            assert_eq!(
                (over, failures[Failure::Application], failures[Failure::ClientGone]),
                (Some(()), 1, 0)
            );
        });
    }

    #[test]
    fn a_file_for_which_there_is_no_descriptor_is_503() {
        run(async {
            let scene = scene(Config::default(), "1.1", LENGTH_UNKNOWN, RESPONSE_FILE).await;
            assert!(scene.world.thread.desks.post(0, Mail::File { file: None, length: 4 }));
            scene.world.run(false).await;
            assert!(scene.script.output().starts_with(b"HTTP/1.1 503 "));
            assert_eq!(scene.world.totals().failures[Failure::Resources], 1);
        });
    }
}
