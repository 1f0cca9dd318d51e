//! A response that grows, or comes from a file, on its way to the client: the same for every protocol.

mod loan;
mod stream;
mod piece;
mod framing;

pub(crate) use framing::Framing;
pub(crate) use stream::{Delivered, Delivery, Reactions};
