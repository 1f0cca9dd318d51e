//! HTTP/2: frames of a transport become requests, and responses become frames. The `h2` crate has frames, windows and
//! states of streams; a connection has an exchange for each of its streams, and each of those a task.

mod conn;
mod crew;
mod stream;
mod intake;
mod reply;
mod upgrade;
mod state;
mod tunnel;
mod head;
mod link;
mod budget;
mod wire;
mod meter;
mod updates;
#[cfg(test)]
mod tests;

pub(crate) use conn::{Arrival, serve};

/// The first line of what a client says that knows of HTTP/2 without having asked (RFC 9113 3.4). It is a head of HTTP/1 that
/// nobody may send, so that its codec finds it.
pub(crate) const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";
/// What a client asks for by ALPN.
pub(crate) const ALPN: &[u8] = b"h2";
