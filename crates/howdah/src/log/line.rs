//! A line of the error log, as text or as JSON. A message of several lines becomes as many lines of the log, each with
//! where it comes from. Nothing in a message can begin a line or hide one: see `printable`.

use std::fmt;
use std::io::Write;

use howdah_metrics::printable;
use jiff::Timestamp;
use serde::Serialize;

use crate::options::logs::{Format, Level};

/// Who says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Source {
    /// The front, or the supervisor in it.
    Front,
    /// A zygote, or one of its children that is no worker.
    Zygote { pid: u32 },
    /// A worker, or a child of its application, which has another process id.
    Worker { index: u16, pid: u32, request: Option<RequestTag> },
    /// Somebody who wrote to standard error without Perl: a library in C, or a program that the application runs.
    #[default]
    Unknown,
}

/// The request that a worker had when it said so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestTag {
    /// Its X-Request-Id; empty for none.
    pub(super) id: Vec<u8>,
    pub(super) method: Vec<u8>,
    pub(super) target: Vec<u8>,
}

/// A message to be logged.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// When it was said, or read.
    pub(super) time: Timestamp,
    pub(super) level: Level,
    pub(super) source: &'a Source,
    pub(super) text: &'a [u8],
    /// Names and values.
    pub(super) fields: &'a [(&'static str, String)],
}

#[derive(Serialize)]
struct Document<'a> {
    time: &'a str,
    level: &'a str,
    source: &'a str,
    pid: Option<u32>,
    worker: Option<u16>,
    request_id: Option<String>,
    method: Option<String>,
    target: Option<String>,
    message: String,
    #[serde(flatten)]
    fields: Option<Fields<'a>>,
}

#[derive(Serialize)]
struct Fields<'a> {
    fields: std::collections::BTreeMap<&'a str, &'a str>,
}

impl Format {
    /// Appends the lines of a message to `out`, each behind `mark`. An application may say something in each request, so text
    /// is written where it belongs at once: what stands before each line, and the line.
    pub(super) fn render(self, mark: &str, message: &Message<'_>, out: &mut Vec<u8>) {
        let text = message.text.strip_suffix(b"\n").unwrap_or(message.text);
        let lines = text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        match self {
            Self::Text => put_text(out, mark, message, lines),
            Self::Json => {
                let time = format!("{:.3}", message.time);
                for line in lines {
                    out.extend_from_slice(mark.as_bytes());
                    out.extend_from_slice(&in_json(&time, message, printable_but_tabs(line)));
                    out.push(b'\n');
                }
            }
        }
    }
}

fn put_text<'a>(out: &mut Vec<u8>, mark: &str, message: &Message<'_>, lines: impl Iterator<Item = &'a [u8]>) {
    let begin = out.len();
    out.extend_from_slice(mark.as_bytes());
    put_start(out, message);
    let start = begin..out.len();
    for (number, line) in lines.enumerate() {
        if number > 0 {
            out.extend_from_within(start.clone());
        }
        put_line(out, line);
        put_fields(out, message.fields);
        out.push(b'\n');
    }
}

/// Tabs indent backtraces, and harm nobody.
pub(super) fn printable_but_tabs(line: &[u8]) -> String {
    line.split(|&byte| byte == b'\t').map(printable).collect::<Vec<_>>().join("\t")
}

/// Without spaces, so that a word of ours is never one of the client's.
pub(super) fn word(bytes: &[u8]) -> String {
    printable(bytes).replace(' ', "\\x20")
}

/// All of them are written to memory, which cannot fail.
fn put(out: &mut Vec<u8>, what: fmt::Arguments<'_>) {
    let _ = out.write_fmt(what);
}

fn put_start(out: &mut Vec<u8>, message: &Message<'_>) {
    let level = match message.level {
        Level::Error => " ERROR ",
        Level::Warn => " WARN  ",
        Level::Info => " INFO  ",
        Level::Debug => " DEBUG ",
    };
    put(out, format_args!("{:.3}", message.time));
    out.extend_from_slice(level.as_bytes());
    put_source(out, message.source);
    out.extend_from_slice(b": ");
}

fn put_source(out: &mut Vec<u8>, source: &Source) {
    match source {
        Source::Front => out.extend_from_slice(b"front"),
        Source::Zygote { pid } => put(out, format_args!("zygote pid {pid}")),
        Source::Worker { index, pid, request: None } => put(out, format_args!("worker {index} pid {pid}")),
        Source::Worker { index, pid, request: Some(request) } => {
            put(out, format_args!("worker {index} pid {pid} request "));
            put_word(out, if request.id.is_empty() { b"-" } else { &request.id });
            out.push(b' ');
            put_word(out, &request.method);
            out.push(b' ');
            put_word(out, &request.target);
        }
        Source::Unknown => out.extend_from_slice(b"stderr"),
    }
}

