//! What operators ask of a running server about its application, and how the answers are shown.
//!
//! ```text
//! records  what a worker writes into its answer: lines of fields
//! ```
//!
//! A worker's answer is input: whatever stands there, it is read within bounds and makes text at worst. The program
//! (`howdah`) asks the workers and brings their answers here; nothing here does any I/O.
#![forbid(unsafe_code)]

pub mod records;
