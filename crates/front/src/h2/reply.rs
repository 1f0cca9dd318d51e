//! The response of a stream: waits for it, and sends it as the client's windows let it.

use std::future::poll_fn;
use std::time::Duration;

use howdah_accesslog::Source;
use howdah_http1::Version;

use crate::delivery::{Delivered, Delivery, Framing, Reactions};
use crate::fault::Fault;
use crate::h2::head::{self, Saying};
use crate::h2::state::{Next, Stream};
use crate::redirect::Detour;
use crate::response::{Body, Event, Head, Response, SWITCHING};
use crate::server::sender;

/// How long a worker waits for its interim response to be out.
const MOMENT: Duration = Duration::from_millis(10);

impl Stream {
    /// Waits for the response and sends it.
    pub(crate) async fn answer(&mut self) -> Next {
        let mut redirects = 0;
        loop {
            match poll_fn(|context| self.handling.poll(&self.exchange, context)).await {
                Event::Response(response) => return self.respond(response).await,
                Event::Redirect(path) => {
                    redirects += 1;
                    if let Err(fault) = self.detour(redirects).follow(&path) {
                        return self.give_up(fault).await;
                    }
                }
                Event::Detached => return Next::Cut,
                Event::Fault(fault) => return self.give_up(fault).await,
                Event::Interim { status: SWITCHING, lines } => {
                    if self.switch(&lines) {
                        return Box::pin(self.carry(None)).await;
                    }
                }
                Event::Interim { status, lines } => self.say_interim(status, &lines).await,
                Event::Takeover => {
                    if let Some(relay) = self.lend() {
                        return Box::pin(self.carry(Some(relay))).await;
                    }
                }
                Event::Look => {
                    if self.server.give_up_late_worker(&mut self.exchange, &mut self.handling) {
                        return self.give_up(Fault::Overdue).await;
                    }
                }
            }
        }
    }

    /// Refuses a request that no handler has.
    pub(crate) async fn refuse(&mut self, fault: Fault) -> Next {
        self.server.router.name(&mut self.exchange.account);
        let peer = &sender(&self.link.client, self.behind.as_deref()).address;
        fault.log(peer, self.exchange.account.id.bytes());
        self.give_up(fault).await
    }

    /// Answers by ourselves: there is no answer, and will be none.
    pub(super) async fn give_up(&mut self, fault: Fault) -> Next {
        self.server.records.failure(fault.terms().counts_as);
        self.respond(Response::refusal(fault)).await
    }

    /// Its worker hears of it when it is out, for another can follow, or after a moment: the client need not take it, and must not
    /// hold up a worker. Then there are no more of them before it is out.
    async fn say_interim(&self, status: u16, lines: &[u8]) {
        let said = self.carrier.is_out()
            && head::interim(status, lines).is_some_and(|head| self.carrier.say_interim(head));
        let _ = tokio::time::timeout(MOMENT, poll_fn(|context| self.carrier.poll_sent(context))).await;
        if let Some(job) = self.handling.job() {
            job.interim_sent(said);
        }
    }

    /// Sends a response, or what there is of it.
    pub(super) async fn respond(&mut self, mut response: Response) -> Next {
        self.exchange.answer();
        self.handling.note_worker(&mut self.exchange.account);
        if self.tunnel.is_some() && (200..300).contains(&response.head.status) {
            // To who has asked for a tunnel that would say that there is one (RFC 9110 9.3.6).
            self.handling.part(&mut self.exchange.account);
            self.server.records.failure(Fault::NoWebSocket.terms().counts_as);
            response = Response::refusal(Fault::NoWebSocket);
        }
        if self.server.records.has_access_log() {
            self.handling.prefetch_request();
        }
        let Response { head, body } = response;
        let framing =
            Framing::choose(self.is_head, head.status, head.content_length, body.length(), Framing::Close);
        self.exchange.account.status = head.status;
        let ends = matches!(framing, Framing::Empty(_)) || body.length() == Some(0) && framing.most() == 0;
        if !self.say_head(&head, framing, ends) {
            return Next::Cut;
        }
        let lines = head.lines.len();
        let whole = match body {
            Body::Bytes(_) | Body::Ring(_, Some(_)) if ends => true,
            Body::Bytes(bytes) => self.say_whole(framing, (&bytes, &[])) || self.send_bytes(&bytes).await,
            Body::Ring(ring, Some(length)) if self.say_whole(framing, ring.bytes(lines, length as usize)) => {
                true
            }
            body => {
                let out = matches!(body, Body::Ring(_, Some(_))).then_some(0);
                let delivered = self.delivery().send(framing, lines, body, out).await;
                delivered == Delivered::Whole && (ends || self.carrier.say_end().is_ok())
            }
        };
        // What comes behind all that was promised is nothing to the client.
        if whole || ends || self.carrier.has_told_end() { Next::Done } else { Next::Cut }
    }

    /// False when what the worker has written is no head, or the client is gone.
    fn say_head(&mut self, head: &Head, framing: Framing, ends: bool) -> bool {
        let server = self.server;
        let saying = Saying {
            framing,
            server: server.config.server_header,
            id: self.exchange.account.id.bytes(),
            hsts: server.config.hsts.filter(|_| self.link.client.tls.is_some()),
        };
        let Some(message) = head::build(head, server.clock, saying) else {
            self.exchange.account.breaks.set(Some(Fault::BadResponse.terms().counts_as));
            return false;
        };
        if server.records.wants(Source::ResponseHeader) {
            let lines = head::lines(message.headers());
            self.exchange.account.keep_fields(Source::ResponseHeader, &lines, server.records.wanted());
        }
        self.carrier.heed(message.headers());
        self.out.count(head::size(&message));
        self.out.begin_body(0);
        self.carrier.say_head(message, ends).is_ok()
    }

    /// Says a body that is whole, if its connection takes it now, and it is no shorter than it was said to be.
    fn say_whole(&mut self, framing: Framing, body: (&[u8], &[u8])) -> bool {
        let all = (body.0.len() + body.1.len()) as u64;
        let (first, second) = framing.cut(body);
        if framing.is_short(all) || !self.carrier.say_all(first, second).unwrap_or(false) {
            return false;
        }
        if !framing.fits(all) {
            self.delivery().tell_wrong_length(framing, all);
        }
        self.out.count(first.len() + second.len());
        true
    }

    /// Sends a body of our own.
    async fn send_bytes(&mut self, body: &[u8]) -> bool {
        self.out.put(|out| out.extend_from_slice(body));
        self.out.flush(&self.timer).await && self.carrier.say_end().is_ok()
    }

    fn delivery(&mut self) -> Delivery<'_> {
        let Self { server, out, timer, exchange, handling, .. } = self;
        let reactions = Reactions { too_short: "reset the stream", too_long: "cut it off there" };
        Delivery { server, out, timer, exchange, handling, reactions, lent: false, asks_more: false }
    }

    fn detour(&mut self, count: u32) -> Detour<'_> {
        let protocol = self.protocol();
        let Self { server, link, behind, exchange, handling, is_head, .. } = self;
        Detour {
            server,
            client: &link.client,
            behind: behind.as_deref(),
            exchange,
            handling,
            version: Version::Http11,
            protocol,
            is_head: *is_head,
            lent: false,
            count,
        }
    }
}
