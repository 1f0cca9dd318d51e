//! Proxies in front of Howdah, and how far they are believed.

use clap::{Args, ValueEnum};
use howdah_proxied::{Family, Peer};

use super::listener::Named;

/// Proxies.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Behind proxies")]
pub(crate) struct Proxies {
    /// Proxies whose word of their clients counts (repeatable)
    ///
    /// Addresses, networks such as 10.0.0.0/8, and `unix` for whoever comes over a Unix socket, joined by commas. Of a request
    /// of theirs REMOTE_ADDR, the scheme, the port and the host are those that the fields of --proxy-fields tell:
    /// X-Forwarded-For is read from its end, past those who are trusted as well, to the first who is not. Without trust
    /// such fields change nothing.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) trusted_proxy: Vec<Peer>,

    /// Have connections begin with a PROXY header, version 1 or 2
    ///
    /// By which a proxy that does not speak HTTP (a load balancer, HAProxy, nginx's stream) says who its client is. On every
    /// listener for requests; on one alone by --listen ADDR,proxy-protocol. It is taken from those that --trusted-proxy
    /// names; connections from others, and without a header, are closed.
    #[arg(long)]
    pub(crate) proxy_protocol: bool,

    /// Which fields the trusted proxies write
    ///
    /// x-forwarded: X-Forwarded-For, -Proto, -Host and -Port; forwarded: Forwarded (RFC 7239). The others are passed on as
    /// the client has sent them, and tell nothing.
    #[arg(long, hide_short_help = true, value_name = "FIELDS", default_value = "x-forwarded")]
    proxy_fields: Fields,
}

/// As the command line has it.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Fields {
    XForwarded,
    Forwarded,
}

impl Proxies {
    /// What does not go together, and the way out.
    pub(super) fn fault<'a>(
        &self,
        listeners: &[Named],
        mut pages: impl Iterator<Item = &'a Named>,
    ) -> Option<String> {
        if let Some(named) = pages.find(|named| named.proxy_protocol) {
            return Some(format!(
                "--status-listen {named} is for those who come without a proxy: leave proxy-protocol out"
            ));
        }
        let named = listeners.iter().find(|named| named.proxy_protocol);
        let option = named.map(|named| format!("--listen {named}"));
        let option = option.or_else(|| self.proxy_protocol.then(|| "--proxy-protocol".to_owned()))?;
        self.trusted_proxy.is_empty().then(|| {
            format!("{option} takes the word of proxies that are trusted, and none is: name them by --trusted-proxy")
        })
    }

    /// Which fields are read.
    pub(crate) fn family(&self) -> Family {
        match self.proxy_fields {
            Fields::XForwarded => Family::XForwarded,
            Fields::Forwarded => Family::Forwarded,
        }
    }
}
