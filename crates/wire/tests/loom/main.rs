//! Interleavings of the protocol's threads, checked by loom (all of two threads; see `room::bounded` for more and for deaths):
//! `RUSTFLAGS="--cfg loom" cargo test -p howdah-wire --release --test loom --target-dir target/loom`.
//!
//! A thread stands for a process. Sleeping is not modelled as waiting but as a fact to be judged at the end: whoever
//! decided to sleep must have been woken if there is something left for it to do. A killed process is a thread that
//! stops before one of its atomic accesses (`howdah_wire::model::mortal`), each of them in turn.
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

mod cancel;
mod claim;
mod kill;
mod news;
mod ring;
mod room;
mod sleep;
