//! One stream: a request and its response, in a task that they have for themselves, which is free again at once when the client
//! breaks it off.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use h2::{Reason, RecvStream};
use howdah_accesslog::ConnectionState as Outcome;
use howdah_metrics::Failure;

use crate::h2::link::Work;
use crate::h2::state::{Next, Refusal, Stream};
use crate::server::End;

/// Serves a stream to its end.
pub(crate) async fn serve(work: Work) {
    let Work { open, request, respond } = work;
    let mut stream = Stream::new(&open, respond);
    let (carrier, taken) = (stream.carrier.clone(), Rc::clone(&stream.taken));
    let next = {
        let mut work = pin!(stream.work(request));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(next) => Poll::Ready(next),
            Poll::Pending if taken.get() => Poll::Pending,
            // Who has ended its side opens no window any more.
            Poll::Pending
                if carrier.is_shut() && !open.link.await_client(open.served, context) && carrier.is_out() =>
            {
                Poll::Ready(None)
            }
            Poll::Pending => {
                if carrier.is_closed() {
                    open.link.await_client(open.served, context);
                }
                carrier.poll_gone(context).map(|()| None)
            }
        })
        .await
    };
    if next.is_none() {
        open.link.abandoned.set(open.link.abandoned.get() + 1);
    }
    let next = next.unwrap_or(Next::Cut);
    stream.finish(next);
    match next {
        Next::Done => stream.linger().await,
        Next::Cut => {
            // The client is to have what there was before it hears that there is no more.
            poll_fn(|context| carrier.poll_sent(context)).await;
            carrier.break_off(Reason::INTERNAL_ERROR);
        }
        Next::Malformed | Next::Refused => {}
    }
}

impl Stream {
    /// None when the client breaks it off within its body.
    async fn work(&mut self, request: http::Request<RecvStream>) -> Option<Next> {
        Some(match self.intake(request).await {
            Ok(true) => self.answer().await,
            Ok(false) => return None,
            Err(Refusal::Malformed) => Next::Malformed,
            Err(Refusal::Crowded) => Next::Refused,
            Err(Refusal::Fault(fault)) => self.refuse(fault).await,
        })
    }

    fn finish(&mut self, next: Next) {
        match next {
            Next::Done => {}
            Next::Cut => self.keep_words(),
            Next::Malformed => {
                self.carrier.break_off(Reason::PROTOCOL_ERROR);
                return self.server.records.failure(Failure::BadRequest);
            }
            Next::Refused => {
                self.carrier.break_off(Reason::REFUSED_STREAM);
                return self.server.records.failure(Failure::TooLarge);
            }
        }
        let mut sent = self.out.sent();
        sent.too_slow |= next == Next::Cut && self.link.late.get();
        let (exchange, handling) = (std::mem::take(&mut self.exchange), std::mem::take(&mut self.handling));
        let end = End {
            client: &self.link.client,
            behind: self.behind.as_deref(),
            served: self.served,
            outcome: if next == Next::Done { Outcome::KeepAlive } else { Outcome::Aborted },
            sent,
            lent: self.taken.get(),
        };
        self.server.finish(exchange, handling, &end);
    }
}
