//! HTTP/2: whether it is spoken, and what a connection of it may have.

use clap::{ArgAction, Args};

use super::values::{Size, on_off, whole};

/// The smallest window that clients know (RFC 9113 6.5.2), and one that is no window any more.
const WINDOWS: std::ops::RangeInclusive<u64> = 65_535..=64 << 20;

/// HTTP/2.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "HTTP/2")]
pub(crate) struct Http2 {
    /// Speak HTTP/2: on or off
    ///
    /// Over TLS with clients that ask for it by ALPN, as browsers do; without TLS with those that begin with its preface
    /// (h2c by prior knowledge), as proxies can. Applications see the same requests, with SERVER_PROTOCOL HTTP/2.
    #[arg(long, value_name = "ON|OFF", default_value = "on", action = ArgAction::Set, value_parser = on_off(),
          ignore_case = true, hide_possible_values = true)]
    pub(crate) http2: bool,

    /// Requests at a time on a connection of HTTP/2
    ///
    /// Also --max-h2-concurrent-streams.
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "128", alias = "max-h2-concurrent-streams",
          value_parser = whole::<u32>(1..=1 << 16))]
    pub(crate) http2_streams: u32,

    /// Bytes of a body that a client of HTTP/2 may send ahead
    ///
    /// Of each request, until they are stored, from 64k to 64m; four times that for all requests of a connection, and as much
    /// again for each WebSocket that an application has. More lets uploads over long ways go faster.
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "1m", value_parser = window)]
    pub(crate) http2_window: Size,
}

fn window(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if WINDOWS.contains(&size.0) { Ok(size) } else { Err("not a size from 64k to 64m".to_owned()) }
}
