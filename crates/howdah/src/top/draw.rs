//! The frame: a head of fixed lines, the slowest requests, the workers, the keys. Drawn from scratch each time.
//!
//! Colours are few and from the terminal's own sixteen, none of them yellow, white or black, so that they can be read
//! on light and on dark ground; what they say is also said in words.

use howdah_metrics::{AFTER, Class, Label, Pool, Quantiles, Snapshot, Worker};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::view::{View, workers};
use super::words::{clock, rate, size, time};

/// Requests in the list of the slowest.
const SLOWEST: usize = 3;
/// Lines above the list of the slowest.
const HEAD: u16 = 9;
/// Its title and its requests, the workers' heading, and the keys.
const FIXED: u16 = HEAD + 1 + SLOWEST as u16 + 1 + 1 + 1;

/// What is to be drawn.
#[derive(Debug)]
pub(super) struct Frame {
    snapshot: Snapshot,
    /// Since the snapshot before: requests, errors, bytes in and out, each a second.
    rates: Option<[f64; 4]>,
    /// Why there is no newer snapshot.
    trouble: Option<String>,
}

impl Frame {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self { snapshot, rates: None, trouble: None }
    }

    /// The next snapshot, or why there is none.
    pub(super) fn follow(&mut self, next: Result<Snapshot, String>) {
        match next {
            Ok(snapshot) => {
                self.rates = rates(&self.snapshot, &snapshot);
                (self.snapshot, self.trouble) = (snapshot, None);
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }
}

/// None over a restart, when counters begin anew.
fn rates(before: &Snapshot, now: &Snapshot) -> Option<[f64; 4]> {
    let seconds = now.times.now - before.times.now;
    let counters = |snapshot: &Snapshot| {
        let requests = &snapshot.requests;
        let errors = requests.by_class[Class::ServerError];
        [requests.total, errors, requests.bytes_in, requests.bytes_out]
    };
    let (old, new) = (counters(before), counters(now));
    if seconds <= 0.0 || before.server.pid != now.server.pid {
        return None;
    }
    Some(std::array::from_fn(|at| new[at].saturating_sub(old[at]) as f64 / seconds))
}

/// Lines for all of it.
pub(super) fn height(frame: &Frame) -> u16 {
    FIXED.saturating_add(u16::try_from(workers(&frame.snapshot).count()).unwrap_or(u16::MAX))
}

/// Draws the frame as far as there is room.
pub(super) fn draw(canvas: &mut ratatui::Frame<'_>, frame: &Frame, view: &mut View) {
    let lines = [
        Constraint::Length(HEAD),
        Constraint::Length(2 + SLOWEST as u16),
        Constraint::Min(2),
        Constraint::Length(1),
    ];
    let [head, slowest, workers, keys] = Layout::vertical(lines).areas(canvas.area());
    canvas.render_widget(Paragraph::new(head_lines(frame, view)), head);
    canvas.render_widget(Paragraph::new(slowest_lines(&frame.snapshot)), slowest);
    draw_workers(canvas, workers, &frame.snapshot, view);
    if view.shows_keys {
        canvas.render_widget(Paragraph::new(keys_line(view)), keys);
    }
}

fn bold(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Modifier::BOLD)
}

fn coloured(text: impl Into<String>, color: Color) -> Span<'static> {
    Span::styled(text.into(), Style::new().fg(color).add_modifier(Modifier::BOLD))
}

fn head_lines(frame: &Frame, view: &View) -> Vec<Line<'static>> {
    let snapshot = &frame.snapshot;
    let mut lines = vec![title(frame, view), rates_line(frame), trouble_line(snapshot)];
    let title = format!("{:<12}{:>9}{:>9}{:>9}{:>9}", "last minute", "p50", "p90", "p99", "max");
    lines.push(Line::from(bold(title)));
    let recent = &snapshot.recent;
    lines.push(quantiles("duration", &recent.duration));
    lines.push(quantiles("queue", &recent.queue));
    lines.push(quantiles("first byte", &recent.first_byte));
    lines.push(queue_line(snapshot));
    lines.push(connections_line(snapshot));
    lines
}

fn title(frame: &Frame, view: &View) -> Line<'static> {
    let Snapshot { server, times, .. } = &frame.snapshot;
    let state = frame.snapshot.state();
    let name = if server.name.is_empty() { "howdah" } else { &server.name };
    if let Some(trouble) = &frame.trouble {
        return Line::from(vec![bold(format!("{name}  ")), coloured(trouble.clone(), Color::Red)]);
    }
    let color = if state.is_ready() { Color::Green } else { Color::Red };
    let paused = if view.paused { coloured("  paused", Color::Magenta) } else { Span::default() };
    Line::from(vec![
        bold(format!("{name}  ")),
        coloured(state.name(), color),
        Span::raw(format!("{}  up {}", generation(&frame.snapshot), time(times.uptime()))),
        Span::raw(format!("  {} pid {}  {}", server.version, server.pid, clock(times.now))),
        paused,
    ])
}

