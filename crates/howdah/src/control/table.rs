//! The state of a server as text, for `howdah status`.

use std::fmt::Write;

use howdah_metrics::{
    AFTER, Certificate, Label, Pool, Queue, RequestSeen, Snapshot, State, Upgrades, Worker, WorkerState,
};

/// The head, a paragraph for each pool when there are several, and a table of the workers.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut text = head(snapshot);
    let now = snapshot.times.now;
    match &snapshot.pools[..] {
        [pool] => text.extend([lines(pool, now), spool(snapshot), log(snapshot), trouble(pool)]),
        pools => {
            text.extend([spool(snapshot), log(snapshot)]);
            text.extend(pools.iter().map(|pool| paragraph(pool, now)));
        }
    }
    text.push_str(&workers(snapshot));
    text
}

/// The first is for servers with several pools.
const TITLES: [&str; 10] =
    ["pool", "worker", "pid", "state", "for", "requests", "memory", "generation", "age", "request"];
/// Columns of text.
const TO_THE_LEFT: [&str; 3] = ["pool", "state", "request"];

/// What is served: `app.psgi`, or `/ app.psgi, /wiki wiki.psgi`.
pub(super) fn applications(snapshot: &Snapshot) -> String {
    match &snapshot.pools[..] {
        [pool] => pool.application.clone(),
        pools => {
            let named = pools.iter().map(|pool| format!("{} {}", pool.name, pool.application));
            named.collect::<Vec<_>>().join(", ")
        }
    }
}

fn head(snapshot: &Snapshot) -> String {
    let server = &snapshot.server;
    let version = server.version.trim_start_matches("Howdah/");
    let does = match snapshot.state() {
        State::Starting => "is starting",
        State::Draining => "is stopping",
        _ => "serves",
    };
    let mut text = format!("{} {does} {} with howdah {version}\n", server.instance, applications(snapshot));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "listening   {}", server.listeners.join(" "));
    let _ = write!(text, "processes   front {} (up {})", server.pid, span(snapshot.times.uptime()));
    if let [pool] = &snapshot.pools[..] {
        let _ = write!(text, ", {}", zygote(pool));
    }
    text.push('\n');
    for certificate in snapshot.tls.iter().flat_map(|tls| &tls.certificates) {
        let Certificate { file, names, trouble, .. } = certificate;
        let _ = write!(text, "certificate {}, {} ({file})", names.join(" "), certificate.left());
        let _ = trouble.as_ref().map(|trouble| write!(text, ": {trouble}"));
        text.push('\n');
    }
    text
}

fn spool(snapshot: &Snapshot) -> String {
    match snapshot.spool.bytes {
        0 => String::new(),
        bytes => format!("spool       {} of responses to slow readers\n", size(bytes)),
    }
}

fn zygote(pool: &Pool) -> String {
    match pool.zygote {
        Some(pid) => format!("zygote {pid}"),
        None if pool.generation == 0 => "zygote not there yet".to_owned(),
        None => "zygote dead".to_owned(),
    }
}

fn paragraph(pool: &Pool, now: f64) -> String {
    let who = format!("\npool        {} {}, {}\n", pool.name, pool.application, zygote(pool));
    who + &lines(pool, now) + &trouble(pool)
}

fn lines(pool: &Pool, now: f64) -> String {
    let Pool { workers, queue, .. } = pool;
    let reloading = if pool.reloading { ", the next is loading" } else { "" };
    let mut text = format!("generation  {}{reloading}\n", pool.origin(now, span));
    if pool.templates > 0 {
        let _ = writeln!(text, "templates   {} compiled before the fork", pool.templates);
    }
    let unlisted = match workers.list.iter().filter(|worker| !is_listed(pool, worker)).count() {
        0 => String::new(),
        idle => format!("; {idle} idle, not listed"),
    };
    let _ = writeln!(text, "workers     {} there, {} wanted{unlisted}", workers.list.len(), workers.target);
    let _ = writeln!(text, "queue       {} waiting{}", queue.depth, wait(queue));
    if pool.upgrades.is_used() {
        let Upgrades { open, limit, total, refused } = pool.upgrades;
        let _ = writeln!(
            text,
            "upgrades    {open} of {limit} connections, {total} since the start, {refused} refused"
        );
    }
    text
}

