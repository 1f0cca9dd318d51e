//! The bytes of a stream that a WebSocket client has opened (RFC 8441), as the line of a relay.
//!
//! The application speaks HTTP/1.1 with its end of the pair, and so begins with the head of a response. Here it becomes that
//! of the stream, where 101 is 200; only what follows goes out as it is.

use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use h2::{Reason, RecvStream};
use howdah_http1::{Answer, fields};

use crate::delivery::Framing;
use crate::h2::head::{self, Saying};
use crate::h2::link::{Link, Taken};
use crate::relay::Line;
use crate::response::{Has, Head, SWITCHING};
use crate::transport::{Stream as Carrier, Transport};

/// Fields of 101 that the response of a stream must not have (RFC 8441 5, RFC 9110 9.3.6), besides those of a connection.
const OF_SWITCHING: [&[u8]; 2] = [b"sec-websocket-accept", b"content-length"];

/// How far the client has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    More,
    All,
    /// It has broken the stream off, or a rule.
    Broken,
}

/// How far the application has got.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    /// So much of a head.
    Head(Vec<u8>),
    /// That it switches protocols: all that follows is WebSocket's, up to its end.
    Switched,
    Left,
    /// Another response, of whose body so many bytes are to come; none when its end will tell.
    Body(Option<u64>),
    All,
}

/// What has been said of a head, for the records.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) status: u16,
    /// Bytes, as they would be without compression.
    pub(crate) size: usize,
    pub(crate) lines: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tunnel {
    link: Rc<Link>,
    /// The application has it.
    taken: Option<Taken>,
    /// Streams before it.
    served: u64,
    out: Transport,
    carrier: Carrier,
    incoming: RecvStream,
    /// Received, and not relayed yet: as much as the client's window for us lets come.
    waiting: BytesMut,
    heard: Heard,
    said: Said,
    /// Bytes that are out, less those of the head, since this was asked.
    sent: usize,
    /// X-Request-Id.
    pub(crate) id: Box<[u8]>,
    /// The head is out, and nobody has taken note of it.
    pub(crate) noted: Option<Noted>,
    /// Why what the application has said is no head that could be passed on.
    pub(crate) wrong: Option<&'static str>,
}

impl Tunnel {
    pub(crate) fn new(link: &Rc<Link>, served: u64, carrier: &Carrier, incoming: RecvStream) -> Self {
        Self {
            link: Rc::clone(link),
            taken: None,
            served,
            out: Transport::Stream(carrier.clone()),
            carrier: carrier.clone(),
            incoming,
            waiting: BytesMut::new(),
            heard: Heard::More,
            said: Said::Head(Vec::new()),
            sent: 0,
            id: Box::default(),
            noted: None,
            wrong: None,
        }
    }

    /// The application takes it.
    pub(crate) fn take(&mut self) {
        self.taken.get_or_insert_with(|| self.link.take());
    }

