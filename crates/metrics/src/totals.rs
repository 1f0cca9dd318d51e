//! The counters of all front threads added up.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::histogram::Distribution;
use crate::label::{Class, ConnectionState, Failure, Handshake, Label, Method, Per};
use crate::recorder::Counters;

/// What all front threads have counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests by class of the response's status and by method.
    pub requests: Per<Class, Per<Method>>,
    /// From a request's first byte to its response's last.
    pub duration: Distribution,
    /// Wait for a worker.
    pub queue: Distribution,
    /// From a request's first byte to its response's first.
    pub first_byte: Distribution,
    /// From a response's first byte to its last.
    pub send: Distribution,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub connections: Per<ConnectionState>,
    /// Idle connections that had to go, to make room.
    pub dismissed: u64,
    /// Connections that have spoken HTTP/2.
    pub http2: u64,
    /// Requests that came by it.
    pub http2_streams: u64,
    /// Connections that there may be.
    pub connection_limit: u64,
    /// Requests that did not go their usual way.
    pub failures: Per<Failure>,
    /// TLS handshakes.
    pub handshakes: Per<Handshake>,
}

impl Totals {
    /// Reads the counters of all front threads.
    #[must_use]
    pub fn of(threads: &[Arc<Counters>]) -> Self {
        let mut totals = Self::default();
        threads.iter().for_each(|counters| totals.add(counters));
        // A connection may be handed from thread to thread, so that one has less than none: only the sum tells.
        for state in ConnectionState::ALL {
            let count = &mut totals.connections[*state];
            *count = if count.cast_signed() < 0 { 0 } else { *count };
        }
        totals
    }

    fn add(&mut self, counters: &Counters) {
        for class in Class::ALL {
            add_all(&mut self.requests[*class], &counters.requests[class.index()]);
        }
        self.duration.add(&counters.duration);
        self.queue.add(&counters.queue);
        self.first_byte.add(&counters.first_byte);
        self.send.add(&counters.send);
        self.bytes_in += counters.bytes_in.load(Relaxed);
        self.bytes_out += counters.bytes_out.load(Relaxed);
        self.accepted += counters.accepted.load(Relaxed);
        self.dismissed += counters.dismissed.load(Relaxed);
        self.http2 += counters.http2.load(Relaxed);
        self.http2_streams += counters.http2_streams.load(Relaxed);
        self.connection_limit = self.connection_limit.max(counters.connection_limit.load(Relaxed));
        add_all(&mut self.connections, &counters.connections);
        add_all(&mut self.failures, &counters.failures);
        add_all(&mut self.handshakes, &counters.handshakes);
    }

    /// All requests.
    #[must_use]
    pub fn all_requests(&self) -> u64 {
        self.requests.iter().map(|(_, methods)| methods.sum()).sum()
    }

    /// Requests by class alone.
    #[must_use]
    pub fn by_class(&self) -> Per<Class> {
        Per::new(|class| self.requests[class].sum())
    }

    /// Connections open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.connections.sum()
    }
}

fn add_all<L: Label>(totals: &mut Per<L>, counters: &[AtomicU64]) {
    for (label, counter) in L::ALL.iter().zip(counters) {
        totals[*label] = totals[*label].wrapping_add(counter.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::{Finished, Recorder};

    const HELLO: Finished = Finished {
        method: Method::Get,
        status: 200,
        duration: 1_000_000,
        queue: Some(10_000),
        first_byte: Some(900_000),
        send: Some(100_000),
        bytes_in: 100,
        bytes_out: 150,
    };

    #[test]
    fn threads_are_added_up() {
        let recorders = [Recorder::new(), Recorder::new()];
        recorders[0].request(&HELLO);
        recorders[1].request(&HELLO);
        recorders[1].request(&Finished { status: 503, queue: None, method: Method::Other, ..HELLO });
        recorders[1].failure(Failure::QueueFull);
        for recorder in &recorders {
            recorder.handshake(Handshake::Resumed);
            recorder.dismissed();
            recorder.http2();
            recorder.http2_stream();
            recorder.connection_limit(500);
        }
        let totals = Totals::of(&recorders.each_ref().map(Recorder::counters));
        assert_eq!(totals.all_requests(), 3);
        assert_eq!(totals.requests[Class::Success][Method::Get], 2);
        assert_eq!(totals.requests[Class::ServerError][Method::Other], 1);
        assert_eq!((totals.duration.count(), totals.queue.count()), (3, 2));
        assert_eq!((totals.bytes_in, totals.bytes_out), (300, 450));
        assert_eq!(totals.failures[Failure::QueueFull], 1);
        assert_eq!((totals.handshakes[Handshake::Resumed], totals.handshakes[Handshake::Full]), (2, 0));
        assert_eq!(
            (totals.dismissed, totals.http2, totals.http2_streams, totals.connection_limit),
            (2, 2, 2, 500),
            "the limit is that of all together"
        );
        assert_eq!(totals.by_class()[Class::Success], 2);
    }

    #[test]
    fn connections_are_counted_where_they_are_whichever_thread_has_them() {
        let recorders = [Recorder::new(), Recorder::new()];
        recorders[0].accepted(ConnectionState::Idle);
        recorders[0].accepted(ConnectionState::Idle);
        recorders[0].moved(ConnectionState::Idle, Some(ConnectionState::Reading));
        recorders[1].moved(ConnectionState::Idle, Some(ConnectionState::Running));
        recorders[0].moved(ConnectionState::Reading, None);
        let totals = Totals::of(&recorders.each_ref().map(Recorder::counters));
        assert_eq!((totals.accepted, totals.open()), (2, 1));
        assert_eq!(totals.connections[ConnectionState::Running], 1);
    }
}
