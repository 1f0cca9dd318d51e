//! What env, application and response cost by themselves: one worker, fed from memory.
//!
//! There is no connection, no front and no wake-up; the queue never runs empty. What is printed is the worker's CPU time
//! by the scheduler's count, in nanoseconds for each request. The benchmarks add it to the floor of the front alone.
//! `cargo run --release --example worker_alone -- APP.psgi TARGET REQUESTS INCLUDE...`, the last for perl's -I. With a
//! query in TARGET the request has the fields that ab sends, without one it is what wrk sends.

use std::error::Error;
use std::io::Write;

use howdah_supervisor::{Config, Family, Pid, Shared, Source, Supervisor, ZygoteSpec, recipe};
use howdah_sys::launcher::Job;
use howdah_wire::request::Full;
use howdah_wire::{Phase, RequestWriter, Roster, Segment, Shape};

/// Requests that wait at a time: enough for the worker never to look in vain.
const SLOTS: u32 = 64;
/// Requests before the measurement.
const WARM: u64 = 20_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let app =
        arguments.next().ok_or("which application? worker_alone APP.psgi TARGET REQUESTS INCLUDE...")?;
    let target = arguments.next().ok_or("which target?")?;
    let requests = arguments.next().ok_or("how many requests?")?.parse::<u64>()?;
    let include = arguments.flat_map(|directory| ["-I".into(), directory.into()]);
    let spec =
        ZygoteSpec { app: Some(app), env: "deployment".into(), preload: true, ..ZygoteSpec::default() };
    let recipe = recipe("perl".as_ref(), include, &spec);
    let source =
        Source::Start { perl: "perl".into(), job: Job::here(recipe.clone()), guest: Job::here(recipe) };
    let (memfd, segment) =
        howdah_sys::create_segment(Shape { fronts: 1, workers: 64, slots: SLOTS as usize })?;
    let eventfds = vec![howdah_sys::eventfd()?];
    let shared = Shared {
        segment,
        memfd,
        eventfds,
        roster: Roster::default(),
        titles: true,
        errors: None,
        family: Family::new()?,
    };
    // The events hold the front's ends of the channels: they stay until all is measured.
    let (events, kept) = tokio::sync::mpsc::unbounded_channel();
    let config = Config { workers: 1, ..Config::default() };
    let (supervisor, handle) = Supervisor::start(config, source, shared, events).await?;
    let ended = tokio::spawn(supervisor.run());
    handle.ready().await?;
    let worker = handle.snapshot().await.workers.first().and_then(|worker| worker.pid).ok_or("no worker")?;
    writeln!(std::io::stdout(), "{}", measure(segment, worker, &target, requests)?)?;
    drop(kept);
    handle.stop(false).await;
    ended.await?;
    Ok(())
}

/// Nanoseconds for each request.
fn measure(segment: Segment, worker: Pid, target: &str, requests: u64) -> Result<u64, Box<dyn Error>> {
    for slot in 0..SLOTS {
        write(segment, slot, target).map_err(|_| "the request does not fit its slot")?;
        queue(segment, slot);
    }
    feed(segment, WARM.min(requests));
    let before = cpu_ns(worker)?;
    let served = feed(segment, requests);
    Ok((cpu_ns(worker)? - before) / served)
}

/// Keeps the queue full until at least `requests` more are served; tells how many were.
fn feed(segment: Segment, requests: u64) -> u64 {
    let mut served = 0;
    while served < requests {
        segment.fronts()[0].take_news(|slot| {
            if segment.queue().state(slot).phase == Phase::Done {
                segment.queue().release(slot);
                queue(segment, slot);
                served += 1;
            }
        });
        wake(segment);
    }
    served
}

fn queue(segment: Segment, slot: u32) {
    segment.controls()[slot as usize].reset(howdah_sys::monotonic_ns());
    if let Some(ticket) = segment.queue().draw() {
        segment.stamp(slot, true, ticket);
        segment.queue().push(slot, ticket);
    }
}

/// At the start the worker sleeps, and again if this process had to wait for a processor.
fn wake(segment: Segment) {
    let cells = &segment.queue().cells;
    if cells.sleepers() > 0
        && let Some(worker) = cells.pick_sleeper(segment.workers())
    {
        howdah_sys::futex_wake(&segment.workers()[worker as usize].wake, 1);
    }
}

/// What wrk sends, or ab.
fn write(segment: Segment, slot: u32, target: &str) -> Result<(), Full> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    segment.place_request(slot, true);
    let mut out = RequestWriter::new(segment.request_area(slot, true));
    out.record.method = out.put(b"GET")?;
    out.record.uri = out.put(target.as_bytes())?;
    out.record.path = out.put(path.as_bytes())?;
    out.record.query = out.put(query.as_bytes())?;
    out.record.protocol = out.put(b"HTTP/1.1")?;
    out.record.server_name = out.put(b"127.0.0.1")?;
    out.record.server_port = out.put(b"5000")?;
    out.record.remote_addr = out.put(b"127.0.0.1")?;
    out.record.remote_port = out.put(b"50000")?;
    out.field(b"Host", b"127.0.0.1:5000")?;
    if !query.is_empty() {
        out.field(b"Connection", b"Keep-Alive")?;
        out.field(b"User-Agent", b"ApacheBench/2.3")?;
        out.field(b"Accept", b"*/*")?;
    }
    out.variable(b"HTTP_X_REQUEST_ID", b"0123456789abcdef0000000000000001")?;
    out.finish();
    Ok(())
}

fn cpu_ns(pid: Pid) -> Result<u64, Box<dyn Error>> {
    let counts = std::fs::read_to_string(format!("/proc/{}/schedstat", pid.as_raw_nonzero()))?;
    Ok(counts.split(' ').next().ok_or("an empty schedstat")?.parse()?)
}
