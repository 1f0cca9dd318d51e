//! The response to a request that a worker has: waits for it, and sends it.
//!
//! Entered from [`Conn::serve`] with the request queued. What the worker says is looked at by `ring`. A response that is whole when it is first seen goes out in
//! one write and its slot is free again; one that is still growing, or comes from a file, is sent by `stream`.

use std::future::poll_fn;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use howdah_accesslog::Source;
use howdah_http1::Version;
use howdah_metrics::{ConnectionState, Failure};
use howdah_wire::{
    Answer, LENGTH_UNKNOWN, RESPONSE_BROKEN, RESPONSE_CLOSE, RESPONSE_DETACHED, RESPONSE_FAILED,
    RESPONSE_FILE, RESPONSE_HEAD_READY,
};

use crate::Overdue;
use crate::capacity::Permit;
use crate::conn::{Conn, Exchange, Next};
use crate::departure::has_left;
use crate::head::{Framing, ResponseHead};
use crate::refusal::Refusal;
use crate::registry::Mail;
use crate::repeated::Repeated;
use crate::ring::{Look, Ring};
use crate::thread::here;

/// Bodies up to this size are copied behind the head; longer ones are sent from the slot.
const COPY_BODY: usize = 16 * 1024;

/// A body file that a worker has sent.
pub(crate) struct BodyFile {
    pub(crate) file: OwnedFd,
    pub(crate) length: u64,
    _permit: Permit,
}

/// What a connection that waits for its response is woken for.
enum Event {
    News,
    Mail(Mail),
    PeerLeft,
    /// The worker has been at it for too long.
    Overdue {
        worker: u16,
    },
}

impl Conn {
    /// Waits for the response to `exchange` and sends it.
    pub(crate) async fn answer(&mut self, exchange: Exchange) -> Next {
        let mut file = None;
        loop {
            match poll_fn(|context| self.poll_event(context, exchange.slot)).await {
                Event::PeerLeft => return Next::Cut,
                Event::Overdue { worker } => return self.time_out(exchange, worker).await,
                Event::Mail(Mail::Lost { status }) => return self.give_up(exchange, status).await,
                Event::Mail(Mail::File { file: Some((fd, permit)), length }) => {
                    file = Some(BodyFile { file: fd, length, _permit: permit });
                }
                Event::Mail(Mail::File { file: None, .. }) => return self.give_up(exchange, 503).await,
                Event::Mail(mail) => self.open_mail(exchange, mail).await,
                Event::News => {}
            }
            let look = here().dispatch.borrow_mut().look(exchange.slot);
            let (flags, done) = (look.answer.flags, look.done);
            if flags & RESPONSE_DETACHED != 0 && done {
                return Next::Close;
            }
            if flags & RESPONSE_FAILED != 0 && done {
                return self.give_up(exchange, 500).await;
            }
            let file_due = flags & RESPONSE_FILE != 0 && file.is_none();
            if flags & RESPONSE_HEAD_READY != 0 && !file_due {
                here().registry.borrow_mut().get(self.key).waiting = false;
                return self.respond(exchange, look, file).await;
            }
            if done && flags & RESPONSE_HEAD_READY == 0 {
                static TOLD: Repeated = Repeated::new();
                if let Some(again) = TOLD.pass() {
                    tracing::error!("a worker finished a request without a response; answered 500{again}");
                }
                return self.give_up(exchange, 500).await;
            }
        }
    }

    async fn respond(
        &mut self,
        exchange: Exchange,
        Look { answer, done }: Look,
        file: Option<BodyFile>,
    ) -> Next {
        let (lines, available) = (answer.head_length as usize, answer.produced as usize);
        if lines > available || !(200..1000).contains(&answer.status) {
            return self.give_up(exchange, 502).await;
        }
        let broken = answer.flags & RESPONSE_BROKEN != 0;
        let known = match &file {
            Some(file) => Some(file.length),
            // What there is of a broken body must not look like all of it.
            None => (done && !broken).then(|| (available - lines) as u64),
        };
        let head = self.head(exchange, &answer, known);
        self.tally.status = head.status;
        self.enter(ConnectionState::Writing);
        self.tally.worker = here().dispatch.borrow().owner(exchange.slot);
        if done && file.is_none() && !broken {
            return self.send_whole(head, exchange.slot, lines, available - lines).await;
        }
        self.stream(head, exchange.slot, lines, file).await
    }

