//! Which processes run which programs: WHO WHAT COUNT, as DTrace's exec.d has shown it.
//!
//! ```text
//! tracer      events in, and what is known of each process: whose it is, what it is called
//! source      where events come from; of the two, bpftrace is exact and the connector needs nothing
//! bpftrace    the kernel's tracepoints, by the program of that name
//! connector   the kernel's process connector, a netlink socket
//! event       what they tell, and the order in which it was
//! tally       who has run what, how often
//! proc        what /proc says of a process
//! ```
//!
//! It looks at the machine and not at the server, which notices nothing. What processes call themselves is input: text, at
//! worst.
#![forbid(unsafe_code)]

mod tracer;
mod source;
mod bpftrace;
mod connector;
mod event;
mod tally;
mod proc;

pub use source::{Refusal, Source, Wanted};
pub use tally::{Kind, Row, Tally};
pub use tracer::{Seen, Tracer};
