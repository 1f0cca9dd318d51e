//! `howdah trace exec` and `fork`: who runs what, of a running server or of the whole machine. The server is asked for its
//! process and notices nothing else; `howdah_trace` hears of processes from the kernel.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use howdah_metrics::printable;
use howdah_sys::process::runs;
use howdah_trace::{Row, Seen, Source, Tracer};
use serde::Serialize;

use crate::control::look::{find_server, look_from_here};
use crate::options::trace::Trace;
use crate::output::{for_people, write};
use crate::over::over_after;

/// How often to see whether it is time to end.
const LOOK: Duration = Duration::from_millis(100);

/// How often to see whether there still is a server.
const SERVER: Duration = Duration::from_secs(1);

/// Most that is shown of a command line.
const LONGEST: usize = 200;

/// The server whose processes count.
struct Server {
    path: PathBuf,
    pid: u32,
    /// When to look for it again.
    due: Instant,
    /// It had ended, and nobody answered in its place.
    missed: bool,
}

impl Server {
    fn find(trace: &Trace) -> anyhow::Result<Self> {
        let path = find_server(&trace.instance)?;
        let pid = look_from_here(&path)?.server.pid;
        Ok(Self { path, pid, due: Instant::now() + SERVER, missed: false })
    }

    /// Whether it has ended, and no process of its own has taken its place, as one does in an upgrade. That may not answer yet.
    fn is_gone(&mut self, tracer: &Tracer) -> bool {
        if Instant::now() < self.due {
            return false;
        }
        self.due = Instant::now() + SERVER;
        if runs(self.pid) {
            return false;
        }
        match look_from_here(&self.path).map(|snapshot| snapshot.server.pid) {
            Ok(pid) if tracer.counts(pid) => {
                (self.pid, self.missed) = (pid, false);
                false
            }
            Ok(_) => true,
            Err(_) => std::mem::replace(&mut self.missed, true),
        }
    }
}

/// Counts until the time is over, the server has ended, somebody presses Ctrl-C, or there is nobody more to tell; then prints the
/// table.
pub(crate) fn run(trace: &Trace) -> anyhow::Result<ExitCode> {
    let server = if trace.all { None } else { Some(Server::find(trace)?) };
    let root = server.as_ref().map(|server| server.pid);
    let source = Source::open(trace.wanted())?;
    let how = source.name();
    let mut tracer = Tracer::new(source, trace.kind(), root, trace.follow);
    let whose =
        root.map_or_else(|| "the whole machine".to_owned(), |pid| format!("the server with pid {pid}"));
    let until = trace
        .seconds
        .limit()
        .map_or_else(|| "Ctrl-C".to_owned(), |time| format!("{} s are over", time.as_secs_f64()));
    eprintln!("tracing {whose} by {how}, until {until}");
    let ended = watch(trace, &mut tracer, server);
    tracer.drain();
    while let Some(seen) = tracer.rest() {
        if trace.follow {
            show(&seen, trace.json)?;
        }
    }
    conclude(&tracer, trace.json)?;
    // What was seen until then is told in any case.
    ended.map(|()| ExitCode::SUCCESS)
}

fn watch(trace: &Trace, tracer: &mut Tracer, mut server: Option<Server>) -> anyhow::Result<()> {
    let over = over_after(trace.seconds.limit())?;
    while !over.load(Relaxed) {
        match tracer.next(LOOK) {
            Ok(Some(seen)) if trace.follow => show(&seen, trace.json)?,
            Ok(_) => {}
            // Ctrl-C ends bpftrace, too.
            Err(_) if over.load(Relaxed) => break,
            Err(error) => bail!("{error}; what it has told until then is all that is counted"),
        }
        if server.as_mut().is_some_and(|server| server.is_gone(tracer)) {
            eprintln!("the server has ended");
            break;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Report {
    counts: Vec<Row>,
    lost: u64,
}

fn conclude(tracer: &Tracer, json: bool) -> anyhow::Result<()> {
    let lost = tracer.lost();
    if json {
        let report = Report { counts: tracer.tally().rows(), lost };
        write(&(serde_json::to_string(&report)? + "\n"))?;
    } else {
        write(for_people(&tracer.tally().to_string()))?;
    }
    if lost > 0 {
        let remedy = tracer.remedy();
        eprintln!("the kernel has lost events {lost} times, so the counts are too low: {remedy}");
    }
    Ok(())
}

fn show(seen: &Seen, json: bool) -> anyhow::Result<()> {
    if json {
        return write(serde_json::to_string(seen)? + "\n");
    }
    let what = if seen.arguments.is_empty() { seen.what.clone() } else { seen.arguments.join(" ") };
    let what: String = what.chars().take(LONGEST).collect();
    let request = seen.request.as_deref().map(|request| format!("  [{request}]")).unwrap_or_default();
    let line = format!("{} {:>7} {:>7} {}  {what}{request}", now(), seen.pid, seen.parent, seen.who);
    write(printable(line.as_bytes()) + "\n")
}

/// Time of day in UTC.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, since.subsec_millis())
}
