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
use crate::h1::state::{Asked, Conn, Next, SWITCHING, UNKNOWN};
use crate::outflow::Outflow;
use crate::record::Account;
use crate::redirect::Detour;
use crate::response::{Body, Event, Head, Response};
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
                    if let Some(worker) = self.handling.job().and_then(|job| job.report_overdue()) {
                        self.server.give_up_worker(&mut self.exchange, &mut self.handling, worker);
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
        let Self { server, out, timer, exchange, handling, lent, .. } = self;
        let reaction = "closed the connection";
        let reactions = Reactions { too_short: reaction, too_long: reaction };
        Delivery { server, out, timer, exchange, handling, reactions, lent: *lent }
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
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use howdah_metrics::{ConnectionState, Failure};
    use howdah_wire::{ANSWER_TOO_MANY, LENGTH_UNKNOWN, RESPONSE_DETACHED, RESPONSE_FAILED};

    use super::COPY_BODY;
    use crate::capacity::Kind;
    use crate::config::Config;
    use crate::exchange::Mail;
    use crate::h1::serve;
    use crate::reports::Loss;
    use crate::sample::heard::heard;
    use crate::sample::worker::Claimed;
    use crate::sample::world::{Terms, World, pieces, run};
    use crate::transport::scripted::Scripted;
    use crate::transport::{Peer, Socket, Transport};

    const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

    fn text(script: &Scripted) -> String {
        String::from_utf8(script.output()).unwrap()
    }

    #[test]
    fn what_becomes_of_a_worker_is_what_its_client_hears() {
        for (loss, status, failure) in [
            (Loss::Exited, "500 Internal Server Error", Failure::Application),
            (Loss::Killed, "502 Bad Gateway", Failure::WorkerLost),
        ] {
            run(async {
                let world = World::new(Config::default());
                let script = Scripted::new(pieces(GET));
                let connection = world.connect(&script);
                world.run(false).await;
                let claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                world.pool().worker_gone(0, loss);
                world.run(false).await;
                assert!(text(&script).starts_with(&format!("HTTP/1.1 {status}\r\n")), "{loss:?}");
                assert_eq!(world.totals().failures[failure], 1);
                assert!(!connection.is_finished(), "the connection stays");
            });
        }
    }

    #[test]
    fn a_request_that_takes_too_long_is_answered_and_its_worker_told_of() {
        run(async {
            let terms = Terms { request_timeout: Duration::from_secs(3), ..Terms::default() };
            let mut world = World::with(Config::default(), terms, |_| ());
            let script = Scripted::new(pieces(GET));
            world.connect(&script);
            world.run(false).await;
            let claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            world.wait(Duration::from_millis(2900));
            world.run(false).await;
            assert!(script.output().is_empty(), "not yet");
            world.wait(Duration::from_secs(1));
            world.run(false).await;
            assert!(text(&script).starts_with("HTTP/1.1 504 Gateway Timeout\r\n"));
            let overdue = world.overdue.try_recv().unwrap();
            assert_eq!((overdue.worker, overdue.slot), (0, claimed.claim.slot));
            world.worker.finish(claimed);
            world.run(false).await;
            assert_eq!(world.totals().all_requests(), 1, "what comes later is for nobody");
        });
    }

    #[test]
    fn a_client_that_has_left_is_not_waited_for_and_its_worker_interrupted_where_asked_for() {
        for (abort_on_disconnect, peer, over) in
            [(false, Peer::Gone, true), (true, Peer::Silent, true), (false, Peer::Silent, false)]
        {
            run(async {
                let mut world = World::new(Config { abort_on_disconnect, ..Config::default() });
                let script = Scripted::new(pieces(GET));
                let connection = world.connect(&script);
                world.run(false).await;
                let claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                script.become_of(peer);
                world.wait(Duration::from_millis(100));
                world.run(false).await;
                assert_eq!(connection.is_finished(), over, "{abort_on_disconnect} {peer:?}");
                assert_eq!(world.departed.try_recv().ok(), abort_on_disconnect.then_some(0));
                assert_eq!(world.totals().failures[Failure::ClientGone], u64::from(over));
            });
        }
    }

    #[test]
    fn interim_responses_go_before_the_answer_but_not_to_old_clients() {
        let said = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        // And behind others that wait to go out with it.
        for (version, hints, before) in [("1.1", said, 0), ("1.0", "", 0), ("1.1", said, 2), ("1.0", "", 2)] {
            run(async {
                let world = World::new(Config::default());
                let get = format!("GET /a HTTP/{version}\r\nHost: h\r\nConnection: keep-alive\r\n\r\n");
                let script = Scripted::new(pieces(&get.repeat(before + 1)));
                world.connect(&script);
                world.run(false).await;
                for _ in 0..before {
                    assert!(world.worker.serve());
                    world.run(false).await;
                }
                let mail = Mail::Interim { status: 103, lines: b"Link: x\r\n".to_vec() };
                assert!(world.thread.desks.post(0, mail));
                world.run(false).await;
                let old = text(&script);
                assert!(old.ends_with(hints) && old.matches(" 200 OK\r\n").count() == before, "{old}");
                world.run(true).await;
                assert!(text(&script)[old.len()..].starts_with(&format!("HTTP/{version} 200 OK\r\n")));
            });
        }
    }

    #[test]
    fn a_connection_that_switches_protocols_is_nobodys_but_the_applications() {
        for (version, sent) in
            [("1.1", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), ("1.0", "")]
        {
            for fails in [false, true] {
                run(async {
                    let world = World::new(Config::default());
                    let script = Scripted::new(pieces(&format!("GET /a HTTP/{version}\r\nHost: h\r\n\r\n")));
                    let connection = world.connect(&script);
                    world.run(false).await;
                    let mut claimed = world.worker.claim().unwrap();
                    world.worker.begin(&claimed);
                    let mail = Mail::Interim { status: 101, lines: b"Upgrade: x\r\n".to_vec() };
                    assert!(world.thread.desks.post(0, mail));
                    world.run(false).await;
                    assert_eq!(text(&script), sent);
                    world.worker.flag(&mut claimed, if fails { RESPONSE_FAILED } else { RESPONSE_DETACHED });
                    world.worker.finish(claimed);
                    world.run(false).await;
                    let case = format!("{version} {fails}");
                    assert_eq!(text(&script).len() > sent.len(), sent.is_empty() && fails, "{case}");
                    assert!(connection.is_finished() || script.was_shut(), "{case}");
                });
            }
        }
    }

    #[test]
    fn requests_beyond_the_queue_are_refused_and_their_connections_stay() {
        run(async {
            let terms = Terms { max_queue: 2, ..Terms::default() };
            let world = World::with(Config::default(), terms, |_| ());
            let scripts: Vec<_> = (0..3).map(|_| Scripted::new(pieces(&format!("{GET}|{GET}")))).collect();
            let connections: Vec<_> = scripts.iter().map(|script| world.connect(script)).collect();
            world.run(false).await;
            let refused: Vec<_> =
                scripts.iter().map(|script| text(script).contains("503 Service Unavailable\r\n")).collect();
            assert_eq!(refused, [false, false, true]);
            assert!(text(&scripts[2]).contains("\r\nRetry-After: 1\r\n"));
            world.run(true).await;
            for script in &scripts {
                script.go_on();
                world.run(true).await;
            }
            assert!(scripts.iter().all(|script| text(script).ends_with("\r\n\r\n/a")));
            assert!(connections.iter().all(|connection| !connection.is_finished()));
            assert_eq!(world.totals().failures[Failure::QueueFull], 1);
        });
    }

    /// A client whose request has a whole response with a body of so many bytes.
    async fn with_body(length: usize, takes: usize) -> (World, Scripted) {
        let world = World::new(Config::default());
        let script = Scripted::new(pieces(GET));
        world.connect(&script);
        script.take(takes);
        answer(&world, length).await;
        (world, script)
    }

    /// The worker answers the request that waits, whole before anybody looks.
    async fn answer(world: &World, length: usize) {
        world.run(false).await;
        let mut claimed = world.worker.claim().unwrap();
        world.worker.begin(&claimed);
        world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
        assert_eq!(world.worker.write(&mut claimed, &vec![b'x'; length]), length);
        world.worker.finish(claimed);
        world.run(false).await;
    }

    /// A worker whose second request is of a client that takes nothing, and has not taken the response to the first; what it hears
    /// from us. None where that response did not wait for the second, as on a machine that is busy.
    async fn behind_another(terms: Terms) -> Option<(World, Scripted, Claimed, OwnedFd)> {
        let world = World::with(Config::default(), terms, |_| ());
        let (ours, channel) = howdah_sys::socketpair_seqpacket().unwrap();
        rustix::io::ioctl_fionbio(&channel, true).unwrap();
        world.pool().open_channel(0, ours);
        let script = Scripted::new(pieces(&GET.repeat(2)));
        script.take(0);
        world.connect(&script);
        world.run(false).await;
        assert!(world.worker.serve());
        world.run(false).await;
        let claimed = world.worker.claim()?;
        world.worker.begin(&claimed);
        Some((world, script, claimed, channel))
    }

    fn is_seen(test: impl AsyncFn() -> Option<()>) {
        assert!((0..50).any(|_| run(test()).is_some()));
    }

    /// What the worker was told.
    fn word(channel: &OwnedFd) -> Option<u64> {
        let mut packet = [0; 4096];
        let (length, _) = howdah_sys::recv_with_fds(channel, &mut packet).ok()?;
        Some(howdah_sys::decode_message(&packet[..length])?.0.value)
    }

    #[test]
    fn no_worker_waits_for_a_client_that_does_not_take_interim_responses() {
        run(async {
            let world = World::new(Config::default());
            let (ours, channel) = howdah_sys::socketpair_seqpacket().unwrap();
            rustix::io::ioctl_fionbio(&channel, true).unwrap();
            world.pool().open_channel(0, ours);
            let script = Scripted::new(pieces(GET));
            script.take(5);
            world.connect(&script);
            world.run(false).await;
            let claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            // Of what is said the second time nothing goes out.
            for refused in [0, 1] {
                let mail = Mail::Interim { status: 103, lines: b"Link: x\r\n".to_vec() };
                assert!(world.thread.desks.post(0, mail));
                world.run(false).await;
                assert_eq!(word(&channel), Some(refused));
            }
            world.worker.respond(claimed);
            world.run(false).await;
            script.take(usize::MAX);
            world.run(false).await;
            let said = text(&script);
            assert!(
                said.starts_with("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"),
                "{said}"
            );
            assert_eq!((said.matches("HTTP/1.1").count(), said.ends_with("\r\n\r\n/a")), (2, true));
            assert_eq!(world.totals().bytes_out, said.len() as u64);
        });
    }

    #[test]
    fn no_worker_waits_with_a_large_response_for_a_client_that_does_not_take_the_one_before() {
        is_seen(async || {
            let (world, script, mut claimed, _) = behind_another(Terms::default()).await?;
            world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
            let (piece, mut written) = (vec![b'x'; 200_000], 0);
            while written < 5 * piece.len() {
                let more = world.worker.write(&mut claimed, &piece);
                assert!(more > 0, "{written} bytes found room");
                written += more;
                world.worker.tell(&claimed);
                world.run(false).await;
                world.wait(Duration::from_millis(60));
                tokio::time::sleep(Duration::from_millis(15)).await;
                world.run(false).await;
            }
            world.worker.finish(claimed);
            world.run(false).await;
            script.take(usize::MAX);
            let whole = || text(&script).ends_with("0\r\n\r\n").then(|| text(&script).matches('x').count());
            assert_eq!(world.until(whole).await, Some(written));
            Some(())
        });
    }

    #[test]
    fn what_a_client_has_not_taken_is_not_lost_with_the_worker_of_its_next_request() {
        for takes in [0, 10, 100] {
            is_seen(async || {
                let (world, script, mut claimed, _channel) = behind_another(Terms::default()).await?;
                world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
                world.worker.write(&mut claimed, b"some of it");
                world.worker.tell(&claimed);
                world.run(false).await;
                script.take(takes);
                world.run(false).await;
                world.pool().worker_gone(0, Loss::Killed);
                world.run(false).await;
                script.take(usize::MAX);
                world.run(false).await;
                let said = text(&script);
                assert!(said.contains("\r\n\r\n/aHTTP/1.1 502 Bad Gateway\r\n"), "{takes}: {said}");
                assert_eq!(world.totals().bytes_out, said.len() as u64);
                Some(())
            });
        }
    }

    #[test]
    fn a_worker_that_is_lost_counts_once_though_its_client_does_not_hear_of_it() {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(GET));
            script.take(0);
            world.connect(&script);
            world.run(false).await;
            let mut claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
            world.worker.write(&mut claimed, b"some of it");
            world.worker.tell(&claimed);
            world.run(false).await;
            script.become_of(Peer::Gone);
            world.pool().worker_gone(0, Loss::Killed);
            world.run(false).await;
            let failures = world.totals().failures;
            assert_eq!((failures[Failure::WorkerLost], failures[Failure::ClientGone]), (1, 1));
        });
    }

    #[test]
    fn an_application_that_may_have_no_connection_hears_so_before_its_client_is_waited_for() {
        let switching = || Mail::Interim { status: 101, lines: b"Upgrade: x\r\n".to_vec() };
        for mail in [|| Mail::Takeover, switching] as [fn() -> Mail; 2] {
            is_seen(async || {
                let terms = Terms { max_upgrades: 0, ..Terms::default() };
                let (world, _script, _claimed, channel) = behind_another(terms).await?;
                assert!(world.thread.desks.post(0, mail()));
                world.run(false).await;
                assert_eq!(word(&channel), Some(ANSWER_TOO_MANY));
                Some(())
            });
        }
    }

    #[test]
    fn a_small_body_is_copied_behind_its_head_and_a_larger_one_sent_from_where_it_lies() {
        for (length, runs) in [(0, 1), (1, 1), (COPY_BODY, 1), (COPY_BODY + 1, 2), (100_000, 2)] {
            run(async {
                let (_, script) = with_body(length, usize::MAX).await;
                assert_eq!((script.runs(), script.writes()), (runs, 1), "{length}");
                assert_eq!(text(&script).matches('x').count(), length);
            });
        }
        assert_eq!(COPY_BODY, 16_384);
    }

    #[test]
    fn a_client_that_takes_a_response_in_pieces_has_all_of_it_and_keeps_the_connection() {
        for takes in [0, 1, 100, 20_000] {
            run(async {
                let (world, script) = with_body(50_000, takes).await;
                assert_eq!(script.output().len(), takes);
                script.take(usize::MAX);
                world.run(false).await;
                assert_eq!(text(&script).matches('x').count(), 50_000, "{takes}");
                assert_eq!(world.totals().all_requests(), 1);
                assert_eq!(world.totals().connections[ConnectionState::Idle], 1, "{takes}");
            });
        }
    }

    #[test]
    fn a_length_that_is_not_the_bodys_is_told() {
        for (target, told) in [
            ("/given", None),
            ("/short", Some("gave Content-Length 9 but a body of 4 bytes to GET /short")),
            ("/long", Some("gave Content-Length 2 but a body of 4 bytes to GET /long")),
        ] {
            let said = heard(|| {
                run(async {
                    let world = World::new(Config::default());
                    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
                    world.serve(&Scripted::new(pieces(&request))).await;
                });
            });
            assert_eq!(
                said.iter().filter(|line| line.contains("Content-Length")).count(),
                usize::from(told.is_some())
            );
            assert!(told.is_none_or(|told| said.iter().any(|line| line.contains(told))), "{said:?}");
        }
    }

    #[test]
    fn an_application_that_wants_the_connection_has_its_descriptor_and_what_came_behind_the_request() {
        run(async {
            let world = World::new(Config::default());
            let (ours, workers) = howdah_sys::socketpair_seqpacket().unwrap();
            world.pool().open_channel(0, ours);
            let (mut client, socket) = UnixStream::pair().unwrap();
            client.write_all(format!("{GET}{GET}early").as_bytes()).unwrap();
            socket.set_nonblocking(true).unwrap();
            let permit = world.capacity.enter(Kind::Connection).unwrap();
            let (server, who) = (world.thread.entrance.server, crate::sample::client(""));
            let transport = Transport::Plain(Socket::Fresh(socket.into()));
            let connection = tokio::task::spawn_local(serve(server, transport, who, permit));
            world.run(false).await;
            // Its response may wait for the next one.
            assert!(world.worker.serve());
            world.run(false).await;
            world.worker.begin(&world.worker.claim().unwrap());
            assert!(world.thread.desks.post(0, Mail::Takeover));
            world.run(false).await;
            let mut packet = [0; 4096];
            let (length, descriptors) = howdah_sys::recv_with_fds(&workers, &mut packet).unwrap();
            assert!(packet[..length].ends_with(b"early"));
            let lent = UnixStream::from(descriptors.into_iter().next().unwrap());
            (&lent).write_all(b"mine").unwrap();
            let mut answer = [0; 4096];
            let length = client.read(&mut answer).unwrap();
            let answer = answer[..length].escape_ascii().to_string();
            assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("/amine"), "{answer}");
            assert_eq!(world.totals().connections[ConnectionState::Detached], 1);
            world.pool().worker_gone(0, Loss::Killed);
            world.run(false).await;
            assert!(connection.is_finished(), "it is not ours to answer on");
        });
    }

    #[test]
    fn a_large_body_is_sent_from_where_it_is_and_counted_without_its_head() {
        run(async {
            let (world, script) = with_body(100_000, usize::MAX).await;
            let output = text(&script);
            let (head, body) = output.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("\r\nContent-Length: 100000") && body.len() == 100_000);
            assert_eq!(script.writes(), 1);
            assert_eq!(world.totals().bytes_out, output.len() as u64);
        });
    }

    #[test]
    fn what_a_client_leaves_of_a_long_response_is_held_as_far_as_memory_goes_and_stays_in_its_slot_beyond_that()
     {
        // Whether others have all the memory, and requests whose slot is not free yet.
        for (others, kept) in [(false, 0), (true, 1)] {
            run(async {
                let world = World::new(Config { response_spool: 0, ..Config::default() });
                let memory = &world.thread.entrance.server.holding.stock.memory;
                while others && memory.take(1 << 20) {}
                let script = Scripted::new(pieces(GET));
                script.take(50_000);
                world.connect(&script);
                answer(&world, 200_000).await;
                assert_eq!(script.output().len(), 50_000, "{others}");
                assert_eq!(world.pool().dispatch.borrow().in_flight, kept, "{others}");
                script.take(usize::MAX);
                world.run(false).await;
                let output = text(&script);
                let (head, body) = output.split_once("\r\n\r\n").unwrap();
                assert!(
                    head.contains("\r\nContent-Length: 200000") && body == "x".repeat(200_000),
                    "{others}"
                );
                assert_eq!(world.pool().dispatch.borrow().in_flight, 0, "{others}");
                assert_eq!(world.totals().bytes_out, output.len() as u64);
                assert!(others || memory.take(64 << 20), "the memory is given back");
            });
        }
    }
}
