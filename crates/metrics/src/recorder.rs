//! The recording side: a front thread's own counters, which cost an addition each (`counter.rs`).

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::counter::bump;
use crate::histogram::Histogram;
use crate::label::{Class, ConnectionState, Failure, Handshake, Label, Method};

const CLASSES: usize = Class::ALL.len();
const METHODS: usize = Method::ALL.len();

/// A request that has come to its end. Durations are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Its method.
    pub method: Method,
    /// Status sent; 0 when none was.
    pub status: u16,
    /// From the request's first byte to the response's last.
    pub duration: u64,
    /// Wait for a worker; none when it never was in the queue.
    pub queue: Option<u64>,
    /// From the request's first byte to the response's first; none if there was none.
    pub first_byte: Option<u64>,
    /// From the response's first byte to its last.
    pub send: Option<u64>,
    /// Bytes received, head and framing included.
    pub bytes_in: u64,
    /// Bytes sent, likewise.
    pub bytes_out: u64,
}

/// The counters of one front thread, as others may read them.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) requests: [[AtomicU64; METHODS]; CLASSES],
    pub(crate) duration: Histogram,
    pub(crate) queue: Histogram,
    pub(crate) first_byte: Histogram,
    pub(crate) send: Histogram,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) connections: [AtomicU64; ConnectionState::ALL.len()],
    pub(crate) dismissed: AtomicU64,
    pub(crate) http2: AtomicU64,
    pub(crate) http2_streams: AtomicU64,
    pub(crate) connection_limit: AtomicU64,
    pub(crate) failures: [AtomicU64; Failure::ALL.len()],
    pub(crate) handshakes: [AtomicU64; Handshake::ALL.len()],
}

/// The writing end; each front thread makes its own and keeps it.
#[derive(Debug, Default)]
pub struct Recorder {
    counters: Arc<Counters>,
    /// One writer: may move to its thread, but not be shared.
    not_shared: PhantomData<Cell<()>>,
}

impl Recorder {
    /// A recorder with everything at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The reading end.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// A request has ended, well or not.
    #[inline]
    pub fn request(&self, finished: &Finished) {
        let counters = &*self.counters;
        bump(&counters.requests[Class::of(finished.status).index()][finished.method.index()], 1);
        counters.duration.record(finished.duration);
        let steps = [
            (&counters.queue, finished.queue),
            (&counters.first_byte, finished.first_byte),
            (&counters.send, finished.send),
        ];
        for (histogram, nanos) in steps {
            if let Some(nanos) = nanos {
                histogram.record(nanos);
            }
        }
        bump(&counters.bytes_in, finished.bytes_in);
        bump(&counters.bytes_out, finished.bytes_out);
    }

    /// A connection has come: it is in `state`.
    #[inline]
    pub fn accepted(&self, state: ConnectionState) {
        bump(&self.counters.accepted, 1);
        self.arrived(state);
    }

    /// A connection has come over from another thread, which counts it no more.
    #[inline]
    pub fn arrived(&self, state: ConnectionState) {
        bump(&self.counters.connections[state.index()], 1);
    }

    /// A connection goes from one state to another, or away. Every connection must be told of at both its ends.
    #[inline]
    pub fn moved(&self, from: ConnectionState, to: Option<ConnectionState>) {
        bump(&self.counters.connections[from.index()], u64::MAX);
        if let Some(to) = to {
            bump(&self.counters.connections[to.index()], 1);
        }
    }

    /// An idle connection is asked to go, to make room.
    #[inline]
    pub fn dismissed(&self) {
        bump(&self.counters.dismissed, 1);
    }

    /// A connection speaks HTTP/2.
    #[inline]
    pub fn http2(&self) {
        bump(&self.counters.http2, 1);
    }

    /// A request comes by HTTP/2.
    #[inline]
    pub fn http2_stream(&self) {
        bump(&self.counters.http2_streams, 1);
    }

    /// So many connections there may be, to all threads together.
    #[inline]
    pub fn connection_limit(&self, most: u64) {
        self.counters.connection_limit.store(most, Relaxed);
    }

    /// Something went wrong with a request.
    #[inline]
    pub fn failure(&self, failure: Failure) {
        bump(&self.counters.failures[failure.index()], 1);
    }

    /// A TLS handshake is over.
    #[inline]
    pub fn handshake(&self, handshake: Handshake) {
        bump(&self.counters.handshakes[handshake.index()], 1);
    }
}
