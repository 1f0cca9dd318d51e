//! What a running server is asked from outside: what its workers do now, and where their time goes.
//!
//! ```text
//! table    the hottest subs, lines and routes, for people
//! flame    the flame graph; shapes what other programs read
//! sampler  looks again and again, and counts
//! tally    where time has gone; by the route of the request, too
//! sighting one answer for each worker: request, stack, system call
//! worker   one worker at one moment; for it:
//! names      subs, files, lines and operations behind the addresses
//! stack      a picture of perl's stacks, copied at once
//! kernel     whether it runs, and in which system call it waits for what
//! process    the worker's memory, by the layout that it tells
//! calls    what the kernel calls its calls
//! ```
//!
//! The commands `howdah where` and `howdah profile` call this in a process of their own, which needs the right to read
//! workers' memory. The server does nothing for it, and workers are neither stopped nor interrupted nor told.
#![forbid(unsafe_code)]

mod table;
mod flame;
mod shapes;
mod sampler;
mod tally;
mod route;
mod sighting;
mod worker;
mod names;
mod stack;
mod kernel;
mod process;
mod calls;

pub use flame::flame_graph;
pub use names::{Frame, Operation};
pub use sampler::{Filter, Looks, Sampler};
pub use shapes::{folded, speedscope};
pub use sighting::{Descriptor, Sighting};
pub use table::Table;
pub use tally::Tally;
pub use worker::{Doing, Glimpse, Request, Worker};
