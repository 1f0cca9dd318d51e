//! The control socket, by which an operator talks to a running server.
//!
//!     protocol    what is said
//!     place       where the socket is; making one, taking one over
//!     server      the server's side
//!     client      `howdah status`, `reload`, `upgrade`, `stop`, `workers`
//!     find        which servers there are, and which of them has a name
//!     table       the state as text; list that of all servers

pub(crate) mod client;
mod find;
mod list;
pub(crate) mod place;
pub(crate) mod protocol;
pub(crate) mod server;
mod table;
