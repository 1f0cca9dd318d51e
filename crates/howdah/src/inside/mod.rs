//! Commands that look into the workers of a running server from outside, with the rights of who calls them.
//!
//!     profile  `howdah profile`: where their time goes
//!     now      `howdah where`: what each worker does now
//!     refusal  why the kernel does not let us look, and the way out
//!     scripts  what workers of CGI scripts run, who have no perl
//!     workers  which workers there are
//!
//! The server is only asked who its workers are; crates/peek does the looking.

pub(crate) mod profile;
pub(crate) mod now;
mod refusal;
mod scripts;
mod workers;
