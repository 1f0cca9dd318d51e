//! A request body that comes piece by piece: chunked, or larger than a slot takes.
//!
//! Entered from [`Conn::intake`] with the head set aside; ends by queueing the request. A body of unknown length stays
//! here up to 64 KiB; beyond that, and from the start when it is known to be longer, it goes to a `spool`.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use howdah_accesslog::Source;
use howdah_http1::{BodyDecoder, BodyEvent, FieldStore, Framing, Head, RequestDecoder};
use howdah_wire::INLINE_BODY;

use crate::conn::{Conn, Exchange};
use crate::fill::Body;
use crate::refusal::Refusal;
use crate::repeated::Repeated;
use crate::spool::Spool;
use crate::thread::{Scratch, here};

/// A body on its way.
pub(crate) struct Collect {
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
    pub(crate) fn new(head: &Head<'_>, bytes: &[u8], expects: bool) -> Self {
        let mut decoder = BodyDecoder::new(&head.framing, &here().config.limits);
        if here().outlets.wants(Source::RequestTrailer) {
            decoder.keep_trailers();
        }
        Self {
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
    fn feed(&mut self, input: &[u8]) -> Result<usize, Refusal> {
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
            let mut spool = Spool::create(self.length)?;
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

    fn finish(
        &mut self,
        conn: &mut Conn,
        fields: &mut FieldStore,
        path: &mut Vec<u8>,
    ) -> Result<Exchange, Refusal> {
        let mut decoder = RequestDecoder::new(&here().config.limits);
        let head = decoder.decode(&self.head, fields)?.ok_or(Refusal::TooLarge)?;
        let Some(spool) = self.spool.take() else {
            return conn.hand_over(&head, &Body::Inline(&self.memory), path);
        };
        let exchange = conn.hand_over(&head, &Body::Spooled(&spool, self.received), path)?;
        // It must last as long as a worker may look at the slot, which can be longer than the connection.
        here().dispatch.borrow_mut().keep(exchange.slot, spool);
        Ok(exchange)
    }
}

/// Tells why a body could not be kept. A full disk is told once for all that want to write to it.
fn no_spool(error: &std::io::Error) -> Refusal {
    static TOLD: Repeated = Repeated::new();
    if let Some(again) = TOLD.pass() {
        tracing::error!(
            "cannot store a request body: {error}; refused the request (503); see --spool-dir{again}"
        );
    }
    Refusal::NoSpool
}

impl Conn {
    /// Reads the rest of a body and queues its request. None when the client leaves before its end.
    pub(crate) async fn collect(&mut self, collect: &mut Collect) -> Result<Option<Exchange>, Refusal> {
        let early = std::mem::take(&mut self.input);
        let used = collect.feed(&early)?;
        self.tally.received += (collect.head.len() + used) as u64;
        self.input.extend_from_slice(&early[used..]);
        if collect.expects && !collect.decoder.is_done() {
            self.send_continue().await;
        }
        while !collect.decoder.is_done() {
            if !poll_fn(|context| self.poll_body(context, collect)).await? {
                return Ok(None);
            }
        }
        self.tally.keep_fields(Source::RequestTrailer, collect.decoder.trailers());
        let Scratch { fields, path, .. } = &mut *here().scratch.borrow_mut();
        collect.finish(self, fields, path).map(Some)
    }

    fn poll_body(&mut self, context: &mut Context<'_>, collect: &mut Collect) -> Poll<Result<bool, Refusal>> {
        let thread = here();
        {
            let mut registry = thread.registry.borrow_mut();
            let entry = registry.get(self.key);
            entry.listen(context);
            if std::mem::take(&mut entry.expired) {
                return Poll::Ready(Err(Refusal::Timeout("the request body")));
            }
        }
        let input = &mut thread.scratch.borrow_mut().input;
        let length = match ready!(self.poll_receive(context, input)) {
            Ok(0) | Err(_) => return Poll::Ready(Ok(false)),
            Ok(length) => length,
        };
        let used = collect.feed(&input[..length])?;
        self.tally.received += used as u64;
        self.input.extend_from_slice(&input[used..length]);
        self.pace_body(collect.received);
        Poll::Ready(Ok(true))
    }
}
