//! What a proxy tells of the client behind it: bytes in, addresses out; no I/O.
//!
//! ```text
//! header      the PROXY protocol, versions 1 and 2: once for a connection, before anything else
//! forwarded   Forwarded (RFC 7239) and X-Forwarded-*: with each request
//! node        one address in such a field
//! trust       whose word counts
//! ```
//!
//! All of it is what anybody can write. It counts as far as a trusted proxy vouches for it and no further: a chain of
//! addresses is walked from its near end to the first that is not a trusted proxy's.
#![forbid(unsafe_code)]

mod header;
mod forwarded;
mod node;
mod trust;

pub use forwarded::{Family, Told};
pub use header::{Header, LONGEST, Malformed, parse};
pub use trust::{Peer, Trust};
