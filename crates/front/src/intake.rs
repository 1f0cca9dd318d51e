//! The way in of a connection: bytes become a request that is checked and complete, or a reason to refuse it.
//!
//! [`Conn::intake`] is called by the connection's loop for each request; bodies too large for a slot go by way of
//! `collect`, all others from here to [`Conn::hand_over`].

use std::future::poll_fn;
use std::task::{Context, Poll};

use howdah_http1::{FieldStore, Framing, Head};
use howdah_metrics::ConnectionState;
use howdah_wire::INLINE_BODY;

use crate::collect::Collect;
use crate::conn::{Conn, Exchange};
use crate::fill::Body;
use crate::local::LocalRequest;
use crate::refusal::Refusal;
use crate::registry::Rest;
use crate::socket::Socket;
use crate::thread::{Scratch, Thread, here};

/// Grace before the minimum rate of a body is looked at, in nanoseconds.
const BODY_GRACE: u64 = 10_000_000_000;

/// A request that has been read, and what is to be done about it.
pub(crate) enum Work {
    /// A worker runs it.
    Exchange(Exchange),
    /// We answer it.
    Local(Box<LocalRequest>),
}

/// What the input amounts to.
enum Step {
    /// Not a whole request yet.
    More,
    /// A head whose body waits for 100 (Continue).
    Expects,
    /// A request that has been read.
    Ready(Work),
    /// A head whose body is to be collected piece by piece.
    Collect(Box<Collect>),
    /// The client has closed its side, or we close an idle connection.
    End,
}

impl Conn {
    /// Reads until a request is queued. None when there is none to come.
    pub(crate) async fn intake(&mut self) -> Result<Option<Work>, Refusal> {
        let mut step = self.start()?;
        loop {
            match step {
                Step::Ready(work) => return Ok(Some(work)),
                Step::Collect(mut collect) => {
                    let collected = self.collect(&mut collect).await;
                    let collected = collected.inspect_err(|_| self.set_aside_bytes(&collect.head));
                    return Ok(collected?.map(Work::Exchange));
                }
                Step::End => return Ok(None),
                Step::Expects => self.send_continue().await,
                Step::More => {}
            }
            step = poll_fn(|context| self.poll_input(context)).await?;
        }
    }

    /// Looks at input left from before, and sets the deadline for what is missing.
    fn start(&mut self) -> Result<Step, Refusal> {
        let thread = here();
        let (rest, patience) = match (self.input.is_empty(), self.served) {
            (true, 0) => (Rest::New, thread.config.header_timeout),
            (true, _) => (Rest::Kept, thread.config.keepalive_timeout),
            (false, _) => (Rest::No, thread.config.header_timeout),
        };
        self.note(rest, thread.clock.after(patience));
        self.enter(if rest == Rest::Kept { ConnectionState::Idle } else { ConnectionState::Reading });
        if self.input.is_empty() {
            return Ok(Step::More);
        }
        self.tally.begin = thread.clock.now();
        let input = std::mem::take(&mut self.input);
        let Scratch { fields, path, .. } = &mut *thread.scratch.borrow_mut();
        self.examine(&input, fields, path)
    }

    fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Result<Step, Refusal>> {
        let thread = here();
        if let Some(step) = self.interrupted(thread, context) {
            return Poll::Ready(step);
        }
        let Scratch { input, fields, path, .. } = &mut *thread.scratch.borrow_mut();
        let length = match self.poll_receive(context, input) {
            Poll::Pending if self.is_unwanted(thread) => match self.socket.try_read(input) {
                // A request that was on its way when its connection was given up is answered.
                Ok(length) if length > 0 => length,
                _ => return Poll::Ready(self.dismissed(thread)),
            },
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Ok(Step::End)),
            Poll::Ready(Ok(length)) => length,
        };
        if self.tally.begin == 0 {
            self.tally.begin = thread.clock.now();
            self.enter(ConnectionState::Reading);
        }
        if self.input.is_empty() {
            return Poll::Ready(self.examine(&input[..length], fields, path));
        }
        self.input.extend_from_slice(&input[..length]);
        let received = std::mem::take(&mut self.input);
        Poll::Ready(self.examine(&received, fields, path))
    }

    /// An idle connection that has to make room, or is on a draining thread and has had its time.
    fn is_unwanted(&self, thread: &Thread) -> bool {
        let mut registry = thread.registry.borrow_mut();
        let entry = registry.get(self.key);
        let drained = thread.draining.get() && thread.clock.now() >= thread.idle_until.get();
        entry.rest != Rest::No && (entry.unwanted || drained)
    }

    /// The end of such a connection. Who has not had a request answered on it is told, since one may be on its way.
    fn dismissed(&self, thread: &Thread) -> Result<Step, Refusal> {
        let mut registry = thread.registry.borrow_mut();
        let entry = registry.get(self.key);
        let silent = entry.unwanted && entry.rest == Rest::New;
        if silent {
            Err(Refusal::Timeout("the first request, while others wait for a place,"))
        } else {
            Ok(Step::End)
        }
    }

    /// A passed deadline.
    fn interrupted(&self, thread: &Thread, context: &Context<'_>) -> Option<Result<Step, Refusal>> {
        let unwanted = self.is_unwanted(thread);
        let mut registry = thread.registry.borrow_mut();
        let entry = registry.get(self.key);
        entry.listen(context);
        if !std::mem::take(&mut entry.expired) || unwanted {
            return None;
        }
        let what = if self.need > 0 { "the request body" } else { "the request head" };
        Some(if entry.rest == Rest::Kept { Ok(Step::End) } else { Err(Refusal::Timeout(what)) })
    }

    /// The first read of a connection is tried at once: with deferred accept the request is there.
    pub(crate) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        if self.served == 0 && matches!(self.socket, Socket::Fresh(_)) {
            match self.socket.try_read(buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        self.socket.poll_read(context, buffer)
    }

    /// Decides what `data`, all input not yet consumed, amounts to; keeps what is left over.
    fn examine(&mut self, data: &[u8], fields: &mut FieldStore, path: &mut Vec<u8>) -> Result<Step, Refusal> {
        if data.len() < self.need {
            self.keep(data);
            self.pace_body(data.len() as u64);
            return Ok(Step::More);
        }
        let decoded = self.decoder.decode(data, fields).inspect_err(|_| self.tally.unreadable(data))?;
        let Some(head) = decoded else {
            self.begin_head();
            self.keep(data);
            return Ok(Step::More);
        };
        if let Some(request) = LocalRequest::recognize(&head, &self.client) {
            self.set_aside(&head);
            self.tally.received = head.len as u64;
            self.keep(&data[head.len..]);
            self.note(Rest::No, 0);
            return Ok(Step::Ready(Work::Local(Box::new(request))));
        }
        let body = match head.framing {
            Framing::None => 0,
            Framing::Length(length) if length <= INLINE_BODY as u64 => length as usize,
            Framing::Length(_) | Framing::Chunked => return Ok(self.begin_collect(&head, data)),
        };
        let end = head.len + body;
        if data.len() < end {
            let expects = head.expect_continue && !std::mem::replace(&mut self.continued, true);
            self.need = end;
            self.keep(data);
            self.begin_body();
            return Ok(if expects { Step::Expects } else { Step::More });
        }
        self.need = 0;
        self.tally.received += end as u64;
        let exchange = self.hand_over(&head, &Body::Inline(&data[head.len..end]), path);
        self.keep(&data[end..]);
        exchange.map(Work::Exchange).map(Step::Ready)
    }

    fn begin_collect(&mut self, head: &Head<'_>, data: &[u8]) -> Step {
        let expects = head.expect_continue && !self.continued && data.len() == head.len;
        let collect = Collect::new(head, &data[..head.len], expects);
        self.keep(&data[head.len..]);
        self.begin_body();
        Step::Collect(Box::new(collect))
    }

    /// Part of a head has come. From its first bytes on the client has so long for the rest.
    fn begin_head(&self) {
        let thread = here();
        let rest = thread.registry.borrow_mut().get(self.key).rest;
        match rest {
            Rest::Kept => self.note(Rest::No, thread.clock.after(thread.config.header_timeout)),
            // The time of a new connection runs from its start.
            Rest::New => thread.registry.borrow_mut().get(self.key).rest = Rest::No,
            Rest::No => {}
        }
    }

    /// A body is to come, at the minimum rate or faster.
    fn begin_body(&mut self) {
        self.body_since = here().clock.now();
        self.pace_body(0);
    }

    /// Sets the deadline of a body of which `received` bytes have come.
    pub(crate) fn pace_body(&self, received: u64) {
        let credit = received.saturating_mul(1_000_000_000).checked_div(here().config.min_body_rate);
        let deadline = credit.map_or(0, |credit| self.body_since + BODY_GRACE + credit);
        self.note(Rest::No, deadline);
    }

    pub(crate) async fn send_continue(&mut self) {
        self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        self.flush().await;
    }

    fn keep(&mut self, rest: &[u8]) {
        debug_assert!(self.input.is_empty());
        self.input.extend_from_slice(rest);
    }
}
