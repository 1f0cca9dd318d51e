//! What an operator can set about the front. The binary fills it from the command line, where each default is told.

use std::path::PathBuf;
use std::time::Duration;

use howdah_http1::Limits;
use howdah_proxied::{Family, Trust};

/// Where a least rate is asked for, it counts from so many nanoseconds on from the first wait: of many that share a thin line one may have nothing
/// of it for long, whichever way its bytes go.
pub(crate) const GRACE: u64 = 60_000_000_000;

/// Settings of the front; the same for all its threads. A time of zero means no limit.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bounds on a request.
    pub limits: Limits,
    /// From a connection's (or a request's) first byte to the end of its head; then 408.
    pub header_timeout: Duration,
    /// For the handshake of TLS.
    pub tls_handshake_timeout: Duration,
    /// TLS handshakes under way at once, on each thread.
    pub tls_handshakes: usize,
    /// Seconds in Strict-Transport-Security, which responses over TLS get; none for no such field.
    pub hsts: Option<u64>,
    /// HTTP/2, over TLS as clients ask for it and without TLS by prior knowledge.
    pub http2: bool,
    /// Streams that a connection of HTTP/2 may have at a time.
    pub http2_streams: u32,
    /// Bytes of a request body that a client may send on a stream of HTTP/2 before we have stored them.
    pub http2_window: u32,
    /// How long an idle connection is kept for another request.
    pub keepalive_timeout: Duration,
    /// Persistent connections at all.
    pub keepalive: bool,
    /// Requests on one connection; 0 for no bound.
    pub keepalive_requests: u64,
    /// Bytes per second below which a request body is too slow, after a grace of a minute; 0 for no bound. Then 408.
    pub min_body_rate: u64,
    /// How long nothing of a response may arrive at its client before the connection is cut.
    pub write_timeout: Duration,
    /// Bytes per second below which a client takes a response too slowly, after a grace of a minute; 0 for no bound.
    pub min_send_rate: u64,
    /// Take a client that ends its side for gone, and interrupt the worker that runs its request.
    pub abort_on_disconnect: bool,
    /// Send the Server field.
    pub server_header: bool,
    /// Give each request an id: X-Request-Id.
    pub request_id: bool,
    /// Bytes of a response held in memory for a slow client; beyond, they go to a file.
    pub response_buffer: usize,
    /// Bytes of all responses in files; beyond, workers wait. 0 for no files.
    pub response_spool: u64,
    /// Let the thread share a processor with a worker while that is quicker.
    pub share_cpu: bool,
    /// Proxies whose word of the clients behind them counts.
    pub trusted_proxies: Trust,
    /// The fields that have it.
    pub proxy_fields: Family,
    /// Where files are for request bodies above 64 KiB and for responses; none for the system's directory.
    pub spool_dir: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            header_timeout: Duration::from_secs(60),
            tls_handshake_timeout: Duration::from_secs(10),
            tls_handshakes: 512,
            hsts: None,
            http2: true,
            http2_streams: 128,
            http2_window: 1 << 20,
            keepalive_timeout: Duration::from_secs(75),
            keepalive: true,
            keepalive_requests: 0,
            min_body_rate: 256,
            write_timeout: Duration::from_secs(60),
            min_send_rate: 256,
            abort_on_disconnect: false,
            server_header: true,
            request_id: true,
            response_buffer: 1 << 20,
            response_spool: 1 << 30,
            share_cpu: true,
            trusted_proxies: Trust::default(),
            proxy_fields: Family::default(),
            spool_dir: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_settings_nobody_may_take_for_ever() {
        let config = Config::default();
        for limit in [config.header_timeout, config.keepalive_timeout, config.write_timeout] {
            assert!(limit >= Duration::from_secs(10) && limit <= Duration::from_secs(75), "{limit:?}");
        }
        assert!(config.min_body_rate > 0 && config.min_send_rate > 0);
    }

    #[test]
    fn without_settings_connections_are_kept_and_responses_held_for_slow_clients() {
        let config = Config::default();
        assert!(config.keepalive && config.keepalive_requests == 0 && !config.abort_on_disconnect);
        assert!(config.server_header && config.request_id);
        assert_eq!((config.response_buffer, config.response_spool), (1 << 20, 1 << 30));
    }
}
