//! Several supervisors in one process: what becomes of one is nothing to the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use std::time::Duration;

use common::*;
use howdah_supervisor::*;

async fn beside(family: &Family, app: &str) -> Bench {
    let stage = stage_in(family, app);
    let source = start(&stage, "perl");
    let bench = Bench::with_source(stage, source, config(2)).await.unwrap();
    bench.handle.ready().await.unwrap();
    bench
}

#[tokio::test]
async fn each_hears_how_its_own_children_ended_and_of_no_other() {
    let family = Family::new().unwrap();
    let (one, other) = (beside(&family, "").await, beside(&family, "").await);
    let calm = other.pids().await;
    // Without zygotes, so that workers are children of this process, too.
    one.edit("slow 3");
    kill(one.handle.snapshot().await.zygote.unwrap());
    one.until("the death is noticed", |s| s.zygote.is_none()).await;
    let victim = one.handle.snapshot().await.workers[0].clone();
    kill(victim.pid.unwrap());
    one.until("one worker less", |s| s.workers.len() == 1).await;
    assert_eq!(one.told.lock().unwrap().gone, [(victim.index, ExitKind::Signaled(9))], "with its status");
    one.until("a new generation", |s| s.generation == 2 && s.workers.len() == 2).await;
    let snapshot = other.handle.snapshot().await;
    assert_eq!((snapshot.generation, other.pids().await), (1, calm));
    assert_eq!(other.told.lock().unwrap().gone, []);
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn code_that_breaks_stops_none_but_its_own() {
    let family = Family::new().unwrap();
    let (one, other) = (beside(&family, "").await, beside(&family, "").await);
    one.edit("die broken deploy");
    assert!(one.handle.reload().await.unwrap_err().to_string().contains("broken deploy"));
    other.handle.reload().await.unwrap();
    let (broken, whole) = (one.handle.snapshot().await, other.handle.snapshot().await);
    assert_eq!((broken.generation, whole.generation), (1, 2));
    one.stop().await;
    assert_eq!(other.until("two workers", |s| s.workers.len() == 2).await.trouble, None);
    other.stop().await;
}

#[tokio::test]
#[expect(clippy::zombie_processes, reason = "that a supervisor waits for it is what is tested")]
async fn an_end_that_nobody_knows_is_collected_and_one_that_is_known_is_not() {
    let family = Family::new().unwrap();
    let (one, other) = (beside(&family, "").await, beside(&family, "").await);
    let stranger = std::process::Command::new("/bin/true").spawn().unwrap();
    let stranger = Pid::from_raw(stranger.id().try_into().unwrap()).unwrap();
    let zygote = other.handle.snapshot().await.zygote.unwrap();
    kill(zygote);
    other.until("another zygote", |s| s.zygote.is_some_and(|pid| pid != zygote)).await;
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while std::path::Path::new(&format!("/proc/{}", stranger.as_raw_nonzero())).exists() {
        assert!(std::time::Instant::now() < end, "the stranger is never collected");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    one.stop().await;
    other.stop().await;
}