    fn head(&self, exchange: Exchange, answer: &Answer, known: Option<u64>) -> ResponseHead {
        let thread = here();
        let (status, flags) = (answer.status as u16, answer.flags);
        let given = Some(answer.content_length).filter(|&length| length != LENGTH_UNKNOWN);
        let framing = Framing::choose(exchange.version, exchange.is_head, status, given, known);
        let keep_alive = exchange.keep_alive
            && flags & RESPONSE_CLOSE == 0
            && framing != Framing::Close
            && !self.lent
            && thread.keeps_connections()
            && !self.is_last();
        ResponseHead { version: exchange.version, status, flags, framing, keep_alive }
    }

    /// True when the connection has had as many requests as it may.
    fn is_last(&self) -> bool {
        let most = here().config.keepalive_requests;
        most != 0 && self.served + 1 >= most
    }

    /// Sends a response that lies whole in the slot, in one write if the kernel takes it.
    async fn send_whole(&mut self, head: ResponseHead, slot: u32, lines: usize, body: usize) -> Next {
        let (length, whole) = match head.framing {
            Framing::Empty(_) => (0, true),
            Framing::Length(given) => (body.min(given as usize), body as u64 == given),
            Framing::Chunked | Framing::Close => (body, true),
        };
        if !whole {
            self.tell_wrong_length(head.framing, body as u64);
        }
        let sent = self.write_whole(&head, slot, lines, length);
        if !self.output.is_empty() {
            self.part_with_slot();
        }
        match sent.is_ok() && self.flush().await {
            false => Next::Cut,
            true if head.keep_alive && whole => Next::Continue,
            true => self.last_word(),
        }
    }

    fn write_whole(
        &mut self,
        head: &ResponseHead,
        slot: u32,
        lines: usize,
        length: usize,
    ) -> std::io::Result<()> {
        let thread = here();
        let out = &mut thread.scratch.borrow_mut().output;
        out.clear();
        head.put(out, Ring(slot).lines(lines), self.request_id());
        self.tally.keep_fields(Source::ResponseHeader, out);
        let (first, second) = Ring(slot).bytes(lines, length);
        let written = if length <= COPY_BODY {
            out.extend_from_slice(first);
            out.extend_from_slice(second);
            self.socket.try_write(out)
        } else {
            self.socket.try_write_vectored(&[IoSlice::new(out), IoSlice::new(first), IoSlice::new(second)])
        };
        let written = match written {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            written => written?,
        };
        self.tally.wrote(written);
        self.tally.body = length as u64;
        let runs: [&[u8]; 3] = if length <= COPY_BODY { [out, &[], &[]] } else { [out, first, second] };
        keep_unsent(&mut self.output, &runs, written);
        Ok(())
    }

    /// Answers 504 and has the worker replaced. The slot stays with the worker until it is dead.
    async fn time_out(&mut self, exchange: Exchange, worker: u16) -> Next {
        let thread = here();
        let request = self.request();
        let reaction = if self.lent { "closed the connection" } else { "answered 504" };
        tracing::error!(
            worker,
            request_id = %self.request_id().escape_ascii(),
            "no answer within --request-timeout: {} {} from {}; {reaction}, replacing the worker",
            request.method().escape_ascii(),
            request.uri().escape_ascii(),
            request.remote_addr().escape_ascii(),
        );
        let _ = thread.outlets.overdue.send(Overdue { worker, slot: exchange.slot });
        self.tally.worker = Some(worker);
        self.part_with_slot();
        self.give_up(exchange, 504).await
    }

    /// Answers by ourselves: the application has no answer, and will have none.
    async fn give_up(&mut self, exchange: Exchange, status: u16) -> Next {
        let refusal = Refusal::NoAnswer(status);
        self.failed(refusal.failure());
        if self.lent {
            // What the connection speaks is the application's own protocol by now.
            return Next::Cut;
        }
        self.enter(ConnectionState::Writing);
        let keep_alive = exchange.keep_alive && here().keeps_connections() && !self.is_last();
        self.put_refusal(refusal, exchange.version, keep_alive, !exchange.is_head);
        match self.flush().await {
            false => Next::Cut,
            true if keep_alive => Next::Continue,
            true => self.last_word(),
        }
    }