fn trouble(pool: &Pool) -> String {
    said(pool.trouble.as_ref())
}

fn log(snapshot: &Snapshot) -> String {
    snapshot.troubles_with_logs().map(|trouble| said(Some(trouble))).collect()
}

fn said(trouble: Option<&String>) -> String {
    trouble.map(|trouble| format!("trouble     {trouble}\n")).unwrap_or_default()
}

fn wait(queue: &Queue) -> String {
    if !queue.saturated {
        return String::new();
    }
    let oldest = span(queue.oldest_seconds);
    format!(", the oldest for {oldest}: all workers are busy, and there may be no more")
}

fn workers(snapshot: &Snapshot) -> String {
    let shown = usize::from(!snapshot.has_several_pools())..;
    let rows = snapshot.pools.iter().flat_map(|pool| {
        let listed = pool.workers.list.iter().filter(|worker| is_listed(pool, worker));
        listed.map(|worker| cells(pool, worker))
    });
    let all: Vec<_> = std::iter::once(TITLES.map(str::to_owned)).chain(rows).collect();
    let rows: Vec<&[String]> = all.iter().map(|row| &row[shown.clone()]).collect();
    if rows.len() == 1 {
        return String::new();
    }
    "\n".to_owned() + &align(&rows, |column| TO_THE_LEFT.contains(&TITLES[shown.start + column]))
}

/// Of a thread that waits for a CGI request there is nothing to see: no process, no memory.
fn is_listed(pool: &Pool, worker: &Worker) -> bool {
    worker.state != WorkerState::Idle || pool.zygote != Some(worker.pid)
}

fn cells(pool: &Pool, worker: &Worker) -> [String; 10] {
    let dash = || "-".to_owned();
    [
        pool.name.clone(),
        worker.index.to_string(),
        if worker.pid == 0 { dash() } else { worker.pid.to_string() },
        worker.state.name().to_owned(),
        span(worker.state_seconds),
        worker.requests.to_string(),
        worker.memory.map_or_else(dash, size),
        worker.generation.to_string(),
        span(worker.age_seconds),
        match &worker.request {
            Some(request) => seen(request),
            None if worker.is_behind_response() => AFTER.to_owned(),
            None => String::new(),
        },
    ]
}

/// In the order of a worker's title.
fn seen(request: &RequestSeen) -> String {
    let RequestSeen { client, host, method, target, .. } = request;
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    format!("{} {} {method} {target}", or_dash(client), or_dash(host))
}

