//! What commands print on standard output.

use std::io::{self, Write};

use howdah_metrics::printable;

/// Writes it at once. A reader that has seen enough (`howdah status | head`) is no failure.
pub(crate) fn write(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// The same lines for a terminal. What a server or an application says may come from anybody, so that nothing of it goes
/// there but text.
pub(crate) fn for_people(text: &str) -> String {
    text.lines().map(|line| printable(line.as_bytes()) + "\n").collect()
}
