//! The directory of a path, and whether something could be made there, without making it.

use std::path::Path;

use rustix::fs::{Access, access};
use rustix::io::Errno;

/// What service managers make when they start a service (RuntimeDirectory=, tmpfiles.d).
const MADE_LATER: &str = "/run";

/// The directory of a path.
pub(crate) fn of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(".".as_ref())
}

/// Why nothing could be made there. One that is missing below /run is no fault: it may come with the service.
pub(crate) fn closed(directory: &Path) -> Option<String> {
    match access(directory, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => None,
        Err(Errno::NOENT) if directory.starts_with(MADE_LATER) => None,
        Err(error) => Some(format!("directory {}: {error}", directory.display())),
    }
}
