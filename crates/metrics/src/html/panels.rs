//! The tables below the workers.

use super::markup::{grid, pairs};
use crate::history::Quantiles;
use crate::label::{Class, Label, Method, Per};
use crate::number::{bytes, count, long, seconds};
use crate::pool::{Growth, Pool, Upgrades};
use crate::snapshot::{Snapshot, Tls};

pub(super) fn put_panels(out: &mut String, snapshot: &Snapshot, all: &Pool) {
    out.push_str("<section id=\"panels\" class=\"panels\">");
    times(out, snapshot);
    responses(out, snapshot);
    pairs(out, "Connections", &connections(snapshot));
    if let Some(tls) = &snapshot.tls {
        pairs(out, "TLS", &secured(tls));
    }
    pairs(out, "Failures", &counted(&snapshot.requests.failures));
    pairs(out, "Workers come and gone", &lifecycle(all));
    growth(out, all);
    if snapshot.has_several_pools() {
        pools(out, snapshot);
    }
    fronts(out, snapshot);
    pairs(out, "Server", &server(snapshot, all));
    out.push_str("</section>");
}

fn times(out: &mut String, snapshot: &Snapshot) {
    let (recent, requests) = (&snapshot.recent, &snapshot.requests);
    let columns = ["mean", "50 %", "90 %", "99 %", "most"];
    let rows =
        |parts: [(&str, Quantiles); 4]| parts.map(|(name, quantiles)| (name.to_owned(), row(&quantiles)));
    let minute = [
        ("Whole", recent.duration),
        ("Waiting", recent.queue),
        ("First byte", recent.first_byte),
        ("Sending", recent.send),
    ];
    let ever = [
        ("Whole", requests.duration.quantiles),
        ("Waiting", requests.queue.quantiles),
        ("First byte", requests.first_byte.quantiles),
        ("Sending", requests.send.quantiles),
    ];
    grid(out, "Times, last minute", &columns, &rows(minute));
    grid(out, "Times since the start", &columns, &rows(ever));
}

fn row(quantiles: &Quantiles) -> Vec<String> {
    if quantiles.count == 0 {
        return vec!["–".into(); 5];
    }
    [quantiles.mean, quantiles.p50, quantiles.p90, quantiles.p99, quantiles.max].map(seconds).into()
}

/// Classes against methods; methods that never came have no row.
fn responses(out: &mut String, snapshot: &Snapshot) {
    let requests = &snapshot.requests.by_class_and_method;
    let classes: Vec<Class> = Class::ALL.iter().copied().filter(|class| requests[*class].sum() > 0).collect();
    let sum = |method: Method| classes.iter().map(|class| requests[*class][method]).sum::<u64>();
    let methods = Method::ALL.iter().copied().filter(|method| sum(*method) > 0);
    let line = |method: Method| classes.iter().map(|class| zero_is_dash(requests[*class][method])).collect();
    if classes.is_empty() {
        return;
    }
    let mut rows: Vec<_> = methods.map(|method| (Method::name(method).to_owned(), line(method))).collect();
    rows.push(("All".into(), classes.iter().map(|class| count(requests[*class].sum())).collect()));
    let columns: Vec<_> = classes.iter().map(|class| class.name()).collect();
    grid(out, "Responses", &columns, &rows);
}

/// Handshakes, and for how long certificates are good.
fn secured(tls: &Tls) -> Vec<(String, String)> {
    let mut rows = counted(&tls.handshakes);
    for certificate in &tls.certificates {
        let name = certificate.names.first().map_or(certificate.file.as_str(), String::as_str);
        let trouble = certificate.trouble.iter().map(|trouble| format!(": {trouble}")).collect::<String>();
        rows.push((format!("certificate of {name}"), certificate.left() + &trouble));
    }
    rows
}

fn zero_is_dash(value: u64) -> String {
    if value == 0 { "–".into() } else { count(value) }
}

fn connections(snapshot: &Snapshot) -> Vec<(String, String)> {
    let connections = &snapshot.connections;
    let mut rows: Vec<_> =
        connections.by_state.iter().map(|(state, value)| (state.name().to_owned(), count(*value))).collect();
    rows.push(("accepted so far".into(), count(connections.accepted)));
    rows.push(("responses in files".into(), bytes(snapshot.spool.bytes as f64)));
    rows
}

