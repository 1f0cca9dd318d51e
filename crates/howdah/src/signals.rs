//! What signals mean.

use std::io;

use howdah_sys::watch::unwatched;
use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::shortage::try_sockets;
use crate::wish::Wish;

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
    try_sockets()?;
    let installing = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let taken = installing.and_then(|installing| installing.block_on(async { Signals::new() }));
    taken.map(drop).map_err(unwatched)
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
            _ = self.reopen.recv() => Wish::Reopen(None),
            _ = self.user2.recv() => Wish::Upgrade(None),
            _ = self.more.recv() => Wish::MoreWorkers,
            _ = self.fewer.recv() => Wish::FewerWorkers,
        }
    }
}
