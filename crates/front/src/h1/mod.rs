//! HTTP/1: bytes of a transport become requests, and responses become bytes. A connection has one exchange at a time.

mod conn;
mod intake;
mod collect;
mod reply;
mod postpone;
mod upgrade;
mod head;
mod state;

pub(crate) use conn::{resume, serve};
