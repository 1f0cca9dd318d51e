//! The application's side of the house: a pool takes a request, has its workers run it, and yields their response.

mod job;
mod channel;
mod pool;
mod upgrades;
mod rush;

pub(crate) use job::Job;
pub use pool::PoolSetup;
pub(crate) use pool::{PACKET, Pool, Services};
pub use rush::Rush;
pub use upgrades::Upgrades;
