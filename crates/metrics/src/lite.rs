//! The two shapes of Plack::Middleware::ServerStatus::Lite, for scripts that parse them.

use serde_json::{Value, json};

use crate::label::WorkerState;
use crate::number::{apache_time, put};
use crate::pool::Worker;
use crate::snapshot::Snapshot;

/// `?json=lite`. Numbers are strings where that module's are.
pub(crate) fn json(snapshot: &Snapshot) -> String {
    let stats: Vec<Value> = workers(snapshot).map(stat).collect();
    let busy = busy(snapshot);
    json!({
        "Uptime": started(snapshot).to_string(),
        "TotalAccesses": snapshot.requests.total.to_string(),
        "TotalKbytes": kilobytes(snapshot).to_string(),
        "BusyWorkers": busy.to_string(),
        "IdleWorkers": (workers(snapshot).count() - busy).to_string(),
        "stats": stats,
    })
    .to_string()
}

/// `?lite`.
pub(crate) fn text(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let busy = busy(snapshot);
    put(&mut out, format_args!("ServerUptime: {}\n", apache_time(snapshot.times.uptime(), ", ")));
    put(&mut out, format_args!("Uptime: {}\n", started(snapshot)));
    put(&mut out, format_args!("Total Accesses: {}\n", snapshot.requests.total));
    put(&mut out, format_args!("Total kBytes: {}\n", kilobytes(snapshot)));
    put(&mut out, format_args!("BusyWorkers: {busy}\nIdleWorkers: {}\n", workers(snapshot).count() - busy));
    out.push_str("--\npid status remote_addr host method uri protocol ss\n");
    workers(snapshot).for_each(|worker| row(&mut out, worker));
    out
}

fn row(out: &mut String, worker: &Worker) {
    put(out, format_args!("{} {}", worker.pid, letter(worker)));
    match &worker.request {
        Some(seen) => {
            for word in [&seen.client, &seen.host, &seen.method, &seen.target, &seen.protocol] {
                out.push(' ');
                one_word(out, word);
            }
            put(out, format_args!(" {}\n", seen.seconds as u64));
        }
        None => out.push('\n'),
    }
}

/// Columns are told apart by spaces.
fn one_word(out: &mut String, text: &str) {
    if text.is_empty() {
        out.push('-');
    }
    out.extend(text.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }));
}

fn stat(worker: &Worker) -> Value {
    let seen = worker.request.as_ref();
    json!({
        "pid": worker.pid,
        "status": letter(worker),
        "remote_addr": seen.map(|seen| &seen.client),
        "host": seen.map(|seen| &seen.host),
        "method": seen.map(|seen| &seen.method),
        "uri": seen.map(|seen| &seen.target),
        "protocol": seen.map(|seen| &seen.protocol),
        "ss": seen.map_or(worker.state_seconds, |seen| seen.seconds) as u64,
    })
}

/// `A` for a worker with a request, `_` for one without.
fn letter(worker: &Worker) -> &'static str {
    if is_busy(worker) { "A" } else { "_" }
}

fn is_busy(worker: &Worker) -> bool {
    worker.request.is_some() || worker.state == WorkerState::Busy
}

fn busy(snapshot: &Snapshot) -> usize {
    workers(snapshot).filter(|worker| is_busy(worker)).count()
}

/// Those of all pools.
fn workers(snapshot: &Snapshot) -> impl Iterator<Item = &Worker> {
    snapshot.pools.iter().flat_map(|pool| &pool.workers.list)
}

fn started(snapshot: &Snapshot) -> u64 {
    snapshot.times.started as u64
}

fn kilobytes(snapshot: &Snapshot) -> u64 {
    snapshot.requests.bytes_out / 1000
}