/// Most words can stand as they are.
fn put_word(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.iter().all(|byte| matches!(byte, b'!'..=b'~')) {
        out.extend_from_slice(bytes);
    } else {
        out.extend_from_slice(word(bytes).as_bytes());
    }
}

fn put_line(out: &mut Vec<u8>, line: &[u8]) {
    if line.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        out.extend_from_slice(line);
    } else {
        out.extend_from_slice(printable_but_tabs(line).as_bytes());
    }
}

fn put_fields(out: &mut Vec<u8>, fields: &[(&str, String)]) {
    for (name, value) in fields {
        put(out, format_args!(" {name}={value}"));
    }
}

pub(super) fn source_in_words(source: &Source) -> String {
    let mut words = Vec::new();
    put_source(&mut words, source);
    String::from_utf8_lossy(&words).into_owned()
}

fn in_json(time: &str, message: &Message<'_>, line: String) -> Vec<u8> {
    let (source, pid, worker, request) = match message.source {
        Source::Front => ("front", Some(std::process::id()), None, None),
        Source::Zygote { pid } => ("zygote", Some(*pid), None, None),
        Source::Worker { index, pid, request } => ("worker", Some(*pid), Some(*index), request.as_ref()),
        Source::Unknown => ("stderr", None, None, None),
    };
    let fields = message.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let document = Document {
        time,
        level: message.level.name(),
        source,
        pid,
        worker,
        request_id: request.filter(|request| !request.id.is_empty()).map(|request| printable(&request.id)),
        method: request.map(|request| printable(&request.method)),
        target: request.map(|request| printable(&request.target)),
        message: line,
        fields: (!message.fields.is_empty()).then_some(Fields { fields }),
    };
    serde_json::to_vec(&document).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(request: Option<RequestTag>) -> Source {
        Source::Worker { index: 3, pid: 77, request }
    }

    fn request() -> Option<RequestTag> {
        Some(RequestTag { id: b"a b\x1b".to_vec(), method: b"GET".to_vec(), target: b"/x".to_vec() })
    }

    fn rendered(format: Format, source: &Source, text: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        let time = Timestamp::now();
        format.render("", &Message { time, level: Level::Warn, source, text, fields: &[] }, &mut out);
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_line_of_a_message_says_where_it_comes_from() {
        let lines = rendered(Format::Text, &worker(request()), b"one\n\ttwo\n");
        let ends: Vec<_> = lines.iter().map(|line| &line["2026-11-22T00:00:00.000Z ".len()..]).collect();
        assert_eq!(
            ends,
            [
                r"WARN  worker 3 pid 77 request a\x20b\x1b GET /x: one",
                "WARN  worker 3 pid 77 request a\\x20b\\x1b GET /x: \ttwo",
            ]
        );
    }

    #[test]
    fn sources_are_told_apart() {
        for (source, words) in [
            (Source::Front, "front: hi"),
            (Source::Zygote { pid: 9 }, "zygote pid 9: hi"),
            (worker(None), "worker 3 pid 77: hi"),
            (Source::Unknown, "stderr: hi"),
        ] {
            assert!(rendered(Format::Text, &source, b"hi")[0].ends_with(words), "{words}");
        }
    }

    #[test]
    fn a_message_cannot_pretend_to_be_another() {
        let lines = rendered(Format::Text, &worker(None), b"a\r2026\x1b[2K\x08\xff\xc2\x85");
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with(r": a\x0d2026\x1b[2K\x08\xff\u{85}"), "{}", lines[0]);
    }

    #[test]
    fn json_has_a_document_for_each_line() {
        let lines = rendered(Format::Json, &worker(request()), b"say \"hi\"\n\x00");
        let documents: Vec<serde_json::Value> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(documents[0]["message"], "say \"hi\"");
        assert_eq!(documents[1]["message"], "\\x00");
        assert_eq!(documents[1]["request_id"], "a b\\x1b");
        assert_eq!((&documents[1]["pid"], &documents[1]["worker"]), (&77.into(), &3.into()));
        let plain = &rendered(Format::Json, &Source::Unknown, b"x")[0];
        let plain: serde_json::Value = serde_json::from_str(plain).unwrap();
        assert_eq!((&plain["source"], &plain["pid"]), (&"stderr".into(), &serde_json::Value::Null));
    }

    #[test]
    fn times_are_utc_with_milliseconds() {
        let line = &rendered(Format::Text, &Source::Front, b"x")[0];
        let time: Timestamp = line.split(' ').next().unwrap().parse().unwrap();
        assert!(Timestamp::now().duration_since(time).as_secs() < 5);
        assert_eq!(line.find("Z "), Some("2026-11-22T00:00:00.000".len()));
    }
}
