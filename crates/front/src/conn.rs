//! One client connection, from accept to close.
//!
//! A request walks: [`Conn::intake`] here reads and checks it (a large body by way of `collect`), `fill` writes it
//! into a slot, a worker runs it, `reply` sends the response. Then the next one, in order, until either side is done.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use howdah_accesslog::ConnectionState as Outcome;
use howdah_http1::{FieldStore, Framing, Head, RequestDecoder, Version};
use howdah_metrics::{ConnectionState, Method};
use howdah_wire::INLINE_BODY;

use crate::collect::Collect;
use crate::fill::{Body, enqueue};
use crate::listen::Origin;
use crate::local::LocalRequest;
use crate::refusal::Refusal;
use crate::registry::Rest;
use crate::socket::Socket;
use crate::tally::Tally;
use crate::thread::{Scratch, Thread, add, here};

/// Grace before the minimum rate of a body is looked at, in nanoseconds.
const BODY_GRACE: u64 = 10_000_000_000;
/// An input buffer above this size is not kept between requests.
const KEEP_CAPACITY: usize = 4 * 1024;

/// Who is at the other end, in the form in which the env wants it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) origin: Arc<Origin>,
    /// REMOTE_ADDR; empty on a Unix socket.
    pub(crate) address: Box<str>,
    /// REMOTE_PORT.
    pub(crate) port: Box<str>,
    /// TLS.
    pub(crate) secure: bool,
}

/// What is to be remembered of a request while a worker has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) slot: u32,
    pub(crate) version: Version,
    pub(crate) is_head: bool,
    pub(crate) keep_alive: bool,
}

/// What a connection does after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Reads another request.
    Continue,
    /// Closes.
    Close,
    /// Closes once the client has had time to read the response: there may be input that nobody will read.
    Linger,
    /// Closes at once: the client is gone or too slow, or was promised more than there is.
    Cut,
}

impl Next {
    fn state(self) -> Outcome {
        match self {
            Self::Continue => Outcome::KeepAlive,
            Self::Close | Self::Linger => Outcome::Close,
            Self::Cut => Outcome::Aborted,
        }
    }
}

/// A request that has been read, and what is to be done about it.
enum Work {
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

/// See the module.
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    pub(crate) key: usize,
    pub(crate) client: Client,
    /// Received and not yet consumed.
    pub(crate) input: Vec<u8>,
    /// Input that is known to be needed before it is worth another look.
    need: usize,
    decoder: RequestDecoder,
    /// Requests answered.
    pub(crate) served: u64,
    /// To be sent; `sent` bytes of it are.
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
    /// The slot in which our request is.
    pub(crate) slot: Option<u32>,
    /// The request being handed over, for an answer that we give ourselves.
    pub(crate) refused: Option<Exchange>,
    /// A worker has the socket too, and may have made it blocking.
    pub(crate) lent: bool,
    /// What the connection is doing, as it is counted.
    state: ConnectionState,
    pub(crate) tally: Tally,
    /// 100 (Continue) is out.
    continued: bool,
    /// When the first byte of a body was waited for.
    body_since: u64,
}

impl Conn {
    pub(crate) fn new(socket: Socket, client: Client) -> Self {
        let thread = here();
        thread.outlets.recorder.accepted(ConnectionState::Reading);
        add(&thread.doors(client.origin.only_local).inside, 1);
        Self {
            socket,
            key: thread.registry.borrow_mut().insert(),
            client,
            input: Vec::new(),
            need: 0,
            decoder: RequestDecoder::new(&thread.config.limits),
            served: 0,
            output: Vec::new(),
            sent: 0,
            slot: None,
            refused: None,
            lent: false,
            state: ConnectionState::Reading,
            tally: Tally::default(),
            continued: false,
            body_since: 0,
        }
    }

