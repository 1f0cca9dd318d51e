//! The way in of a connection: bytes become a request that is checked and complete, or a reason to refuse it.
//!
//! [`Conn::intake`] is called by the connection's loop for each request; bodies too large for a slot go by way of
//! `collect`, all others from here to their handler.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::task::{Context, Poll};

use howdah_http1::{FieldStore, Framing, Head};
use howdah_metrics::{ConnectionState, Method};
use howdah_wire::INLINE_BODY;

use crate::app::Pool;
use crate::fault::Fault;
use crate::h1::collect::Collect;
use crate::h1::state::{Asked, Conn};
use crate::h2::PREFACE_LINE;
use crate::proxied::Behind;
use crate::request_record::Body;
use crate::route::Target;
use crate::server::{Scratch, Server, request};
use crate::timers::Rest;
use crate::upload::BodyPace;

/// What the input amounts to.
enum Step {
    /// Not a whole request yet.
    More,
    /// A head whose body waits for 100 (Continue).
    Expects,
    /// A request that its handler has.
    Ready,
    /// A head whose body is to be collected piece by piece.
    Collect(Box<Collect>),
    /// The client has closed its side, or we close an idle connection.
    End,
}

impl Conn {
    /// Reads until a handler has a request. False when there is none to come.
    pub(crate) async fn intake(&mut self) -> Result<bool, Fault> {
        let mut step = self.start()?;
        loop {
            match step {
                Step::Ready => return Ok(true),
                Step::Collect(mut collect) => {
                    let collected = self.collect(&mut collect).await;
                    if !matches!(collected, Ok(true)) {
                        self.keep_words(&collect.head);
                    }
                    return collected;
                }
                Step::End => return Ok(false),
                Step::Expects if !self.send_continue().await => return Ok(false),
                Step::Expects => {}
                Step::More => {}
            }
            step = poll_fn(|context| self.poll_input(context)).await?;
        }
    }

    /// Looks at input left from before, and sets the deadline for what is missing.
    fn start(&mut self) -> Result<Step, Fault> {
        let server = self.server;
        let (rest, patience) = match (has_begun(&self.input), self.served) {
            (false, 0) => (Rest::New, server.config.header_timeout),
            (false, _) => (Rest::Kept, server.config.keepalive_timeout),
            (true, _) => (Rest::Begun, server.config.header_timeout),
        };
        self.timer.set(rest, server.clock.after(patience));
        self.enter(if rest == Rest::Kept { ConnectionState::Idle } else { ConnectionState::Reading });
        if self.input.is_empty() {
            return Ok(Step::More);
        }
        if rest == Rest::Begun {
            self.exchange.account.begin = server.clock.now();
        }
        self.examine_all(&mut server.scratch.borrow_mut().fields)
    }

    fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Result<Step, Fault>> {
        let due = self.timer.poll_expired(context);
        let (is_late, looks) = (due && !self.may_end(), due || self.is_unwanted());
        let Scratch { input, fields, .. } = &mut *self.server.scratch.borrow_mut();
        let length = match self.poll_receive(context, input, looks) {
            Poll::Pending if is_late => return Poll::Ready(Err(self.overdue())),
            Poll::Pending if looks && self.is_taking() => {
                let patience = self.server.config.keepalive_timeout;
                self.timer.set(Rest::Kept, self.server.clock.after(patience));
                return Poll::Pending;
            }
            Poll::Pending if looks => return Poll::Ready(self.dismissed()),
            Poll::Pending => {
                if !self.input.is_empty() {
                    self.out.transport.acknowledge();
                }
                return Poll::Pending;
            }
            Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Ok(Step::End)),
            Poll::Ready(Ok(length)) => length,
        };
        if due && !is_late {
            self.timer.set(Rest::Begun, self.server.clock.after(self.server.config.header_timeout));
        }
        if self.exchange.account.begin == 0 && self.begins(&input[..length]) {
            self.exchange.account.begin = self.server.clock.now();
            self.enter(ConnectionState::Reading);
        }
        let step = if self.input.is_empty() {
            let (mut used, data) = (length, &input[..length]);
            let step = self.examine(data, fields, &mut used);
            self.keep(&data[used..]);
            step?
        } else {
            self.input.extend_from_slice(&input[..length]);
            self.examine_all(fields)?
        };
        match step {
            // A body has got another deadline by what has come.
            Step::More if is_late && self.need == 0 => Poll::Ready(Err(self.overdue())),
            step => Poll::Ready(Ok(step)),
        }
    }

    /// An idle connection that has to make room, or is on a draining thread and has had its time.
    fn is_unwanted(&self) -> bool {
        self.timer.rest().may_bring_more()
            && (self.timer.is_unwanted() || self.server.doors.is_over(&self.timer))
    }

    /// Whether the client has yet to take all of the last response, and has taken some of that since the last look. It cannot have
    /// asked for more, and would lose the rest if it did so on a connection that is closed. Where a descriptor is needed, that is
    /// of no account.
    fn is_taking(&mut self) -> bool {
        if self.timer.rest() != Rest::Kept || self.timer.is_unwanted() && self.server.doors.is_pressed() {
            return false;
        }
        let left = self.out.transport.outstanding();
        let before = std::mem::replace(&mut self.untaken, left);
        left > 0 && left < before
    }

    /// The end of such a connection. Who has not had a request answered on it is told, since one may be on its way.
    fn dismissed(&self) -> Result<Step, Fault> {
        if self.timer.is_unwanted() && self.timer.rest() == Rest::New {
            Err(Fault::Timeout("the first request, while others wait for a place,"))
        } else {
            Ok(Step::End)
        }
    }

    /// Whether nobody is to be told when the deadline has passed.
    fn may_end(&self) -> bool {
        self.timer.rest() == Rest::Kept || self.is_unwanted()
    }

    /// What is late when the deadline has passed.
    fn overdue(&self) -> Fault {
        Fault::Timeout(if self.need > 0 { "the request body" } else { "the request head" })
    }

    /// The first read of a connection is tried at once: with deferred accept the request is there. So is one that `looks` once more,
    /// before a connection is given up: what has come in time counts, though the event loop has not heard of it, as when the process
    /// was stopped.
    pub(crate) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
        looks: bool,
    ) -> Poll<io::Result<usize>> {
        if looks || self.served == 0 && self.out.transport.is_fresh() {
            match self.out.transport.try_read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        self.out.transport.poll_read(context, buffer)
    }

    /// Decides what the input amounts to. Where it is too little nothing of it is moved: it may come byte by byte.
    fn examine_all(&mut self, fields: &mut FieldStore) -> Result<Step, Fault> {
        let received = std::mem::take(&mut self.input);
        let mut used = received.len();
        let step = self.examine(&received, fields, &mut used);
        if used == 0 {
            self.input = received;
        } else {
            self.keep(&received[used..]);
        }
        step
    }

    /// Decides what `data`, all input not yet consumed, amounts to. Of that so much is `used`; what is left over is to be kept.
    fn examine(&mut self, data: &[u8], fields: &mut FieldStore, used: &mut usize) -> Result<Step, Fault> {
        if data.len() < self.need {
            *used = 0;
            self.pace_body(data.len() as u64);
            return Ok(Step::More);
        }
        let Self { decoder, exchange, server, asked, .. } = self;
        let decoded = decoder.decode(data, fields);
        let decoded = decoded.inspect_err(|_| {
            *asked = Some(Asked::beginning(data));
            if exchange.account.begin == 0 {
                exchange.account.begin = server.clock.now();
            }
            exchange.account.unreadable(data, server.records.wanted());
            if data.starts_with(PREFACE_LINE) {
                *used = 0;
            }
        })?;
        let Some(head) = decoded else {
            if self.begins(data) {
                self.begin_head();
            }
            *used = 0;
            return Ok(Step::More);
        };
        self.behind = Behind::look(&head.fields(), &self.client, &server.config);
        match server.router.target(&request(&head, &self.client, self.behind.as_deref())) {
            Target::App(pool) => self.examine_body(pool, &head, data, used),
            page @ (Target::Page(_) | Target::Challenge | Target::Redirect(_)) => {
                // A body that comes with it is not read, so nothing can come behind it.
                self.begin(page, &head, Body::Inline(b""), head.framing == Framing::None)?;
                self.exchange.account.received = head.len as u64;
                *used = head.len;
                Ok(Step::Ready)
            }
        }
    }

    fn examine_body(
        &mut self,
        pool: &'static Pool,
        head: &Head<'_>,
        data: &[u8],
        used: &mut usize,
    ) -> Result<Step, Fault> {
        let body = match head.framing {
            Framing::None => 0,
            Framing::Length(length) if length <= INLINE_BODY as u64 => length as usize,
            Framing::Length(_) | Framing::Chunked => {
                self.check(head)?;
                *used = head.len;
                return Ok(self.begin_collect(pool, head, data));
            }
        };
        let end = head.len + body;
        if data.len() < end {
            self.check(head)?;
            let expects = head.expect_continue && !std::mem::replace(&mut self.continued, true);
            self.need = end;
            *used = 0;
            self.begin_body();
            return Ok(if expects { Step::Expects } else { Step::More });
        }
        self.need = 0;
        self.exchange.account.received += end as u64;
        *used = end;
        self.begin(Target::App(pool), head, Body::Inline(&data[head.len..end]), true)?;
        Ok(Step::Ready)
    }

    /// Whether it is worth waiting for the body.
    fn check(&mut self, head: &Head<'_>) -> Result<(), Fault> {
        self.know(head);
        self.ask(head, false);
        let request = request(head, &self.client, self.behind.as_deref());
        self.server.router.check(&mut self.exchange.account, &request)
    }

    /// What the records are to know of a request that the application does not see, or not as it was sent.
    fn know(&mut self, head: &Head<'_>) {
        let account = &mut self.exchange.account;
        account.method = Some(Method::of(head.method));
        account.keep_target(head.target, head.path_and_query, self.server.records.are_written());
    }

    /// Gives a complete request to its handler. No deadline is its client's any more.
    pub(crate) fn begin(
        &mut self,
        target: Target,
        head: &Head<'_>,
        body: Body<'_>,
        read_all: bool,
    ) -> Result<(), Fault> {
        self.timer.stop();
        self.ask(head, read_all);
        self.know(head);
        let request = request(head, &self.client, self.behind.as_deref());
        self.handling = self.server.router.begin(target, &mut self.exchange, &request, body)?;
        if let Target::App(_) = target {
            self.enter(ConnectionState::Running);
        }
        Ok(())
    }

    fn begin_collect(&mut self, pool: &'static Pool, head: &Head<'_>, data: &[u8]) -> Step {
        let expects = head.expect_continue && !self.continued && data.len() == head.len;
        let collect = Collect::new(self.server, pool, head, &data[..head.len], expects);
        self.begin_body();
        Step::Collect(Box::new(collect))
    }

    /// Whether that is the beginning of a request. An empty line is none behind another one: old clients send one behind a body
    /// (RFC 9112 2.2).
    fn begins(&self, input: &[u8]) -> bool {
        self.served == 0 || has_begun(input)
    }

    /// Part of a head has come. From its first bytes on the client has so long for the rest.
    fn begin_head(&self) {
        let Server { clock, config, .. } = self.server;
        match self.timer.rest() {
            Rest::Kept => self.timer.set(Rest::Begun, clock.after(config.header_timeout)),
            // The time of a new connection runs from its start.
            Rest::New => self.timer.stir(),
            Rest::Greets | Rest::Shakes | Rest::Begun | Rest::No | Rest::Lingers => {}
        }
    }

    /// A body is to come, at the minimum rate or faster.
    fn begin_body(&mut self) {
        self.pace = BodyPace::new(self.server.clock.served());
        self.pace_body(0);
    }

    /// Sets the deadline of a body of which `received` bytes have come.
    pub(crate) fn pace_body(&mut self, received: u64) {
        let Server { clock, config, .. } = self.server;
        let deadline = self.pace.until(received, clock.served(), config.min_body_rate);
        self.timer.set(Rest::No, deadline);
    }

    /// Lets the client go on with its body. False when it does not take that.
    pub(crate) async fn send_continue(&mut self) -> bool {
        let before = self.server.clock.served();
        self.out.put(|out| out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
        let sent = self.out.flush(&self.timer).await;
        // Where it had to be waited for, it has had another deadline meanwhile.
        self.pace.pardon(self.server.clock.served() - before);
        self.pace_body(self.pace.received());
        sent
    }

    /// Keeps the words of a request of which no more is awaited, and the number of its bytes.
    pub(crate) fn keep_what_came(&mut self) {
        // Else what is left is of the next request.
        if self.exchange.account.received == 0 {
            let input = std::mem::take(&mut self.input);
            self.keep_words(&input);
            self.exchange.account.received = input.len() as u64;
            self.input = input;
        }
    }

    /// Keeps the words of the request that `bytes` begin with, which is refused before its end, unless they are kept already
    /// or there is no whole head.
    pub(crate) fn keep_words(&mut self, bytes: &[u8]) {
        if self.exchange.account.request.is_some() {
            return;
        }
        let mut decoder = howdah_http1::RequestDecoder::new(&self.server.config.limits);
        if let Ok(Some(head)) = decoder.decode(bytes, &mut FieldStore::new()) {
            self.know(&head);
            let request = request(&head, &self.client, self.behind.as_deref());
            self.server.router.set_aside(&mut self.exchange.account, &request);
        }
    }
}

/// Whether there is more than empty lines.
pub(crate) fn has_begun(input: &[u8]) -> bool {
    input.iter().any(|byte| !b"\r\n".contains(byte))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use howdah_metrics::ConnectionState;

    use crate::address::Serves;
    use crate::config::Config;
    use crate::h1::serve;
    use crate::h1::state::Conn;
    use crate::sample::world::{World, pieces, run};
    use crate::transport::scripted::{Piece, Scripted};
    use crate::transport::{Socket, Transport};

    const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

    /// Of the responses that a client has, the status of each.
    fn statuses(script: &Scripted) -> Vec<String> {
        let text = String::from_utf8(script.output()).unwrap();
        text.match_indices("HTTP/1.").map(|(at, _)| text[at + 9..at + 12].to_owned()).collect()
    }

    #[test]
    fn a_connection_that_has_to_make_room_goes_if_it_rests_and_a_new_one_is_told() {
        // What it has sent before, and what it has received when it is over.
        for (sent, received) in [(GET, vec!["200"]), ("", vec!["408"])] {
            run(async {
                let world = World::new(Config::default());
                let script = Scripted::new(pieces(sent));
                let connection = world.connect(&script);
                world.run(true).await;
                assert!(!world.thread.entrance.room.dismiss(Serves::Requests), "it has just come to rest");
                world.wait(Duration::from_secs(1));
                assert!(world.thread.entrance.room.dismiss(Serves::Requests), "it rests");
                world.run(true).await;
                assert!(connection.is_finished());
                assert_eq!(statuses(&script), received);
            });
        }
    }

    #[test]
    fn one_with_part_of_a_request_does_not_rest() {
        for sent in ["G", "GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf"]
        {
            for before in ["", GET] {
                run(async {
                    let world = World::new(Config::default());
                    world.connect(&Scripted::new(pieces(&format!("{before}{sent}"))));
                    world.run(true).await;
                    world.wait(Duration::from_secs(2));
                    assert!(!world.thread.entrance.room.dismiss(Serves::Requests), "{sent}");
                });
            }
        }
    }

    #[test]
    fn a_request_that_was_on_its_way_when_its_connection_was_given_up_is_answered() {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(&format!("{GET}|{GET}")));
            let connection = world.connect(&script);
            world.run(true).await;
            world.wait(Duration::from_secs(1));
            assert!(world.thread.entrance.room.dismiss(Serves::Requests));
            script.go_on();
            world.run(true).await;
            assert_eq!(statuses(&script), ["200", "200"]);
            assert!(!connection.is_finished(), "and stays");
        });
    }

    #[test]
    fn bytes_and_requests_are_counted_as_they_come() {
        run(async {
            let world = World::new(Config::default());
            let post = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
            let bad = "GET / HTTP/1.1\r\nHost : h\r\n\r\n";
            world.serve(&Scripted::new(pieces(&format!("{GET}{post}{bad}")))).await;
            let totals = world.totals();
            assert_eq!(totals.all_requests(), 3);
            assert_eq!(totals.bytes_in, (GET.len() + post.len() + bad.len()) as u64);
        });
    }

    #[test]
    fn a_connection_is_counted_as_running_while_an_application_has_its_request() {
        run(async {
            let world = World::new(Config::default());
            let post = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
            let scripts = [Scripted::new(pieces(GET)), Scripted::new(pieces(post))];
            scripts.iter().for_each(|script| drop(world.connect(script)));
            world.run(false).await;
            assert_eq!(world.totals().connections[ConnectionState::Running], 2);
            world.run(true).await;
            assert_eq!(world.totals().connections[ConnectionState::Idle], 2);
        });
    }

    #[test]
    fn who_is_refused_within_a_body_still_has_the_id_of_the_request() {
        for body in ["Transfer-Encoding: chunked\r\n\r\nx\r\n", "Transfer-Encoding: chunked\r\n\r\n|x\r\n"] {
            run(async {
                let world = World::new(Config::default());
                let head = "POST /a HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\n";
                let script = Scripted::new(pieces(&format!("{head}{body}")));
                world.serve(&script).await;
                let output = String::from_utf8(script.output()).unwrap();
                assert!(
                    output.starts_with("HTTP/1.1 400 ") && output.contains("\r\nX-Request-Id: mine\r\n"),
                    "{output}"
                );
            });
        }
    }

    #[test]
    fn a_socket_is_read_at_once_and_waited_for_when_nothing_is_there() {
        for early in [true, false] {
            run(async {
                let world = World::new(Config::default());
                let (mut client, socket) = UnixStream::pair().unwrap();
                socket.set_nonblocking(true).unwrap();
                if early {
                    client.write_all(GET.as_bytes()).unwrap();
                }
                let transport = Transport::Plain(Socket::Fresh(socket.into()));
                let who = crate::sample::client("");
                let presence = world.presence();
                tokio::task::spawn_local(serve(world.thread.entrance.server, transport, who, presence));
                world.run(true).await;
                if !early {
                    client.write_all(GET.as_bytes()).unwrap();
                }
                client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                let (mut answer, end) = ([0; 4096], Instant::now() + Duration::from_secs(20));
                let length = loop {
                    world.run(true).await;
                    // Lets the event loop look at its descriptors.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    match client.read(&mut answer) {
                        Ok(length) => break length,
                        Err(_) => assert!(Instant::now() < end, "early {early}: there is no answer"),
                    }
                };
                assert!(answer[..length].ends_with(b"\r\n\r\n/a"), "early {early}");
            });
        }
    }

    #[test]
    fn a_body_that_stops_has_a_minute_however_quickly_it_began() {
        for (body, length) in [("small", 50_000), ("large", 900_000)] {
            run(async {
                let world = World::new(Config::default());
                let head = format!("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n").into();
                let begin = (0..length - 1).step_by(9999).skip(1).map(|_| Piece::Bytes(vec![b'x'; 9999]));
                let script =
                    Scripted::new(std::iter::once(Piece::Bytes(head)).chain(begin).chain([Piece::Pause]));
                world.connect(&script);
                world.run(true).await;
                for (seconds, has_ended) in [(59, false), (2, true)] {
                    world.wait(Duration::from_secs(seconds));
                    world.run(true).await;
                    assert_eq!(statuses(&script) == ["408"], has_ended, "{body} {seconds}");
                }
            });
        }
    }

    #[test]
    fn a_body_may_come_at_the_minimum_rate() {
        run(async {
            let world = World::new(Config { min_body_rate: 10, ..Config::default() });
            let head = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 400\r\n\r\n".to_vec();
            let mut input = vec![Piece::Bytes(head), Piece::Pause];
            input.extend((0..40).flat_map(|_| [Piece::Bytes(vec![b'x'; 10]), Piece::Pause]));
            let script = Scripted::new(input);
            world.connect(&script);
            for _ in 0..41 {
                world.run(true).await;
                world.wait(Duration::from_secs(1));
                script.go_on();
            }
            world.run(true).await;
            assert_eq!(statuses(&script), ["200"], "after forty seconds");
        });
    }

    #[test]
    fn what_comes_of_a_request_in_small_pieces_is_not_moved_for_each() {
        let (fields, body) = ("X: y\r\n".repeat(100), "b".repeat(1000));
        for begin in [
            format!("GET /a HTTP/1.1\r\n{fields}"),
            format!("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9999\r\n\r\n{body}"),
        ] {
            run(async {
                let world = World::new(Config::default());
                let script = Scripted::new(pieces(&format!("{begin}|x|y")));
                let transport = Transport::Scripted(script.clone());
                let who = crate::sample::client("");
                let mut conn = Conn::new(world.thread.entrance.server, transport, who, world.presence());
                for _ in 0..3 {
                    tokio::select! {
                        biased;
                        _ = conn.intake() => panic!("there is no whole request"),
                        () = tokio::task::yield_now() => script.go_on(),
                    }
                }
                assert_eq!(conn.input, format!("{begin}xy").as_bytes());
                // A copy would have no more than it needs.
                assert!(conn.input.capacity() > conn.input.len() + 100);
            });
        }
    }
}
