//! Which front thread has a connection. The first thread accepts for all of them: where several sleep on one socket, each
//! client wakes them all, and who is quickest has every connection.
//!
//! While the first one is not busy (`need`), it keeps all: one thread finds more of them ready at a time, and sleeps less often, than
//! two that have half of them each. When it is, a connection goes to another thread that has noticeably fewer: a new one as a guest, for
//! whom `accept` looks there, and one of HTTP/1 that rests between two requests as it is. Those by TLS cannot be moved, so they
//! are shared out from the beginning.

mod need;
mod seats;

pub(crate) use need::Need;
pub use seats::Sharing;
pub(crate) use seats::{Guest, Knock, Moved};
