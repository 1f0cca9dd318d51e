//! Looks at the server beside the terminal: one that is stopped or hangs answers late, and no key waits for that.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use howdah_metrics::Snapshot;

use crate::control::look::look;
use crate::shortage::start_thread;

/// For how long keys wait for a look. A server that is well has answered by then.
const GLANCE: Duration = Duration::from_millis(100);

/// What the server shows, or why it shows nothing.
type Seen = Result<Snapshot, String>;

/// See the module.
#[derive(Debug)]
pub(super) struct Looker {
    path: PathBuf,
    /// The look that is under way.
    begun: Option<Receiver<Seen>>,
}

impl Looker {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, begun: None }
    }

    /// What has been seen; none as long as the server does not answer. Asked again, it goes on with the same look.
    pub(super) fn look(&mut self) -> Option<Seen> {
        let begun = match self.begun.take().map_or_else(|| begin(self.path.clone()), Ok) {
            Ok(begun) => begun,
            Err(error) => return Some(Err(error)),
        };
        match begun.recv_timeout(GLANCE) {
            Ok(seen) => Some(seen),
            Err(RecvTimeoutError::Timeout) => {
                self.begun = Some(begun);
                None
            }
            Err(RecvTimeoutError::Disconnected) => Some(Err("the server could not be looked at".to_owned())),
        }
    }
}

fn begin(path: PathBuf) -> Result<Receiver<Seen>, String> {
    let (tell, told) = channel();
    let looks = start_thread(move || {
        // Nobody listens any more where the command is over.
        let _ = tell.send(look(&path).map_err(|error| format!("{error:#}")));
    });
    looks.map(|()| told).map_err(|error| format!("{error:#}"))
}
