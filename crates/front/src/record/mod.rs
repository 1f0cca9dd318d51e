//! The end of an exchange: what it has come to, told to the access log, the slow log and the counters. Nobody else knows
//! of logs.

mod records;
mod access;
mod slow;
mod account;

pub use access::AccessLog;
pub(crate) use account::Account;
pub(crate) use records::{Ending, Identity, Records};
pub use slow::SlowLog;
