//! The shared segment: where a request waits between the front and a Perl worker.
//!
//! The front writes a complete request into a slot ([`request`]) and queues it ([`queue`]); a worker claims it, runs
//! the application and streams the response through the slot's ring ([`response`]); the front takes it from there.
//! [`layout`] declares every byte once: the C header `xs/wire.h` is generated from it, and workers call the same
//! Rust code through [`c_abi`], so there is one implementation of the protocol and loom checks that one.
//!
//! Nothing here makes a system call. Functions that end a wait return whether someone must be woken; the caller
//! (`howdah-sys` in the front, `xs/wait.c` in a worker) does it.

pub mod attention;
pub mod c_abi;
pub mod idle;
pub mod layout;
#[cfg(loom)]
pub mod model;
pub mod queue;
pub mod report;
pub mod request;
pub mod response;
pub mod roster;
pub mod segment;
pub mod shape;
mod slot;
mod sync;

pub use layout::*;
pub use report::{REPORT_MOST, REPORT_NONE, reported};
pub use request::{RequestReader, RequestWriter};
pub use response::{Answer, Outgoing};
pub use roster::Roster;
pub use segment::Segment;
pub use shape::{Offsets, Shape, ShapeError};
