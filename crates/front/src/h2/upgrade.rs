//! A stream that its application takes (RFC 8441): a WebSocket client has asked for it by CONNECT, and the application has seen
//! the request of HTTP/1.1 that means the same. It gets one end of a socket pair, and `relay` joins the other with the stream.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

use howdah_accesslog::Source;
use howdah_wire::MessageKind;

use crate::app::Job;
use crate::capacity::Permit;
use crate::fault::Fault;
use crate::h2::state::{Next, Stream};
use crate::h2::tunnel::Noted;
use crate::relay::{Bound, End, Relay};
use crate::response::{Event, Response, SWITCHING};
use crate::route::Handling;
use crate::transport::Socket;

/// A relay, and the place of its descriptor.
pub(super) type Carrier = (Relay, Permit);

/// How a relay has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// All that could be said is.
    Said,
    /// The client has broken the stream off.
    Gone,
    /// The client was promised more than there is, or can take no more.
    Short,
    /// The application has said nothing that could be passed on.
    Wrong(&'static str),
}

impl From<Over> for Next {
    fn from(over: Over) -> Self {
        match over {
            Over::Said | Over::Gone => Self::Done,
            Over::Short | Over::Wrong(_) => Self::Cut,
        }
    }
}

impl Stream {
    /// Lets the application have the stream, if it is one that can be had.
    pub(super) fn lend(&mut self) -> Option<Carrier> {
        let Handling::App(job) = &mut self.handling else { return None };
        let Some(tunnel) = &mut self.tunnel else {
            job.keep_connection();
            return None;
        };
        let Ok((ours, theirs, permit)) = self.server.pair() else {
            job.lack_descriptor();
            return None;
        };
        if !job.upgrade(MessageKind::Socket) {
            return None;
        }
        if !job.lend(theirs.as_fd(), &[]) {
            return None;
        }
        tunnel.id = self.exchange.account.id.bytes().into();
        tunnel.take();
        self.exchange.account.worker = job.worker();
        self.taken.set(true);
        Some((Relay::new(Socket::Fresh(ours), Vec::new()), permit))
    }

    /// The application has answered 101. False when there is nobody to whom that could be said.
    pub(super) fn switch(&mut self, lines: &[u8]) -> bool {
        let Handling::App(job) = &mut self.handling else { return false };
        let Some(tunnel) = &mut self.tunnel else {
            job.interim_sent(false);
            return false;
        };
        if !job.upgrade(MessageKind::Interim) {
            return false;
        }
        tunnel.id = self.exchange.account.id.bytes().into();
        let switched = tunnel.switch(lines);
        if switched {
            tunnel.take();
        }
        job.interim_sent(switched);
        self.exchange.account.worker = job.worker();
        self.take_note();
        self.taken.set(self.taken.get() || switched);
        switched
    }

    /// Relays until both sides have said all, or one has left, and the application is through with its request. Either may
    /// be first: a process that the application has started can have the stream for longer. The relay may come later than
    /// the response of 101.
    pub(super) async fn carry(&mut self, mut relay: Option<Carrier>) -> Next {
        let mut over = None;
        loop {
            let event = poll_fn(|context| self.poll_event(&mut relay, &mut over, context)).await;
            if let Some(Over::Wrong(reason)) = over {
                over = Some(self.refuse_answer(reason).await);
                continue;
            }
            let Some(event) = event else { continue };
            match event {
                Event::Look => {}
                Event::Takeover if relay.is_none() && over.is_none() => relay = self.lend(),
                Event::Takeover => self.handling.job().into_iter().for_each(Job::keep_connection),
                Event::Interim { status: SWITCHING, lines } => {
                    self.drain(&mut relay, &mut over).await;
                    self.switch(&lines);
                }
                Event::Interim { .. } => {
                    self.handling.job().into_iter().for_each(|job| job.interim_sent(false));
                }
                Event::Detached => return self.carry_on(relay, over).await,
                Event::Fault(fault) => return self.fail(fault, relay, over).await,
                Event::Redirect(_) => return self.fail(Fault::BadResponse, relay, over).await,
                Event::Response(response) => {
                    self.drain(&mut relay, &mut over).await;
                    return self.end_with(Some(response), over).await;
                }
            }
        }
    }

    /// What the application has said goes before what we say for it.
    async fn fail(&mut self, fault: Fault, mut relay: Option<Carrier>, mut over: Option<Over>) -> Next {
        self.drain(&mut relay, &mut over).await;
        if over.is_none() && self.is_silent() {
            return self.give_up(fault).await;
        }
        self.server.records.failure(fault.terms().counts_as);
        self.carry_on(relay, over).await
    }

    /// The application is through with its request, and its slot can be another's.
    async fn carry_on(&mut self, mut relay: Option<Carrier>, over: Option<Over>) -> Next {
        self.handling.part(&mut self.exchange.account);
        if let (Some((relay, _)), None) = (&mut relay, over) {
            relay.release();
        } else {
            return self.end_with(None, over).await;
        }
        match poll_fn(|context| self.poll_relay(&mut relay, context)).await {
            Over::Wrong(reason) => self.refuse_answer(reason).await.into(),
            over => over.into(),
        }
    }

