//! Hosts, whose workers are threads: they are told by order what a process is told by a signal, and die together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use howdah_supervisor::*;

async fn host(app: &str) -> Bench {
    let stage = stage(app);
    let Source::Start { job, .. } = start(&stage, "perl") else { panic!("another source") };
    let bench = Bench::with_source(stage, Source::Host { job }, config(2)).await.unwrap();
    bench.handle.ready().await.unwrap();
    bench
}

fn ends(bench: &Bench) -> Vec<ExitKind> {
    bench.told.lock().unwrap().gone.iter().map(|(_, status)| *status).collect()
}

#[tokio::test]
async fn workers_die_with_their_host_and_come_with_another() {
    let bench = host("threads").await;
    let before = bench.handle.snapshot().await;
    let pid = before.zygote.unwrap();
    assert!(before.workers.iter().all(|worker| worker.pid == Some(pid) && worker.process.is_none()));
    kill(pid);
    let new = |s: &Snapshot| s.zygote.is_some_and(|zygote| zygote != pid) && s.workers.len() == 2;
    let after = bench.until("another host", |s| new(s) && s.workers.iter().all(|w| w.pid == s.zygote)).await;
    assert_eq!(ends(&bench), [ExitKind::Unknown; 2]);
    assert_eq!(after.counts.exits.get(&Cause::Crash), Some(&2));
    bench.stop().await;
}

#[tokio::test]
async fn a_worker_is_ended_by_order_and_its_host_lives() {
    let bench = host("threads").await;
    let pid = bench.handle.snapshot().await.zygote.unwrap();
    assert!(bench.handle.kill_worker(0, Some(pid), Signal::KILL).await);
    bench.until("another worker", |s| s.workers.len() == 2 && s.counts.spawns == 3).await;
    assert_eq!(ends(&bench), [ExitKind::Signaled(9)]);
    assert!(lives(pid));
    bench.handle.reload().await.unwrap();
    bench.until("the old host is gone", |s| s.zygotes.len() == 1 && s.zygote != Some(pid)).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_host_that_does_not_end_a_worker_is_killed() {
    let bench = host("threads\ndeaf").await;
    let pid = bench.handle.snapshot().await.zygote.unwrap();
    let began = Instant::now();
    assert!(bench.handle.kill_worker(0, Some(pid), Signal::KILL).await);
    bench
        .until("another host", |s| s.zygote.is_some_and(|zygote| zygote != pid) && s.workers.len() == 2)
        .await;
    assert!(began.elapsed() >= Duration::from_secs(5) && !lives(pid));
    bench.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_stopped_host() {
    let bench = host("threads").await;
    let pid = bench.handle.snapshot().await.zygote.unwrap();
    signal(pid, Signal::STOP);
    let began = Instant::now();
    bench.handle.stop_within(Duration::from_millis(200)).await;
    assert!(began.elapsed() < Duration::from_secs(12) && !lives(pid), "{:?}", began.elapsed());
}
