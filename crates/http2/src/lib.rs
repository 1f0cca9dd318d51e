//! What the head of an HTTP/2 request must be, beyond what its framing says; no I/O, no clock.
//!
//! Called by the front, for which the `h2` crate has taken frames apart. [`translate`] judges what RFC 9113 8.2 and 8.3 ask of
//! a head and writes it in the words of HTTP/1. All else is judged there by the codec of HTTP/1, so that both protocols
//! accept the same targets, hosts and fields, and an application sees the same whichever way a request has come. [`urgency`] and
//! [`updated`] read how urgent a response is.
#![forbid(unsafe_code)]

mod translate;
mod malformed;
mod priority;

pub use malformed::Malformed;
pub use priority::{URGENCY, updated, urgency};
pub use translate::{Pseudo, is_of_connection, translate};
