//! What a stream has, and how it may be over.

use std::rc::Rc;

use bytes::Bytes;
use h2::server::SendResponse;

use crate::doors::Inside;
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::h2::link::{Link, Open};
use crate::outflow::Outflow;
use crate::proxied::Behind;
use crate::route::Handling;
use crate::server::Server;
use crate::timers::Timer;
use crate::transport::{Stream as Carrier, Transport};

/// SERVER_PROTOCOL.
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
    /// Who has the request.
    pub(crate) handling: Handling,
    /// Who has sent it, when the client is a proxy that tells.
    pub(crate) behind: Option<Box<Behind>>,
    pub(crate) is_head: bool,
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
}

impl Stream {
    pub(crate) fn new(open: &Open, respond: SendResponse<Bytes>) -> Self {
        let link = Rc::clone(&open.link);
        let server = link.server;
        let for_pages = link.client.origin.pages_only;
        let carrier = Carrier::new(respond, Rc::clone(&link.earned));
        Self {
            server,
            out: Outflow::new(Transport::Stream(carrier.clone()), server.holding),
            carrier,
            timer: server.timers.start(for_pages),
            exchange: Exchange::default(),
            handling: Handling::Nobody,
            behind: None,
            is_head: false,
            served: open.served,
            _inside: server.doors.enter(for_pages),
            link,
        }
    }
}

/// Why no handler has a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// It is none, and is not answered.
    Malformed,
    Fault(Fault),
}

impl<F: Into<Fault>> From<F> for Refusal {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}
