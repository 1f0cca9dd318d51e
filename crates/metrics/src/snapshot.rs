//! The state of the server at one moment, put together by whoever is asked for it. Every page is made of it, and it is
//! what the control socket answers with, so it can be read back: what an older or newer server does not say is zero.
//!
//! What belongs to one application stands in its [`Pool`](crate::Pool), what belongs to the server stands here.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::durations::Durations;
use crate::history::{History, Recent};
use crate::label::{Class, ConnectionState, Failure, Handshake, Method, Per, State};
use crate::pool::Pool;
use crate::totals::Totals;

/// The whole server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Who answers.
    pub server: Server,
    /// When.
    pub times: Times,
    /// Load averages of the machine over 1, 5 and 15 minutes.
    pub load: [f64; 3],
    /// CPU seconds used since the start.
    pub cpu_seconds: Cpu,
    /// Requests that have ended.
    pub requests: Requests,
    /// The last minute.
    pub recent: Recent,
    /// Responses in files.
    pub spool: Spool,
    /// Connections of clients.
    pub connections: Connections,
    /// TLS; none when it is not spoken.
    pub tls: Option<Tls>,
    /// Each application with its workers, in the order of their routes; the first is at the root.
    pub pools: Vec<Pool>,
    /// The front threads.
    pub fronts: Vec<Front>,
    /// Lines of the access log; none when there is none.
    pub access_log: Option<Lines>,
    /// Lines of the slow-request log; none when it is the error log, or there is none.
    pub slow_log: Option<Lines>,
    /// The error log, which cannot say by itself what keeps it from being written.
    pub error_log: ErrorLog,
    /// The last five minutes.
    pub history: History,
}

/// Names and versions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Product and version, `Howdah/0.1.0`.
    pub version: String,
    /// When it was built; empty when unknown.
    pub built: String,
    /// Version of perl, `v5.36.0`; empty when unknown.
    pub perl: String,
    /// `--name`, or the application; empty for none.
    pub name: String,
    /// The name by which `howdah` commands find it, which every server has.
    pub instance: String,
    /// Name of the host.
    pub host: String,
    /// Process id of the front.
    pub pid: u32,
    /// Addresses, as an operator writes them.
    pub listeners: Vec<String>,
}

/// Points in time in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// Of this snapshot.
    pub now: f64,
    /// The server's start.
    pub started: f64,
    /// When the youngest generation of all pools took over.
    pub loaded: f64,
}

impl Times {
    /// Seconds since the start.
    #[must_use]
    pub fn uptime(&self) -> f64 {
        (self.now - self.started).max(0.0)
    }
}

/// CPU seconds, of the front and of all workers and zygotes, ended ones included.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// The front in user mode.
    pub front_user: f64,
    /// The front in the kernel.
    pub front_system: f64,
    /// Workers in user mode.
    pub workers_user: f64,
    /// Workers in the kernel.
    pub workers_system: f64,
}

/// What has become of requests since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// All.
    pub total: u64,
    /// By class of the response's status.
    pub by_class: Per<Class>,
    /// By class and method.
    pub by_class_and_method: Per<Class, Per<Method>>,
    /// Those that did not go their usual way.
    pub failures: Per<Failure>,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// From a request's first byte to its response's last.
    pub duration: Durations,
    /// Wait for a worker.
    pub queue: Durations,
    /// From a request's first byte to its response's first.
    pub first_byte: Durations,
    /// From a response's first byte to its last.
    pub send: Durations,
}

impl From<&Totals> for Requests {
    fn from(totals: &Totals) -> Self {
        Self {
            total: totals.all_requests(),
            by_class: totals.by_class(),
            by_class_and_method: totals.requests.clone(),
            failures: totals.failures.clone(),
            bytes_in: totals.bytes_in,
            bytes_out: totals.bytes_out,
            duration: Durations::from(&totals.duration),
            queue: Durations::from(&totals.queue),
            first_byte: Durations::from(&totals.first_byte),
            send: Durations::from(&totals.send),
        }
    }
}

