//! The way in of a stream: fields become a request that is checked and complete, or a reason to refuse it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use h2::ext::Protocol;
use howdah_accesslog::Source;
use howdah_http1::{BODY_SIZE, FieldStore, Framing, Head, RequestDecoder};
use howdah_http2::{Malformed, Pseudo, translate};
use howdah_metrics::Method as Counted;
use http::Method;
use http::request::Parts;

use crate::fault::Fault;
use crate::h2::head;
use crate::h2::state::{PROTOCOL, Refusal, Stream};
use crate::h2::tunnel::Tunnel;
use crate::linger::{LONGEST, PATIENCE};
use crate::proxied::Behind;
use crate::request::{Client, Content, Request};
use crate::request_record::Body;
use crate::route::Target;
use crate::server::{Server, request};
use crate::timers::Rest;
use crate::upload::{BodyPace, Upload};

/// When bodies have waited for the disk for so many nanoseconds, others that do not come may be held up by them.
const HELD_UP: u64 = 1_000_000_000;

/// A body without an end.
#[derive(Clone, Copy, Debug)]
struct Broken;

impl Stream {
    /// Reads until a handler has the request. False when the client is gone before.
    pub(crate) async fn intake(&mut self, request: http::Request<RecvStream>) -> Result<bool, Refusal> {
        self.exchange.account.begin = self.server.clock.now();
        let (parts, incoming) = request.into_parts();
        let words = self.words_of(&parts)?;
        self.is_head = parts.method == Method::HEAD;
        self.carrier.heed_request(&parts.headers);
        let opens = pseudo(&parts).opens_websocket();
        drop(parts);
        let has_body = !opens && !incoming.is_end_stream();
        if opens {
            self.tunnel = Some(Box::new(Tunnel::new(&self.link, self.served, &self.carrier, incoming)));
        } else {
            self.unread = Some(incoming);
        }
        let looked = self.look(&words, has_body);
        if let Ok(Some(upload)) = looked {
            self.words = words;
            return Ok(self.intake_body(upload).await?);
        }
        self.server.scratch.borrow_mut().words = words;
        Ok(looked.map(|_| true)?)
    }

    /// The head in the words of HTTP/1, if it is one and its connection has room for it.
    fn words_of(&mut self, parts: &Parts) -> Result<Vec<u8>, Refusal> {
        let mut words = std::mem::take(&mut self.server.scratch.borrow_mut().words);
        words.clear();
        let peer = &*self.link.client.address;
        if let Err(malformed) = put_words(parts, &mut words) {
            tracing::debug!(peer, "refused a request: {malformed}");
            return Err(Refusal::Malformed);
        }
        self.head = self.link.admit(words.len());
        if self.head.is_none() {
            tracing::debug!(peer, "refused a request: too many heads on its connection");
            return Err(Refusal::Crowded);
        }
        self.exchange.account.received = words.len() as u64;
        self.exchange.account.protocol = Some(PROTOCOL);
        Ok(words)
    }

    /// Reads the body that is left unread, for an application that wants it, and gives that the request.
    async fn intake_body(&mut self, mut upload: Upload) -> Result<bool, Fault> {
        let Some(mut incoming) = self.unread.take() else { return Ok(false) };
        let complete = self.collect(&mut incoming, &mut upload).await;
        if !matches!(complete, Ok(true)) {
            self.keep_words();
            self.unread = Some(incoming);
            return complete;
        }
        let words = std::mem::take(&mut self.words);
        self.begin_complete(&words, upload)?;
        Ok(true)
    }

    /// Gives a request without a body to its handler; for one with a body, gives where that will be.
    fn look(&mut self, words: &[u8], has_body: bool) -> Result<Option<Upload>, Fault> {
        let server = self.server;
        let fields = &mut server.scratch.borrow_mut().fields;
        let head = self.decode(words, fields)?;
        self.behind = Behind::look(&head.fields(), &self.link.client, &server.config);
        let request = request_of(&head, self.protocol(), &self.link.client, self.behind.as_deref(), has_body);
        let target = server.router.target(&request);
        if let (Target::App(pool), true) = (target, has_body) {
            self.exchange.account.method = Some(Counted::of(head.method));
            server.router.check(&mut self.exchange.account, &request)?;
            if expects(&request) {
                self.carrier.say_interim(head::say_continue());
            }
            let length = if let Framing::Length(length) = head.framing { Some(length) } else { None };
            return Ok(Some(Upload::new(pool, length)));
        }
        // A body for a page of our own is not read.
        self.begin(target, &head, has_body, Body::Inline(b"")).map(|()| None)
    }

