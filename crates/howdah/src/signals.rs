//! What signals mean. `serve` waits here.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What somebody wants by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// TERM, QUIT: stop gracefully.
    Stop,
    /// INT: stop at once.
    StopNow,
    /// HUP: load the application anew.
    Reload,
    /// USR1: open the log files anew.
    Reopen,
    /// USR2: replace the program by the one at its path now.
    Upgrade,
    /// TTIN: one worker more.
    MoreWorkers,
    /// TTOU: one worker less.
    FewerWorkers,
}

impl Wish {
    /// Gracefully, or at once.
    pub(crate) fn stop(now: bool) -> Self {
        if now { Self::StopNow } else { Self::Stop }
    }

    /// The signal that says it to another process of ours.
    pub(crate) fn signal(self) -> Number {
        match self {
            Self::Stop => Number::TERM,
            Self::StopNow => Number::INT,
            Self::Reload => Number::HUP,
            Self::Reopen => Number::USR1,
            Self::Upgrade => Number::USR2,
            Self::MoreWorkers => Number::TTIN,
            Self::FewerWorkers => Number::TTOU,
        }
    }
}

/// The signals that we take.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    hangup: Signal,
    reopen: Signal,
    user2: Signal,
    more: Signal,
    fewer: Signal,
}

/// Nobody's signal ends this process by the system's default from here on: what comes before there are [`Signals`] waits
/// for them. Starts no thread.
pub(crate) fn catch() -> io::Result<()> {
    let installing = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    installing.block_on(async { Signals::new() }).map(drop)
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            more: signal(SignalKind::from_raw(Number::TTIN.as_raw()))?,
            fewer: signal(SignalKind::from_raw(Number::TTOU.as_raw()))?,
        })
    }

    /// The next wish.
    pub(crate) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.terminate.recv() => Wish::Stop,
            _ = self.quit.recv() => Wish::Stop,
            _ = self.interrupt.recv() => Wish::StopNow,
            _ = self.hangup.recv() => Wish::Reload,
            _ = self.reopen.recv() => Wish::Reopen,
            _ = self.user2.recv() => Wish::Upgrade,
            _ = self.more.recv() => Wish::MoreWorkers,
            _ = self.fewer.recv() => Wish::FewerWorkers,
        }
    }

    /// Waits until the server is to stop: others than that cannot be heeded while it starts.
    pub(crate) async fn stop(&mut self) {
        while !matches!(self.next().await, Wish::Stop | Wish::StopNow) {}
    }
}
