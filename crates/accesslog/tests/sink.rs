//! The writer of lines: nothing lost or torn at reopen and stop, nothing blocked by what stalls.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use howdah_accesslog::{Counts, Options, Sink, Starter, Target, Writer};

const QUICK: Options = Options {
    what: "access log",
    batch: 64 * 1024,
    delay: Duration::from_millis(10),
    capacity: 1024 * 1024,
    report: Duration::from_secs(60),
};
const PATIENCE: Duration = Duration::from_secs(10);

fn file(path: &Path) -> Target {
    Target::File(path.to_owned())
}

fn put(writer: &Writer, text: &str) {
    writer.line(|out| {
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    });
}

/// Waits until `done`, but not for ever.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn lines_arrive_without_a_push_within_the_delay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let sink = Sink::open(&file(&path), QUICK).unwrap();
    let writer = sink.writer();
    put(&writer, "one");
    put(&writer, "two");
    eventually("the lines", || read(&path) == "one\ntwo\n");
    put(&writer, "three");
    eventually("the third line", || read(&path).ends_with("three\n"));
    eventually("its count", || sink.counts() == Counts { written: 3, dropped: 0 });
}

#[test]
fn a_batch_does_not_wait_for_the_delay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let patient = Options { delay: Duration::from_secs(3600), batch: 1000, ..QUICK };
    let sink = Sink::open(&file(&path), patient).unwrap();
    let writer = sink.writer();
    for _ in 0..100 {
        put(&writer, "0123456789");
    }
    eventually("a batch", || read(&path).len() >= 1000);
    assert_eq!(sink.close(PATIENCE), Counts { written: 100, dropped: 0 });
}

#[test]
fn neither_a_reopening_nor_the_end_waits_for_the_delay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let sink = Sink::open(&file(&path), Options { delay: Duration::from_secs(3600), ..QUICK }).unwrap();
    let writer = sink.writer();
    put(&writer, "one");
    fs::rename(&path, dir.path().join("old")).unwrap();
    assert_eq!(sink.reopen().recv_timeout(PATIENCE), Ok(Ok(())));
    put(&writer, "two");
    assert_eq!(sink.close(PATIENCE), Counts { written: 2, dropped: 0 });
    assert_eq!((read(&dir.path().join("old")), read(&path)), ("one\n".to_owned(), "two\n".to_owned()));
}

#[test]
fn a_file_is_opened_anew_once_for_each_asking() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("log"), dir.path().join("moved"));
    let sink = Sink::open(&file(&path), QUICK).unwrap();
    let writer = sink.writer();
    assert_eq!(sink.reopen().recv_timeout(PATIENCE), Ok(Ok(())));
    fs::rename(&path, &moved).unwrap();
    put(&writer, "one");
    eventually("the line", || read(&moved) == "one\n");
    assert!(!path.exists(), "nobody has asked again");
}

/// Each of twenty rounds takes a few milliseconds; one that waited for the next attempt would take a second.
#[test]
fn lines_that_flow_and_reopenings_wait_for_no_next_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let flows = Sink::open(&file(&dir.path().join("log")), QUICK).unwrap();
    let stalls = Sink::open(&file(Path::new("/dev/full")), QUICK).unwrap();
    let (writer, start) = (flows.writer(), Instant::now());
    put(&stalls.writer(), "one");
    for round in 1..=20 {
        put(&writer, "one");
        eventually("the line", || flows.counts().written == round);
        assert_eq!(stalls.reopen().recv_timeout(PATIENCE), Ok(Ok(())));
    }
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn what_is_there_is_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, "old\n").unwrap();
    let sink = Sink::open(&file(&path), QUICK).unwrap();
    put(&sink.writer(), "new");
    sink.close(PATIENCE);
    assert_eq!(read(&path), "old\nnew\n");
}

