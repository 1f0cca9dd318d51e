//! Why a request gets no answer from its application, and what follows from that: status, what it counts as, who hears of
//! it, and what becomes of the connection stand in one table.

use howdah_http1::Reject;
use howdah_metrics::Failure;

/// The cause, kept to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The client broke a rule of the protocol. Where its next request would begin is not known.
    Rejected(Reject),
    /// The client was too slow with this.
    Timeout(&'static str),
    /// The request's fields do not fit a slot.
    TooLarge,
    /// As many requests wait as may.
    QueueFull,
    /// The body could not be kept: no space, no descriptor.
    NoSpool,
    /// No descriptor is left for the file that is the response, or for the connection that the application wanted.
    NoDescriptor,
    /// The application wanted the connection, and there are as many that applications have as may be.
    TooManyUpgrades,
    /// A WebSocket client of HTTP/2 has asked for something that is served as ever.
    NoWebSocket,
    /// The worker was killed while it ran the request.
    WorkerLost,
    /// The worker has exited while it ran the request: the application called `exit`.
    WorkerExited,
    /// The application died.
    Failed,
    /// The worker is through with the request, and has said nothing.
    NoResponse,
    /// What the worker has said is no response.
    BadResponse,
    /// The path that a local redirect names cannot be asked for.
    Redirect,
    /// The worker has been at it for longer than the request timeout.
    Overdue,
    /// The server ends before any worker has begun it.
    Unserved,
}

/// Whom the log tells of a fault: a client's are for whoever looks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Whoever debugs.
    Debug,
    /// The operator, by those who know more of it than this table.
    Elsewhere,
}

/// What follows from a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) status: u16,
    pub(crate) counts_as: Failure,
    pub(crate) told: Told,
    /// The request was read to its end, so the connection can be used for another one.
    pub(crate) keeps: bool,
}

impl Fault {
    /// The table.
    pub(crate) fn terms(self) -> Terms {
        use Told::{Debug, Elsewhere};
        let (status, counts_as, told, keeps) = match self {
            Self::Rejected(Reject { status, .. }) => (status, rejected(status), Debug, false),
            Self::Timeout(_) => (408, Failure::ReadTimeout, Debug, false),
            Self::TooLarge => (431, Failure::TooLarge, Debug, true),
            Self::QueueFull => (503, Failure::QueueFull, Elsewhere, true),
            Self::NoSpool => (503, Failure::Resources, Elsewhere, false),
            Self::NoDescriptor => (503, Failure::Resources, Elsewhere, true),
            Self::TooManyUpgrades => (503, Failure::UpgradeLimit, Elsewhere, true),
            Self::NoWebSocket => (501, Failure::BadRequest, Elsewhere, true),
            Self::WorkerLost | Self::BadResponse => (502, Failure::WorkerLost, Elsewhere, true),
            Self::WorkerExited | Self::Failed | Self::NoResponse | Self::Redirect => {
                (500, Failure::Application, Elsewhere, true)
            }
            Self::Overdue => (504, Failure::Deadline, Elsewhere, true),
            Self::Unserved => (503, Failure::Deadline, Elsewhere, true),
        };
        Terms { status, counts_as, told, keeps }
    }

    pub(crate) fn status(self) -> u16 {
        self.terms().status
    }

    /// Tells the log of a client's fault.
    pub(crate) fn log(self, peer: &str, id: &[u8]) {
        if self.terms().told == Told::Elsewhere {
            return;
        }
        let request_id = tracing::field::display(id.escape_ascii());
        match self {
            Self::Rejected(reject) => tracing::debug!(peer, request_id, "refused a request: {reject}"),
            Self::Timeout(what) => {
                tracing::debug!(peer, request_id, "gave up on a slow client: {what} took too long (408)");
            }
            _ => tracing::debug!(peer, request_id, "refused a request: its fields do not fit a slot (431)"),
        }
    }
}

fn rejected(status: u16) -> Failure {
    match status {
        413 | 414 | 431 => Failure::TooLarge,
        _ => Failure::BadRequest,
    }
}

impl From<Reject> for Fault {
    fn from(reject: Reject) -> Self {
        Self::Rejected(reject)
    }
}

#[cfg(test)]
mod tests {
    use howdah_http1::{FieldStore, Limits, RequestDecoder};

    use super::*;

    #[test]
    fn whose_fault_it_is_decides_status_count_and_connection() {
        for (fault, status, counts_as, keeps) in [
            (Fault::Timeout("the request head"), 408, Failure::ReadTimeout, false),
            (Fault::TooLarge, 431, Failure::TooLarge, true),
            (Fault::QueueFull, 503, Failure::QueueFull, true),
            // A full disk is no full queue.
            (Fault::NoSpool, 503, Failure::Resources, false),
            (Fault::NoDescriptor, 503, Failure::Resources, true),
            (Fault::NoWebSocket, 501, Failure::BadRequest, true),
            (Fault::WorkerLost, 502, Failure::WorkerLost, true),
            (Fault::Redirect, 500, Failure::Application, true),
            (Fault::BadResponse, 502, Failure::WorkerLost, true),
            (Fault::WorkerExited, 500, Failure::Application, true),
            (Fault::Failed, 500, Failure::Application, true),
            (Fault::NoResponse, 500, Failure::Application, true),
            (Fault::Overdue, 504, Failure::Deadline, true),
            (Fault::Unserved, 503, Failure::Deadline, true),
        ] {
            let terms = fault.terms();
            assert_eq!((terms.status, terms.counts_as, terms.keeps), (status, counts_as, keeps), "{fault:?}");
        }
    }

    #[test]
    fn a_broken_rule_closes_the_connection_with_the_status_of_the_rule() {
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(100_000));
        for (head, status, counts_as) in [
            ("GET / HTTP/1.1\r\n\r\n", 400, Failure::BadRequest),
            ("GET / HTTP/9.9\r\n\r\n", 505, Failure::BadRequest),
            (long.as_str(), 414, Failure::TooLarge),
        ] {
            let rejected = RequestDecoder::new(&Limits::default())
                .decode(head.as_bytes(), &mut FieldStore::new())
                .expect_err("refused");
            let terms = Fault::from(rejected).terms();
            assert_eq!((terms.status, terms.counts_as, terms.keeps), (status, counts_as, false));
        }
    }
}
