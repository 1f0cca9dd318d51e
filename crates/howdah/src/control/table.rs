//! The state of a server as text, for `howdah status`.

use std::fmt::Write;

use crate::protocol::{Status, Worker};

/// The head, and a table of the workers.
pub(super) fn render(status: &Status) -> String {
    let mut text = head(status);
    text.push('\n');
    let rows = std::iter::once(TITLES.map(str::to_owned)).chain(status.workers.iter().map(cells));
    text.push_str(&align(&rows.collect::<Vec<_>>(), |column| TO_THE_LEFT.contains(&TITLES[column])));
    text
}

const TITLES: [&str; 9] =
    ["worker", "pid", "state", "for", "requests", "memory", "generation", "age", "request"];
/// Columns of text.
const TO_THE_LEFT: [&str; 2] = ["state", "request"];

fn head(status: &Status) -> String {
    let zygote = status.zygote.map_or_else(|| "dead".to_owned(), |pid| pid.to_string());
    let mut text = format!("{} serves {} with howdah {}\n", status.name, status.application, status.version);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "listening   {}", status.listeners.join(" "));
    let _ = writeln!(
        text,
        "processes   front {} (up {}), zygote {zygote}",
        status.pid,
        span(status.uptime * 1000)
    );
    let reloading = if status.reloading { ", the next is loading" } else { "" };
    let _ = writeln!(text, "generation  {}{reloading}", status.generation);
    let _ = writeln!(text, "workers     {} there, {} wanted", status.workers.len(), status.target);
    let _ = writeln!(text, "queue       {} waiting{}", status.queue, wait(status));
    if status.spooled > 0 {
        let _ = writeln!(text, "spool       {} of responses to slow readers", size(status.spooled));
    }
    if let Some(trouble) = &status.trouble {
        let _ = writeln!(text, "trouble     {trouble}");
    }
    text
}

fn wait(status: &Status) -> String {
    if !status.saturated {
        return String::new();
    }
    format!(", the oldest for {}: all workers are busy, and there may be no more", span(status.oldest))
}

fn cells(worker: &Worker) -> [String; 9] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        worker.index.to_string(),
        or_dash(worker.pid.map(|pid| pid.to_string())),
        worker.state.clone(),
        span(worker.since),
        worker.requests.to_string(),
        or_dash(worker.memory.map(size)),
        worker.generation.to_string(),
        span(worker.age * 1000),
        worker.request.clone().unwrap_or_default(),
    ]
}

/// Columns, numbers to the right.
pub(super) fn align<const N: usize>(rows: &[[String; N]], is_left: impl Fn(usize) -> bool) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            if is_left(column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Milliseconds, to two units.
pub(super) fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis}ms"),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// Bytes as MiB.
fn size(bytes: u64) -> String {
    let tenths = bytes * 10 / (1 << 20);
    format!("{}.{}M", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let worker = |index, state: &str, requests| Worker {
            index,
            pid: Some(100 + i32::from(index)),
            state: state.to_owned(),
            since: 1500,
            requests,
            memory: (index == 0).then_some(3 << 19),
            generation: 2,
            age: 3700,
            request: (index == 0).then(|| "::1 x GET /".to_owned()),
        };
        let status =
            Status { workers: vec![worker(0, "busy", 12345), worker(1, "idle", 7)], ..Status::default() };
        let text = render(&status);
        let table: Vec<&str> = text.lines().skip_while(|line| !line.is_empty()).skip(1).collect();
        assert_eq!(
            table,
            [
                "worker  pid  state  for  requests  memory  generation    age  request",
                "     0  100  busy    1s     12345    1.5M           2  1h01m  ::1 x GET /",
                "     1  101  idle    1s         7       -           2  1h01m",
            ]
        );
    }

    #[test]
    fn spans_have_two_units_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (59_999, "59s"),
            (61_000, "1m01s"),
            (3_660_000, "1h01m"),
            (90_000_000, "1d01h"),
        ] {
            assert_eq!(span(millis), text);
        }
    }
}
