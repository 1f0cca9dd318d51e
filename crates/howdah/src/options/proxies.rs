//! Proxies in front of Howdah, and how far they are believed.

use clap::{Args, ValueEnum};
use howdah_proxied::{Family, Peer};

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
    /// Which fields are read.
    pub(crate) fn family(&self) -> Family {
        match self.proxy_fields {
            Fields::XForwarded => Family::XForwarded,
            Fields::Forwarded => Family::Forwarded,
        }
    }
}
