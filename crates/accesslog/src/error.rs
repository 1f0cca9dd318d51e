//! What is wrong with a format, where, and what to write instead.

use thiserror::Error;

/// A format string that is refused at start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("access log format, column {column}: {what}")]
pub struct FormatError {
    /// Where the directive begins, counted in characters from 1.
    pub column: usize,
    /// What is wrong, and the way out.
    pub what: String,
}
