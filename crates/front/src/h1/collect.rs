//! A request body that comes piece by piece: chunked, or larger than a slot takes.
//!
//! Entered from [`Conn::intake`] with the head set aside; ends by giving the request to its application. A body of unknown
//! length stays here up to 64 KiB; beyond that, and from the start when it is known to be longer, it has a place of its own.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use howdah_accesslog::Source;
use howdah_http1::{BodyDecoder, BodyEvent, FieldStore, Framing, Head, RequestDecoder};

use crate::app::Pool;
use crate::fault::Fault;
use crate::h1::state::Conn;
use crate::others::let_others;
use crate::route::Target;
use crate::server::{READ_SIZE, Server};
use crate::upload::Upload;

/// How much of a body is read at a time straight into its place.
const STRAIGHT: usize = 256 * 1024;

/// Bytes to read before other connections have their turn.
const TURN: u64 = 1024 * 1024;

/// A body on its way.
#[derive(Debug)]
pub(crate) struct Collect {
    /// The bytes of the head, to be decoded again when the body is there.
    pub(crate) head: Vec<u8>,
    decoder: BodyDecoder,
    upload: Upload,
    expects: bool,
}

impl Collect {
    /// For the body behind `head`, whose bytes are `bytes`.
    pub(crate) fn new(
        server: &Server,
        pool: &'static Pool,
        head: &Head<'_>,
        bytes: &[u8],
        expects: bool,
    ) -> Self {
        let mut decoder = BodyDecoder::new(&head.framing, &server.config.limits);
        if server.records.wants(Source::RequestTrailer) {
            decoder.keep_trailers();
        }
        let length = if let Framing::Length(length) = head.framing { Some(length) } else { None };
        Self { head: bytes.to_vec(), decoder, upload: Upload::new(pool, length), expects }
    }

    /// Takes what `input` has of the body; gives the number of bytes consumed. The content of all chunks in there is moved
    /// together, so that it is stored at once.
    fn feed(&mut self, input: &mut [u8]) -> Result<usize, Fault> {
        let (mut at, mut content) = (0, 0..0);
        while !self.decoder.is_done() {
            match self.decoder.decode(&input[at..])? {
                BodyEvent::Data { data, consumed } => {
                    let length = data.len();
                    at += consumed;
                    if content.is_empty() {
                        content = at - length..at;
                    } else {
                        input.copy_within(at - length..at, content.end);
                        content.end += length;
                    }
                }
                BodyEvent::NeedMore { consumed } => {
                    at += consumed;
                    break;
                }
                BodyEvent::End { consumed } => at += consumed,
            }
        }
        self.upload.append(&input[content]);
        Ok(at)
    }

    /// Where the next bytes may be read to without a copy, while many are to come that are nothing but content.
    fn room(&mut self) -> Option<&mut [u8]> {
        let ahead = usize::try_from(self.decoder.content_ahead()).unwrap_or(usize::MAX);
        if ahead < READ_SIZE {
            return None;
        }
        self.upload.room()?.get_mut(..ahead.min(STRAIGHT))
    }

    fn finish(&mut self, conn: &mut Conn, fields: &mut FieldStore) -> Result<(), Fault> {
        let mut decoder = RequestDecoder::new(&conn.server.config.limits);
        let head = decoder.decode(&self.head, fields)?.ok_or(Fault::TooLarge)?;
        let target = Target::App(self.upload.pool);
        conn.begin(target, &head, self.upload.body(), true)
    }
}

impl Conn {
    /// Reads the rest of a body and gives its request to the application. False when the client leaves before its end.
    pub(crate) async fn collect(&mut self, collect: &mut Collect) -> Result<bool, Fault> {
        let mut early = std::mem::take(&mut self.input);
        self.exchange.account.received += collect.head.len() as u64;
        let used = collect.feed(&mut early)?;
        self.exchange.account.received += used as u64;
        self.input.extend_from_slice(&early[used..]);
        if collect.expects && !collect.decoder.is_done() && !self.send_continue().await {
            return Ok(false);
        }
        let mut turn = self.exchange.account.received;
        while !collect.decoder.is_done() {
            if !poll_fn(|context| self.poll_body(context, collect)).await? {
                return Ok(false);
            }
            let before = self.server.clock.served();
            collect.upload.settle(false).await?;
            self.pace.pardon(self.server.clock.served() - before);
            self.pace_body(collect.upload.received);
            // A client that sends as fast as we read would keep the thread from all others.
            if self.exchange.account.received >= turn + TURN {
                turn = self.exchange.account.received;
                let_others().await;
            }
        }
        collect.upload.settle(true).await?;
        let server = self.server;
        let trailers = collect.decoder.trailers();
        self.exchange.account.keep_fields(Source::RequestTrailer, trailers, server.records.wanted());
        collect.finish(self, &mut server.scratch.borrow_mut().fields)?;
        Ok(true)
    }

