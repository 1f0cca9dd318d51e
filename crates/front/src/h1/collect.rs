//! A request body that comes piece by piece: chunked, or larger than a slot takes.
//!
//! Entered from [`Conn::intake`] with the head set aside; ends by giving the request to its application. A body of unknown
//! length stays here up to 64 KiB; beyond that, and from the start when it is known to be longer, it has a place of its own.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use howdah_accesslog::Source;
use howdah_http1::{BodyDecoder, BodyEvent, FieldStore, Framing, Head, RequestDecoder};
use howdah_wire::INLINE_BODY;

use crate::app::Pool;
use crate::fault::Fault;
use crate::h1::server::Server;
use crate::h1::state::Conn;
use crate::repeated::Repeated;
use crate::request_record::Body;
use crate::route::Target;
use crate::slots::Spool;

/// A body on its way.
#[derive(Debug)]
pub(crate) struct Collect {
    pool: &'static Pool,
    /// The bytes of the head, to be decoded again when the body is there.
    pub(crate) head: Vec<u8>,
    decoder: BodyDecoder,
    /// Length, when the head tells it.
    length: Option<u64>,
    memory: Vec<u8>,
    spool: Option<Spool>,
    received: u64,
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
        Self {
            pool,
            head: bytes.to_vec(),
            decoder,
            length: if let Framing::Length(length) = head.framing { Some(length) } else { None },
            memory: Vec::new(),
            spool: None,
            received: 0,
            expects,
        }
    }

    /// Takes what `input` has of the body; gives the number of bytes consumed.
    fn feed(&mut self, input: &[u8]) -> Result<usize, Fault> {
        let mut at = 0;
        while !self.decoder.is_done() {
            match self.decoder.decode(&input[at..])? {
                BodyEvent::Data { data, consumed } => {
                    self.store(data).map_err(|error| no_spool(&error))?;
                    at += consumed;
                }
                BodyEvent::NeedMore { consumed } => return Ok(at + consumed),
                BodyEvent::End { consumed } => at += consumed,
            }
        }
        Ok(at)
    }

    fn store(&mut self, data: &[u8]) -> std::io::Result<()> {
        self.received += data.len() as u64;
        let too_long = self.length.is_some_and(|length| length > INLINE_BODY as u64)
            || self.memory.len() + data.len() > INLINE_BODY;
        if self.spool.is_none() && too_long {
            let mut spool = self.pool.place_for_body(self.length)?;
            spool.append(&std::mem::take(&mut self.memory))?;
            self.spool = Some(spool);
        }
        match &mut self.spool {
            Some(spool) => spool.append(data),
            None => {
                self.memory.extend_from_slice(data);
                Ok(())
            }
        }
    }

    fn finish(&mut self, conn: &mut Conn, fields: &mut FieldStore) -> Result<(), Fault> {
        let mut decoder = RequestDecoder::new(&conn.server.config.limits);
        let head = decoder.decode(&self.head, fields)?.ok_or(Fault::TooLarge)?;
        let body = match self.spool.take() {
            None => Body::Inline(&self.memory),
            Some(spool) => Body::Spooled(spool, self.received),
        };
        conn.begin(Target::App(self.pool), &head, body, true)
    }
}

/// Tells why a body could not be kept. A full disk is told once for all that want to write to it.
fn no_spool(error: &std::io::Error) -> Fault {
    static TOLD: Repeated = Repeated::new();
    if let Some(again) = TOLD.pass() {
        tracing::error!(
            "cannot store a request body: {error}; refused the request (503); see --spool-dir{again}"
        );
    }
    Fault::NoSpool
}

impl Conn {
    /// Reads the rest of a body and gives its request to the application. False when the client leaves before its end.
    pub(crate) async fn collect(&mut self, collect: &mut Collect) -> Result<bool, Fault> {
        let early = std::mem::take(&mut self.input);
        let used = collect.feed(&early)?;
        self.exchange.account.received += (collect.head.len() + used) as u64;
        self.input.extend_from_slice(&early[used..]);
        if collect.expects && !collect.decoder.is_done() {
            self.send_continue().await;
        }
        while !collect.decoder.is_done() {
            if !poll_fn(|context| self.poll_body(context, collect)).await? {
                return Ok(false);
            }
        }
        let server = self.server;
        let trailers = collect.decoder.trailers();
        self.exchange.account.keep_fields(Source::RequestTrailer, trailers, server.records.wanted());
        collect.finish(self, &mut server.scratch.borrow_mut().fields)?;
        Ok(true)
    }

    fn poll_body(&mut self, context: &mut Context<'_>, collect: &mut Collect) -> Poll<Result<bool, Fault>> {
        if self.timer.poll_expired(context) {
            return Poll::Ready(Err(Fault::Timeout("the request body")));
        }
        let input = &mut self.server.scratch.borrow_mut().input;
        let length = match ready!(self.poll_receive(context, input)) {
            Ok(0) | Err(_) => return Poll::Ready(Ok(false)),
            Ok(length) => length,
        };
        let used = collect.feed(&input[..length])?;
        self.exchange.account.received += used as u64;
        self.input.extend_from_slice(&input[used..length]);
        self.pace_body(collect.received);
        Poll::Ready(Ok(true))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use howdah_http1::encode::chunk_head;
    use howdah_wire::EXTENT;

    use super::*;
    use crate::config::Config;
    use crate::sample::world::{World, run};
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
            (INLINE_BODY + 1, true, "file"),
        ] {
            run(async {
                let world = World::new(Config::default());
                let script = Scripted::new(post(length, chunked));
                world.connect(&script);
                world.run(false).await;
                let claimed = world.worker.claim().expect("a request");
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
    fn a_body_that_has_no_place_is_refused_and_no_worker_hears_of_it() {
        run(async {
            let spool_dir = Some(PathBuf::from("/nonexistent/for/bodies"));
            let world = World::new(Config { spool_dir, ..Config::default() });
            let script = Scripted::new(post(INLINE_BODY + 1, true));
            world.serve(&script).await;
            assert!(script.output().starts_with(b"HTTP/1.1 503 "), "{}", script.output().escape_ascii());
            let totals = world.totals();
            assert_eq!(totals.failures[howdah_metrics::Failure::Resources], 1);
            assert_eq!(
                totals.failures[howdah_metrics::Failure::QueueFull],
                0,
                "a full disk is no full queue"
            );
            assert!(world.worker.claim().is_none());
        });
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