    /// The end, where the application has none of the stream. A response is one if nothing was said before.
    async fn end_with(&mut self, response: Option<Response>, over: Option<Over>) -> Next {
        match (over, response) {
            (Some(over), _) => over.into(),
            (None, Some(response)) if self.is_silent() => self.respond(response).await,
            (None, _) if self.tunnel.as_mut().is_some_and(|tunnel| tunnel.end()) => Next::Done,
            (None, _) => Next::Cut,
        }
    }

    fn is_silent(&self) -> bool {
        self.tunnel.as_ref().is_none_or(|tunnel| tunnel.is_silent())
    }

    /// What the application has said to its end of the pair is no answer to who has asked for a WebSocket.
    async fn refuse_answer(&mut self, reason: &str) -> Over {
        let request = self.handling.request(&self.exchange.account);
        tracing::error!(
            request_id = %self.exchange.account.id.bytes().escape_ascii(),
            "what the application wrote to psgix.io is no answer to a WebSocket client: {reason}; answered 502 to {} {}",
            request.method().escape_ascii(),
            request.uri().escape_ascii(),
        );
        if self.give_up(Fault::BadResponse).await == Next::Done { Over::Said } else { Over::Short }
    }

    /// What there is of the application; none when the relay has ended in a way that must be seen to at once.
    fn poll_event(
        &mut self,
        relay: &mut Option<Carrier>,
        over: &mut Option<Over>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Event>> {
        if over.is_none()
            && let Poll::Ready(ended) = self.poll_relay(relay, context)
        {
            *over = Some(ended);
            if matches!(ended, Over::Wrong(_)) {
                return Poll::Ready(None);
            }
        }
        self.handling.poll(&self.exchange, context).map(Some)
    }

    /// At its end the application's end is closed.
    fn poll_relay(&mut self, relay: &mut Option<Carrier>, context: &mut Context<'_>) -> Poll<Over> {
        let over = ready!(self.poll_over(relay, context));
        *relay = None;
        Poll::Ready(over)
    }

    fn poll_over(&mut self, relay: &mut Option<Carrier>, context: &mut Context<'_>) -> Poll<Over> {
        if self.carrier.poll_gone(context).is_ready() {
            return Poll::Ready(Over::Gone);
        }
        let Some(tunnel) = &mut self.tunnel else { return Poll::Pending };
        tunnel.poll_heard(context);
        let Some((relay, _)) = relay else { return Poll::Pending };
        let bound = Bound { timer: &self.timer, holding: self.server.holding };
        let end = relay.poll(&mut **tunnel, context, bound);
        let (wrong, is_over) = (tunnel.wrong.take(), tunnel.is_over());
        let up = relay.carried().0;
        self.count(up);
        match (wrong, end) {
            (Some(reason), _) => Poll::Ready(Over::Wrong(reason)),
            (None, _) if is_over => Poll::Ready(Over::Said),
            (None, Poll::Pending) => Poll::Pending,
            (None, Poll::Ready(End::Both | End::Application)) => Poll::Ready(Over::Said),
            (None, Poll::Ready(End::Client)) => Poll::Ready(Over::Short),
            (None, Poll::Ready(End::Late)) => {
                self.out.cut_off();
                Poll::Ready(Over::Short)
            }
        }
    }

    /// What the application has said goes out, as far as the client takes it.
    async fn drain(&mut self, relay: &mut Option<Carrier>, over: &mut Option<Over>) {
        let (Some((relay, _)), Some(tunnel)) = (relay, &mut self.tunnel) else { return };
        let bound = Bound { timer: &self.timer, holding: self.server.holding };
        let error = relay.drain(&mut **tunnel, bound).await.err().map(|error| error.kind());
        self.count(0);
        match error {
            // What the application says of that is ours to judge.
            None | Some(ErrorKind::InvalidData) => return,
            Some(ErrorKind::TimedOut) => self.out.cut_off(),
            Some(_) => {}
        }
        *over = over.or(Some(Over::Short));
    }

    /// So many bytes have gone to the application.
    fn count(&mut self, up: u64) {
        self.exchange.account.received += up;
        self.take_note();
        let down = self.tunnel.as_mut().map_or(0, |tunnel| tunnel.sent());
        if down > 0 {
            self.out.count(down);
        }
    }

    /// A head is out.
    fn take_note(&mut self) {
        let noted = self.tunnel.as_mut().and_then(|tunnel| tunnel.noted.take());
        let Some(Noted { status, size, lines }) = noted else { return };
        let (account, records) = (&mut self.exchange.account, self.server.records);
        account.status = status;
        account.keep_fields(Source::ResponseHeader, &lines, records.wanted());
        self.out.count(size);
    }
}
