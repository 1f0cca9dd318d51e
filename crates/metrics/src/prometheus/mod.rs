//! `--metrics-path`: Prometheus' text format 0.0.4, and OpenMetrics 1.0 for scrapers that ask for it.
//!
//! Every label value but those of `howdah_build_info` is from a closed set, so the number of series is bounded; of routes
//! there are ten at most.

mod format;

use crate::durations::Durations;
use crate::label::{Label, Per};
use crate::pool::{Pool, Queue};
use crate::snapshot::{Lines, Snapshot};
use format::Exposition;
pub(crate) use format::Format;

/// Renders all metrics.
pub(crate) fn render(snapshot: &Snapshot, format: Format) -> String {
    let mut out = Exposition::new(format);
    server(&mut out, snapshot);
    requests(&mut out, snapshot);
    connections(&mut out, snapshot);
    let pools = Pools(&snapshot.pools);
    waiting(&mut out, snapshot, pools);
    upgrades(&mut out, pools);
    workers(&mut out, pools);
    lines(&mut out, "howdah_access_log_lines", "Lines of the access log", snapshot.access_log.as_ref());
    lines(&mut out, "howdah_slow_log_lines", "Lines of the slow-request log", snapshot.slow_log.as_ref());
    tls(&mut out, snapshot);
    out.finish()
}

/// The pools, each with its samples: under a label with its name when there are several.
#[derive(Clone, Copy, Debug)]
struct Pools<'s>(&'s [Pool]);

impl<'s> Pools<'s> {
    /// A sample of each pool.
    fn sample(self, out: &mut Exposition, suffix: &str, value: impl Fn(&Pool) -> f64) {
        self.each(|pool, labels| out.sample(suffix, labels, value(pool)));
    }

    /// Samples of each pool, by what else tells them apart.
    fn samples<'l>(
        self,
        out: &mut Exposition,
        suffix: &str,
        label: &'l str,
        values: impl Fn(&'s Pool) -> Vec<(&'l str, f64)>,
    ) {
        self.each(|pool, labels| {
            for (name, value) in values(pool) {
                out.sample(suffix, &[labels, &[(label, name)]].concat(), value);
            }
        });
    }

    fn each(self, mut show: impl FnMut(&'s Pool, &[(&str, &str)])) {
        for pool in self.0 {
            let label = [("pool", pool.name.as_str())];
            show(pool, if self.0.len() > 1 { &label } else { &[] });
        }
    }
}

fn server(out: &mut Exposition, snapshot: &Snapshot) {
    let server = &snapshot.server;
    out.info("howdah_build", "Versions of the server and of perl");
    let versions = [("version", server.version.as_str()), ("perl", &server.perl), ("name", &server.name)];
    out.sample("_info", &versions, 1.0);
    out.gauge("howdah_start_time_seconds", "seconds", "Start of the server since 1970");
    out.sample("", &[], snapshot.times.started);
    out.gauge("howdah_ready", "", "1 when requests are welcome, 0 while starting, draining or failing");
    out.sample("", &[], f64::from(u8::from(snapshot.state().is_ready())));
    out.gauge("howdah_generation", "", "Load of the application that serves, counted from 1");
    Pools(&snapshot.pools).sample(out, "", |pool| f64::from(pool.generation));
    out.counter("howdah_cpu_seconds", "seconds", "CPU time used by the front and by all workers");
    let cpu = &snapshot.cpu_seconds;
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
    let requests = &snapshot.requests;
    out.counter("howdah_requests", "", "Requests ended, by method and class of the response's status");
    for (class, methods) in requests.by_class_and_method.iter() {
        for (method, count) in methods.iter() {
            out.sample("_total", &[("method", method.name()), ("class", class.name())], *count as f64);
        }
    }
    out.counter("howdah_request_failures", "", "Requests that did not go their usual way");
    for (cause, count) in requests.failures.iter() {
        out.sample("_total", &[("cause", cause.name())], *count as f64);
    }
    out.counter("howdah_received_bytes", "bytes", "Bytes received from clients, heads and framing included");
    out.sample("_total", &[], requests.bytes_in as f64);
    out.counter("howdah_sent_bytes", "bytes", "Bytes sent to clients, heads and framing included");
    out.sample("_total", &[], requests.bytes_out as f64);
    for (name, help, durations) in [
        (
            "howdah_request_duration_seconds",
            "From a request's first byte to its response's last",
            &requests.duration,
        ),
        ("howdah_queue_wait_seconds", "Wait for a worker", &requests.queue),
        (
            "howdah_first_byte_seconds",
            "From a request's first byte to its response's first",
            &requests.first_byte,
        ),
        ("howdah_send_seconds", "From a response's first byte to its last", &requests.send),
    ] {
        histogram(out, name, help, durations);
    }
}

