//! A request head as handlers see it: any protocol can fill one. It borrows from where the bytes were received, so it
//! costs nothing; whoever takes the request copies what it needs, once.

use std::sync::Arc;

use howdah_http1::{Fields, Framing};
use howdah_tls::Facts;

use crate::listen::Origin;

/// What the proxy has said that a connection is from.
#[derive(Debug)]
pub(crate) struct Introduced {
    /// The proxy's own address.
    pub(crate) peer: Box<str>,
    /// The address that the client has asked.
    pub(crate) server: Box<str>,
}

/// Who is at the other end, in the form in which the env wants it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) origin: Arc<Origin>,
    /// REMOTE_ADDR; empty on a Unix socket.
    pub(crate) address: Box<str>,
    /// REMOTE_PORT.
    pub(crate) port: Box<str>,
    /// It asked by TLS, be it ours or that of a trusted proxy.
    pub(crate) secure: bool,
    /// SERVER_PORT, where that is not the listener's.
    pub(crate) server_port: Option<u16>,
    /// A proxy whose word counts.
    pub(crate) trusted: bool,
    /// What TLS has settled with it; none without TLS.
    pub(crate) tls: Option<Box<Facts>>,
    /// By the PROXY protocol.
    pub(crate) introduced: Option<Arc<Introduced>>,
}

impl Client {
    /// SERVER_NAME: the listener's, or the address that the client has asked.
    pub(crate) fn server_name(&self) -> &str {
        self.introduced.as_ref().map_or(&self.origin.name, |introduced| &introduced.server)
    }

    /// The address of who has connected.
    pub(crate) fn peer(&self) -> &str {
        self.introduced.as_ref().map_or(&self.address, |introduced| &introduced.peer)
    }
}

/// Whether a request has a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    No,
    /// One without a byte: its length is told as 0.
    Empty,
    Comes,
}

impl Content {
    pub(crate) fn of(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::No,
            Framing::Length(0) => Self::Empty,
            Framing::Length(_) | Framing::Chunked => Self::Comes,
        }
    }
}

/// A request that was read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a [u8],
    /// Path and query as sent, for REQUEST_URI; `*` for asterisk-form.
    pub(crate) target: &'a [u8],
    /// Still percent-encoded; empty for asterisk-form.
    pub(crate) path: &'a [u8],
    /// What follows the first `?`, without it.
    pub(crate) query: &'a [u8],
    /// Host and port as the client names them; empty when it names none.
    pub(crate) authority: &'a [u8],
    /// HTTP_HOST, where that is not the field Host.
    pub(crate) host: Option<&'a [u8]>,
    /// A proxy that is trusted has told of the client.
    pub(crate) vouched: bool,
    /// SERVER_PROTOCOL.
    pub(crate) protocol: &'static [u8],
    /// Those that the application may see, in the order sent.
    pub(crate) fields: Fields<'a>,
    /// Its connection may be lent to the worker that answers: what is written there reaches the client as it is.
    pub(crate) lends: bool,
    pub(crate) content: Content,
    /// Bytes that its head took, at least those of all the strings here.
    pub(crate) length: usize,
    /// The path, decoded, that has named this one in a local redirect.
    pub(crate) redirected: Option<&'a [u8]>,
    pub(crate) client: &'a Client,
}

impl<'a> Request<'a> {
    pub(crate) fn is_head(&self) -> bool {
        self.method == b"HEAD"
    }

    /// The value of the first field with that name, in whatever case.
    pub(crate) fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields.clone().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }
}

#[cfg(test)]
mod tests {
    use crate::sample;

    #[test]
    fn the_first_field_of_a_name_is_found_in_whatever_case() {
        let head = "HEAD /a%20b?c HTTP/1.1\r\nHost: h\r\nACCEPT: x\r\nAccept: y\r\n\r\n";
        sample::with(head, &sample::client("127.0.0.1"), |request| {
            assert!(request.is_head());
            assert_eq!(
                (request.path, request.query, request.target),
                (&b"/a%20b"[..], &b"c"[..], &b"/a%20b?c"[..])
            );
            assert_eq!(request.field(b"accept"), Some(&b"x"[..]));
            assert_eq!((request.field(b"host"), request.field(b"cookie")), (Some(&b"h"[..]), None));
        });
    }
}
