//! What the server shows of itself by HTTP, where, and to whom: the front answers these pages, `status` makes them.

use std::net::IpAddr;

use clap::Args;
use howdah_front::{Address, LocalPage};
use ipnet::IpNet;

use super::listen::address;

/// Pages about the server itself.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Status and metrics")]
pub(crate) struct Status {
    /// Path of the status page
    ///
    /// The server answers it itself, also while every worker is busy. ?auto, ?json and ?json=lite give it to programs.
    #[arg(long, value_name = "PATH", default_value = "/server-status", value_parser = path)]
    status_path: String,

    /// Have no status page
    #[arg(long, hide_short_help = true)]
    no_status: bool,

    /// Addresses that may see status and metrics (repeatable)
    ///
    /// Addresses or networks such as 10.0.0.0/8, joined by commas. Others get 403. So does a request that a proxy on this
    /// machine passes on; it is known by its X-Forwarded-For, Forwarded or X-Real-IP.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', default_value = "127.0.0.0/8,::1", value_parser = network)]
    pub(crate) status_allow: Vec<IpNet>,

    /// Address for these pages alone (repeatable)
    ///
    /// As --listen. Whoever can reach it may see them, and nothing else. It answers as soon as the server starts, while
    /// the application is still being loaded.
    #[arg(long, hide_short_help = true, value_name = "ADDR", value_delimiter = ',', value_parser = address)]
    pub(crate) status_listen: Vec<Address>,

    /// Path of the metrics, for Prometheus
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
    /// Each page that there is, with its path.
    pub(crate) fn pages(&self) -> Vec<(String, LocalPage)> {
        let status = (!self.no_status).then_some(&self.status_path);
        let all = [
            (status, LocalPage::Status),
            (self.metrics_path.as_ref(), LocalPage::Metrics),
            (self.health_path.as_ref(), LocalPage::Health),
            (self.ready_path.as_ref(), LocalPage::Ready),
        ];
        all.into_iter().filter_map(|(path, page)| Some((path?.clone(), page))).collect()
    }

    /// What does not go together, and the way out.
    pub(super) fn fault(&self, listeners: &[Address]) -> Option<String> {
        let pages = self.pages();
        let twice = pages.iter().enumerate().find(|(at, page)| pages[..*at].iter().any(|it| it.0 == page.0));
        if let Some((_, (path, _))) = twice {
            return Some(format!("two pages have the path {path}: give each its own, or switch one off"));
        }
        if pages.is_empty() && !self.status_listen.is_empty() {
            return Some(
                "--status-listen has no page to show: leave out --no-status, or add --metrics-path"
                    .to_owned(),
            );
        }
        let shared = self.status_listen.iter().find(|address| listeners.contains(address))?;
        Some(format!("--status-listen {shared} is the application's address too: give it one of its own"))
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

/// A single address is a network of one.
fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| address())
        .map_err(|_| "not an address or a network: write 10.1.2.3, 10.0.0.0/8 or 2001:db8::/32".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_addresses_or_have_a_length() {
        for (text, network) in [
            ("10.1.2.3", "10.1.2.3/32"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("::1", "::1/128"),
            ("2001:db8::/32", "2001:db8::/32"),
        ] {
            assert_eq!(super::network(text).map(|net| net.to_string()), Ok(network.to_owned()), "{text}");
        }
        for text in ["", "localhost", "10.0.0.0/33", "10.0.0", "::1/200"] {
            assert!(network(text).is_err(), "{text}");
        }
    }

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
