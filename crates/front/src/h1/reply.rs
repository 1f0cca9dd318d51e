//! The response to a request that a handler has: waits for it, and sends it.
//!
//! Entered from the connection's loop. A response that is whole when it is first seen goes out in one write and its slot is
//! free again; one that is still growing, or comes from a file, is sent by `stream`.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use howdah_accesslog::Source;
use howdah_http1::Version;
use howdah_http1::encode::status_line;
use howdah_metrics::ConnectionState;
use howdah_wire::MessageKind;

use crate::delivery::{Delivered, Delivery, Framing, Reactions};
use crate::fault::Fault;
use crate::h1::head::{self, Saying};
use crate::h1::state::{Asked, Conn, Next, UNKNOWN};
use crate::outflow::Outflow;
use crate::record::Account;
use crate::redirect::Detour;
use crate::response::{Body, Event, Head, Response, SWITCHING};
use crate::route::Handling;
use crate::server::{Server, protocol};
use crate::slots::Ring;

/// Bodies up to this size are copied behind the head; longer ones in a ring are sent from there.
const COPY_BODY: usize = 16 * 1024;

impl Conn {
    /// Waits for the response and sends it.
    pub(crate) async fn answer(&mut self) -> Next {
        let mut redirects = 0;
        loop {
            match poll_fn(|context| self.poll_event(context)).await {
                Event::Response(response) => return self.respond(response, true).await,
                Event::Redirect(path) => {
                    redirects += 1;
                    if let Err(fault) = self.detour(redirects).follow(&path) {
                        return self.give_up(fault).await;
                    }
                }
                // It has switched protocols, and has not taken the connection: the client may be sending in the new one.
                Event::Detached if self.is_upgraded() && !self.lent => return Next::Linger,
                Event::Detached => return Next::Close,
                Event::Fault(fault) => return self.give_up(fault).await,
                Event::Interim { status, lines } => {
                    if !self.send_interim(status, &lines).await {
                        return Next::Cut;
                    }
                }
                Event::Takeover => {
                    if let Some(next) = Box::pin(self.part_with()).await {
                        return next;
                    }
                }
                // An application that has the connection looks after it by itself.
                Event::Look if self.is_upgraded() => {}
                Event::Look => {
                    // What waits to go out with this response is for a client that has left without it, too.
                    let _ = self.out.send_held();
                    if self.has_left() {
                        return Next::Cut;
                    }
                    if self.server.give_up_late_worker(&mut self.exchange, &mut self.handling) {
                        return self.give_up(Fault::Overdue).await;
                    }
                }
            }
        }
    }

