//! What the error log hears of an access log in trouble, and when. How often is told in `src/sink/report.rs`.
#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

use std::io::{self, Write};
use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

use howdah_accesslog::{Options, Sink, Target};

const QUICK: Options = Options {
    what: "access log",
    batch: 64 * 1024,
    delay: Duration::from_millis(1),
    capacity: 1000,
    report: Duration::from_secs(60),
};
const PATIENCE: Duration = Duration::from_secs(10);

/// All that this process has logged.
static HEARD: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Page;

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        HEARD.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(target: &Target) -> Sink {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| tracing_subscriber::fmt().with_writer(|| Page).with_ansi(false).init());
    Sink::open(target, QUICK).unwrap()
}

/// What was heard of `target` so far.
fn heard(target: &Target) -> String {
    let heard = String::from_utf8(HEARD.lock().unwrap().clone()).unwrap();
    let name = format!("access log {target}");
    heard.lines().filter_map(|line| Some(line.split_once(&name)?.1)).collect::<Vec<_>>().join("\n")
}

fn eventually(what: &str, target: &Target) {
    let start = Instant::now();
    while !heard(target).contains(what) {
        assert!(start.elapsed() < PATIENCE, "{what:?} is not in {:?}", heard(target));
        thread::sleep(Duration::from_millis(5));
    }
}

fn line(sink: &Sink) {
    sink.writer().line(|out| out.extend_from_slice(b"0123456789\n"));
}

#[test]
fn a_full_disk_is_told_at_once_and_what_it_costs_at_the_end() {
    let target = Target::File("/dev/./full".into());
    let sink = open(&target);
    line(&sink);
    eventually("lines wait in memory", &target);
    line(&sink);
    sink.close(Duration::from_millis(300));
    eventually(": 2 lines could not be written before the end", &target);
}

#[test]
fn a_reader_that_does_not_read_is_told_after_a_second() {
    let target = Target::parse("|exec sleep 20");
    let sink = open(&target);
    let writer = sink.writer();
    let start = Instant::now();
    while !heard(&target).contains(": nobody reads it; its lines wait in memory") {
        assert!(start.elapsed() < PATIENCE, "{}", heard(&target));
        writer.line(|out| out.extend_from_slice(&[b"0123456789".repeat(100), b"\n".to_vec()].concat()));
        thread::sleep(Duration::from_millis(1));
    }
    assert!(start.elapsed() >= Duration::from_secs(1), "a moment's pause is no trouble");
    sink.close(Duration::ZERO);
}

#[test]
fn a_file_that_cannot_be_opened_anew_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("a");
    std::fs::create_dir(&folder).unwrap();
    let target = Target::File(folder.join("log"));
    let sink = open(&target);
    std::fs::rename(&folder, dir.path().join("b")).unwrap();
    let outcome = sink.reopen().recv_timeout(PATIENCE).unwrap();
    assert!(outcome.unwrap_err().contains("No such file"));
    eventually(" cannot be opened anew: No such file", &target);

    let condition = sink.watch();
    let trouble = condition().trouble.unwrap();
    assert!(trouble.starts_with("it could not be opened anew: No such file"), "{trouble}");
    assert!(trouble.ends_with("; lines go to the old file"), "{trouble}");
    line(&sink);
    assert!(condition().trouble.is_some(), "lines that are written are no remedy");
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(sink.reopen().recv_timeout(PATIENCE), Ok(Ok(())));
    assert_eq!(condition().trouble, None);
}

#[test]
fn a_log_without_trouble_is_not_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::File(dir.path().join("log"));
    let sink = open(&target);
    line(&sink);
    assert_eq!(sink.close(PATIENCE).written, 1);
    assert_eq!(heard(&target), "");
}
