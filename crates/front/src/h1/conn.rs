//! One client connection, from accept to close.
//!
//! A request walks: `intake` reads and checks it (a large body by way of `collect`) and gives it to its handler, `reply`
//! sends the response. Then the next one, in order, until either side is done.

use std::pin::pin;

use howdah_metrics::{ConnectionState, Failure};

use crate::address::Serves;
use crate::h1::intake::has_begun;
use crate::h1::state::{Conn, Next};
use crate::h2;
use crate::linger::{linger, see_off};
use crate::others::let_others;
use crate::record::Account;
use crate::request::Client;
use crate::server::{End, Presence, Server};
use crate::sharing::Moved;
use crate::transport::Transport;

/// Requests before other connections have their turn.
const TURN: u64 = 32;

/// Serves a connection to its end.
pub(crate) fn serve(
    server: &'static Server,
    transport: Transport,
    client: Client,
    presence: Presence,
) -> impl Future<Output = ()> {
    run(Conn::new(server, transport, client, presence))
}

/// Goes on with one that another thread had.
pub(crate) fn resume(server: &'static Server, moved: Moved) -> impl Future<Output = ()> {
    run(Conn::moved(server, moved))
}

/// Each connection has this future for as long as it is there, so what is large and seldom needed is in a box of its own. As a
/// block it has the connection once.
#[expect(clippy::manual_async_fn, reason = "an async fn would have its argument beside what that becomes")]
fn run(mut conn: Conn) -> impl Future<Output = ()> {
    async move {
        loop {
            let doors = conn.server.doors;
            let step = doors.unless_cut_off(pin!(conn.step())).await;
            let next = match step {
                Some(Step::Answered(next)) => next,
                Some(Step::Left) => return conn.leave(),
                // The future of that is no part of this one, which is there for each connection.
                Some(Step::SpeaksHttp2) => return Box::pin(h2::serve(conn.depart())).await,
                None => return conn.break_off(),
            };
            conn.finish(next);
            match next {
                Next::Continue => {
                    conn.renew();
                    // Where requests are here already and we answer them by ourselves, nothing else lets others have their turn.
                    if conn.served.is_multiple_of(TURN) {
                        let_others().await;
                    }
                    if let Some(thread) = conn.elsewhere() {
                        return conn.move_to(thread);
                    }
                }
                Next::Close => return conn.out.end(),
                Next::Break => {
                    conn.enter(ConnectionState::Closing);
                    return see_off(conn.server, &mut conn.out.transport, &conn.timer).await;
                }
                Next::Cut => return,
                Next::Linger | Next::Short => {
                    conn.enter(ConnectionState::Closing);
                    return linger(conn.server, &mut conn.out.transport, &conn.timer).await;
                }
            }
        }
    }
}

/// What has come of the wait for a request.
enum Step {
    /// Its response, and what is to follow.
    Answered(Next),
    /// None is to come.
    Left,
    /// The client speaks HTTP/2.
    SpeaksHttp2,
}

impl Conn {
    /// Has a request, and answers it.
    async fn step(&mut self) -> Step {
        match self.intake().await {
            Ok(true) => Step::Answered(self.answer().await),
            Ok(false) => {
                self.tell_of_a_beginning();
                Step::Left
            }
            Err(_) if self.knows_http2() => Step::SpeaksHttp2,
            Err(fault) => Step::Answered(self.refuse(fault).await),
        }
    }

    /// Counts a client that has left within a head; empty lines are none, and one within a body is counted with its request.
    fn tell_of_a_beginning(&self) {
        if has_begun(&self.input) && self.exchange.account.method.is_none() {
            tracing::debug!(peer = &*self.sender().address, "a client has left within the head of a request");
            self.server.records.failure(Failure::ClientGone);
        }
    }

    /// Whether what was refused is the preface of HTTP/2: the client knows that it is spoken here (RFC 9113 3.3).
    fn knows_http2(&self) -> bool {
        let said = self.served == 0 && self.input.starts_with(h2::PREFACE_LINE);
        said && self.server.config.http2 && self.client.tls.is_none()
    }

    /// The connection, with what was received and belongs to the next protocol.
    fn depart(mut self) -> h2::Arrival {
        let transport = self.out.take_transport();
        let Self { server, timer, client, presence, input, .. } = self;
        h2::Arrival { server, transport, client, timer, presence, early: input }
    }

    /// The thread that is to go on with the connection, and expects it. What has been received already, and what TLS knows, stays.
    fn elsewhere(&self) -> Option<usize> {
        let Server { sharing, number, doors, .. } = self.server;
        let thread = sharing.elsewhere(*number)?;
        let rests = self.input.is_empty()
            && !self.out.is_held_up()
            && self.client.origin.serves == Serves::Requests
            && !doors.is_draining();
        (rests && self.out.transport.is_plain() && sharing.announce(thread)).then_some(thread)
    }

    fn move_to(mut self, thread: usize) {
        let transport = self.out.take_transport();
        let Self { server, client, presence, served, timer, .. } = self;
        // Before another thread can hear of it.
        drop(timer);
        if let (Transport::Plain(socket), Some(permit)) = (transport, presence.leave())
            && let Some(socket) = socket.leave()
        {
            server.sharing.move_on(thread, Moved { socket, client, permit, served });
        } else {
            server.sharing.arrived(thread);
        }
    }

    /// No request is to come. One whose body was on its way has come to nothing.
    fn leave(mut self) {
        let Account { method, status, .. } = &self.exchange.account;
        if method.is_some() || *status != 0 {
            self.keep_what_came();
            self.finish(Next::Cut);
        }
        self.out.end();
    }

    /// The server ends before the exchange does. A client that has a part of its response must not take that for all, which an
    /// ordinary end would say of some (RFC 9112 8).
    fn break_off(self) {
        if self.exchange.account.status != 0 {
            self.out.transport.reset();
        }
        self.leave();
    }

    /// The exchange is over: tells the records, and gives back what its handler held.
    fn finish(&mut self, next: Next) {
        let (exchange, handling) = (std::mem::take(&mut self.exchange), std::mem::take(&mut self.handling));
        let behind = self.behind.take();
        let end = End {
            client: &self.client,
            behind: behind.as_deref(),
            served: self.served,
            outcome: next.outcome(),
            sent: self.out.sent(),
            lent: self.lent,
        };
        self.server.finish(exchange, handling, &end);
        self.asked = None;
    }
}

#[cfg(test)]
mod tests;
