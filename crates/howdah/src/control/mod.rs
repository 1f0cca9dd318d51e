//! The control socket, by which an operator talks to a running server.
//!
//!     protocol    what is said
//!     place       where the socket is; making one, taking one over
//!     server      the server's side
//!     client      `howdah status`, `reload`, `upgrade`, `stop`, `workers`
//!     table       the state as text

pub(crate) mod client;
pub(crate) mod place;
pub(crate) mod protocol;
pub(crate) mod server;
mod table;
