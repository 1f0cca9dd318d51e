//! One client connection, from accept to close.
//!
//! A request walks: `intake` reads and checks it (a large body by way of `collect`), [`Conn::hand_over`] here has `fill`
//! write it into a slot, a worker runs it, `reply` sends the response. Then the next one, in order, until either side is
//! done.

use std::sync::Arc;

use howdah_accesslog::ConnectionState as Outcome;
use howdah_http1::{Head, RequestDecoder, Version};
use howdah_metrics::{ConnectionState, Method};

use crate::capacity::Permit;
use crate::departure;
use crate::fill::{Body, enqueue};
use crate::intake::Work;
use crate::listen::Origin;
use crate::reader::Reader;
use crate::refusal::Refusal;
use crate::registry::Rest;
use crate::response_spool::ResponseSpool;
use crate::socket::Socket;
use crate::tally::Tally;
use crate::thread::{add, here};

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

/// See the module.
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    pub(crate) key: usize,
    pub(crate) client: Client,
    /// Received and not yet consumed.
    pub(crate) input: Vec<u8>,
    /// Input that is known to be needed before it is worth another look.
    pub(crate) need: usize,
    pub(crate) decoder: RequestDecoder,
    /// Requests answered.
    pub(crate) served: u64,
    /// To be sent; `sent` bytes of it are.
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
    /// What is to be sent before that: more than memory is for.
    pub(crate) spool: Option<Box<ResponseSpool>>,
    /// How the client takes it.
    pub(crate) reader: Reader,
    /// The slot in which our request is.
    pub(crate) slot: Option<u32>,
    /// The request being handed over, for an answer that we give ourselves.
    pub(crate) refused: Option<Exchange>,
    /// The application has taken the socket: it may have made it blocking, and reads from it, so that we never do again.
    pub(crate) lent: bool,
    /// What the connection is doing, as it is counted.
    state: ConnectionState,
    pub(crate) tally: Tally,
    /// 100 (Continue) is out.
    pub(crate) continued: bool,
    /// When the first byte of a body was waited for.
    pub(crate) body_since: u64,
    /// Our place among the connections that there may be.
    _permit: Permit,
}

impl Conn {
    pub(crate) fn new(socket: Socket, client: Client, permit: Permit) -> Self {
        let thread = here();
        thread.outlets.recorder.accepted(ConnectionState::Reading);
        add(&thread.doors(client.origin.only_local).inside, 1);
        Self {
            socket,
            key: thread.registry.borrow_mut().insert(client.origin.only_local),
            client,
            input: Vec::new(),
            need: 0,
            decoder: RequestDecoder::new(&thread.config.limits),
            served: 0,
            output: Vec::new(),
            sent: 0,
            spool: None,
            reader: Reader::default(),
            slot: None,
            refused: None,
            lent: false,
            state: ConnectionState::Reading,
            tally: Tally::default(),
            continued: false,
            body_since: 0,
            _permit: permit,
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
            let interrupted = self.interrupted_by(next);
            self.account(next.state());
            interrupted.into_iter().for_each(departure::interrupt);
            match next {
                Next::Continue => self.ready_for_next(),
                Next::Close | Next::Cut => return,
                Next::Linger => return self.linger().await,
            }
        }
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

    /// Sets what the sweep is to know of us.
    pub(crate) fn note(&self, rest: Rest, deadline: u64) {
        let mut registry = here().registry.borrow_mut();
        let entry = registry.get(self.key);
        entry.rest = rest;
        entry.since = here().clock.now();
        entry.unwanted = false;
        entry.deadline = deadline;
        entry.expired = false;
        entry.waiting = false;
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

    fn ready_for_next(&mut self) {
        self.served += 1;
        self.continued = false;
        self.reader = Reader::default();
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
