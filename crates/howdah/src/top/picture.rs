//! What of a server's snapshot is shown: the members of `?json` that this program needs. Those that an older or newer
//! server does not have are zero.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Picture {
    pub(super) server: Server,
    pub(super) state: String,
    pub(super) generation: u32,
    pub(super) times: Times,
    pub(super) uptime_seconds: f64,
    pub(super) load: [f64; 3],
    pub(super) requests: Requests,
    pub(super) recent: Recent,
    pub(super) queue: Queue,
    pub(super) connections: Connections,
    pub(super) workers: Workers,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Server {
    pub(super) version: String,
    pub(super) name: String,
    pub(super) pid: u32,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Times {
    pub(super) now: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requests {
    pub(super) total: u64,
    pub(super) by_class: BTreeMap<String, u64>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

/// The last minute.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Recent {
    pub(super) seconds: f64,
    pub(super) requests: f64,
    pub(super) errors: f64,
    pub(super) bytes_in: f64,
    pub(super) bytes_out: f64,
    pub(super) duration: Quantiles,
    pub(super) queue: Quantiles,
    pub(super) first_byte: Quantiles,
    pub(super) send: Quantiles,
    pub(super) queue_peak: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Quantiles {
    pub(super) count: u64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Queue {
    pub(super) depth: u64,
    pub(super) limit: u64,
    pub(super) oldest_seconds: f64,
    pub(super) saturated: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Connections {
    pub(super) open: u64,
    pub(super) by_state: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Workers {
    pub(super) target: u32,
    pub(super) list: Vec<Worker>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Worker {
    pub(super) index: u32,
    pub(super) pid: u32,
    pub(super) state: String,
    pub(super) state_seconds: f64,
    pub(super) age_seconds: f64,
    pub(super) requests: u64,
    pub(super) memory: Option<u64>,
    pub(super) request: Option<Request>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    pub(super) client: String,
    pub(super) host: String,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) seconds: f64,
}

impl Worker {
    /// Seconds of its request; without one it has none.
    pub(super) fn time(&self) -> f64 {
        self.request.as_ref().map_or(0.0, |request| request.seconds)
    }
}
