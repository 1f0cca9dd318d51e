//! The control socket, by which an operator talks to a running server; `protocol.rs` is what is said on it.
//!
//!     post        the server's side: from when to when it answers
//!     server      what it answers
//!     heap        `howdah heap`, which gets a file
//!     nytprof     `howdah profile --nytprof`, which gets one, too; fetch is how
//!     client      `howdah status`, `reload`, `upgrade`, `stop`, `workers`
//!     look        what a server shows of itself, for other commands
//!     list        all servers as text; table the state of one
//!     find        which servers there are, and which of them has a name
//!     connection  asks a server that is found
//!     socket      where the socket is; making one, taking one over

pub(crate) mod post;
pub(crate) mod server;
pub(crate) mod heap;
pub(crate) mod nytprof;
mod fetch;
pub(crate) mod client;
pub(crate) mod look;
mod numbers;
mod list;
mod table;
pub(crate) mod find;
pub(crate) mod connection;
pub(crate) mod socket;
