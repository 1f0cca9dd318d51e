//! The end of a connection whose client may still be sending: reads and discards for a while, so that the kernel does
//! not reset the connection before the client has read our answer (RFC 9112 9.6).

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_metrics::ConnectionState;

use crate::h1::state::Conn;
use crate::timers::Rest;

/// How long to wait for the client's end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much to discard.
const MOST: usize = 16 << 20;

impl Conn {
    /// Closes gently.
    pub(crate) async fn linger(&mut self) {
        self.out.transport.shut_write();
        self.enter(ConnectionState::Closing);
        self.timer.set(Rest::No, self.server.clock.after(PATIENCE));
        let mut discarded = 0;
        while let Some(length) = poll_fn(|context| self.poll_discard(context)).await {
            discarded += length;
            if discarded > MOST {
                return;
            }
        }
    }

    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<Option<usize>> {
        if self.timer.poll_expired(context) {
            return Poll::Ready(None);
        }
        let input = &mut self.server.scratch.borrow_mut().input;
        let read = ready!(self.out.transport.poll_read(context, input));
        Poll::Ready(read.ok().filter(|&length| length > 0))
    }
}
