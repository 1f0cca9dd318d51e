//! What operators ask of a running server about its application, and how the answers are shown.
//!
//! ```text
//! leaks_text  the report of `howdah leaks` as text
//! heap        what holds the objects of a class
//! growth      the routes that grow, ranked
//! leaks       what outlives the requests that have made it, summed up over workers
//! records     what a worker writes into its answer: lines of fields
//! ```
//!
//! A worker's answer is input: whatever stands there, it is read within bounds and makes text at worst. The program
//! (`howdah`) asks the workers and brings their answers here; nothing here does any I/O.
#![forbid(unsafe_code)]

mod leaks_text;
pub mod heap;
pub mod growth;
pub mod leaks;
pub mod records;

pub use leaks_text::{devel_leak_object, render};
