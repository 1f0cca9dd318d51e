//! What a stream has, and how it may be over.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use howdah_http1::Version;

use crate::doors::Inside;
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::h2::link::{Admitted, Link, Open};
use crate::h2::tunnel::Tunnel;
use crate::outflow::Outflow;
use crate::proxied::Behind;
use crate::route::Handling;
use crate::server::{Server, protocol};
use crate::timers::Timer;
use crate::transport::{Stream as Carrier, Transport};

/// SERVER_PROTOCOL, but for those who speak HTTP/1.1 with a stream that they take.
pub(crate) const PROTOCOL: &[u8] = b"HTTP/2";

/// See the module.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) server: &'static Server,
    pub(crate) link: Rc<Link>,
    pub(crate) carrier: Carrier,
    pub(crate) out: Outflow,
    pub(crate) timer: Timer,
    pub(crate) exchange: Exchange,
    /// The words of its request are kept until the end: for its body, for its worker, for the log.
    pub(crate) head: Option<Admitted>,
    /// These words, while its body is on its way.
    pub(crate) words: Vec<u8>,
    /// What still comes of a body that nobody wants.
    pub(crate) unread: Option<RecvStream>,
    /// Who has the request.
    pub(crate) handling: Handling,
    /// Who has sent it, when the client is a proxy that tells.
    pub(crate) behind: Option<Box<Behind>>,
    pub(crate) is_head: bool,
    /// What it carries when its application takes it; none where no WebSocket client has opened it.
    pub(crate) tunnel: Option<Box<Tunnel>>,
    /// The application has taken it, and what its client does is seen to by whoever carries it on.
    pub(crate) taken: Rc<Cell<bool>>,
    /// Streams before it.
    pub(crate) served: u64,
    _inside: Inside,
}

/// How a stream is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The response is out, as far as the client's windows are concerned.
    Done,
    /// The client is gone or too slow, or was promised more than there is.
    Cut,
    /// There was no request.
    Malformed,
    /// There was no room for it, and it can be asked for again.
    Refused,
}

impl Stream {
    pub(crate) fn new(open: &Open, respond: SendResponse<Bytes>) -> Self {
        let link = Rc::clone(&open.link);
        let server = link.server;
        let serves = link.client.origin.serves;
        let told = link.wire.begin_stream(respond.stream_id().as_u32());
        let carrier = Carrier::new(respond, &link.tally, told);
        Self {
            server,
            out: Outflow::new(Transport::Stream(carrier.clone()), server.holding),
            carrier,
            timer: server.timers.start(serves),
            exchange: Exchange::default(),
            head: None,
            words: Vec::new(),
            unread: None,
            handling: Handling::Nobody,
            behind: None,
            is_head: false,
            tunnel: None,
            taken: Rc::default(),
            served: open.served,
            _inside: server.doors.enter(serves),
            link,
        }
    }
}

impl Stream {
    /// SERVER_PROTOCOL.
    pub(crate) fn protocol(&self) -> &'static [u8] {
        if self.tunnel.is_some() { protocol(Version::Http11) } else { PROTOCOL }
    }
}

/// Why no handler has a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// It is none, and is not answered.
    Malformed,
    /// The other streams of the connection leave no room for it.
    Crowded,
    Fault(Fault),
}

impl<F: Into<Fault>> From<F> for Refusal {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}
