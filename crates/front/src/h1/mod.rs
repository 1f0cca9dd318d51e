//! HTTP/1: bytes of a transport become requests, and responses become bytes. A connection has one exchange at a time.

mod conn;
mod intake;
mod collect;
mod linger;
mod stream;
mod reply;
mod upgrade;
mod redirect;
mod piece;
mod head;
mod state;
mod server;

pub(crate) use conn::serve;
pub(crate) use server::Server;
