//! Certificates by ACME (RFC 8555): an account, an order, the proof that the names are ours, a certificate in a file. The
//! program says when; what proves the names is shown to the authority by the front, from `howdah_tls::Challenges`.
//!
//! ```text
//! order     one certificate, from account to file
//! renewal   when the authority would like a certificate to be replaced
//! begun     an order that the authority may fulfil while nobody waits
//! account   our key, by which an authority knows us
//! tries     those that have failed, also before the server was started anew
//! authority how it is asked: how much it may answer, and how long that may take
//! schedule  when the next one is due, and when to try again
//! stand_in  a certificate of our own making, until there is another
//! place     the files: written whole or not at all, by one process at a time
//! wish      what is wanted, and from whom
//! binding   whose account it is to be, where an authority wants to know that
//! error     what went wrong, and whose fault it is
//! ```
#![forbid(unsafe_code)]

mod order;
mod renewal;
mod begun;
mod account;
mod authority;
mod tries;
mod schedule;
mod stand_in;
mod place;
mod wish;
mod binding;
mod error;

pub use account::try_root;
pub use authority::{Talk, is_place};
pub use binding::Binding;
pub use error::Error;
pub use order::{is_for, order, show_begun};
pub use place::{Lock, Place};
pub use renewal::{Advice, advice};
pub use schedule::{Asked, Window, due, now};
pub use stand_in::{is_stand_in, stand_in};
pub use tries::Tries;
pub use wish::{Proof, Wish};