    fn poll_body(&mut self, context: &mut Context<'_>, collect: &mut Collect) -> Poll<Result<bool, Fault>> {
        // The words of its request are here alone.
        if self.server.doors.is_cut_off() {
            return Poll::Ready(Ok(false));
        }
        let due = self.timer.poll_expired(context);
        match self.poll_piece(context, collect, due) {
            Poll::Pending if due => Poll::Ready(Err(Fault::Timeout("the request body"))),
            Poll::Pending => {
                self.out.transport.acknowledge();
                Poll::Pending
            }
            Poll::Ready(piece) => Poll::Ready(piece),
        }
    }

    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        collect: &mut Collect,
        looks: bool,
    ) -> Poll<Result<bool, Fault>> {
        let used = if self.out.transport.is_plain()
            && let Some(room) = collect.room()
        {
            let length = match ready!(self.poll_receive(context, room, looks)) {
                Ok(0) | Err(_) => return Poll::Ready(Ok(false)),
                Ok(length) => length,
            };
            collect.decoder.skip(length);
            collect.upload.fill(length);
            length
        } else {
            let input = &mut self.server.scratch.borrow_mut().input;
            let length = match ready!(self.poll_receive(context, input, looks)) {
                Ok(0) | Err(_) => return Poll::Ready(Ok(false)),
                Ok(length) => length,
            };
            let used = collect.feed(&mut input[..length])?;
            self.input.extend_from_slice(&input[used..length]);
            used
        };
        self.exchange.account.received += used as u64;
        Poll::Ready(Ok(true))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use howdah_http1::encode::chunk_head;
    use howdah_wire::{EXTENT, INLINE_BODY, RequestReader};

    use crate::config::Config;
    use crate::sample::world::{World, run, run_beside_slow_disk};
    use crate::transport::scripted::{Piece, Scripted};

    /// A request with `length` bytes of body, in pieces of up to 50,000.
    fn post(length: usize, chunked: bool) -> Vec<Piece> {
        let field = if chunked {
            "Transfer-Encoding: chunked".to_owned()
        } else {
            format!("Content-Length: {length}")
        };
        let head = format!("POST /a HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n").into_bytes();
        let mut bytes = Vec::new();
        if chunked {
            chunk_head(&mut bytes, length);
        }
        bytes.extend(vec![b'x'; length]);
        if chunked {
            bytes.extend(b"\r\n0\r\n\r\n");
        }
        let pieces = bytes.chunks(50_000).map(|piece| Piece::Bytes(piece.to_vec()));
        std::iter::once(Piece::Bytes(head)).chain(pieces).collect()
    }

    #[test]
    fn a_body_lies_where_its_length_fits() {
        // Length, whether in chunks, and where the worker finds it.
        for (length, chunked, place) in [
            (INLINE_BODY, false, "slot"),
            (INLINE_BODY + 1, false, "extent"),
            (EXTENT, false, "extent"),
            (EXTENT + 1, false, "file"),
            (INLINE_BODY, true, "slot"),
            (INLINE_BODY + 1, true, "extent"),
            (EXTENT, true, "extent"),
            (EXTENT + 1, true, "file"),
        ] {
            run(async {
                let world = World::new(Config::default());
                let script = Scripted::new(post(length, chunked));
                world.connect(&script);
                let claimed = world.until(|| world.worker.claim()).await.expect("a request");
                let dispatch = world.pool().dispatch.borrow();
                let found = match dispatch.kept(claimed.claim.slot) {
                    None => "slot",
                    Some(spool) if spool.extent().is_some() => "extent",
                    Some(_) => "file",
                };
                assert_eq!(found, place, "{length} bytes, chunked {chunked}");
                assert_eq!(claimed.content_length, length.to_string(), "whatever its framing");
            });
        }
    }

    #[test]
    fn a_client_that_sends_all_the_time_lets_others_have_their_turn() {
        run(async {
            let world = World::new(Config::default());
            let pieces = std::iter::repeat_n(Piece::Bytes(vec![b'x'; 1000]), 2100);
            let head = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2100000\r\n\r\n".to_vec();
            world.connect(&Scripted::new(std::iter::once(Piece::Bytes(head)).chain(pieces)));
            world.connect(&Scripted::new([Piece::Bytes(b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n".to_vec())]));
            for path in ["/b", "/a"] {
                let claimed = world.until(|| world.worker.claim()).await.unwrap();
                assert_eq!(claimed.target, path);
                world.worker.finish(claimed);
            }
        });
    }

    #[test]
    fn the_time_that_a_disk_takes_is_not_the_clients() {
        run_beside_slow_disk(async |disk| {
            let world = World::new(Config::default());
            let mut pieces = post(EXTENT + 200_000, false);
            let last = pieces.split_off(pieces.len() - 1);
            let script = Scripted::new(pieces.into_iter().chain([Piece::Pause]).chain(last));
            world.connect(&script);
            world.run(false).await;
            // Longer than what has come, and will, is worth.
            world.wait(Duration::from_secs(10_000));
            drop(disk);
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(5)).await;
                world.run(false).await;
                world.wait(Duration::from_millis(100));
            }
            script.go_on();
            let claimed = world.until(|| world.worker.claim()).await;
            assert_eq!(claimed.map(|claimed| claimed.target).as_deref(), Some("/a"));
        });
    }

    #[test]
    fn the_content_of_many_chunks_is_what_was_sent() {
        // What each piece of input is long, from one that ends in every part of a chunk to all at once.
        for size in [1, 7, 50, 100_000] {
            run(async {
                let world = World::new(Config::default());
                let mut bytes = b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
                for length in [1_usize, 2, 300, 1, 17, 5000, 3] {
                    chunk_head(&mut bytes, length);
                    bytes.extend((0..length).map(|at| b'a' + (at % 26) as u8));
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\n\r\n");
                let script = Scripted::new(bytes.chunks(size).map(|piece| Piece::Bytes(piece.to_vec())));
                world.connect(&script);
                let claimed = world.until(|| world.worker.claim()).await.unwrap();
                let dispatch = world.pool().dispatch.borrow();
                let request = RequestReader::new(dispatch.request(claimed.claim.slot));
                let expected: Vec<u8> = [1_usize, 2, 300, 1, 17, 5000, 3]
                    .iter()
                    .flat_map(|length| (0..*length).map(|at| b'a' + (at % 26) as u8))
                    .collect();
                assert!(request.body() == expected, "in pieces of {size}");
            });
        }
    }

    #[test]
    fn a_body_that_has_no_place_is_refused_and_no_worker_hears_of_it() {
        // Its length is known from its head, or found out when its extent is full.
        for chunked in [false, true] {
            run(async {
                let spool_dir = Some(PathBuf::from("/nonexistent/for/bodies"));
                let world = World::new(Config { spool_dir, ..Config::default() });
                let script = Scripted::new(post(EXTENT + 1, chunked));
                world.connect(&script);
                let said = || Some(script.output()).filter(|output| !output.is_empty());
                let output = world.until(said).await.unwrap_or_default();
                assert!(output.starts_with(b"HTTP/1.1 503 "), "{chunked}: {}", output.escape_ascii());
                let failures = world.totals().failures;
                assert_eq!(failures[howdah_metrics::Failure::Resources], 1, "{chunked}");
                let queue_full = failures[howdah_metrics::Failure::QueueFull];
                assert_eq!(queue_full, 0, "a full disk is no full queue");
                assert!(world.worker.claim().is_none());
            });
        }
    }

    #[test]
    fn all_that_was_received_is_counted_and_what_comes_behind_is_the_next_request() {
        run(async {
            let world = World::new(Config::default());
            let mut input = post(100_000, true);
            input.push(Piece::Bytes(b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n".to_vec()));
            let sent: usize =
                input.iter().map(|piece| if let Piece::Bytes(bytes) = piece { bytes.len() } else { 0 }).sum();
            let script = Scripted::new(input);
            world.serve(&script).await;
            assert_eq!((world.totals().all_requests(), world.totals().bytes_in), (2, sent as u64));
            assert!(script.output().ends_with(b"\r\n\r\n/b"));
        });
    }

    #[test]
    fn bytes_that_come_with_the_head_are_counted_once() {
        run(async {
            let world = World::new(Config::default());
            let sent =
                "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
            world.serve(&Scripted::new([Piece::Bytes(sent.into())])).await;
            assert_eq!((world.totals().all_requests(), world.totals().bytes_in), (1, sent.len() as u64));
        });
    }

    #[test]
    fn a_client_that_leaves_within_its_body_is_not_run() {
        run(async {
            let world = World::new(Config::default());
            let mut input = post(100_000, false);
            input.truncate(2);
            input.push(Piece::End);
            let script = Scripted::new(input);
            assert!(world.serve(&script).await, "the connection is over");
            assert!(script.output().is_empty() && world.worker.claim().is_none());
        });
    }
}
