//! What a client may ask for and how long it may take: the front enforces all of these.

use std::path::PathBuf;

use clap::Args;

use super::values::{Size, Time, whole};

/// Bounds on connections, requests and responses. A time of 0 switches that limit off.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Requests and connections")]
pub(crate) struct Limits {
    /// Time for a request's head to arrive
    ///
    /// It runs from the connection, or from the first byte of a further request on it, and ends in 408; 0 for any time.
    /// Also --read-timeout.
    #[arg(long, value_name = "TIME", default_value = "60s", alias = "read-timeout")]
    pub(crate) header_timeout: Time,

    /// Time that a kept connection may be idle
    ///
    /// 0 closes each connection after its response, as --disable-keepalive does.
    #[arg(long, value_name = "TIME", default_value = "75s")]
    pub(crate) keepalive_timeout: Time,

    /// Connections from clients at once [default: what the limit of open files allows]
    ///
    /// When there are as many, those that are idle make room for new ones, the longest idle first; when none is idle,
    /// new ones wait until one ends. Connections of all listeners count, whatever they do, but for those to
    /// --status-listen. Each needs a descriptor (ulimit -n); some are kept for the server itself, and an eighth of the
    /// rest, at most 1024, for files.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole::<u32>(1..=u64::from(u32::MAX)))]
    pub(crate) max_connections: Option<u32>,

    /// Requests that a connection may bring; 0 for any
    ///
    /// Also --max-keepalive-reqs, --max-connection-reqs.
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "0", aliases = ["max-keepalive-reqs", "max-connection-reqs"],
          value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) keepalive_requests: u64,

    /// Close each connection after one response
    #[arg(long)]
    pub(crate) disable_keepalive: bool,

    /// Bytes per second that a body must bring
    ///
    /// Measured once a request body has had a minute, since who shares a thin line may have nothing of it for long. What comes faster counts
    /// for a minute at most: a body that stops has no longer. 0 for any rate, and any pause.
    #[arg(long, value_name = "SIZE", default_value = "256")]
    pub(crate) min_body_rate: Size,

    /// Time that a client may leave a response unread
    ///
    /// After it the connection is cut off; 0 for any time.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) write_timeout: Time,

    /// Bytes per second that a client must take of a response
    ///
    /// Measured once there has been something to take for a minute, by what has arrived; 0 for any rate. What
    /// a client takes faster counts for a minute at most, or for --write-timeout if that is longer. One that is slower is cut off.
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "256")]
    pub(crate) min_send_rate: Size,

    /// Time until the response of a worker begins; 0 for any
    ///
    /// Then the client gets 504, the error log the request and the place in the Perl code where the worker was
    /// stuck, and the worker is replaced. It runs from the moment when the worker takes the request, and no longer when
    /// the application has taken the connection (psgix.io). What runs after a response (psgix.cleanup) has as long again. More than two seconds in which the server itself is held up, as by
    /// `docker pause`, count as one.
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(crate) request_timeout: Time,

    /// Interrupt workers whose client has left
    ///
    /// A worker that is not writing does not notice that its client leaves. With this option the front tells it, and its
    /// application dies with a Howdah::ClientGone wherever it is, which it may catch; requests that wait for a worker are
    /// dropped. A client that only ends its side, as few do, is taken for gone, too.
    #[arg(long, hide_short_help = true)]
    pub(crate) abort_on_disconnect: bool,

    /// Largest request body; more gets 413
    ///
    /// 0 refuses every body. Also --max-body-len.
    #[arg(long, value_name = "SIZE", default_value = "1g", alias = "max-body-len")]
    pub(crate) max_body_size: Size,

    /// Longest request line; more gets 414
    ///
    /// Method, target and version together, from 64 bytes to 64k. All of a request's head, this line among it, may have
    /// 64 KiB; more gets 431. Also --limit-request-line.
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "8k", alias = "limit-request-line",
          value_parser = request_line)]
    pub(crate) max_request_line: Size,

    /// Response bytes held for a slow client
    ///
    /// Per response, in memory, and 64 times that for all together; what is more goes to --response-spool. A worker is
    /// free once its response is held.
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "1m")]
    pub(crate) response_buffer: Size,

    /// Response bytes in files for slow clients
    ///
    /// All responses together, in unlinked files in --spool-dir; 0 for none. Beyond this bound, and while the disk is
    /// full, workers wait for their clients.
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "1g")]
    pub(crate) response_spool: Size,

    /// Directory for large bodies [default: TMPDIR or /tmp]
    ///
    /// Request bodies over 1 MiB become unlinked temporary files there, those over 64 KiB while many come at once, and
    /// responses to slow clients.
    #[arg(long, value_name = "DIR")]
    pub(crate) spool_dir: Option<PathBuf>,

    /// Leave out the Server header
    #[arg(long)]
    pub(crate) no_server_header: bool,
}

/// A shorter line has no room for a target, a longer one none in the head.
fn request_line(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if (64..=64 << 10).contains(&size.0) { Ok(size) } else { Err("not a size from 64 to 64k".to_owned()) }
}