/// Of several pools each has its own.
fn generation(snapshot: &Snapshot) -> String {
    match &snapshot.pools[..] {
        [pool] => format!("  generation {}", pool.origin(snapshot.times.now, time)),
        _ => String::new(),
    }
}

fn rates_line(frame: &Frame) -> Line<'static> {
    let recent = &frame.snapshot.recent;
    let minute = [recent.requests, recent.errors, recent.bytes_in, recent.bytes_out];
    let [requests, errors, bytes_in, bytes_out] = frame.rates.unwrap_or(minute);
    let [load, ..] = frame.snapshot.load;
    let failing = if errors > 0.0 { Color::Red } else { Color::Reset };
    Line::from(vec![
        bold(format!("{}/s", rate(requests))),
        Span::raw(" requests  "),
        Span::styled(format!("{}/s errors", rate(errors)), failing),
        Span::raw(format!("  in {}B/s  out {}B/s", size(bytes_in), size(bytes_out))),
        Span::raw(format!("  total {}  load {load:.2}", frame.snapshot.requests.total)),
    ])
}

/// What is wrong; `howdah status` has it where this is too narrow.
fn trouble_line(snapshot: &Snapshot) -> Line<'static> {
    let all = snapshot.together();
    let troubles = all.trouble.iter().chain(snapshot.troubles_with_logs());
    let troubles: Vec<&str> = troubles.map(String::as_str).collect();
    if troubles.is_empty() {
        return Line::default();
    }
    Line::from(coloured(format!("{:<12}{}", "trouble", troubles.join("; ")), Color::Red))
}

fn quantiles(name: &str, times: &Quantiles) -> Line<'static> {
    if times.count == 0 {
        return Line::from(format!("{name:<12}{:>9}{:>9}{:>9}{:>9}", "-", "-", "-", "-"));
    }
    let [p50, p90, p99, max] = [times.p50, times.p90, times.p99, times.max].map(time);
    Line::from(format!("{name:<12}{p50:>9}{p90:>9}{p99:>9}{max:>9}"))
}

fn queue_line(snapshot: &Snapshot) -> Line<'static> {
    let (queue, peak) = (snapshot.together().queue, snapshot.recent.queue_peak);
    let (depth, limit) = (queue.depth, queue.limit);
    let color = if depth > 0 { Color::Magenta } else { Color::Reset };
    let rest = if queue.saturated {
        let oldest = time(queue.oldest_seconds);
        coloured(format!(" of {limit}, the oldest for {oldest}: there may be no more workers"), Color::Red)
    } else {
        Span::raw(format!(" of {limit}, {peak} at most in the last {}", time(snapshot.recent.seconds)))
    };
    Line::from(vec![Span::raw(format!("{:<12}", "waiting")), Span::styled(format!("{depth}"), color), rest])
}

fn connections_line(snapshot: &Snapshot) -> Line<'static> {
    let connections = &snapshot.connections;
    let there = connections.by_state.iter().filter(|(_, count)| **count > 0);
    let shown: Vec<String> = there.map(|(state, count)| format!("{count} {}", state.name())).collect();
    Line::from(format!("{:<12}{} open  {}", "connections", connections.open, shown.join("  ")))
}

fn slowest_lines(snapshot: &Snapshot) -> Vec<Line<'static>> {
    let all = workers(snapshot).map(|(_, worker)| worker);
    let mut running: Vec<&Worker> = all.filter(|worker| worker.request.is_some()).collect();
    running.sort_by(|a, b| b.request_seconds().total_cmp(&a.request_seconds()));
    let mut lines = vec![Line::default(), Line::from(bold("slowest requests now"))];
    let slowest = running.into_iter().take(SLOWEST);
    lines.extend(
        slowest
            .map(|worker| Line::from(format!("{:>9}  {}", time(worker.request_seconds()), request(worker)))),
    );
    if lines.len() == 2 {
        lines.push(Line::from("        -"));
    }
    lines
}

fn request(worker: &Worker) -> String {
    let Some(request) = &worker.request else {
        return if worker.is_behind_response() { AFTER.to_owned() } else { String::new() };
    };
    let host = if request.host.is_empty() { "-" } else { &request.host };
    format!("{} {host}{} {}", request.method, request.target, request.client)
}

/// Columns before the request, and their widths.
const COLUMNS: [(&str, u16); 9] = [
    ("pool", 8),
    ("#", 4),
    ("pid", 7),
    ("state", 8),
    ("for", 6),
    ("requests", 9),
    ("memory", 7),
    ("age", 6),
    ("time", 6),
];
/// Columns of text.
const TO_THE_LEFT: [&str; 2] = ["pool", "state"];
/// What a narrow terminal can do without: the request needs the room.
const WIDE: [&str; 2] = ["for", "age"];
const NARROW: u16 = 100;

