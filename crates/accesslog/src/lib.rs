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

mod compile;
mod directive;
mod error;
mod escape;
mod field;
mod format;
mod kept;
mod needs;
mod preset;
mod record;
mod sink;
mod style;
mod time;
mod zone;

pub use compile::compile;
pub use error::FormatError;
pub use format::Format;
pub use kept::Kept;
pub use needs::{Needs, Source};
pub use preset::{PRESETS, SLOW};
pub use record::{ConnectionState, NoValues, Record, Values};
pub use sink::{Counts, Options, Sink, Starter, Target, Writer};

/// Whose meaning a directive has where Apache httpd and Apache::LogFormat::Compiler (which Plack's AccessLog uses)
/// differ.
///
/// With `Plack`: `%t` is the time of the end, `%{fmt}t` stands in brackets, `%U` is PATH_INFO, `%b` prints 0 for an
/// empty body, `%V` has the port that Host has, `%q` drops a lone `?`, an empty header is `-`, `%{X}o` is whole
/// (Apache drops the parameters of Content-Type) and is one field even for Set-Cookie. What that module refuses has Apache's meaning, and escaping is always Apache's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Apache httpd 2.4.
    #[default]
    Apache,
    /// Apache::LogFormat::Compiler 0.36.
    Plack,
}
