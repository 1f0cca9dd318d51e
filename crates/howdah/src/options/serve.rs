//! The options of the server itself, each group in a file of its own.

use clap::Args;

use super::instance::Instance;
use super::{app, cgi, compat, http2, limits, listen, logs, process, proxies, status, tls, workers};

/// The options of `howdah serve` (and of `howdah check`), by group.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) app: app::App,
    #[command(flatten)]
    pub(crate) cgi: cgi::Cgi,
    #[command(flatten)]
    pub(crate) listen: listen::Listen,
    #[command(flatten)]
    pub(crate) tls: tls::Tls,
    #[command(flatten)]
    pub(crate) http2: http2::Http2,
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
        match self.app() {
            Some("plackup") if self.process.zygote_fd.is_some() => "plackup's application",
            Some("-e") => "the code of -e",
            Some(name) => name,
            None if self.app.eval.is_some() => "the code of -e",
            None if !self.cgi.cgi.is_empty() => "CGI scripts",
            None => match &self.app.mount[..] {
                [only] => &only.app,
                _ => "applications",
            },
        }
    }

    /// Whether a reload cannot load the application anew: plackup has loaded it, unless it left that to the workers.
    pub(crate) fn loaded_by_plackup(&self) -> bool {
        self.process.zygote_fd.is_some() && !self.app.no_preload
    }

    /// The application that is named, or the one that plackup looks for where nothing else is to be served.
    pub(crate) fn app(&self) -> Option<&str> {
        let has_place = self.app.path.is_some() || self.app.mount.iter().all(|mount| mount.path != "/");
        let alone = self.cgi.cgi.is_empty() && has_place || self.process.zygote_fd.is_some();
        self.app.named().or_else(|| (alone && self.app.eval.is_none()).then_some("app.psgi"))
    }
}
