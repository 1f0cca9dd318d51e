//! For tests: a front thread in a test's hands or its slots alone, a worker of an application, and what else they need.

pub(crate) mod frames;
pub(crate) mod world;
pub(crate) mod bench;
pub(crate) mod worker;
pub(crate) mod heard;
mod parts;

pub(crate) use parts::{acceptor, client, client_of, forever, holding, room, room_for, with};