/// What is shown of the columns.
#[derive(Clone, Copy, Debug)]
struct Columns {
    is_wide: bool,
    has_pools: bool,
}

impl Columns {
    fn of(snapshot: &Snapshot, width: u16) -> Self {
        Self { is_wide: width >= NARROW, has_pools: snapshot.has_several_pools() }
    }

    fn has(self, title: &str) -> bool {
        (self.is_wide || !WIDE.contains(&title)) && (self.has_pools || title != "pool")
    }

    /// The cells that are shown, of one for each column.
    fn cells(self, texts: [String; COLUMNS.len()]) -> impl Iterator<Item = Cell<'static>> {
        let all = COLUMNS.iter().zip(texts).filter(move |((title, _), _)| self.has(title));
        all.map(|((title, width), text)| to_the_right(title, text, *width))
    }
}

fn draw_workers(canvas: &mut ratatui::Frame<'_>, area: Rect, snapshot: &Snapshot, view: &mut View) {
    let workers = view.sorted(snapshot);
    let room = usize::from(area.height.saturating_sub(1));
    view.scroll = view.scroll.min(workers.len().saturating_sub(room));
    let columns = Columns::of(snapshot, area.width);
    let shown = COLUMNS.iter().filter(|(title, _)| columns.has(title));
    let widths = shown.map(|(_, width)| Constraint::Length(*width)).chain([Constraint::Fill(1)]);
    let rows = workers.into_iter().skip(view.scroll).map(|(pool, worker)| row(pool, worker, columns));
    let table = Table::new(rows, widths).header(heading(snapshot, view, columns)).column_spacing(1);
    canvas.render_widget(table, area);
}

/// The column that sorts bears a mark.
fn heading(snapshot: &Snapshot, view: &View, columns: Columns) -> Row<'static> {
    let mark = if view.reverse { '^' } else { 'v' };
    let name = |name: &str| {
        if view.sort.name() == name { format!("{name}{mark}") } else { name.to_owned() }
    };
    let all = snapshot.together();
    let (busy, there, wanted) = (all.workers.busy().running(), all.workers.list.len(), all.workers.target);
    let last = Cell::from(format!("request ({busy}/{there} busy, {wanted} wanted)"));
    let titles = columns.cells(COLUMNS.map(|(title, _)| name(title)));
    Row::new(titles.chain([last])).style(Modifier::BOLD | Modifier::REVERSED)
}

fn to_the_right(title: &str, text: String, width: u16) -> Cell<'static> {
    let width = usize::from(width);
    Cell::from(if TO_THE_LEFT.contains(&title) { text } else { format!("{text:>width$}") })
}

fn row(pool: &Pool, worker: &Worker, columns: Columns) -> Row<'static> {
    let dash = || "-".to_owned();
    let texts = [
        pool.name.clone(),
        worker.index.to_string(),
        if worker.pid == 0 { dash() } else { worker.pid.to_string() },
        worker.state.name().to_owned(),
        time(worker.state_seconds),
        worker.requests.to_string(),
        worker.memory.map_or_else(dash, |bytes| size(bytes as f64)),
        time(worker.age_seconds),
        if worker.request.is_some() { time(worker.request_seconds()) } else { dash() },
    ];
    let style =
        if worker.request.is_some() { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    Row::new(columns.cells(texts).chain([Cell::from(request(worker))])).style(style)
}

