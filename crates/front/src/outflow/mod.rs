//! The way out of a connection: what its client has not taken yet, how slowly it takes it, and where that lies meanwhile.

mod relief;
mod wait;
mod queue;
mod response_spool;
mod holding;
mod reader;
mod pace;
mod postponed;
mod stock;

pub(crate) use holding::Holding;
pub(crate) use pace::{Pace, Pulse};
pub(crate) use queue::{Outflow, Sent};
pub use response_spool::try_spool;
pub(crate) use response_spool::{Taken, send_of_file};
pub use stock::Stock;
pub(crate) use wait::Woken;
