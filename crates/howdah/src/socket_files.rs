//! The files of the sockets by which this server is found. Who removes one, as cleaners of /tmp do, cuts the server off, and neither
//! of them would notice; so the server looks after them, and tells.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::endpoints::Endpoints;

/// How often they are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct SocketFiles {
    files: Vec<SocketFile>,
    next: Interval,
}

#[derive(Clone, Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode; none when it was not there to begin with.
    identity: Option<(u64, u64)>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    There,
    Gone,
    /// Somebody else's is in its place.
    Replaced,
}

impl SocketFiles {
    /// Those that are there now.
    pub(crate) fn of(endpoints: &Endpoints) -> Self {
        let file = |path: PathBuf| SocketFile { identity: identity(&path), path, state: State::There };
        let mut next = interval(LOOK);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { files: endpoints.files().map(file).collect(), next }
    }

    /// Tells of those that are lost, and of those that are back, for ever.
    pub(crate) async fn look_after(&mut self) {
        loop {
            self.next.tick().await;
            let files = self.files.clone();
            // A file system may hang.
            let looked =
                tokio::task::spawn_blocking(move || files.iter().map(SocketFile::look).collect::<Vec<_>>());
            for (file, state) in self.files.iter_mut().zip(looked.await.unwrap_or_default()) {
                file.become_of(state);
            }
        }
    }
}

impl SocketFile {
    fn look(&self) -> State {
        match identity(&self.path) {
            None => State::Gone,
            found if found == self.identity => State::There,
            Some(_) => State::Replaced,
        }
    }

    fn become_of(&mut self, state: State) {
        if std::mem::replace(&mut self.state, state) == state {
            return;
        }
        let (path, pid) = (self.path.display(), std::process::id());
        match state {
            State::There => tracing::info!("the socket {path} is there again"),
            State::Gone => tracing::error!(
                "somebody has removed the socket {path}, so nobody finds this server there: an upgrade makes it anew (kill -USR2 {pid})"
            ),
            State::Replaced => tracing::error!(
                "the socket {path} is another server's now: stop that one, or start this one elsewhere (process {pid})"
            ),
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_gone_or_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.sock");
        std::fs::write(&path, "").unwrap();
        let file = SocketFile { identity: identity(&path), path: path.clone(), state: State::There };
        assert_eq!(file.look(), State::There);
        std::fs::rename(&path, dir.path().join("away")).unwrap();
        assert_eq!(file.look(), State::Gone);
        std::fs::write(&path, "").unwrap();
        assert_eq!(file.look(), State::Replaced);
        std::fs::rename(dir.path().join("away"), &path).unwrap();
        assert_eq!(file.look(), State::There);
    }
}