    /// Nothing of a response is out.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.said, Said::Head(_))
    }

    /// A response that was none of 101 is out.
    pub(crate) fn is_over(&self) -> bool {
        self.said == Said::All
    }

    /// Bytes that have gone to the client, less those of the head, since this was asked.
    pub(crate) fn sent(&mut self) -> usize {
        std::mem::take(&mut self.sent)
    }

    /// Says that this was all. False when it was not.
    pub(crate) fn end(&mut self) -> bool {
        match self.said {
            Said::Head(_) | Said::Body(Some(_)) => false,
            Said::Switched | Said::Body(None) => {
                self.said = if self.said == Said::Switched { Said::Left } else { Said::All };
                self.carrier.say_end().is_ok()
            }
            Said::Left | Said::All => true,
        }
    }

    /// The application has answered 101 with these lines. False when that cannot be said.
    pub(crate) fn switch(&mut self, lines: &[u8]) -> bool {
        let is_first = matches!(&self.said, Said::Head(head) if head.is_empty());
        is_first && self.answer(Answer { status: SWITCHING, lines, len: 0 }).is_ok()
    }

    /// Takes what the client has sent as soon as it is there: what it does for the connection is counted by that.
    pub(crate) fn poll_heard(&mut self, context: &mut Context<'_>) {
        while self.heard == Heard::More {
            match self.incoming.poll_data(context) {
                Poll::Pending => return self.await_more(context),
                Poll::Ready(Some(Ok(piece))) => {
                    // As much again may come beside it, as heads of frames.
                    self.link.tally.earn(piece.len() as u64);
                    self.waiting.extend_from_slice(&piece);
                }
                Poll::Ready(Some(Err(_))) => self.heard = Heard::Broken,
                Poll::Ready(None) => match self.incoming.poll_trailers(context) {
                    Poll::Pending => return self.await_more(context),
                    Poll::Ready(Ok(None)) => self.heard = Heard::All,
                    Poll::Ready(trailers) => {
                        self.heard = Heard::Broken;
                        if trailers.is_ok() {
                            // RFC 9113 8.5
                            self.carrier.break_off(Reason::PROTOCOL_ERROR);
                        }
                    }
                },
            }
        }
    }

    /// A client that has ended its side of the connection can end no stream any more.
    fn await_more(&mut self, context: &Context<'_>) {
        if !self.link.await_client(self.served, context) {
            self.heard = Heard::Broken;
        }
    }

    /// Takes bytes of the head, and says it when it is whole. Gives how many it was.
    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let Said::Head(head) = &mut self.said else { return Ok(0) };
        let before = head.len();
        head.extend_from_slice(bytes);
        let head = std::mem::take(head);
        let Some(answer) = Answer::read(&head, before)? else {
            self.said = Said::Head(head);
            return Ok(bytes.len());
        };
        self.answer(answer)?;
        Ok(answer.len - before)
    }

    fn answer(&mut self, answer: Answer<'_>) -> Result<(), &'static str> {
        match answer.status {
            SWITCHING => {
                let is_ours = |value: &[u8]| value.eq_ignore_ascii_case(b"websocket");
                if !answer.values(b"upgrade").any(is_ours) {
                    return Err("it switches to another protocol than websocket");
                }
                self.say(200, without(answer.lines, &OF_SWITCHING), Framing::Close, false)?;
                self.said = Said::Switched;
            }
            // Others of those are for who waits for a response.
            100..200 => {}
            200..300 => return Err("its status says neither that it switches protocols nor why not"),
            status => {
                let length = answer.body_length()?;
                let framing = Framing::choose(false, status, length, None, Framing::Close);
                let ends = framing.most() == 0;
                self.say(status, without(answer.lines, &[b"content-length"]), framing, ends)?;
                self.said = if ends { Said::All } else { Said::Body(length) };
            }
        }
        Ok(())
    }

    fn say(&mut self, status: u16, lines: Vec<u8>, framing: Framing, ends: bool) -> Result<(), &'static str> {
        let Link { server, client, .. } = &*self.link;
        let hsts = server.config.hsts.filter(|_| client.tls.is_some());
        let mut head =
            Head { status, lines: lines.into(), content_length: None, has: Has::default(), close: false };
        head.has = Has {
            date: head.names(b"date"),
            server: head.names(b"server"),
            request_id: head.names(b"x-request-id"),
        };
        let saying = Saying { framing, server: server.config.server_header, id: &self.id, hsts };
        let message = head::build(&head, server.clock, saying).ok_or("a line of it is no field")?;
        let noted = Noted { status, size: head::size(&message), lines: head::lines(message.headers()) };
        self.carrier.say_head(message, ends).map_err(|_| "its client is gone")?;
        self.noted = Some(noted);
        Ok(())
    }

    /// Waits for a window as long as the client can open one.
    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Line::poll_write(&mut self.out, context, bytes) {
            Poll::Pending if self.outstanding() > 0 && !self.link.await_client(self.served, context) => {
                Poll::Ready(Err(ErrorKind::BrokenPipe.into()))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(written) => {
                self.sent += *written.as_ref().unwrap_or(&0);
                Poll::Ready(written)
            }
        }
    }

    /// Sends of a body only as much as was promised.
    fn poll_body(&mut self, context: &mut Context<'_>, bytes: &[u8], left: u64) -> Poll<io::Result<usize>> {
        let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let written = ready!(self.poll_send(context, &bytes[..length]))?;
        self.said = Said::Body(Some(left - written as u64).filter(|&left| left > 0));
        if written as u64 == left {
            self.end();
        }
        Poll::Ready(Ok(written))
    }
}

impl Line for Tunnel {
    fn poll_read(&mut self, _context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        // Whoever polls the relay has polled what is heard before.
        let length = self.waiting.len().min(buffer.len());
        match self.heard {
            _ if length > 0 => {
                self.waiting.copy_to_slice(&mut buffer[..length]);
                if self.waiting.is_empty() {
                    // Most WebSockets are silent most of the time.
                    self.waiting = BytesMut::new();
                }
                // The client may send as much again.
                let _ = self.incoming.flow_control().release_capacity(length);
                Poll::Ready(Ok(length))
            }
            Heard::More => Poll::Pending,
            Heard::All => Poll::Ready(Ok(0)),
            Heard::Broken => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.said {
            Said::Head(_) => Poll::Ready(self.take_head(bytes).map_err(|reason| {
                self.wrong = Some(reason);
                ErrorKind::InvalidData.into()
            })),
            Said::Switched | Said::Body(None) => self.poll_send(context, bytes),
            Said::Body(Some(left)) => self.poll_body(context, bytes, left),
            Said::Left | Said::All => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_shut(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_silent() {
            self.wrong = Some("it ends before its head does");
        }
        Poll::Ready(if self.end() { Ok(()) } else { Err(ErrorKind::InvalidData.into()) })
    }

    fn outstanding(&self) -> u64 {
        self.out.outstanding()
    }
}

/// The lines of a head less those of that name.
fn without(lines: &[u8], names: &[&[u8]]) -> Vec<u8> {
    let kept = fields(lines).filter(|(name, _)| !names.iter().any(|other| name.eq_ignore_ascii_case(other)));
    kept.flat_map(|(name, value)| [name, b": ", value, b"\r\n"].concat()).collect()
}
