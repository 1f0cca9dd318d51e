//! Looks at a running server by its control socket.

use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use howdah_metrics::Snapshot;

use super::connection::{ask_within, connect, process};
use super::find::reach;
use super::numbers::Numbers;
use crate::options::instance::Instance;
use crate::protocol::{ControlAnswer, ControlRequest};

/// Time for a snapshot, which needs nobody.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the server of `instance` answers.
///
/// # Errors
/// When none does, with the way out.
pub(crate) fn find_server(instance: &Instance) -> anyhow::Result<PathBuf> {
    reach(instance).map(|(path, _)| path)
}

/// What the server at `path` shows of itself now.
pub(crate) fn look(path: &Path) -> anyhow::Result<Snapshot> {
    ask_for_all(&mut connect(path)?, path)
}

fn ask_for_all(server: &mut BufReader<UnixStream>, path: &Path) -> anyhow::Result<Snapshot> {
    match ask_within(PATIENCE, server, path, &ControlRequest::Snapshot)? {
        ControlAnswer::Status(snapshot) | ControlAnswer::Snapshot(snapshot) => Ok(*snapshot),
        ControlAnswer::Failed(reason) => bail!("{reason}"),
        _ => bail!("the server is of another version than this program"),
    }
}

/// The same for those who look into its processes: with the numbers that these have here, also when the server is in a container.
///
/// # Errors
/// As [`look`], and when a container hides them.
pub(crate) fn look_from_here(path: &Path) -> anyhow::Result<Snapshot> {
    let mut server = connect(path)?;
    let mut snapshot = ask_for_all(&mut server, path)?;
    let maker = process(server.get_ref()).and_then(|process| u32::try_from(process).ok());
    if let Some(numbers) = maker.and_then(Numbers::around) {
        numbers.translate(&mut snapshot);
        if snapshot.server.pid == 0 {
            bail!(
                "the server at {} is in a container that hides its processes: run this command in there",
                path.display()
            );
        }
    }
    Ok(snapshot)
}
