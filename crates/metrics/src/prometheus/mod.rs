//! `--metrics-path`: Prometheus' text format 0.0.4, and OpenMetrics 1.0 for scrapers that ask for it.
//!
//! Every label value but those of `howdah_build_info` is from a closed set, so the number of series is bounded.

mod format;

use crate::histogram::{Distribution, MARKS};
use crate::label::{Class, Label, Method, Per};
use crate::snapshot::Snapshot;
use format::Exposition;
pub(crate) use format::Format;

/// Renders all metrics.
pub(crate) fn render(snapshot: &Snapshot, format: Format) -> String {
    let mut out = Exposition::new(format);
    server(&mut out, snapshot);
    requests(&mut out, snapshot);
    connections(&mut out, snapshot);
    waiting(&mut out, snapshot);
    workers(&mut out, snapshot);
    access_log(&mut out, snapshot);
    out.finish()
}

fn server(out: &mut Exposition, snapshot: &Snapshot) {
    let server = &snapshot.server;
    out.info("howdah_build", "Versions of the server and of perl");
    let versions = [("version", server.version.as_str()), ("perl", &server.perl), ("name", &server.name)];
    out.sample("_info", &versions, 1.0);
    out.gauge("howdah_start_time_seconds", "seconds", "Start of the server since 1970");
    out.sample("", &[], snapshot.times.started);
    out.gauge("howdah_ready", "", "1 when requests are welcome, 0 while starting, draining or failing");
    out.sample("", &[], f64::from(u8::from(snapshot.state.is_ready())));
    out.gauge("howdah_generation", "", "Load of the application that serves, counted from 1");
    out.sample("", &[], f64::from(snapshot.generation));
    out.counter("howdah_cpu_seconds", "seconds", "CPU time used by the front and by all workers");
    let cpu = &snapshot.cpu;
    for (part, mode, seconds) in [
        ("front", "user", cpu.front_user),
        ("front", "system", cpu.front_system),
        ("workers", "user", cpu.workers_user),
        ("workers", "system", cpu.workers_system),
    ] {
        out.sample("_total", &[("part", part), ("mode", mode)], seconds);
    }
}

fn requests(out: &mut Exposition, snapshot: &Snapshot) {
    let totals = &snapshot.totals;
    out.counter("howdah_requests", "", "Requests ended, by method and class of the response's status");
    for class in Class::ALL {
        for (method, count) in totals.requests[*class].iter() {
            out.sample("_total", &[("method", Method::name(method)), ("class", class.name())], *count as f64);
        }
    }
    per(
        out,
        "howdah_request_failures",
        "Requests that did not go their usual way",
        "cause",
        &totals.failures,
    );
    out.counter("howdah_received_bytes", "bytes", "Bytes received from clients, heads and framing included");
    out.sample("_total", &[], totals.bytes_in as f64);
    out.counter("howdah_sent_bytes", "bytes", "Bytes sent to clients, heads and framing included");
    out.sample("_total", &[], totals.bytes_out as f64);
    for (name, help, distribution) in [
        (
            "howdah_request_duration_seconds",
            "From a request's first byte to its response's last",
            &totals.duration,
        ),
        ("howdah_queue_wait_seconds", "Wait for a worker", &totals.queue),
        (
            "howdah_first_byte_seconds",
            "From a request's first byte to its response's first",
            &totals.first_byte,
        ),
        ("howdah_send_seconds", "From a response's first byte to its last", &totals.send),
    ] {
        histogram(out, name, help, distribution);
    }
}

fn histogram(out: &mut Exposition, name: &'static str, help: &str, distribution: &Distribution) {
    out.histogram(name, "seconds", help);
    for bound in MARKS {
        // The canonical form of OpenMetrics: 1.0, not 1.
        let le = format!("{:?}", bound as f64 / 1e9);
        out.sample("_bucket", &[("le", &le)], distribution.at_most(bound) as f64);
    }
    let count = distribution.count() as f64;
    out.sample("_bucket", &[("le", "+Inf")], count);
    out.sample("_sum", &[], distribution.sum as f64 / 1e9);
    out.sample("_count", &[], count);
}

