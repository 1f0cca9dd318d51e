//! The shared segment: where a request waits between the front and a Perl worker.
//!
//! The front writes a complete request into a slot and queues it; a worker claims it, runs the application and streams
//! the response through the slot's ring; the front takes it from there. From the door down:
//!
//! ```text
//! c_abi                      what a worker's C files call: the same code, so there is one protocol and loom checks that one
//! work                       a worker and the request that it serves, for those and for a worker that is a thread
//! roster                     who the workers are, in the front's own memory
//! report, slot, request      the memory of a slot: variables for the access log; the areas; a request's strings
//! segment, shape             the mapped segment, how large it is, where its parts lie
//! recover                    what becomes of the requests that a dead worker has left
//! idle, response, queue      who sleeps and is woken; the ring's counters and their seal; tickets and claims
//! worker, inquiry, growth    a worker's steps in its own cell; what it is asked there; what routes leave behind
//! attention                  news for a front thread
//! word                       numbers that another process has written, as what they stand for
//! layout                     every byte, declared once: the C header `xs/wire.h` is generated from it and from c_abi
//! zygote                     what front and zygote say to each other, declared for the same header
//! script                     what the host of CGI scripts and the zygote of a script say to each other, likewise
//! perl                       where a perl's state lies, for who reads it from outside; declared there, too
//! sync, model                atomics, and those that loom puts in their place
//! ```
//!
//! Nothing here makes a system call. Functions that end a wait return whether someone must be woken; the caller
//! (`howdah-sys` in the front, `xs/wait.c` in a worker) does it.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("Howdah needs a system of 64 bits, such as amd64 or arm64");

pub mod c_abi;
pub mod work;
pub mod roster;

pub mod report;
mod slot;
pub mod request;

pub mod segment;
pub mod shape;

pub mod recover;

pub mod idle;
pub mod response;
pub mod queue;

pub mod worker;
pub mod inquiry;
pub mod growth;
pub mod attention;

mod word;

pub mod layout;
pub mod zygote;
pub mod script;
pub mod perl;

mod sync;
#[cfg(loom)]
pub mod model;

pub use growth::Growth;
pub use inquiry::{class_hash, inquiry_serial, inquiry_word};
pub use layout::*;
pub use perl::*;
pub use report::{REPORT_MOST, REPORT_NONE, report_names, reported};
pub use request::{RequestReader, RequestWriter};
pub use response::{Answer, Outgoing};
pub use roster::Roster;
pub use script::*;
pub use segment::Segment;
pub use shape::{Offsets, Shape, ShapeError};
pub use work::{Post, Work};
pub use zygote::*;
