//! The row of numbers at the top, each with its last five minutes.

use super::chart::{Line, put_chart};
use super::markup::Text;
use crate::label::ConnectionState::{Idle, Queued, Reading, Running, Writing};
use crate::number::{bytes, count, put, rate, seconds};
use crate::pool::Pool;
use crate::snapshot::Snapshot;

struct Tile<'t> {
    name: &'t str,
    /// The number of now.
    value: String,
    /// What stands small behind it.
    unit: String,
    note: String,
    lines: Vec<Line>,
    /// The number is a bad one.
    alarm: bool,
}

pub(super) fn put_tiles(out: &mut String, snapshot: &Snapshot, all: &Pool) {
    out.push_str("<section id=\"tiles\" class=\"tiles\" aria-label=\"Now\">");
    let tiles = [
        traffic(snapshot),
        latency(snapshot),
        workers(snapshot, all),
        queue(snapshot, all),
        connections(snapshot),
        sent(snapshot),
    ];
    tiles.iter().for_each(|tile| put_tile(out, tile));
    out.push_str("</section>");
}

fn put_tile(out: &mut String, tile: &Tile<'_>) {
    let alarm = if tile.alarm { " alarm" } else { "" };
    put(
        out,
        format_args!(
            "<article class=\"tile{alarm}\"><h2>{}</h2><p class=\"big\">{} <small>{}</small></p><p class=\"note\">{}</p>",
            Text(tile.name),
            Text(&tile.value),
            Text(&tile.unit),
            Text(&tile.note)
        ),
    );
    put_chart(out, tile.name, &tile.lines);
    out.push_str("</article>");
}

fn traffic(snapshot: &Snapshot) -> Tile<'_> {
    let (recent, history) = (&snapshot.recent, &snapshot.history);
    let errors =
        if recent.errors > 0.0 { format!(", {} failed", rate(recent.errors)) } else { String::new() };
    Tile {
        name: "Requests",
        value: rate(latest(&history.requests)),
        unit: "/s".into(),
        note: format!("{}/s over a minute{errors}", rate(recent.requests)),
        lines: vec![("", history.requests.clone()), ("errors", history.errors.clone())],
        alarm: recent.errors > 0.0 && recent.errors > recent.requests / 100.0,
    }
}

fn latency(snapshot: &Snapshot) -> Tile<'_> {
    let (duration, history) = (&snapshot.recent.duration, &snapshot.history);
    let seconds = |value| if duration.count == 0 { "–".into() } else { seconds(value) };
    Tile {
        name: "Duration",
        value: seconds(duration.p50),
        unit: "median".into(),
        note: format!("99 % below {}", seconds(duration.p99)),
        lines: vec![("", history.p50_ms.clone()), ("second", history.p99_ms.clone())],
        alarm: false,
    }
}

fn workers<'s>(snapshot: &'s Snapshot, all: &Pool) -> Tile<'s> {
    let (busy, total) = (all.workers.busy(), all.workers.list.len() as u64);
    Tile {
        name: "Workers",
        value: busy.running().to_string(),
        unit: format!("of {total} busy"),
        note: format!("{} idle, {} wanted", busy.idle(), all.workers.target),
        lines: vec![("", numbers(&snapshot.history.busy))],
        alarm: total > 0 && busy.running() == total && all.queue.depth > 0,
    }
}

fn queue<'s>(snapshot: &'s Snapshot, all: &Pool) -> Tile<'s> {
    let (queue, recent) = (&all.queue, &snapshot.recent);
    Tile {
        name: "Queue",
        value: count(queue.depth),
        unit: format!("of {} waiting", count(queue.limit)),
        note: if queue.saturated {
            format!("the oldest for {}; there may be no more workers", seconds(queue.oldest_seconds))
        } else {
            let (peak, wait) = (count(recent.queue_peak), seconds(recent.queue.p99));
            format!("at most {peak} in a minute, wait {wait} (99 %)")
        },
        lines: vec![("", numbers(&snapshot.history.queue))],
        alarm: queue.saturated || (queue.limit > 0 && recent.queue_peak >= queue.limit),
    }
}

fn connections(snapshot: &Snapshot) -> Tile<'_> {
    let connections = &snapshot.connections;
    let active = connections.of(&[Reading, Queued, Running, Writing]);
    Tile {
        name: "Connections",
        value: count(connections.open),
        unit: "open".into(),
        note: format!("{} active, {} idle", count(active), count(connections.of(&[Idle]))),
        lines: vec![("", numbers(&snapshot.history.connections))],
        alarm: false,
    }
}

fn sent(snapshot: &Snapshot) -> Tile<'_> {
    let (recent, history) = (&snapshot.recent, &snapshot.history);
    Tile {
        name: "Sent",
        value: bytes(latest(&history.bytes_out)),
        unit: "/s".into(),
        note: format!("{}/s in over a minute", bytes(recent.bytes_in)),
        lines: vec![("", history.bytes_out.clone())],
        alarm: false,
    }
}

/// The mean of the last three seconds: calmer to the eye than the last alone.
fn latest(values: &[f64]) -> f64 {
    let last = &values[values.len().saturating_sub(3)..];
    if last.is_empty() { 0.0 } else { last.iter().sum::<f64>() / last.len() as f64 }
}

fn numbers(values: &[u64]) -> Vec<f64> {
    values.iter().map(|value| *value as f64).collect()
}
