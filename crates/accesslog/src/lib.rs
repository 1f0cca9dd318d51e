//! The access log: a format is compiled once, a line is rendered per response, a thread of its own writes the lines.
//!
//! Called by the front, in this order:
//! 1. At start [`compile`] turns the Apache format string (or a preset's name) into a [`Format`], and [`Sink::open`]
//!    opens the file, the command or standard output.
//! 2. [`Format::needs`] tells which header fields, trailers and environment variables the lines use, so that the front
//!    keeps only those ([`Kept`]) until the response is out.
//! 3. When a response has ended or its connection has gone, the front fills a [`Record`] and hands it to its
//!    [`Writer`], which renders the line ([`Format::render`]) into a buffer; the sink's thread writes it.
//!
//! Directives mean what Apache httpd 2.4 means by them (mod_log_config, mod_logio), byte for byte, its escaping
//! included: whatever a client sends, it cannot end a line, close a quoted field or reach a terminal.
#![forbid(unsafe_code)]

mod sink;
mod compile;
mod preset;
mod parse;
mod format;
mod directive;
mod error;
mod kept;
mod needs;
mod field;
mod time;
mod zone;
mod style;
mod escape;
mod record;
mod compat;

pub use compat::Compat;
pub use compile::compile;
pub use error::FormatError;
pub use format::Format;
pub use kept::Kept;
pub use needs::{Needs, Source};
pub use preset::{PRESETS, SLOW};
pub use record::{ConnectionState, NoValues, Record, Values};
pub use sink::{
    Condition, Counts, Options, Pending, Sink, Starter, Target, Writer, append_to, misleads, open_to_write,
    with_way_in, write_lines,
};
pub use zone::local_zone;
