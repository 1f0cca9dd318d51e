//! The options of the server itself, each group in a file of its own.

use clap::Args;

use super::instance::Instance;
use super::{app, compat, limits, listen, logs, process, proxies, status, workers};

/// The options of `howdah serve` (and of `howdah check`), by group.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) app: app::App,
    #[command(flatten)]
    pub(crate) listen: listen::Listen,
    #[command(flatten)]
    pub(crate) workers: workers::Workers,
    #[command(flatten)]
    pub(crate) limits: limits::Limits,
    #[command(flatten)]
    pub(crate) logs: logs::Logs,
    #[command(flatten)]
    pub(crate) status: status::Status,
    #[command(flatten)]
    pub(crate) proxies: proxies::Proxies,
    #[command(flatten)]
    pub(crate) process: process::Process,
    #[command(flatten)]
    pub(crate) instance: Instance,
    #[command(flatten)]
    compat: compat::Compat,
}

impl Serve {
    /// The application, as messages call it.
    pub(crate) fn application(&self) -> &str {
        match self.app.name() {
            _ if self.process.zygote_fd.is_some() => "plackup's application",
            Some(name) => name,
            None => "the code of -e",
        }
    }
}