    /// What there is of the response. Those that wait to go out with it go without it after a while.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        let event = self.handling.poll(&self.exchange, context);
        if event.is_pending() {
            self.out.poll_postponed(context);
        }
        event
    }

    /// Lets the application have the connection, if it can. Then it says what becomes of that. It counts as one that has it before
    /// the client is waited for, which may be long.
    async fn part_with(&mut self) -> Option<Next> {
        if let Handling::App(job) = &mut self.handling
            && !job.upgrade(MessageKind::Socket)
        {
            return None;
        }
        if !self.out.flush(&self.timer).await {
            return Some(Next::Cut);
        }
        let relay = self.lend()?;
        Some(self.carry(relay).await)
    }

    fn detour(&mut self, count: u32) -> Detour<'_> {
        let Self { server, client, behind, exchange, handling, lent, .. } = self;
        let (client, behind, asked) = (&*client, behind.as_deref(), self.asked.unwrap_or(UNKNOWN));
        let (version, protocol) = (asked.version, protocol(asked.version));
        let (is_head, lent) = (asked.is_head, *lent);
        Detour { server, client, behind, exchange, handling, version, protocol, is_head, lent, count }
    }

    /// Refuses a request that no handler has.
    pub(crate) async fn refuse(&mut self, fault: Fault) -> Next {
        self.keep_what_came();
        self.asked.get_or_insert(Asked::beginning(&self.input));
        self.server.router.name(&mut self.exchange.account);
        fault.log(&self.sender().address, self.exchange.account.id.bytes());
        self.give_up(fault).await
    }

    /// Answers by ourselves: there is no answer, and will be none.
    pub(super) async fn give_up(&mut self, fault: Fault) -> Next {
        let terms = fault.terms();
        if self.is_upgraded() {
            // What the connection speaks is the application's own protocol by now. Its end counts as this.
            self.exchange.account.breaks.set(Some(terms.counts_as));
            return Next::Cut;
        }
        self.server.records.failure(terms.counts_as);
        self.respond(Response::refusal(fault), terms.keeps).await
    }

    /// Sends a response, or what there is of it. `read_all` says that its request was read to its end.
    pub(super) async fn respond(&mut self, response: Response, read_all: bool) -> Next {
        if self.server.records.has_access_log() {
            self.handling.prefetch_request();
        }
        let Response { head, body } = response;
        let asked = self.asked(read_all);
        let framing = asked.framing(&head, &body);
        let ends = head.close || framing == Framing::Close || asked.is_denied(&head);
        let keep_alive = self.persists(read_all && !ends);
        self.exchange.answer();
        self.exchange.account.status = head.status;
        self.handling.note_worker(&mut self.exchange.account);
        self.enter(ConnectionState::Writing);
        let hsts = self.server.config.hsts.filter(|_| self.client.tls.is_some());
        let say = Say { head, version: asked.version, framing, keep_alive, hsts };
        let written = match body {
            Body::Bytes(bytes) => self.write_whole(&say, (&bytes, &[]), None),
            Body::Ring(ring, Some(length)) => {
                let body = ring.bytes(say.head.lines.len(), length as usize);
                if self.postpone(&say, body) {
                    return Next::Continue;
                }
                self.write_whole(&say, body, Some(ring))
            }
            // For few responses, and larger than all else that there is for each connection.
            body => return Box::pin(self.stream(&say, body)).await,
        };
        match written {
            Ok(Written::All(length)) => {
                let sent = self.out.flush(&self.timer).await;
                match self.end(sent, keep_alive && say.framing.fits(length), read_all) {
                    // Nothing is left to come that its end would break off.
                    Next::Close | Next::Linger if say.framing.is_short(length) && !self.lent => Next::Short,
                    next => next,
                }
            }
            Ok(Written::Part(ring, sent)) => Box::pin(self.go_on(&say, ring, sent)).await,
            Err(_) => Next::Cut,
        }
    }

    /// Holds a response that is whole and may go out with the next one. False when it may not.
    fn postpone(&mut self, say: &Say, body: (&[u8], &[u8])) -> bool {
        let length = body.0.len() + body.1.len();
        let may = say.keep_alive && say.framing.fits(length as u64) && self.may_postpone(length);
        if may {
            let (first, second) = say.framing.cut(body);
            self.out.put(|out| put_head(out, self.server, &mut self.exchange.account, say));
            self.out.begin_body(0);
            self.out.put(|out| {
                out.extend_from_slice(first);
                out.extend_from_slice(second);
            });
            self.out.postpone();
        }
        may
    }

    /// Writes a response that is whole, at once if the kernel takes it. What is left of a long body stays in its `ring`.
    fn write_whole(&mut self, say: &Say, body: (&[u8], &[u8]), ring: Option<Ring>) -> io::Result<Written> {
        let (server, (first, second)) = (self.server, say.framing.cut(body));
        let out = &mut server.scratch.borrow_mut().output;
        out.clear();
        put_head(out, server, &mut self.exchange.account, say);
        self.out.begin_body(out.len());
        let length = first.len() + second.len();
        let ring = ring.filter(|_| length > COPY_BODY);
        if ring.is_none() {
            out.extend_from_slice(first);
            out.extend_from_slice(second);
        }
        let pieces = [out.as_slice(), first, second];
        let runs = if ring.is_none() { &pieces[..1] } else { &pieces };
        // An application that has the connection may have more to say.
        let stays = say.keep_alive || self.lent;
        let sent = if stays { self.out.write_all(runs) } else { self.out.write_last(runs) }?;
        if let Some(ring) = ring.filter(|_| sent < length) {
            return Ok(Written::Part(ring, sent));
        }
        let all = (body.0.len() + body.1.len()) as u64;
        if !say.framing.fits(all) {
            self.delivery().tell_wrong_length(say.framing, all);
        }
        if self.out.holds() {
            self.part();
        }
        Ok(Written::All(all))
    }

    /// Sends head and body as they come, behind what the client has not taken yet: its worker must not wait for that.
    async fn stream(&mut self, say: &Say, body: Body) -> Next {
        if self.out.send_held().is_err() {
            return Next::Cut;
        }
        let before = self.out.mark();
        self.out.put(|out| put_head(out, self.server, &mut self.exchange.account, say));
        self.out.begin_body(0);
        let delivered = self.delivery().send(say.framing, say.head.lines.len(), body, None).await;
        if delivered == Delivered::Broken
            && let Some(fault) = self.exchange.loss()
            && self.out.take_back(before)
        {
            // It is told here, and counts once.
            self.exchange.close();
            self.exchange.account.forget_fields(Source::ResponseHeader, self.server.records.wanted());
            return self.give_up(fault).await;
        }
        self.end_stream(say, delivered)
    }

    /// Sends the rest of a body that lies in the ring, whole, and of which so many bytes are out.
    async fn go_on(&mut self, say: &Say, ring: Ring, sent: usize) -> Next {
        let body = Body::Ring(ring, None);
        let delivered = self.delivery().send(say.framing, say.head.lines.len(), body, Some(sent)).await;
        self.end_stream(say, delivered)
    }

    fn end_stream(&self, say: &Say, delivered: Delivered) -> Next {
        match delivered {
            Delivered::Whole => self.end(true, say.keep_alive, true),
            Delivered::Longer => self.end(true, false, true),
            Delivered::Broken => self.break_response(say.framing),
        }
    }

    /// A response that breaks off: what follows depends on who has not gone on.
    fn break_response(&self, framing: Framing) -> Next {
        let Outflow { transport, .. } = &self.out;
        let is_reset = framing == Framing::Close;
        if is_reset {
            // An ordinary end would say that this was all (RFC 9112 8).
            transport.reset();
        }
        let client_waits = !self.out.holds() && !self.out.sent().too_slow;
        // What has come and is not read has the kernel reset it, too.
        if client_waits && (is_reset || !transport.is_read()) { Next::Break } else { Next::Cut }
    }

    fn delivery(&mut self) -> Delivery<'_> {
        let Self { server, out, timer, exchange, handling, lent, input, .. } = self;
        let reaction = "closed the connection";
        let reactions = Reactions { too_short: reaction, too_long: reaction };
        Delivery {
            server,
            out,
            timer,
            exchange,
            handling,
            reactions,
            lent: *lent,
            asks_more: !input.is_empty(),
        }
    }

    /// Sends an interim response, without waiting for the client, whose worker waits for us. What the client does not take goes before
    /// the response. HTTP/1.0 has none (RFC 9110 15.2), and a client that has not taken what there was before gets no more of them.
    /// False when the client is gone, or does not take that it is to speak another protocol.
    pub(super) async fn send_interim(&mut self, status: u16, lines: &[u8]) -> bool {
        if status == SWITCHING {
            return self.switch(lines).await;
        }
        if self.out.send_held().is_err() {
            return false;
        }
        let old = self.version() == Version::Http10;
        let said = !old && !self.out.holds();
        if said {
            self.put_interim(status, lines);
            // An application that has the connection may write there at once.
            let goes_on =
                if self.lent { self.out.flush(&self.timer).await } else { self.out.send_held().is_ok() };
            if !goes_on {
                return false;
            }
        }
        if let Some(job) = self.handling.job() {
            job.interim_sent(said || old);
        }
        true
    }

    /// It counts as one whose application has the connection before the client is waited for, which may be long.
    async fn switch(&mut self, lines: &[u8]) -> bool {
        if let Handling::App(job) = &mut self.handling
            && !job.upgrade(MessageKind::Interim)
        {
            return true;
        }
        if !self.out.flush(&self.timer).await {
            return false;
        }
        let switches = self.version() == Version::Http11;
        if switches {
            self.put_interim(SWITCHING, lines);
            if !self.out.flush(&self.timer).await {
                return false;
            }
            self.exchange.account.status = SWITCHING;
        }
        if let Some(job) = self.handling.job() {
            job.interim_sent(switches);
        }
        true
    }

    fn version(&self) -> Version {
        self.asked.map_or(Version::Http10, |asked| asked.version)
    }

    fn put_interim(&mut self, status: u16, lines: &[u8]) {
        self.out.put(|out| {
            status_line(out, Version::Http11, status);
            out.extend_from_slice(lines);
            out.extend_from_slice(b"\r\n");
        });
    }
}

/// Appends the head, of which the log may want something.
pub(crate) fn put_head(out: &mut Vec<u8>, server: &Server, account: &mut Account, say: &Say) {
    let start = out.len();
    let saying = Saying {
        version: say.version,
        framing: say.framing,
        keep_alive: say.keep_alive,
        server: server.config.server_header,
        id: account.id.bytes(),
        hsts: say.hsts,
    };
    head::put(out, &say.head, server.clock, saying);
    account.keep_fields(Source::ResponseHeader, &out[start..], server.records.wanted());
}

/// What has been written of a response that is whole.
#[derive(Clone, Copy, Debug)]
enum Written {
    /// All of it is out, or held: a body of so many bytes, with what was too many.
    All(u64),
    /// So many bytes of the body in that ring are out.
    Part(Ring, usize),
}

/// A response's head, and how it is said.
#[derive(Debug)]
pub(crate) struct Say {
    pub(crate) head: Head,
    pub(crate) version: Version,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    /// Seconds in Strict-Transport-Security; none for no such field.
    pub(crate) hsts: Option<u64>,
}

#[cfg(test)]
mod tests;