fn histogram(out: &mut Exposition, name: &'static str, help: &str, durations: &Durations) {
    out.histogram(name, "seconds", help);
    for (bound, count) in durations.buckets() {
        // The canonical form of OpenMetrics: 1.0, not 1.
        out.sample("_bucket", &[("le", &format!("{bound:?}"))], count as f64);
    }
    let count = durations.quantiles.count as f64;
    out.sample("_bucket", &[("le", "+Inf")], count);
    out.sample("_sum", &[], durations.sum);
    out.sample("_count", &[], count);
}

fn connections(out: &mut Exposition, snapshot: &Snapshot) {
    let connections = &snapshot.connections;
    out.counter("howdah_connections_accepted", "", "Connections accepted");
    out.sample("_total", &[], connections.accepted as f64);
    out.gauge("howdah_connections", "", "Open connections, by what they do");
    for (state, count) in connections.by_state.iter() {
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
    out.sample("", &[], connections.limit as f64);
    out.counter("howdah_connections_dismissed", "", "Idle connections asked to go to make room for new ones");
    out.sample("_total", &[], connections.dismissed as f64);
    out.counter("howdah_http2_connections", "", "Connections that have spoken HTTP/2");
    out.sample("_total", &[], connections.http2 as f64);
    out.counter("howdah_http2_streams", "", "Requests that came by HTTP/2");
    out.sample("_total", &[], connections.http2_streams as f64);
}

/// Name, help and value.
type Gauge = (&'static str, &'static str, fn(&Queue) -> u64);

fn waiting(out: &mut Exposition, snapshot: &Snapshot, pools: Pools<'_>) {
    let gauges: [Gauge; 3] = [
        ("howdah_queue_depth", "Requests that wait for a worker", |queue| queue.depth),
        ("howdah_queue_depth_max", "Most requests that waited at once since the start", |queue| queue.peak),
        ("howdah_queue_limit", "Requests that may wait; more are answered with 503", |queue| queue.limit),
    ];
    for (name, help, value) in gauges {
        out.gauge(name, "", help);
        pools.sample(out, "", |pool| value(&pool.queue) as f64);
    }
    out.gauge("howdah_queue_depth_recent_max", "", "Most requests that waited at once in the last minute");
    out.sample("", &[], snapshot.recent.queue_peak as f64);
    out.gauge("howdah_queue_oldest_seconds", "seconds", "For how long the oldest waiting request has waited");
    pools.sample(out, "", |pool| pool.queue.oldest_seconds);
    out.gauge(
        "howdah_saturated",
        "",
        "1 while requests wait for more than a second and there may be no more workers",
    );
    pools.sample(out, "", |pool| f64::from(u8::from(pool.queue.saturated)));
    out.counter("howdah_saturated_seconds", "seconds", "Time for which howdah_saturated was 1");
    pools.sample(out, "_total", |pool| pool.queue.saturated_seconds);
}

fn upgrades(out: &mut Exposition, pools: Pools<'_>) {
    out.gauge("howdah_upgraded_connections", "", "Connections that workers have taken, such as WebSockets");
    pools.sample(out, "", |pool| pool.upgrades.open as f64);
    out.gauge("howdah_upgraded_connections_limit", "", "Connections that workers may take");
    pools.sample(out, "", |pool| pool.upgrades.limit as f64);
    out.counter("howdah_upgrades", "", "Connections that workers wanted to take");
    pools.samples(out, "_total", "result", |Pool { upgrades, .. }| {
        vec![("taken", upgrades.total as f64), ("refused", upgrades.refused as f64)]
    });
}

fn workers(out: &mut Exposition, pools: Pools<'_>) {
    out.gauge("howdah_workers", "", "Workers, by what they do");
    pools.samples(out, "", "state", |pool| named(&pool.workers.busy().states));
    out.gauge("howdah_workers_target", "", "Workers wanted");
    pools.sample(out, "", |pool| f64::from(pool.workers.target));
    memory(out, pools);
    growth(out, pools);
    out.counter("howdah_worker_spawns", "", "Workers started");
    pools.sample(out, "_total", |pool| pool.lifecycle.spawns as f64);
    out.counter("howdah_worker_exits", "", "Workers ended");
    pools.samples(out, "_total", "cause", |pool| named(&pool.lifecycle.exits));
    out.counter("howdah_reloads", "", "Reloads of the application");
    pools.samples(out, "_total", "result", |Pool { lifecycle, .. }| {
        vec![("done", lifecycle.reloads as f64), ("failed", lifecycle.failed_reloads as f64)]
    });
    out.counter("howdah_reforks", "", "Zygotes that workers have left behind (--refork)");
    pools.samples(out, "_total", "result", |Pool { lifecycle, .. }| {
        vec![("done", lifecycle.reforks as f64), ("failed", lifecycle.failed_reforks as f64)]
    });
    out.counter(
        "howdah_segment_replacements",
        "",
        "Shared memory replaced, since a worker had written over it",
    );
    pools.sample(out, "_total", |pool| pool.lifecycle.replacements as f64);
}

fn memory(out: &mut Exposition, pools: Pools<'_>) {
    out.gauge(
        "howdah_worker_memory_bytes",
        "bytes",
        "Memory that a worker has for itself, by its place in the pool",
    );
    pools.each(|pool, labels| {
        for worker in &pool.workers.list {
            let Some(memory) = worker.memory else { continue };
            let index = worker.index.to_string();
            out.sample("", &[labels, &[("worker", &index)]].concat(), memory as f64);
        }
    });
}

/// Those that leave something behind; a server that does not leak has no samples.
fn growth(out: &mut Exposition, pools: Pools<'_>) {
    out.gauge("howdah_route_growth_values", "", "Perl values that a request of this route leaves behind");
    pools.each(|pool, labels| {
        for growth in &pool.growth {
            out.sample("", &[labels, &[("route", &growth.route)]].concat(), growth.values);
        }
    });
    out.gauge("howdah_route_growth_bytes", "bytes", "Memory that a request of this route leaves behind");
    pools.each(|pool, labels| {
        for growth in &pool.growth {
            let Some(bytes) = growth.bytes else { continue };
            out.sample("", &[labels, &[("route", &growth.route)]].concat(), bytes);
        }
    });
}

fn lines(out: &mut Exposition, name: &'static str, help: &str, lines: Option<&Lines>) {
    if let Some(lines) = lines {
        out.counter(name, "", help);
        out.sample("_total", &[("result", "written")], lines.written as f64);
        out.sample("_total", &[("result", "dropped")], lines.dropped as f64);
    }
}

fn tls(out: &mut Exposition, snapshot: &Snapshot) {
    let Some(tls) = &snapshot.tls else { return };
    out.counter("howdah_tls_handshakes", "", "TLS handshakes, by how they ended");
    for (how, count) in tls.handshakes.iter() {
        out.sample("_total", &[("result", how.name())], *count as f64);
    }
    out.gauge("howdah_tls_certificate_expiry_days", "", "Whole days for which a certificate is still valid");
    for certificate in &tls.certificates {
        out.sample("", &[("file", certificate.file.as_str())], certificate.days as f64);
    }
}

/// The members of a set by their names.
fn named<L: Label>(counts: &Per<L>) -> Vec<(&'static str, f64)> {
    counts.iter().map(|(member, count)| (member.name(), *count as f64)).collect()
}
