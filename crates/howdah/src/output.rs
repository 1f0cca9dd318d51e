//! What commands print on standard output.

use std::io::{self, Write};

use anyhow::Context;
use howdah_metrics::printable;

/// What could not be done, when a disk is full for instance.
pub(crate) const WHERE: &str = "cannot write to standard output";

/// Writes it at once. A reader that has seen enough (`howdah status | head`) is no failure.
///
/// # Errors
/// When it cannot be written, which is told of standard output.
pub(crate) fn write(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context(WHERE),
        _ => Ok(()),
    }
}

/// The same lines for a terminal. What a server or an application says may come from anybody, so that nothing of it goes
/// there but text.
pub(crate) fn for_people(text: &str) -> String {
    text.lines().map(|line| printable(line.as_bytes()) + "\n").collect()
}
