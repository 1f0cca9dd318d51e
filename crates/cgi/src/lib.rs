//! CGI (RFC 3875): the host that stands in the zygote's place for a pool of scripts, native, with no Perl in it.
//!
//! ```text
//! start        a script becomes a process: executed, or forked from a perl that has compiled it
//! head         what a script prints becomes the head of a response
//! environment  a request and a script become meta-variables and arguments
//! place        a path becomes a script, or a refusal
//! request      a request, by itself
//! spec         what the host is told
//! ```

#![forbid(unsafe_code)]

pub mod start;
pub mod head;
pub mod environment;
pub mod place;
pub mod request;
pub mod spec;
