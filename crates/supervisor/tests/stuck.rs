//! Zygotes that have been stopped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use howdah_supervisor::*;

/// A worker dies while its zygote is stopped; returns when that is known, and who it was.
async fn bury_one(bench: &Bench) -> (Pid, Pid) {
    let snapshot = bench.handle.snapshot().await;
    let (zygote, victim) = (snapshot.zygote.unwrap(), snapshot.workers[0].pid.unwrap());
    signal(zygote, Signal::STOP);
    kill(victim);
    let end = Instant::now() + Duration::from_secs(20);
    while bench.told.lock().unwrap().gone.is_empty() {
        assert!(Instant::now() < end, "the end of a worker is not noticed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (zygote, victim)
}

#[tokio::test]
async fn a_worker_that_dies_while_its_zygote_is_stopped_is_noticed_and_replaced_in_the_end() {
    let bench = Bench::start("", config(2)).await;
    bench.handle.ready().await.unwrap();
    let (zygote, victim) = bury_one(&bench).await;
    signal(zygote, Signal::CONT);
    let new = |s: &Snapshot| s.workers.iter().all(|w| w.pid.is_some_and(|pid| pid != victim));
    bench.until("two workers", |s| s.workers.len() == 2 && new(s) && s.trouble.is_none()).await;
    // The zygote has reported the end of the dead one by now, whose cell the new one has.
    let before = bench.pids().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.pids().await, before);
    assert_eq!(bench.told.lock().unwrap().gone.len(), 1);
    bench.stop().await;
}