    /// Refuses a request that never came into the queue.
    pub(crate) async fn refuse(&mut self, refusal: Refusal) -> Next {
        refusal.log(&self.client.address);
        self.failed(refusal.failure());
        self.enter(ConnectionState::Writing);
        let whole = self.refused.take().filter(|_| refusal.may_continue());
        let version = whole.map_or(Version::Http11, |exchange| exchange.version);
        let with_body = !whole.is_some_and(|exchange| exchange.is_head);
        let keep_alive = whole.is_some_and(|exchange| exchange.keep_alive)
            && here().keeps_connections()
            && !self.is_last();
        self.put_refusal(refusal, version, keep_alive, with_body);
        let sent = self.flush().await;
        match (sent, keep_alive) {
            (false, _) => Next::Cut,
            (true, true) => Next::Continue,
            // Nothing has come that would be left unread.
            (true, false) if self.tally.begin == 0 => Next::Close,
            (true, false) => Next::Linger,
        }
    }

    /// Counts what went wrong.
    fn failed(&self, failure: Failure) {
        here().outlets.recorder.failure(failure);
    }

    fn put_refusal(&mut self, refusal: Refusal, version: Version, keep_alive: bool, with_body: bool) {
        self.tally.status = refusal.status();
        let mut output = std::mem::take(&mut self.output);
        let before = output.len();
        let head = refusal.put(&mut output, version, keep_alive, with_body, self.request_id());
        self.tally.body = (output.len() - before - head) as u64;
        self.tally.keep_fields(Source::ResponseHeader, &output[before..before + head]);
        self.output = output;
    }

    /// How to close: unread input would turn the close into a reset, which may overtake the response.
    pub(crate) fn last_word(&self) -> Next {
        if self.lent || self.input.is_empty() { Next::Close } else { Next::Linger }
    }

    /// Tells the log that the application's Content-Length is not the length of its body.
    pub(crate) fn tell_wrong_length(&self, framing: Framing, body: u64) {
        let Framing::Length(given) = framing else { return };
        let request = self.request();
        tracing::error!(
            request_id = %self.request_id().escape_ascii(),
            "the application gave Content-Length {given} but a body of {body} bytes to {} {}; closed the connection",
            request.method().escape_ascii(),
            request.uri().escape_ascii(),
        );
    }

    fn poll_event(&mut self, context: &Context<'_>, slot: u32) -> Poll<Event> {
        let thread = here();
        let mut registry = thread.registry.borrow_mut();
        let entry = registry.get(self.key);
        entry.listen(context);
        if let Some(mail) = entry.mail.pop_front() {
            return Poll::Ready(Event::Mail(mail));
        }
        if std::mem::take(&mut entry.news) {
            return Poll::Ready(Event::News);
        }
        if std::mem::take(&mut entry.check_peer) {
            // An application that has taken the connection looks after it by itself.
            if !self.lent && has_left(&self.socket) {
                return Poll::Ready(Event::PeerLeft);
            }
            if let Some(worker) = overdue(slot) {
                return Poll::Ready(Event::Overdue { worker });
            }
        }
        Poll::Pending
    }
}

/// The worker that has been at `slot` for longer than the request timeout.
fn overdue(slot: u32) -> Option<u16> {
    let thread = here();
    let timeout = thread.config.request_timeout;
    if timeout.is_zero() {
        return None;
    }
    let time = thread.clock.now().saturating_sub(timeout.as_nanos() as u64);
    thread.dispatch.borrow().stuck_worker(slot, time)
}

/// Copies what the kernel has not taken of `runs` to the end of `out`.
fn keep_unsent(out: &mut Vec<u8>, runs: &[&[u8]], mut written: usize) {
    for run in runs {
        let skip = written.min(run.len());
        written -= skip;
        out.extend_from_slice(&run[skip..]);
    }
}
