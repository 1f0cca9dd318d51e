//! The directory of a path, and whether something could be made there, without making it, or be looked for.

use std::io::ErrorKind;
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
    // With a slash behind it, since other files may be written and executed, too.
    match access(directory.join(""), Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => None,
        Err(Errno::NOENT) if directory.starts_with(MADE_LATER) => None,
        Err(error) => Some(format!("directory {}: {error}", directory.display())),
    }
}

/// Why it cannot be known whether something is there; none where it is, or is known to be not.
pub(crate) fn unseen(path: &Path) -> Option<String> {
    let error = path.metadata().err().filter(|error| error.kind() != ErrorKind::NotFound)?;
    let way_out = match error.kind() {
        ErrorKind::PermissionDenied => {
            "; let the user that starts the server search the directories that lead there"
        }
        _ => "",
    };
    Some(format!("cannot be looked for: {error}{way_out}"))
}
