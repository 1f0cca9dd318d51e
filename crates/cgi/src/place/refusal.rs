//! Why there is no script for a path.

use std::io::{self, ErrorKind};
use std::path::Path;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 403, 404, or 503 where the system has no room.
    pub status: u16,
    /// For the log: the thing and what is wrong with it.
    pub reason: String,
}

impl Refusal {
    pub(super) fn missing(reason: impl Into<String>) -> Self {
        Self { status: 404, reason: reason.into() }
    }

    pub(super) fn forbidden(reason: impl Into<String>) -> Self {
        Self { status: 403, reason: reason.into() }
    }

    /// What the kernel says of a file.
    pub(super) fn of(error: &io::Error, file: &Path) -> Self {
        let status = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => 404,
            ErrorKind::PermissionDenied => 403,
            _ => 503,
        };
        Self { status, reason: format!("{}: {error}", file.display()) }
    }
}
