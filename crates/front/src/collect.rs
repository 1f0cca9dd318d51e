//! A request body that comes piece by piece: chunked, or larger than a slot takes.
//!
//! Entered from [`Conn::intake`] with the head set aside; ends by queueing the request. Up to 64 KiB stay in memory,
//! the rest goes to a temporary file without a name, so that nothing is left behind whatever happens.

use std::fs::File;
use std::future::poll_fn;
use std::io::{Seek, Write};
use std::task::{Context, Poll, ready};

use howdah_http1::{BodyDecoder, BodyEvent, FieldStore, Head, RequestDecoder};
use howdah_wire::INLINE_BODY;

use crate::conn::{Conn, Exchange};
use crate::fill::Body;
use crate::refusal::Refusal;
use crate::thread::{Scratch, here};

/// A body on its way.
pub(crate) struct Collect {
    /// The bytes of the head, to be decoded again when the body is there.
    head: Vec<u8>,
    decoder: BodyDecoder,
    memory: Vec<u8>,
    file: Option<File>,
    received: u64,
    expects: bool,
}

impl Collect {
    pub(crate) fn new(head: &Head<'_>, bytes: &[u8], expects: bool) -> Self {
        Self {
            head: bytes.to_vec(),
            decoder: BodyDecoder::new(&head.framing, &here().config.limits),
            memory: Vec::new(),
            file: None,
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
                    self.store(data).map_err(|error| {
                        tracing::error!("cannot store a request body: {error}");
                        Refusal::NoSpool
                    })?;
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
        if self.file.is_none() && self.memory.len() + data.len() > INLINE_BODY {
            let directory = here().config.spool_dir.clone().unwrap_or_else(std::env::temp_dir);
            let mut file = tempfile::tempfile_in(directory)?;
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(data),
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
        let Some(mut file) = self.file.take() else {
            return conn.hand_over(&head, &Body::Inline(&self.memory), path);
        };
        file.rewind().map_err(|_| Refusal::NoSpool)?;
        conn.spooled = Some(file);
        conn.hand_over(&head, &Body::Spooled(self.received), path)
    }
}

impl Conn {
    /// Reads the rest of a body and queues its request. None when the client leaves before its end.
    pub(crate) async fn collect(&mut self, mut collect: Box<Collect>) -> Result<Option<Exchange>, Refusal> {
        let early = std::mem::take(&mut self.input);
        let used = collect.feed(&early)?;
        self.tally.received += (collect.head.len() + used) as u64;
        self.input.extend_from_slice(&early[used..]);
        if collect.expects && !collect.decoder.is_done() {
            self.send_continue().await;
        }
        while !collect.decoder.is_done() {
            if !poll_fn(|context| self.poll_body(context, &mut collect)).await? {
                return Ok(None);
            }
        }
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