    /// Serves the connection to its end.
    pub(crate) async fn serve(mut self) {
        loop {
            let next = match self.intake().await {
                Ok(Some(Work::Exchange(exchange))) => self.answer(exchange).await,
                Ok(Some(Work::Local(request))) => self.answer_local(*request).await,
                Ok(None) => return,
                Err(refusal) => {
                    self.recognize();
                    self.refuse(refusal).await
                }
            };
            self.account(next.state());
            match next {
                Next::Continue => self.ready_for_next(),
                Next::Close | Next::Cut => return,
                Next::Linger => return self.linger().await,
            }
        }
    }

    /// Reads until a request is queued. None when there is none to come.
    async fn intake(&mut self) -> Result<Option<Work>, Refusal> {
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
                // A request that was on its way when the draining began is answered.
                Ok(length) if length > 0 => length,
                _ => return Poll::Ready(Ok(Step::End)),
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

    /// An idle connection on a draining thread, once it has had its time.
    fn is_unwanted(&self, thread: &Thread) -> bool {
        thread.draining.get()
            && thread.clock.now() >= thread.idle_until.get()
            && thread.registry.borrow_mut().get(self.key).rest != Rest::No
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

    /// Queues a complete request.
    pub(crate) fn hand_over(
        &mut self,
        head: &Head<'_>,
        body: &Body<'_>,
        path: &mut Vec<u8>,
    ) -> Result<Exchange, Refusal> {
        let thread = here();
        {
            let mut registry = thread.registry.borrow_mut();
            let entry = registry.get(self.key);
            entry.deadline = 0;
            entry.rest = Rest::No;
            entry.news = false;
            entry.waiting = true;
            entry.check_peer = false;
            entry.mail.clear();
        }
        let keep_alive = head.keep_alive && thread.config.keepalive;
        let exchange =
            Exchange { slot: 0, version: head.version, is_head: head.method == b"HEAD", keep_alive };
        self.refused = Some(exchange);
        self.tally.method = Some(Method::of(head.method));
        let queued = enqueue(head, body, &self.client, self.key, path);
        let (slot, id) = queued.inspect_err(|_| self.set_aside(head))?;
        self.tally.id = id;
        self.refused = None;
        self.slot = Some(slot);
        self.enter(ConnectionState::Running);
        Ok(Exchange { slot, ..exchange })
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

    /// Sets what the sweep is to know of us.
    pub(crate) fn note(&self, rest: Rest, deadline: u64) {
        let mut registry = here().registry.borrow_mut();
        let entry = registry.get(self.key);
        entry.rest = rest;
        entry.deadline = deadline;
        entry.expired = false;
        entry.waiting = false;
    }

    pub(crate) async fn send_continue(&mut self) {
        self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        self.flush().await;
    }

    /// Counts the connection as doing something else from now on.
    pub(crate) fn enter(&mut self, state: ConnectionState) {
        if state != self.state {
            here().outlets.recorder.moved(self.state, Some(state));
            self.state = state;
        }
    }

    /// Lets go of the slot.
    pub(crate) fn give_back(&mut self) {
        if let Some(slot) = self.slot.take() {
            here().dispatch.borrow_mut().give_back(slot);
        }
    }

    fn keep(&mut self, rest: &[u8]) {
        debug_assert!(self.input.is_empty());
        self.input.extend_from_slice(rest);
    }

    fn ready_for_next(&mut self) {
        self.served += 1;
        self.continued = false;
        if self.input.is_empty() && self.input.capacity() > KEEP_CAPACITY {
            self.input = Vec::new();
        }
        if self.output.capacity() > KEEP_CAPACITY {
            self.output = Vec::new();
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        let thread = here();
        self.give_back();
        thread.outlets.recorder.moved(self.state, None);
        thread.registry.borrow_mut().remove(self.key);
        add(&thread.doors(self.client.origin.only_local).inside, -1);
        if thread.draining.get() {
            thread.changed.notify_waiters();
        }
    }
}