#[test]
fn many_writers_and_reopens_lose_and_tear_nothing() {
    const WRITERS: usize = 3;
    const LINES: usize = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let sink = Sink::open(&file(&path), Options { capacity: 64 * 1024 * 1024, ..QUICK }).unwrap();
    let start = Arc::new(Barrier::new(WRITERS + 1));
    let threads: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (lines, start) = (sink.writer(), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                (0..LINES).for_each(|line| put(&lines, &format!("writer {writer} line {line} end")));
            })
        })
        .collect();
    start.wait();
    for round in 0..5 {
        fs::rename(&path, dir.path().join(format!("log.{round}"))).unwrap();
        sink.reopen();
        eventually("the new file", || path.exists());
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let total = (WRITERS * LINES) as u64;
    assert_eq!(sink.close(PATIENCE), Counts { written: total, dropped: 0 });
    check_rotated(dir.path(), WRITERS, LINES);
}

/// Each writer's lines, in order over all files, whole.
fn check_rotated(dir: &Path, writers: usize, lines: usize) {
    let mut names: Vec<_> = (0..5).map(|round| dir.join(format!("log.{round}"))).collect();
    names.push(dir.join("log"));
    let text: String = names.iter().map(|name| read(name)).collect();
    let mut next = vec![0; writers];
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [_, writer, _, number, "end"] = words[..] else { panic!("a torn line: {line:?}") };
        let writer: usize = writer.parse().unwrap();
        assert_eq!(number.parse(), Ok(next[writer]), "{line}");
        next[writer] += 1;
    }
    assert_eq!(next, vec![lines; writers]);
}

#[test]
fn a_reopening_is_not_lost_while_lines_come() {
    let eager = Options { batch: 1, delay: Duration::ZERO, ..QUICK };
    let sink = Sink::open(&file(Path::new("/dev/null")), eager).unwrap();
    let (writer, ended) = (sink.writer(), AtomicBool::new(false));
    let heard = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(SeqCst) {
                put(&writer, "line");
            }
        });
        let heard = (0..20_000).all(|_| sink.reopen().recv_timeout(PATIENCE) == Ok(Ok(())));
        ended.store(true, SeqCst);
        heard
    });
    assert!(heard, "the file is opened anew each time");
}

#[test]
fn a_file_that_cannot_be_opened_anew_leaves_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, moved) = (dir.path().join("a"), dir.path().join("b"));
    fs::create_dir(&folder).unwrap();
    let sink = Sink::open(&file(&folder.join("log")), QUICK).unwrap();
    let writer = sink.writer();
    fs::rename(&folder, &moved).unwrap();
    sink.reopen();
    put(&writer, "one");
    eventually("the line in the old file", || read(&moved.join("log")) == "one\n");
}

#[test]
fn a_file_that_cannot_be_opened_is_told_at_start() {
    assert!(Sink::open(&file(Path::new("/nonexistent/log")), QUICK).is_err());
}

#[test]
fn a_full_disk_blocks_nobody_and_its_lines_are_counted() {
    let sink = Sink::open(&file(Path::new("/dev/full")), Options { capacity: 10_000, ..QUICK }).unwrap();
    let writer = sink.writer();
    let start = Instant::now();
    for _ in 0..100_000 {
        put(&writer, "0123456789");
    }
    assert!(start.elapsed() < Duration::from_secs(2), "the writer was held up for {:?}", start.elapsed());
    assert!(sink.counts().dropped > 90_000, "{:?}", sink.counts());
    assert_eq!(sink.close(Duration::from_millis(300)), Counts { written: 0, dropped: 100_000 });
}

/// A file system of a few pages, so that a disk can fill and be freed; needs root.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn when_space_returns_the_lines_that_waited_are_written_whole() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: only root can mount a small file system");
        return;
    };
    let (path, ballast) = (disk.0.path().join("log"), disk.0.path().join("ballast"));
    fs::write(&ballast, vec![0; 50 * 1024]).unwrap();
    let sink = Sink::open(&file(&path), QUICK).unwrap();
    let writer = sink.writer();
    let lines: Vec<String> = (0..1000).map(|number| format!("line {number} {}", "x".repeat(30))).collect();
    lines.iter().for_each(|line| put(&writer, line));
    eventually("a full disk", || read(&path).len() > 8192);
    // Longer than until the next attempt.
    thread::sleep(Duration::from_millis(1200));
    assert!(read(&path).len() < 20_000);
    fs::remove_file(&ballast).unwrap();
    eventually("the rest", || sink.counts().written == 1000);
    assert_eq!(read(&path).lines().collect::<Vec<_>>(), lines);
}

