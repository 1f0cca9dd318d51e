//! What the server shows of itself by HTTP, where, and to whom: the front answers these pages, `status` makes them.

use clap::Args;
use howdah_front::{OwnPage, PagePath};
use howdah_proxied::Peer;

use super::listener::{Named, Several, several};

/// Where pages are on an address of their own, when nobody says otherwise: where Apache has its status, and where
/// Prometheus asks.
const STATUS_PATH: &str = "/server-status";
const METRICS_PATH: &str = "/metrics";

/// Pages about the server itself.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Status and metrics")]
pub(crate) struct Status {
    /// Path of the status page; none unless given
    ///
    /// The server answers it itself, also while every worker is busy, to clients on this machine (see --status-allow).
    /// ?auto, ?json and ?json=lite give it to programs. It is on the application's addresses, and on those of
    /// --status-listen, where it is /server-status unless this says otherwise. A proxy on this machine that does not
    /// tell of itself shows it to the world: deny the path there. `howdah status` and `howdah top` do not need it.
    #[arg(long, value_name = "PATH", value_parser = path)]
    status_path: Option<String>,

    /// Have no status page, on --status-listen either
    #[arg(long, hide_short_help = true)]
    no_status: bool,

    /// Clients that may see status and metrics (repeatable)
    ///
    /// Addresses, networks such as 10.0.0.0/8, and `unix` for those who come over a Unix socket, joined by commas. Others
    /// get 403. So does a request that a proxy without trust (--trusted-proxy) has passed on, as Via, Forwarded, X-Forwarded-* or X-Real-IP tell, that a
    /// page of another site asks for, or that comes from this machine and asks for another than localhost.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', default_value = "127.0.0.0/8,::1")]
    pub(crate) status_allow: Vec<Peer>,

    /// Address for these pages alone (repeatable)
    ///
    /// As --listen. Whoever can reach it may see them, and nothing else: /server-status and /metrics, which the
    /// application's addresses need not have. It answers as soon as the server starts, while the application is still
    /// being loaded.
    #[arg(long, hide_short_help = true, value_name = "ADDR", value_parser = several)]
    status_listen: Vec<Several>,

    /// Path of the metrics, for Prometheus; none unless given
    ///
    /// Shown as the status page is, and on --status-listen at /metrics unless this says otherwise.
    #[arg(long, value_name = "PATH", value_parser = path)]
    metrics_path: Option<String>,

    /// Path that tells whether the server lives: 200 or 503
    ///
    /// For everybody, as --ready-path.
    #[arg(long, hide_short_help = true, value_name = "PATH", value_parser = path)]
    health_path: Option<String>,

    /// Path that tells whether requests are welcome: 200 or 503
    ///
    /// 503 while the server starts or stops, and while no worker is ready.
    #[arg(long, hide_short_help = true, value_name = "PATH", value_parser = path)]
    ready_path: Option<String>,
}

impl Status {
    /// Listeners for these pages alone.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Named> {
        self.status_listen.iter().flat_map(|several| &several.0)
    }

    /// Each page that there is, and where.
    pub(crate) fn pages(&self) -> Vec<PagePath> {
        let apart = |path| Some(path).filter(|_| !self.status_listen.is_empty());
        let status = apart(STATUS_PATH).filter(|_| !self.no_status);
        let all = [
            (self.status_path.as_deref().filter(|_| !self.no_status), status, OwnPage::Status),
            (self.metrics_path.as_deref(), apart(METRICS_PATH), OwnPage::Metrics),
            (self.health_path.as_deref(), None, OwnPage::Health),
            (self.ready_path.as_deref(), None, OwnPage::Ready),
        ];
        let place = |(named, apart, page): (Option<&str>, Option<&str>, OwnPage)| {
            Some(PagePath { path: named.or(apart)?.to_owned(), page, only_apart: named.is_none() })
        };
        all.into_iter().filter_map(place).collect()
    }

    /// What does not go together, and the way out.
    pub(super) fn fault(&self, others: &[Named]) -> Option<String> {
        let pages = self.pages();
        let twice =
            pages.iter().enumerate().find(|(at, page)| pages[..*at].iter().any(|it| it.path == page.path));
        if let Some((_, PagePath { path, .. })) = twice {
            return Some(format!("two pages have the path {path}: give each its own, or switch one off"));
        }
        let shared = self.listeners().find(|it| others.iter().any(|other| other.address == it.address))?;
        Some(format!(
            "--status-listen {} is the application's address too: give it one of its own",
            shared.address
        ))
    }
}

/// A path as it stands in a request.
fn path(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
    if !text.starts_with('/') || !text.bytes().all(fits) {
        return Err("not a path: write it as in a URL, from its first /".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_requests() {
        for text in ["/server-status", "/", "/-/metrics", "/a%20b"] {
            assert!(path(text).is_ok(), "{text}");
        }
        for text in ["", "status", "/a b", "/a?b", "/a#b", "/é", "/a\n"] {
            assert!(path(text).is_err(), "{text:?}");
        }
    }
}