    fn begin_complete(&mut self, words: &[u8], mut upload: Upload) -> Result<(), Fault> {
        let server = self.server;
        let fields = &mut server.scratch.borrow_mut().fields;
        let head = self.decode(words, fields)?;
        self.begin(Target::App(upload.pool), &head, true, upload.body())
    }

    /// Gives a complete request to its handler. No deadline is its client's any more.
    fn begin(
        &mut self,
        target: Target,
        head: &Head<'_>,
        has_body: bool,
        body: Body<'_>,
    ) -> Result<(), Fault> {
        self.timer.stop();
        self.exchange.account.method = Some(Counted::of(head.method));
        let request = request_of(head, self.protocol(), &self.link.client, self.behind.as_deref(), has_body);
        self.handling = self.server.router.begin(target, &mut self.exchange, &request, body)?;
        Ok(())
    }

    /// Takes a body as it comes. False when the client is gone before its end.
    async fn collect(&mut self, incoming: &mut RecvStream, upload: &mut Upload) -> Result<bool, Fault> {
        let server = self.server;
        let mut pace = BodyPace::new(server.clock.served());
        let coming = self.link.expect_body();
        loop {
            // The line of a client that has several under way may be busy with another one.
            let mut due = || {
                let received = upload.received.max(coming.share());
                pace.until(received, server.clock.served(), server.config.min_body_rate)
            };
            self.timer.set(Rest::No, due());
            let piece = poll_fn(|context| self.poll_in_time(incoming, context)).await;
            if piece.is_err() && due() > server.clock.served() {
                continue;
            }
            let stored = self.link.stored();
            if piece.is_err() && stored >= HELD_UP {
                pace.pardon(stored);
                continue;
            }
            let piece = match piece? {
                Some(Ok(piece)) => piece,
                Some(Err(Broken)) => return Ok(false),
                None => break,
            };
            let length = piece.len();
            coming.came(length);
            if upload.received + length as u64 > server.config.limits.body {
                return Err(BODY_SIZE.into());
            }
            upload.append(&piece);
            let before = server.clock.served();
            let storing = self.link.store();
            upload.settle(false).await?;
            drop(storing);
            pace.pardon(server.clock.served() - before);
            self.exchange.account.received += length as u64;
            // As much again may come beside it: heads of frames, and windows for what the client is sent.
            self.link.tally.earn(length as u64);
            // The client may send as much again.
            let _ = incoming.flow_control().release_capacity(length);
        }
        upload.settle(true).await?;
        if server.records.wants(Source::RequestTrailer)
            && let Ok(Some(trailers)) = incoming.trailers().await
        {
            let lines = head::lines(&trailers);
            self.exchange.account.keep_fields(Source::RequestTrailer, &lines, server.records.wanted());
        }
        Ok(true)
    }

    /// Discards what comes of a body that nobody wants, behind the response, for as long as by HTTP/1: a client that is told in
    /// the midst of sending that its stream is closed may not look at that, and one that sends all of it first gets no further without a window.
    pub(crate) async fn linger(&mut self) {
        let Some(mut incoming) = self.unread.take().filter(|incoming| !incoming.is_end_stream()) else {
            return;
        };
        let Server { clock, doors, .. } = self.server;
        let last = clock.after(LONGEST);
        self.timer.set(Rest::No, clock.after(PATIENCE));
        while let Some(Ok(piece)) = poll_fn(|context| match self.timer.poll_expired(context) {
            true => Poll::Ready(None),
            false => self.poll_piece(&mut incoming, context),
        })
        .await
        {
            // A thread that drains waits no longer for one that goes on than for one that does nothing.
            if !doors.is_draining() {
                self.timer.set(Rest::No, last.min(clock.after(PATIENCE)));
            }
            self.link.tally.earn(piece.len() as u64);
            let _ = incoming.flow_control().release_capacity(piece.len());
        }
    }

