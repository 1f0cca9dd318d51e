//! What the server counts, and every shape in which it shows itself: Apache's `?auto`, JSON, ServerStatus::Lite,
//! HTML for people, Prometheus and OpenMetrics.
//!
//! ```text
//! front thread ── Recorder ──> Counters ─┐
//! front thread ── Recorder ──> Counters ─┼─ Monitor (once a second) ─> Recent, History ─┐
//!                                        └────────────── Totals ────────────────────────┼─> Snapshot ─> page, metrics,
//! supervisor of each pool ── workers, queue, spawns, exits ──> Pool ────────────────────┘             control socket
//! ```
//!
//! Called by the front: a [`Recorder`] per thread counts as requests end, which costs a few nanoseconds each. Whoever
//! answers a status request fills a [`Snapshot`] and has it rendered ([`status_page`], [`metrics_page`]); that happens
//! a few times a minute, so the renderers allocate as they like.
#![forbid(unsafe_code)]

mod page;
mod html;
mod json;
mod lite;
mod prometheus;
mod apache;
mod snapshot;
mod pool;
mod durations;
mod history;
mod totals;
mod recorder;
mod histogram;
mod counter;
mod number;
mod text;
mod label;

pub use durations::Durations;
pub use histogram::Distribution;
pub use history::{Gauges, History, Monitor, Quantiles, Recent};
pub use json::document;
pub use label::{
    Class, ConnectionState, ExitCause, Failure, Handshake, Label, Method, Per, State, WorkerState,
};
pub use page::{CONTENT_SECURITY_POLICY, Page, metrics_page, status_page};
pub use pool::{AFTER, Busy, Growth, Lifecycle, Pool, Queue, RequestSeen, Upgrades, Worker, Workers};
pub use recorder::{Counters, Finished, Recorder};
pub use snapshot::{
    Certificate, Connections, Cpu, ErrorLog, Front, Lines, Requests, Server, Snapshot, Spool, Times, Tls,
    days_left,
};
pub use text::printable;
pub use totals::Totals;