/// Connections of clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Since the start.
    pub accepted: u64,
    /// Now.
    pub open: u64,
    /// That there may be.
    pub limit: u64,
    /// Idle ones that had to go, to make room.
    pub dismissed: u64,
    /// Those that have spoken HTTP/2, since the start.
    pub http2: u64,
    /// Requests that came by it.
    pub http2_streams: u64,
    /// Open ones by what they do.
    pub by_state: Per<ConnectionState>,
}

impl From<&Totals> for Connections {
    fn from(totals: &Totals) -> Self {
        Self {
            accepted: totals.accepted,
            open: totals.open(),
            limit: totals.connection_limit,
            dismissed: totals.dismissed,
            http2: totals.http2,
            http2_streams: totals.http2_streams,
            by_state: totals.connections.clone(),
        }
    }
}

impl Connections {
    /// Open connections in any of these states.
    #[must_use]
    pub fn of(&self, states: &[ConnectionState]) -> u64 {
        states.iter().map(|state| self.by_state[*state]).sum()
    }
}

/// TLS.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tls {
    /// Handshakes since the start, by how they ended.
    pub handshakes: Per<Handshake>,
    /// Certificates in use.
    pub certificates: Vec<Certificate>,
}

/// A certificate.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Certificate {
    /// Its file.
    pub file: String,
    /// Names that it is for.
    pub names: Vec<String>,
    /// Its last second, since 1970.
    pub expires: i64,
    /// Whole days until then; less than none when it is over.
    pub days: i64,
    /// Why there is no newer one from the authority that is asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// For people: what is left of a certificate that is good for so many whole days; `None` when it is over.
pub fn days_left(days: i64) -> Option<String> {
    match days {
        ..0 => None,
        0 => Some("less than a day".into()),
        1 => Some("1 day".into()),
        _ => Some(format!("{days} days")),
    }
}

impl Certificate {
    /// As [`days_left`], as a phrase: `5 days left`, or `expired`.
    pub fn left(&self) -> String {
        days_left(self.days).map_or_else(|| "expired".into(), |days| days + " left")
    }
}

/// Bytes of responses that lie in files, for clients that read slowly.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Spool {
    /// Now.
    pub bytes: u64,
    /// `--response-spool`.
    pub limit: u64,
}

/// One front thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Front {
    /// Counted from 0.
    pub index: u32,
    /// Requests ended.
    pub requests: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// CPU seconds used, when known.
    pub cpu_seconds: Option<f64>,
}

/// Lines of a log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lines {
    /// Those that a file has, or a command has read.
    pub written: u64,
    /// Given up.
    pub dropped: u64,
    /// Why others wait, when they do.
    pub trouble: Option<String>,
}

/// The log of what goes wrong.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorLog {
    /// Why its lines wait, are lost, or go to another file than they should.
    pub trouble: Option<String>,
}

impl Snapshot {
    /// What is wrong with logs.
    pub fn troubles_with_logs(&self) -> impl Iterator<Item = &String> {
        let of_requests = self.access_log.iter().chain(&self.slow_log);
        of_requests.map(|lines| &lines.trouble).chain([&self.error_log.trouble]).flatten()
    }

    /// All pools together: what a page says of the server as a whole. Of a single pool it is that.
    #[must_use]
    pub fn together(&self) -> Cow<'_, Pool> {
        Pool::together(&self.pools)
    }

    /// How the server is.
    #[must_use]
    pub fn state(&self) -> State {
        State::together(self.pools.iter().map(|pool| pool.state))
    }

    /// Whether there is something to tell apart: pages name pools only then.
    #[must_use]
    pub fn has_several_pools(&self) -> bool {
        self.pools.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_certificate() {
        let left = |days| Certificate { days, ..Certificate::default() }.left();
        assert_eq!([-1, 0, 1, 2].map(left), ["expired", "less than a day left", "1 day left", "2 days left"]);
    }
}
