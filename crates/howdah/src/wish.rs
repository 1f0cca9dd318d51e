//! What somebody wants of the running server, by a signal or over the control socket. `serve` heeds it.

use rustix::process::Signal;
use tokio::sync::oneshot;

/// Takes what became of a wish.
pub(crate) type Reply = oneshot::Sender<Result<String, String>>;

/// What only the main loop can do. A signal has nobody who waits for a reply.
#[derive(Debug)]
pub(crate) enum Wish {
    /// TERM, QUIT: stop gracefully.
    Stop,
    /// INT: stop at once.
    StopNow,
    /// HUP: load the application anew.
    Reload,
    /// USR1: open the log files anew.
    Reopen(Option<Reply>),
    /// USR2: replace the program by the one at its path now. The reply comes when that serves, or could not.
    Upgrade(Option<Reply>),
    /// TTIN: one worker more.
    MoreWorkers,
    /// TTOU: one worker less.
    FewerWorkers,
}

impl Wish {
    /// The signal that says it to another process of ours.
    pub(crate) fn signal(&self) -> Signal {
        match self {
            Self::Stop => Signal::TERM,
            Self::StopNow => Signal::INT,
            Self::Reload => Signal::HUP,
            Self::Reopen(_) => Signal::USR1,
            Self::Upgrade(_) => Signal::USR2,
            Self::MoreWorkers => Signal::TTIN,
            Self::FewerWorkers => Signal::TTOU,
        }
    }

    /// Whether the server is to end.
    pub(crate) fn ends(&self) -> bool {
        matches!(self, Self::Stop | Self::StopNow)
    }
}
