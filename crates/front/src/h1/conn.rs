//! One client connection, from accept to close.
//!
//! A request walks: `intake` reads and checks it (a large body by way of `collect`) and gives it to its handler, `reply`
//! sends the response. Then the next one, in order, until either side is done.

use crate::capacity::Permit;
use crate::h1::server::Server;
use crate::h1::state::{Conn, Next};
use crate::record::{Account, Ending};
use crate::request::Client;
use crate::route::Handling;
use crate::transport::Transport;

/// Serves a connection to its end.
pub(crate) async fn serve(server: &'static Server, transport: Transport, client: Client, permit: Permit) {
    let mut conn = Conn::new(server, transport, client, permit);
    loop {
        let next = match conn.intake().await {
            Ok(true) => conn.answer().await,
            Ok(false) => return,
            Err(fault) => conn.refuse(fault).await,
        };
        conn.finish(next);
        match next {
            Next::Continue => conn.renew(),
            Next::Close | Next::Cut => return,
            Next::Linger => return conn.linger().await,
        }
    }
}

impl Conn {
    /// The exchange is over: tells the records, and gives back what its handler held.
    fn finish(&mut self, next: Next) {
        let mut exchange = std::mem::take(&mut self.exchange);
        let mut handling = std::mem::take(&mut self.handling);
        let runner = self.interrupted_by(&handling, next);
        if let Handling::App(job) = &handling {
            job.visit(&mut exchange.account);
        }
        self.record(&exchange.account, &handling, next);
        handling.give_back();
        if let (Handling::App(job), Some(runner)) = (&handling, runner) {
            job.interrupt(runner);
        }
        self.asked = None;
    }

    /// The worker that is to be interrupted when the connection ends like this.
    fn interrupted_by(&self, handling: &Handling, next: Next) -> Option<u16> {
        let aborts = next == Next::Cut && self.server.config.abort_on_disconnect && !self.lent;
        handling.job().filter(|_| aborts)?.runner()
    }

    fn record(&self, account: &Account, handling: &Handling, next: Next) {
        let sent = self.out.sent();
        let ending = Ending {
            request: handling.request(account),
            report: &handling.report(account),
            client: &self.client,
            mount: handling.mount(),
            worker: handling.identity(account.worker),
            served: self.served,
            outcome: next.outcome(),
            first_byte: sent.first_byte,
            sent: sent.bytes,
            too_slow: sent.too_slow,
        };
        self.server.records.end(account, &ending);
    }
}
