//! CGI (RFC 3875): the host that stands in the zygote's place for a pool of scripts, native, with no Perl in it.
//!
//! ```text
//! host         the process: orders of the front, workers, reports
//! worker       a thread: claims a request, serves it, claims the next
//! exchange     one request from claim to finish
//! pump         a script that runs: its output, its errors, its end
//! reply        what it prints goes into the response
//! dechunk      a body that the script itself has written in chunks
//! input        the body of a request becomes its standard input
//! seat         what a worker is told meanwhile
//! say          what goes to the error log
//! message      what the front and a host say to each other, in bytes
//! start        a script becomes a process: executed, or forked from a perl that has compiled it
//! head         what a script prints becomes the head of a response
//! environment  a request and a script become meta-variables and arguments
//! place        a path becomes a script, or a refusal
//! request      a request, by itself
//! spec         what the host is told
//! ```

#![forbid(unsafe_code)]

mod host;
mod worker;
mod exchange;
mod pump;
mod reply;
mod dechunk;
mod input;
mod seat;
mod say;
mod message;
pub mod start;
pub mod head;
pub mod environment;
pub mod place;
pub mod request;
pub mod spec;

pub use host::{VARIABLE, run};
