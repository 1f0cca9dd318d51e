//! Zygotes that have been stopped or do not come to an end, and workers that hang before they are ready.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use howdah_supervisor::*;

fn says(snapshot: &Snapshot, words: &str) -> bool {
    snapshot.trouble.as_ref().is_some_and(|trouble| trouble.contains(words))
}

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
    bench.until("trouble", |s| says(s, "it may have been stopped")).await;
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

#[tokio::test]
async fn a_stop_does_not_wait_for_a_stopped_zygote() {
    let bench = Bench::start("", config(2)).await;
    bench.handle.ready().await.unwrap();
    let (zygote, _) = bury_one(&bench).await;
    let began = Instant::now();
    bench.stop().await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert!(!lives(zygote));
}

#[tokio::test]
async fn a_dead_zygote_whose_successor_does_not_finish_loading_is_trouble() {
    let bench = Bench::start("", config(1)).await;
    bench.handle.ready().await.unwrap();
    bench.edit("slow 60");
    kill(bench.handle.snapshot().await.zygote.unwrap());
    let told = "the zygote is dead, generation 2 has been loading the application for";
    let snapshot = bench.until("trouble", |s| says(s, told)).await;
    assert_eq!(snapshot.workers.len(), 1, "its worker goes on");
    bench.edit("");
    bench.handle.reload().await.unwrap();
    bench.until("all is well", |s| s.trouble.is_none()).await;
    bench.stop().await;
}

#[tokio::test]
async fn workers_that_hang_before_they_are_ready_do_not_delay_a_stop() {
    for graceful_timeout in [Duration::from_secs(10), Duration::ZERO] {
        let bench = Bench::start("late 60", Config { graceful_timeout, ..config(2) }).await;
        bench.until("forked", |s| s.workers.iter().all(|worker| worker.pid.is_some())).await;
        let began = Instant::now();
        bench.stop().await;
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_graceful_stop_may_have_less_time_than_usual() {
    let bench = Bench::start("stubborn", config(2)).await;
    bench.handle.ready().await.unwrap();
    let began = Instant::now();
    bench.handle.stop_within(Duration::from_millis(200)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
