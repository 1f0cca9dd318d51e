//! The status page for people: one file, no picture or font from elsewhere, whole without JavaScript.
//!
//! The charts are drawn here as SVG. The script only fetches the page again and exchanges the sections that have
//! changed, and sorts the table.

mod tiles;
mod workers;
mod panels;
mod chart;
mod markup;

use markup::Text;

use crate::label::{Label, State};
use crate::number::{long, put};
use crate::pool::Pool;
use crate::snapshot::Snapshot;

const STYLE: &str = include_str!("../../assets/status.css");
const SCRIPT: &str = include_str!("../../assets/status.js");
const MARK: &str = include_str!("../../assets/mark.svg");
/// Seconds between two refreshes by the script when the request names none.
const LIVE: u32 = 2;

/// Renders the page. `refresh` is the client's wish, in seconds; `table` is false for `?notable`.
pub(crate) fn render(snapshot: &Snapshot, refresh: Option<u32>, table: bool) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let all = snapshot.together();
    head(&mut out, snapshot, refresh);
    header(&mut out, snapshot, &all);
    out.push_str("<main>");
    tiles::put_tiles(&mut out, snapshot, &all);
    workers::put_board(&mut out, snapshot);
    if table {
        workers::put_table(&mut out, snapshot);
    }
    panels::put_panels(&mut out, snapshot, &all);
    out.push_str("</main>");
    footer(&mut out);
    put(&mut out, format_args!("<script>{SCRIPT}</script></body></html>\n"));
    out
}

fn head(out: &mut String, snapshot: &Snapshot, refresh: Option<u32>) {
    let title = Text(title(snapshot));
    let seconds = refresh.unwrap_or(LIVE);
    put(
        out,
        format_args!(
            "<!DOCTYPE html><html lang=\"en\" data-refresh=\"{seconds}\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"robots\" content=\"noindex\"><meta name=\"color-scheme\" content=\"light dark\">\
             <title>{title} – Howdah</title><style>{STYLE}</style>"
        ),
    );
    if let Some(seconds) = refresh {
        put(out, format_args!("<noscript><meta http-equiv=\"refresh\" content=\"{seconds}\"></noscript>"));
    }
    out.push_str("</head><body>");
}

fn title(snapshot: &Snapshot) -> &str {
    let server = &snapshot.server;
    if server.name.is_empty() { &server.host } else { &server.name }
}

fn header(out: &mut String, snapshot: &Snapshot, all: &Pool) {
    let server = &snapshot.server;
    put(
        out,
        format_args!(
            "<header><div id=\"head\">{MARK}<div class=\"who\"><h1>{}</h1><p>",
            Text(title(snapshot))
        ),
    );
    let mut facts = vec![server.host.clone(), server.version.clone()];
    if !server.perl.is_empty() {
        facts.push(format!("perl {}", server.perl.trim_start_matches('v')));
    }
    if !snapshot.has_several_pools() {
        facts.push(format!("generation {}", all.origin(snapshot.times.now, long)));
    }
    facts.push(format!("up {}", long(snapshot.times.uptime())));
    let shown: Vec<_> =
        facts.iter().filter(|fact| !fact.is_empty()).map(|fact| Text(fact).to_string()).collect();
    put(out, format_args!("{}</p>", shown.join("<span class=\"dot\">·</span>")));
    for trouble in all.trouble.iter().chain(snapshot.troubles_with_logs()) {
        put(out, format_args!("<p><span class=\"bad\">{}</span></p>", Text(trouble)));
    }
    out.push_str("</div>");
    let (state, mood) = (all.state.name(), mood(all.state));
    put(
        out,
        format_args!(
            "<span class=\"pill {mood}\">{state}</span></div><button id=\"live\" type=\"button\" hidden></button></header>"
        ),
    );
}

fn mood(state: State) -> &'static str {
    match state {
        State::Ready => "good",
        State::Starting | State::Reloading | State::Draining => "warn",
        State::Failing => "bad",
    }
}

fn footer(out: &mut String) {
    out.push_str(
        "<footer><span>Other shapes: <a href=\"?auto\">auto</a> <a href=\"?json\">json</a> \
         <a href=\"?json=lite\">json=lite</a> <a href=\"?notable\">notable</a> <a href=\"?refresh=5\">refresh=5</a>\
         </span></footer>",
    );
}