/// Columns, numbers to the right.
pub(super) fn align<R: AsRef<[String]>>(rows: &[R], is_left: impl Fn(usize) -> bool) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row.as_ref()[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let cells = row.as_ref().iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            if is_left(column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Seconds, to two units.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0 => format!("{}ms", (seconds * 1000.0) as u64),
        1..60 => format!("{whole}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3600..86400 => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d{:02}h", whole / 86400, whole / 3600 % 24),
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
    use howdah_metrics::Lines;

    use crate::fixture::{busy, several};

    fn has_lines(text: &str, expected: &[&str]) {
        for line in expected {
            assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_server_with_one_pool() {
        has_lines(
            &render(&busy()),
            &[
                "bookshop serves shop.psgi with howdah 0.1.0",
                "listening   http://192.0.2.1:80 unix:/run/bookshop",
                "processes   front 4100 (up 3d04h), zygote 4110",
                "generation  7",
                "templates   200 compiled before the fork",
                "workers     12 there, 12 wanted",
                "queue       3 waiting",
                "spool       11.7M of responses to slow readers",
                "worker   pid  state       for  requests  memory  generation     age  request",
                "     1  4123  idle         1s      4609   38.4M           7   1h24m",
                "     2  4126  busy         2s      4218   40.7M           7   1h19m  2001:db8::7:1 shop.example.org POST /checkout",
                "     9     -  starting     9s      1481       -           7  43m21s",
                "    10  4150  draining    10s      1090   58.6M           7  38m10s  192.0.2.10 shop.example.org GET /checkout",
            ],
        );
    }

    #[test]
    fn a_server_with_several_has_a_paragraph_for_each_and_a_column_that_tells_them_apart() {
        has_lines(
            &render(&several()),
            &[
                "bookshop serves / shop.psgi, /wiki wiki.psgi with howdah 0.1.0",
                "processes   front 4100 (up 3d04h)",
                "pool        / shop.psgi, zygote 4110",
                "generation  7",
                "queue       3 waiting",
                "pool        /wiki wiki.psgi, zygote dead",
                "generation  2 (refork 1, 1m00s ago), the next is loading",
                "templates   3 compiled before the fork",
                "workers     3 there, 2 wanted",
                "queue       4 waiting, the oldest for 2s: all workers are busy, and there may be no more",
                "trouble     the zygote is dead",
                "pool   worker   pid  state       for  requests  memory  generation     age  request",
                "/           4  4132  idle         4s      3436   45.1M           7   1h09m",
                "/wiki       1  4201  leaving     0ms         0       -           2     0ms",
            ],
        );
    }

    #[test]
    fn threads_that_wait_for_cgi_requests_are_counted_instead_of_listed() {
        let worker = |index, state| Worker { index, pid: 77, state, ..Worker::default() };
        let list =
            vec![worker(0, WorkerState::Idle), worker(1, WorkerState::Busy), worker(2, WorkerState::Idle)];
        let workers = howdah_metrics::Workers { target: 3, list, ..howdah_metrics::Workers::default() };
        let mut pool = Pool { name: "/cgi-bin".to_owned(), zygote: Some(77), workers, ..Pool::default() };
        let mut snapshot = several();
        snapshot.pools.push(pool.clone());
        let text = render(&snapshot);
        has_lines(&text, &["workers     3 there, 3 wanted; 2 idle, not listed"]);
        assert_eq!(text.matches("\n/cgi-bin ").count(), 1, "{text}");
        pool.workers.list.remove(1);
        snapshot.pools = vec![pool];
        let text = render(&snapshot);
        assert!(
            text.contains("2 idle, not listed\n") && !text.contains("  state"),
            "no table without rows: {text}"
        );
    }

    #[test]
    fn each_log_that_nobody_takes_is_told_once() {
        for mut snapshot in [busy(), several()] {
            let trouble = Some("access log |nonesuch: it ended".to_owned());
            snapshot.access_log = Some(Lines { trouble, ..Lines::default() });
            let trouble = Some("slow-request log /full: no space".to_owned());
            snapshot.slow_log = Some(Lines { trouble, ..Lines::default() });
            let text = render(&snapshot);
            assert_eq!(text.matches("\ntrouble     access log |nonesuch: it ended\n").count(), 1, "{text}");
            assert_eq!(text.matches("\ntrouble     slow-request log /full: no space\n").count(), 1, "{text}");
        }
    }

    #[test]
    fn a_server_whose_application_is_not_loaded_is_starting() {
        let mut snapshot = busy();
        let pool = &mut snapshot.pools[0];
        (pool.state, pool.generation, pool.zygote) = (State::Starting, 0, None);
        has_lines(
            &render(&snapshot),
            &[
                "bookshop is starting shop.psgi with howdah 0.1.0",
                "processes   front 4100 (up 3d04h), zygote not there yet",
            ],
        );
    }

    #[test]
    fn spans_have_two_units_at_most() {
        for (seconds, text) in [
            (0.0, "0ms"),
            (0.999, "999ms"),
            (59.999, "59s"),
            (61.0, "1m01s"),
            (3660.0, "1h01m"),
            (90_000.0, "1d01h"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
