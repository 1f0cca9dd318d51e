//! Clients that leave while a worker has their request, or is to have it.
//!
//! A client that has ended its side may still read the response (RFC 9112 9.6), so it has left only when the connection is
//! broken. `--abort-on-disconnect` takes it for gone in either case, since a client that goes away without a word to come
//! looks no different until something is written to it; and its worker is interrupted, wherever it is.

use crate::conn::{Conn, Next};
use crate::socket::{Peer, Socket};
use crate::thread::here;

/// Whether nobody waits for the response any more.
pub(crate) fn has_left(socket: &Socket) -> bool {
    match socket.peer() {
        Peer::There => false,
        Peer::Silent => here().config.abort_on_disconnect,
        Peer::Gone => true,
    }
}

impl Conn {
    /// The worker to be interrupted when the connection ends like this. It must hear of it after the slot is given back:
    /// by that it sees that nobody wants its response.
    pub(crate) fn interrupted_by(&self, next: Next) -> Option<u16> {
        let aborts = next == Next::Cut && here().config.abort_on_disconnect && !self.lent;
        // At work on it since any time.
        self.slot.filter(|_| aborts).and_then(|slot| here().dispatch.borrow().stuck_worker(slot, u64::MAX))
    }
}

/// Has that worker interrupted.
pub(crate) fn interrupt(worker: u16) {
    let _ = here().outlets.departed.send(worker);
}