/// Those that have happened.
fn counted<L: Label>(counts: &Per<L>) -> Vec<(String, String)> {
    let happened = counts.iter().filter(|(_, value)| **value > 0);
    happened.map(|(label, value)| (label.name().replace('_', " "), count(*value))).collect()
}

fn lifecycle(all: &Pool) -> Vec<(String, String)> {
    let lifecycle = &all.lifecycle;
    let mut rows = vec![("started".into(), count(lifecycle.spawns))];
    rows.extend(
        counted(&lifecycle.exits).into_iter().map(|(cause, value)| (format!("ended: {cause}"), value)),
    );
    rows.push(("reloads".into(), count(lifecycle.reloads)));
    if lifecycle.failed_reloads > 0 {
        rows.push(("failed reloads".into(), count(lifecycle.failed_reloads)));
    }
    for (what, times) in [("reforks", lifecycle.reforks), ("failed reforks", lifecycle.failed_reforks)] {
        if times > 0 {
            rows.push((what.into(), count(times)));
        }
    }
    if lifecycle.replacements > 0 {
        rows.push(("shared memory replaced".into(), count(lifecycle.replacements)));
    }
    rows
}

/// What each request of a route leaves behind, where any does.
fn growth(out: &mut String, all: &Pool) {
    let line = |growth: &Growth| {
        let memory = growth.bytes.map_or_else(|| "–".into(), bytes);
        (growth.route.clone(), vec![count(growth.requests), format!("{:.1}", growth.values), memory])
    };
    let rows: Vec<_> = all.growth.iter().map(line).collect();
    grid(out, "Routes that grow, by request", &["requests", "values", "memory"], &rows);
}

/// A line for each.
fn pools(out: &mut String, snapshot: &Snapshot) {
    let columns = ["state", "generation", "templates", "workers", "busy", "waiting", "oldest"];
    let line = |pool: &Pool| {
        let (workers, queue) = (&pool.workers, &pool.queue);
        vec![
            pool.state.name().to_owned(),
            pool.origin(snapshot.times.now, long),
            zero_is_dash(pool.templates.into()),
            format!("{} of {}", workers.list.len(), workers.target),
            workers.busy().running().to_string(),
            count(queue.depth),
            seconds(queue.oldest_seconds),
        ]
    };
    let rows: Vec<_> = snapshot.pools.iter().map(|pool| (pool.name.clone(), line(pool))).collect();
    grid(out, "Pools", &columns, &rows);
}

fn fronts(out: &mut String, snapshot: &Snapshot) {
    let rows: Vec<_> = snapshot
        .fronts
        .iter()
        .map(|front| {
            let cpu = front.cpu_seconds.map_or_else(|| "–".into(), seconds);
            (front.index.to_string(), vec![count(front.requests), count(front.accepted), cpu])
        })
        .collect();
    grid(out, "Front threads", &["requests", "connections", "CPU"], &rows);
}

fn server(snapshot: &Snapshot, all: &Pool) -> Vec<(String, String)> {
    let (cpu, requests, times) = (&snapshot.cpu_seconds, &snapshot.requests, &snapshot.times);
    let since = if all.reforks > 0 { "refork" } else { "application loaded" };
    let load = snapshot.load.map(|load| format!("{load:.2}")).join(" ");
    let mut rows = vec![
        ("process".to_owned(), snapshot.server.pid.to_string()),
        (since.into(), format!("{} ago", long(times.now - times.loaded))),
        ("requests".into(), count(requests.total)),
        ("received".into(), bytes(requests.bytes_in as f64)),
        ("sent".into(), bytes(requests.bytes_out as f64)),
        ("CPU of the front".into(), seconds(cpu.front_user + cpu.front_system)),
        ("CPU of the workers".into(), seconds(cpu.workers_user + cpu.workers_system)),
        ("load average".into(), load),
    ];
    if all.templates > 0 {
        rows.push(("templates compiled before the fork".into(), count(all.templates.into())));
    }
    if all.upgrades.is_used() {
        let Upgrades { open, limit, total, refused } = all.upgrades;
        let said = format!(
            "{} of {}, {} in all, {} refused",
            count(open),
            count(limit),
            count(total),
            count(refused)
        );
        rows.push(("connections that workers have".into(), said));
    }
    for (log, lines) in [("access log", &snapshot.access_log), ("slow-request log", &snapshot.slow_log)] {
        let Some(lines) = lines else { continue };
        rows.push((format!("{log} lines"), count(lines.written)));
        rows.push((format!("{log} lines dropped"), count(lines.dropped)));
    }
    rows
}
