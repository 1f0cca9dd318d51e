//! Looks at a running server by its control socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use howdah_metrics::Snapshot;

use super::connection::{ask_within, connect};
use super::find::reach;
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
    let mut server = connect(path)?;
    match ask_within(PATIENCE, &mut server, path, &ControlRequest::Snapshot)? {
        ControlAnswer::Status(snapshot) | ControlAnswer::Snapshot(snapshot) => Ok(*snapshot),
        ControlAnswer::Failed(reason) => bail!("{reason}"),
        _ => bail!("the server is of another version than this program"),
    }
}