fn keys_line(view: &View) -> Line<'static> {
    let keys = [
        ("q", "quit".to_owned()),
        ("s", format!("sort: {}", view.sort.name())),
        ("r", "reverse".to_owned()),
        ("p", if view.paused { "go on" } else { "pause" }.to_owned()),
        ("+ -", format!("every {}", time(view.interval.as_secs_f64()))),
        ("up down", "scroll".to_owned()),
    ];
    let spans = keys.into_iter().flat_map(|(key, deed)| [bold(key), Span::raw(format!(" {deed}  "))]);
    Line::from(spans.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    use howdah_metrics::Lines;

    use super::*;
    use crate::fixture::{busy, several};
    use crate::top::text_of;

    /// A server that has had so many requests, at such a time.
    fn snapshot(total: u64, now: f64) -> Snapshot {
        let mut snapshot = busy();
        (snapshot.requests.total, snapshot.times.now) = (total, now);
        snapshot.recent.queue.count = 0;
        snapshot
    }

    fn screen(frame: &Frame, view: &mut View, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|canvas| draw(canvas, frame, view)).unwrap();
        text_of(terminal.backend())
    }

    #[test]
    fn a_small_terminal_has_room_for_everything_that_matters() {
        let mut view = View::new(Duration::from_secs(1));
        let mut frame = Frame::new(snapshot(1000, 10.0));
        frame.follow(Ok(snapshot(1500, 12.0)));
        let screen = screen(&frame, &mut view, (80, 24));
        for text in [
            "bookshop  ready  generation 7  up 0",
            "250/s requests  0/s errors",
            "duration       17.4ms   29.5ms    461ms    923ms",
            "queue               -        -        -        -",
            "3 of 1024, 19 at most in the last 1m02s",
            "241 open  211 idle  4 reading  3 queued  8 running  12 writing",
            "   14.2s  GET shop.example.org/reports/annual/2026.pdf",
            "time",
            "request (5/12 busy, 12 wanted)",
            "q quit  s sort: time  r reverse  p pause  + - every 1.00s  up down scroll",
        ] {
            assert!(screen.contains(text), "{text} is not in\n{screen}");
        }
        let lines = screen.lines().skip_while(|line| !line.starts_with("   #"));
        let pids: Vec<_> = lines.filter_map(|line| line.get(8..12)).collect();
        assert_eq!(pids[1..5], ["4129", "4141", "4126", "4150"], "the longest first\n{screen}");
    }

    #[test]
    fn a_refork_is_told_with_the_time_since_it() {
        let mut snapshot = busy();
        (snapshot.pools[0].reforks, snapshot.pools[0].loaded) = (2, snapshot.times.now - 185.0);
        let screen = screen(&Frame::new(snapshot), &mut View::plain(), (120, 32));
        assert!(
            screen.starts_with("bookshop  ready  generation 7 (refork 2, 3m05s ago)  up 3d04h"),
            "{screen}"
        );
    }

    #[test]
    fn trouble_is_told() {
        let mut snapshot = busy();
        snapshot.pools[0].trouble = Some("the zygote is dead".to_owned());
        let trouble = Some("access log /full: no space".to_owned());
        snapshot.access_log = Some(Lines { trouble, ..Lines::default() });
        let screen = screen(&Frame::new(snapshot), &mut View::plain(), (80, 24));
        let line = "\ntrouble     the zygote is dead; access log /full: no space\n";
        assert!(screen.contains(line), "{screen}");
    }

    #[test]
    fn several_pools_are_told_apart_by_a_column() {
        for (snapshot, expected) in [
            (
                busy(),
                [
                    "bookshop  ready  generation 7  up 3d04h  Howdah/0.1.0 pid 4100",
                    "waiting     3 of 1024, 19 at most in the last 1m02s",
                    "   #     pid state       for  requests  memory    age  timev request (5/12 busy, 12 wanted)",
                    "  11    4153 idle      11.8s       699   60.8M 32m59s      -",
                ],
            ),
            (
                several(),
                [
                    "bookshop  ready  up 3d04h  Howdah/0.1.0 pid 4100",
                    "waiting     7 of 1124, the oldest for 2.50s: there may be no more workers",
                    "pool        #     pid state       for  requests  memory    age  timev request (5/15 busy, 14 wanted)",
                    "/wiki       0    4200 draining      0         0       -      0      -",
                ],
            ),
        ] {
            let screen = screen(&Frame::new(snapshot), &mut View::plain(), (120, 32));
            for text in expected {
                assert!(screen.contains(text), "{text} is not in\n{screen}");
            }
        }
    }

    #[test]
    fn no_size_is_too_small() {
        let frame = Frame::new(snapshot(1, 1.0));
        for size in [(1, 1), (20, 5), (80, 10), (300, 100)] {
            screen(&frame, &mut View::new(Duration::from_secs(1)), size);
        }
    }

    #[test]
    fn a_long_list_can_be_scrolled_to_its_end_and_no_further() {
        let mut view = View::new(Duration::from_secs(1));
        let frame = Frame::new(snapshot(1, 1.0));
        view.key(KeyEvent::from(KeyCode::PageDown));
        let screen = screen(&frame, &mut view, (80, HEAD + 5 + 3 + 1));
        assert_eq!(view.scroll, 10);
        assert!(screen.contains("4153") && !screen.contains("4129"), "\n{screen}");
    }

    #[test]
    fn a_server_that_is_gone_is_told_until_it_is_back() {
        let mut view = View::new(Duration::from_secs(1));
        let mut frame = Frame::new(snapshot(10, 1.0));
        frame.follow(Err("no server answers".to_owned()));
        assert!(screen(&frame, &mut view, (80, 24)).starts_with("bookshop  no server answers"));
        let mut next = snapshot(3, 2.0);
        next.server.pid = 78;
        frame.follow(Ok(next));
        assert!(screen(&frame, &mut view, (80, 24)).contains("1235/s requests"), "counters began anew");
    }
}
