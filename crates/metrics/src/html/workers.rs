//! The scoreboard and the table of workers.

use super::markup::Text;
use crate::label::Label;
use crate::number::{bytes, count, long, put, seconds};
use crate::pool::{AFTER, Pool, Worker};
use crate::snapshot::Snapshot;

/// Seconds after which a running request is shown as slow, and as very slow.
const SLOW: f64 = 1.0;
const VERY_SLOW: f64 = 10.0;

/// Columns: name, whether it is a number.
const COLUMNS: [(&str, bool); 11] = [
    ("#", true),
    ("PID", true),
    ("Gen", true),
    ("State", false),
    ("Time", true),
    ("Requests", true),
    ("Memory", true),
    ("Age", true),
    ("Client", false),
    ("Host", false),
    ("Request", false),
];

/// A square for each worker: all pools at a glance.
pub(super) fn put_board(out: &mut String, snapshot: &Snapshot) {
    out.push_str("<section id=\"board\" class=\"board\" aria-hidden=\"true\">");
    for (pool, worker) in workers(snapshot) {
        let (index, state, pace) = (worker.index, worker.state.name(), pace(worker));
        let of = if snapshot.has_several_pools() { format!(" of {}", pool.name) } else { String::new() };
        put(
            out,
            format_args!("<i class=\"{state}{pace}\" title=\"worker {index}{}: {state}\"></i>", Text(&of)),
        );
    }
    out.push_str("</section>");
}

/// Of which pool a worker is, says a column that is there when there are several.
pub(super) fn put_table(out: &mut String, snapshot: &Snapshot) {
    out.push_str("<section id=\"workers\" class=\"wide\"><h2>Workers</h2><div class=\"scroll\"><table class=\"sortable\"><thead><tr>");
    let pool = snapshot.has_several_pools().then_some(("Pool", false));
    for (name, number) in pool.into_iter().chain(COLUMNS) {
        let class = if number { " class=\"n\"" } else { "" };
        put(out, format_args!("<th scope=\"col\"{class}>{name}</th>"));
    }
    out.push_str("</tr></thead><tbody>");
    for (pool, worker) in workers(snapshot) {
        row(out, snapshot.has_several_pools().then_some(pool), worker);
    }
    if workers(snapshot).next().is_none() {
        let columns = COLUMNS.len() + usize::from(snapshot.has_several_pools());
        put(out, format_args!("<tr><td colspan=\"{columns}\" class=\"none\">There is no worker.</td></tr>"));
    }
    out.push_str("</tbody></table></div></section>");
}

fn workers(snapshot: &Snapshot) -> impl Iterator<Item = (&Pool, &Worker)> {
    snapshot.pools.iter().flat_map(|pool| pool.workers.list.iter().map(move |worker| (pool, worker)))
}

fn row(out: &mut String, pool: Option<&Pool>, worker: &Worker) {
    let state = worker.state.name();
    put(out, format_args!("<tr class=\"{state}{}\">", pace(worker)));
    if let Some(pool) = pool {
        put(out, format_args!("<td>{}</td>", Text(&pool.name)));
    }
    number(out, f64::from(worker.index), &worker.index.to_string());
    number(out, f64::from(worker.pid), &if worker.pid == 0 { "–".into() } else { worker.pid.to_string() });
    number(out, f64::from(worker.generation), &worker.generation.to_string());
    put(out, format_args!("<td><span class=\"state {state}\">{state}</span></td>"));
    let time = worker.request.as_ref().map_or(worker.state_seconds, |seen| seen.seconds);
    number(out, time, &seconds(time));
    number(out, worker.requests as f64, &requests(worker));
    let memory = worker.memory.map_or_else(|| "–".into(), |memory| bytes(memory as f64));
    number(out, worker.memory.unwrap_or(0) as f64, &memory);
    number(out, worker.age_seconds, &long(worker.age_seconds));
    seen(out, worker);
    out.push_str("</tr>");
}

fn requests(worker: &Worker) -> String {
    match worker.quota {
        0 => count(worker.requests),
        quota => format!("{} of {}", count(worker.requests), count(quota)),
    }
}

/// A number with the value that the script sorts by.
fn number(out: &mut String, value: f64, text: &str) {
    put(out, format_args!("<td class=\"n\" data-v=\"{value}\">{}</td>", Text(text)));
}

fn seen(out: &mut String, worker: &Worker) {
    let Some(seen) = &worker.request else {
        let doing = if worker.is_behind_response() { AFTER } else { "" };
        put(out, format_args!("<td></td><td></td><td>{doing}</td>"));
        return;
    };
    let client = if seen.client.is_empty() { "local" } else { &seen.client };
    put(
        out,
        format_args!(
            "<td class=\"cut\">{}</td><td class=\"cut\">{}</td><td class=\"req\" title=\"{}\"><b>{}</b> {} <span>{}</span></td>",
            Text(client),
            Text(&seen.host),
            Text(&seen.target),
            Text(&seen.method),
            Text(&seen.target),
            Text(&seen.protocol)
        ),
    );
}

/// A class for a request that takes long.
fn pace(worker: &Worker) -> &'static str {
    match worker.request.as_ref().map(|seen| seen.seconds) {
        Some(seconds) if seconds >= VERY_SLOW => " slow very",
        Some(seconds) if seconds >= SLOW => " slow",
        _ => "",
    }
}