#[test]
fn a_disk_that_stays_full_keeps_no_half_line() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: only root can mount a small file system");
        return;
    };
    let path = disk.0.path().join("log");
    let sink = Sink::open(&file(&path), QUICK).unwrap();
    let writer = sink.writer();
    (0..3000).for_each(|number| put(&writer, &format!("line {number} {}", "x".repeat(41))));
    let counts = sink.close(Duration::from_millis(300));
    let text = read(&path);
    assert!(text.ends_with("x\n"), "{:?}", &text[text.len() - 60..]);
    assert_eq!(counts.written, text.lines().count() as u64);
    assert_eq!(counts.written + counts.dropped, 3000);
}

#[test]
fn a_command_reads_the_lines_and_sees_their_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let target = Target::parse(&format!("|cat >{0}; sleep 0.3; echo end >>{0}", path.display()));
    let sink = Sink::open(&target, QUICK).unwrap();
    let writer = sink.writer();
    (0..10_000).for_each(|number| put(&writer, &format!("line {number}")));
    let start = Instant::now();
    assert_eq!(sink.close(PATIENCE).written, 10_000);
    assert!(start.elapsed() < PATIENCE / 2, "once it has ended nobody waits any more");
    let text = read(&path);
    assert_eq!(text.lines().count(), 10_001);
    assert!(text.ends_with("line 9999\nend\n"));
}

#[test]
fn a_command_that_dies_is_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let target = Target::parse(&format!("|read line; echo \"$line\" >>{}", path.display()));
    let sink = Sink::open(&target, QUICK).unwrap();
    let writer = sink.writer();
    put(&writer, "one");
    eventually("the first line", || read(&path) == "one\n");
    put(&writer, "two");
    eventually("the second line", || read(&path) == "one\ntwo\n");
    assert_eq!(sink.counts().dropped, 0);
}

/// A command that runs each script once, in turn.
fn in_turn(scripts: Vec<String>) -> Starter {
    let left = Mutex::new(scripts.into_iter());
    Arc::new(move |_, stdin| {
        let script = left.lock().unwrap().next().unwrap_or_else(|| "exec cat >/dev/null".to_owned());
        Ok(Command::new("sh").args(["-c", &script]).stdin(stdin).spawn()?.id())
    })
}

/// A command that reads so, and lives until it may die, is followed by one that dies at once and one that reads all.
fn check_succession(reads: &str, begins: usize) {
    let dir = tempfile::tempdir().unwrap();
    let (go, path) = (dir.path().join("go"), dir.path().join("log"));
    let wait = format!("for i in $(seq 200); do [ -e {} ] && break; sleep 0.05; done", go.display());
    let scripts = vec![format!("{reads}{wait}"), "true".to_owned(), format!("exec cat >>{}", path.display())];
    let sink = Sink::open_by(&Target::parse("|first"), QUICK, in_turn(scripts)).unwrap();
    let writer = sink.writer();
    let lines: Vec<String> = (0..100).map(|number| format!("line {number}")).collect();
    lines.iter().for_each(|line| put(&writer, line));
    eventually("its first lines", || sink.counts() == Counts { written: begins as u64, dropped: 0 });
    fs::write(&go, "").unwrap();
    eventually("the rest", || read(&path).lines().count() == 100 - begins);
    assert_eq!(read(&path).lines().collect::<Vec<_>>(), lines[begins..], "{reads}");
    eventually("their count", || sink.counts() == Counts { written: 100, dropped: 0 });
    assert_eq!(sink.close(PATIENCE), Counts { written: 100, dropped: 0 });
}