    /// The next piece of a body, before its deadline. What has come in time counts, however late we look: the process may have been
    /// stopped.
    fn poll_in_time(
        &self,
        incoming: &mut RecvStream,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Result<Bytes, Broken>>, Fault>> {
        let due = self.timer.poll_expired(context);
        match self.poll_piece(incoming, context) {
            Poll::Pending if due => Poll::Ready(Err(Fault::Timeout("the request body"))),
            piece => piece.map(Ok),
        }
    }

    fn poll_piece(
        &self,
        incoming: &mut RecvStream,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        match incoming.poll_data(context) {
            Poll::Ready(piece) => Poll::Ready(piece.map(|piece| piece.map_err(|_| Broken))),
            Poll::Pending if self.link.await_client(self.served, context) => {
                self.link.wire.acknowledge();
                Poll::Pending
            }
            Poll::Pending => Poll::Ready(Some(Err(Broken))),
        }
    }

    fn decode<'b>(&mut self, words: &'b [u8], fields: &'b mut FieldStore) -> Result<Head<'b>, Fault> {
        let decoded = RequestDecoder::new(&self.server.config.limits).decode(words, fields);
        let account = &mut self.exchange.account;
        let wanted = self.server.records.wanted();
        decoded.inspect_err(|_| account.unreadable(&line(words), wanted))?.ok_or(Fault::TooLarge)
    }

    /// Keeps the words of a request that comes to nothing before its body's end, unless they are kept already.
    pub(crate) fn keep_words(&mut self) {
        let words = std::mem::take(&mut self.words);
        if words.is_empty() || self.exchange.account.request.is_some() {
            return;
        }
        let mut fields = FieldStore::new();
        if let Ok(head) = self.decode(&words, &mut fields) {
            self.exchange.account.method = Some(Counted::of(head.method));
            let request = request_of(&head, self.protocol(), &self.link.client, self.behind.as_deref(), true);
            self.server.router.set_aside(&mut self.exchange.account, &request);
        }
    }
}

fn request_of<'a>(
    head: &Head<'a>,
    protocol: &'static [u8],
    client: &'a Client,
    behind: Option<&'a Behind>,
    has_body: bool,
) -> Request<'a> {
    let request = request(head, client, behind);
    let content = if has_body { Content::Comes } else { request.content };
    Request { protocol, lends: false, content, ..request }
}

/// Whether the client waits for 100 (Continue): the codec knows no body without a length.
fn expects(request: &Request<'_>) -> bool {
    request.field(b"expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"))
}

/// The head in the words of HTTP/1.
fn put_words(parts: &Parts, words: &mut Vec<u8>) -> Result<(), Malformed> {
    let fields = parts.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    translate(&pseudo(parts), fields, words)
}

fn pseudo(parts: &Parts) -> Pseudo<'_> {
    let uri = &parts.uri;
    let protocol = parts.extensions.get::<Protocol>();
    let authority = uri.authority();
    // Where the host is told by Host alone the crate has seen to it that there is a scheme, and dropped it.
    let is_dropped = authority.is_none() && (parts.method != Method::CONNECT || protocol.is_some());
    Pseudo {
        method: parts.method.as_str().as_bytes(),
        protocol: protocol.map(|protocol| protocol.as_str().as_bytes()),
        scheme: uri.scheme_str().or(is_dropped.then_some("http")).map(str::as_bytes),
        authority: authority.map(|authority| authority.as_str().as_bytes()),
        path: uri.path_and_query().map(|path| path.as_str().as_bytes()),
    }
}

/// The first line of what could not be read, as the log has it.
fn line(words: &[u8]) -> Vec<u8> {
    let line = words.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let target = line.strip_suffix(b"HTTP/1.1").unwrap_or(line);
    [target, PROTOCOL].concat()
}