fn connections(out: &mut Exposition, snapshot: &Snapshot) {
    out.counter("howdah_connections_accepted", "", "Connections accepted");
    out.sample("_total", &[], snapshot.totals.accepted as f64);
    out.gauge("howdah_connections", "", "Open connections, by what they do");
    for (state, count) in snapshot.totals.connections.iter() {
        out.sample("", &[("state", state.name())], *count as f64);
    }
    for (name, help, value) in [
        (
            "howdah_response_spool_bytes",
            "Responses in files, for clients that read slowly",
            snapshot.spool.bytes,
        ),
        ("howdah_response_spool_limit_bytes", "Most that may be in files", snapshot.spool.limit),
    ] {
        out.gauge(name, "bytes", help);
        out.sample("", &[], value as f64);
    }
    out.gauge("howdah_connections_limit", "", "Connections that there may be");
    out.sample("", &[], snapshot.totals.connection_limit as f64);
    out.counter("howdah_connections_dismissed", "", "Idle connections closed to make room for new ones");
    out.sample("_total", &[], snapshot.totals.dismissed as f64);
    let queue = &snapshot.queue;
    for (name, help, value) in [
        ("howdah_queue_depth", "Requests that wait for a worker", queue.depth),
        ("howdah_queue_depth_max", "Most requests that waited at once since the start", queue.peak),
        (
            "howdah_queue_depth_recent_max",
            "Most requests that waited at once in the last minute",
            snapshot.recent.queue_peak,
        ),
        ("howdah_queue_limit", "Requests that may wait; more are answered with 503", queue.limit),
    ] {
        out.gauge(name, "", help);
        out.sample("", &[], value as f64);
    }
}

fn waiting(out: &mut Exposition, snapshot: &Snapshot) {
    let queue = &snapshot.queue;
    out.gauge("howdah_queue_oldest_seconds", "seconds", "For how long the oldest waiting request has waited");
    out.sample("", &[], queue.oldest_seconds);
    out.gauge(
        "howdah_saturated",
        "",
        "1 while requests wait for more than a second and there may be no more workers",
    );
    out.sample("", &[], f64::from(u8::from(queue.saturated)));
    out.counter("howdah_saturated_seconds", "seconds", "Time for which howdah_saturated was 1");
    out.sample("_total", &[], queue.saturated_seconds);
}

fn workers(out: &mut Exposition, snapshot: &Snapshot) {
    let workers = &snapshot.workers;
    out.gauge("howdah_workers", "", "Workers, by what they do");
    for (state, count) in workers.busy().states.iter() {
        out.sample("", &[("state", state.name())], *count as f64);
    }
    out.gauge("howdah_workers_target", "", "Workers wanted");
    out.sample("", &[], f64::from(workers.target));
    out.gauge(
        "howdah_worker_memory_bytes",
        "bytes",
        "Memory that a worker has for itself, by its place in the pool",
    );
    for worker in &workers.list {
        if let Some(memory) = worker.memory {
            out.sample("", &[("worker", &worker.index.to_string())], memory as f64);
        }
    }
    let lifecycle = &snapshot.lifecycle;
    out.counter("howdah_worker_spawns", "", "Workers started");
    out.sample("_total", &[], lifecycle.spawns as f64);
    per(out, "howdah_worker_exits", "Workers ended", "cause", &lifecycle.exits);
    out.counter("howdah_reloads", "", "Reloads of the application");
    out.sample("_total", &[("result", "done")], lifecycle.reloads as f64);
    out.sample("_total", &[("result", "failed")], lifecycle.failed_reloads as f64);
    out.counter(
        "howdah_segment_replacements",
        "",
        "Shared memory replaced, since a worker had written over it",
    );
    out.sample("_total", &[], lifecycle.replacements as f64);
}

fn access_log(out: &mut Exposition, snapshot: &Snapshot) {
    if let Some(lines) = snapshot.access_log {
        out.counter("howdah_access_log_lines", "", "Lines of the access log");
        out.sample("_total", &[("result", "written")], lines.written as f64);
        out.sample("_total", &[("result", "dropped")], lines.dropped as f64);
    }
}

/// A counter for each member of a set.
fn per<L: Label>(out: &mut Exposition, name: &'static str, help: &str, label: &str, counts: &Per<L>) {
    out.counter(name, "", help);
    for (member, count) in counts.iter() {
        out.sample("_total", &[(label, member.name())], *count as f64);
    }
}