#[test]
fn what_a_command_has_not_read_when_it_dies_goes_to_the_next_one() {
    let in_a_line = "read one; dd bs=1 count=3 >/dev/null 2>&1; ";
    thread::scope(|scope| {
        for (reads, begins) in [("", 0), ("read one; ", 1), (in_a_line, 1), ("exec 0<&-; ", 0)] {
            scope.spawn(move || check_succession(reads, begins));
        }
    });
}

#[test]
fn lines_that_no_command_reads_until_the_end_are_counted_as_lost() {
    let sink = Sink::open(&Target::parse("|exit 127"), QUICK).unwrap();
    let (writer, condition) = (sink.writer(), sink.watch());
    (0..3).for_each(|_| put(&writer, "0123456789"));
    eventually("its trouble", || condition().trouble.is_some());
    assert_eq!(condition().trouble.unwrap(), "the command ended (exit status: 127); lines wait in memory");
    // It is started again meanwhile, which is no remedy.
    thread::sleep(Duration::from_millis(2500));
    assert!(condition().trouble.is_some());
    assert_eq!(sink.close(Duration::from_millis(300)), Counts { written: 0, dropped: 3 });
}

#[test]
fn what_a_command_that_lives_has_not_read_at_the_end_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::open(&reads_late(dir.path()), QUICK).unwrap();
    let writer = sink.writer();
    (0..3).for_each(|_| put(&writer, "0123456789"));
    assert_eq!(sink.close(Duration::from_millis(300)), Counts { written: 3, dropped: 0 });
    fs::write(dir.path().join("go"), "").unwrap();
    eventually("the lines", || read(&dir.path().join("log")).lines().count() == 3);
}

#[test]
fn a_command_that_does_not_read_blocks_nobody() {
    let sink = Sink::open(&Target::parse("|exec sleep 60"), Options { capacity: 10_000, ..QUICK }).unwrap();
    let writer = sink.writer();
    let start = Instant::now();
    (0..100_000).for_each(|_| put(&writer, "0123456789"));
    let counts = sink.close(Duration::from_millis(300));
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(counts.written + counts.dropped, 100_000);
    assert!(counts.dropped > 80_000, "{counts:?}");
}

#[test]
fn a_command_that_has_ended_gets_no_line_though_another_process_holds_its_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let script = format!("exec 3<&0; sleep 20 <&3 & read line; echo \"$line\" >>{}", path.display());
    let pids = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&pids);
    let starter: Starter = Arc::new(move |_, stdin| {
        let pid = Command::new("sh").args(["-c", &script]).stdin(stdin).spawn()?.id();
        noted.lock().unwrap().push(pid);
        Ok(pid)
    });
    let sink = Sink::open_by(&Target::parse("|sh"), QUICK, starter).unwrap();
    let writer = sink.writer();
    put(&writer, "one");
    let stat = format!("/proc/{}/stat", pids.lock().unwrap()[0]);
    eventually("the command's end", || read(Path::new(&stat)).contains(") Z "));
    put(&writer, "two");
    eventually("the second line", || read(&path) == "one\ntwo\n");
}

#[test]
fn a_command_that_dies_at_once_is_started_once_a_second() {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&starts);
    let starter: Starter = Arc::new(move |_, stdin| {
        noted.lock().unwrap().push(Instant::now());
        Ok(Command::new("true").stdin(stdin).spawn()?.id())
    });
    let sink = Sink::open_by(&Target::parse("|true"), QUICK, starter).unwrap();
    let writer = sink.writer();
    eventually("a third start", || {
        put(&writer, "0123456789");
        starts.lock().unwrap().len() > 2
    });
    for two in starts.lock().unwrap().windows(2) {
        assert!(two[1] - two[0] > Duration::from_millis(900), "{:?}", two[1] - two[0]);
    }
}

