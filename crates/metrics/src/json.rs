//! `?json`: everything, under names that stay.

use serde::Serialize;

use crate::history::{History, Quantiles, Recent};
use crate::label::{Class, ConnectionState, Failure, Method, Per};
use crate::snapshot::{Cpu, Front, Lifecycle, Lines, Queue, Server, Snapshot, Spool, State, Times, Workers};

#[derive(Serialize)]
struct Document<'s> {
    server: &'s Server,
    state: State,
    ready: bool,
    trouble: Option<&'s str>,
    generation: u32,
    times: Times,
    uptime_seconds: f64,
    load: [f64; 3],
    cpu_seconds: Cpu,
    requests: Requests<'s>,
    /// The last minute.
    recent: &'s Recent,
    queue: Queue,
    spool: Spool,
    connections: Connections<'s>,
    scoreboard: String,
    workers: &'s Workers,
    lifecycle: &'s Lifecycle,
    fronts: &'s [Front],
    access_log: Option<Lines>,
    history: &'s History,
}

#[derive(Serialize)]
struct Requests<'s> {
    total: u64,
    by_class: Per<Class>,
    by_class_and_method: &'s Per<Class, Per<Method>>,
    failures: &'s Per<Failure>,
    bytes_in: u64,
    bytes_out: u64,
    /// Since the start, in seconds.
    duration: Quantiles,
    queue: Quantiles,
    first_byte: Quantiles,
    send: Quantiles,
}

#[derive(Serialize)]
struct Connections<'s> {
    accepted: u64,
    open: u64,
    limit: u64,
    /// To make room.
    dismissed: u64,
    by_state: &'s Per<ConnectionState>,
}

pub(crate) fn render(snapshot: &Snapshot) -> String {
    let totals = &snapshot.totals;
    let document = Document {
        server: &snapshot.server,
        state: snapshot.state,
        ready: snapshot.state.is_ready(),
        trouble: snapshot.trouble.as_deref(),
        generation: snapshot.generation,
        times: snapshot.times,
        uptime_seconds: snapshot.times.uptime(),
        load: snapshot.load,
        cpu_seconds: snapshot.cpu,
        requests: requests(snapshot),
        recent: &snapshot.recent,
        queue: snapshot.queue,
        spool: snapshot.spool,
        connections: Connections {
            accepted: totals.accepted,
            open: totals.open(),
            limit: totals.connection_limit,
            dismissed: totals.dismissed,
            by_state: &totals.connections,
        },
        scoreboard: crate::apache::scoreboard(snapshot),
        workers: &snapshot.workers,
        lifecycle: &snapshot.lifecycle,
        fronts: &snapshot.fronts,
        access_log: snapshot.access_log,
        history: &snapshot.history,
    };
    // No map has other keys than strings, and no number is refused: there is nothing to fail.
    serde_json::to_string(&document).unwrap_or_default()
}

fn requests(snapshot: &Snapshot) -> Requests<'_> {
    let totals = &snapshot.totals;
    Requests {
        total: totals.all_requests(),
        by_class: totals.by_class(),
        by_class_and_method: &totals.requests,
        failures: &totals.failures,
        bytes_in: totals.bytes_in,
        bytes_out: totals.bytes_out,
        duration: Quantiles::from(&totals.duration),
        queue: Quantiles::from(&totals.queue),
        first_byte: Quantiles::from(&totals.first_byte),
        send: Quantiles::from(&totals.send),
    }
}
