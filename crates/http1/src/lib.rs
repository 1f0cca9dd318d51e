//! The HTTP/1.x codec: bytes in, requests out; no I/O, no clock, no allocation per request.
//!
//! Called by the front, which owns the sockets. A request passes through here in this order:
//! [`RequestDecoder`] finds and checks the head, [`decode_path`] yields the decoded path,
//! [`BodyDecoder`] strips the transfer framing, and [`encode`] writes the head of the response.
//!
//! The codec is strict: where RFC 9110 or RFC 9112 lets a server repair a message or refuse it,
//! it refuses, because two parties that repair differently can be made to see two different
//! requests. Every refusal is one of the constants of [`Reject`], which name rule and clause.
//! A verdict depends on the bytes alone, never on how the network has split them.
#![forbid(unsafe_code)]

pub mod encode;
mod date;
mod path;
mod decoder;
mod semantics;
mod fields;
mod head;
mod target;
mod authority;
mod body;
mod trailer;
mod answer;
mod reject;
mod bytes;
mod terms;

pub use answer::{Answer, fields};
pub use authority::is_authority;
pub use body::{BodyDecoder, BodyEvent};
pub use decoder::RequestDecoder;
pub use head::{Field, FieldStore, Fields, Head};
pub use path::decode_path;
pub use reject::{BODY_SIZE, Reject};
pub use terms::{Framing, Limits, Version, body_allowed};