#[test]
fn a_log_whose_command_never_starts_again_keeps_nobody_from_ending() {
    let (starts, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, end) = (Arc::clone(&starts), Arc::clone(&ended));
    let starter: Starter = Arc::new(move |_, stdin| {
        if count.fetch_add(1, SeqCst) > 0 {
            eventually("the end of the test", || end.load(SeqCst));
        }
        Ok(Command::new("true").stdin(stdin).spawn()?.id())
    });
    let sink = Sink::open_by(&Target::parse("|true"), QUICK, starter).unwrap();
    let writer = sink.writer();
    (0..100).for_each(|_| put(&writer, "0123456789"));
    eventually("a start that hangs", || starts.load(SeqCst) > 1);
    let counts = sink.close(Duration::from_millis(300));
    assert_eq!(counts.written + counts.dropped, 100, "{counts:?}");
    assert!(!ended.swap(true, SeqCst));
}

#[test]
fn a_log_that_is_let_go_has_its_last_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let patient = Options { delay: Duration::from_secs(3600), ..QUICK };
    let sink = Sink::open(&file(&path), patient).unwrap();
    let writer = sink.writer();
    (0..1000).for_each(|_| put(&writer, "0123456789"));
    drop(sink);
    assert_eq!(read(&path).lines().count(), 1000);
}

#[test]
fn what_clients_sent_is_not_in_a_writers_debug_text() {
    let sink = Sink::open(&file(Path::new("/dev/null")), QUICK).unwrap();
    let writer = sink.writer();
    put(&writer, "a secret");
    assert_eq!(format!("{writer:?}"), "Writer { .. }");
}

#[test]
fn lines_after_the_end_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::open(&file(&dir.path().join("log")), QUICK).unwrap();
    let writer = sink.writer();
    put(&writer, "in time");
    assert_eq!(sink.close(PATIENCE), Counts { written: 1, dropped: 0 });
    writer.line(|_| panic!("a closed sink renders nothing"));
}

/// A command that reads nothing until the file `go` is there.
fn reads_late(dir: &Path) -> Target {
    let (go, log) = (dir.join("go"), dir.join("log"));
    let wait = format!("for i in $(seq 100); do [ -e {} ] && break; sleep 0.1; done", go.display());
    Target::Command(format!("{wait}; exec cat >{}", log.display()))
}

#[test]
fn what_is_stuck_at_the_end_is_tried_until_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::open(&reads_late(dir.path()), QUICK).unwrap();
    let writer = sink.writer();
    (0..20_000).for_each(|_| put(&writer, "0123456789"));
    let go = dir.path().join("go");
    let later = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        fs::write(go, "").unwrap();
    });
    assert_eq!(sink.close(PATIENCE), Counts { written: 20_000, dropped: 0 });
    later.join().unwrap();
}

#[test]
fn several_stuck_logs_end_within_one_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let sinks: Vec<_> = (0..3).map(|_| Sink::open(&reads_late(dir.path()), QUICK).unwrap()).collect();
    for sink in &sinks {
        let writer = sink.writer();
        (0..20_000).for_each(|_| put(&writer, "0123456789"));
    }
    let start = Instant::now();
    let deadline = start + Duration::from_millis(500);
    sinks.iter().for_each(|sink| sink.end_by(deadline));
    for sink in sinks {
        let counts = sink.close(deadline.saturating_duration_since(Instant::now()));
        assert_eq!(counts.written + counts.dropped, 20_000);
        assert!(counts.dropped > 1000, "{counts:?}");
    }
    assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
    fs::write(dir.path().join("go"), "").unwrap();
}

#[test]
fn a_named_pipe_that_nobody_reads_is_opened_anew_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let sink = Sink::open(&file(&path), QUICK).unwrap();
    let writer = sink.writer();
    (0..20_000).for_each(|number| put(&writer, &format!("line {number}")));
    eventually("a full pipe", || sink.counts().written > 1000);
    fs::rename(&path, dir.path().join("old")).unwrap();
    assert_eq!(sink.reopen().recv_timeout(PATIENCE), Ok(Ok(())));
    eventually("the rest", || sink.counts().written == 20_000);
    assert!(read(&path).ends_with("\nline 19999\n"));
    drop(reader);
}
