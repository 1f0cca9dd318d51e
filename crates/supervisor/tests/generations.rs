//! Reloads, and zygotes that die.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use howdah_supervisor::*;
use howdah_sys::launcher::Job;

#[tokio::test]
async fn a_reload_changes_all_workers_and_never_has_too_few() {
    let bench = Bench::start("", config(3)).await;
    bench.handle.ready().await.unwrap();
    let old = bench.pids().await;
    let handle = bench.handle.clone();
    let reload = tokio::spawn(async move { handle.reload().await });
    let mut least = 3;
    while !reload.is_finished() {
        least = least.min(bench.able());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    reload.await.unwrap().unwrap();
    assert_eq!(least, 3);
    let snapshot = bench.until("the old are gone", |s| s.workers.len() == 3).await;
    assert_eq!(snapshot.generation, 2);
    assert!(snapshot.workers.iter().all(|worker| worker.generation == 2));
    assert!(old.into_iter().all(|pid| !lives(pid)));
    bench.stop().await;
}

#[tokio::test]
async fn many_reloads_in_a_row_leave_one_generation() {
    let bench = Bench::start("", config(2)).await;
    for _ in 0..10 {
        bench.handle.reload().await.unwrap();
    }
    let snapshot = bench.until("two workers", |s| s.workers.len() == 2).await;
    assert_eq!(snapshot.generation, 11);
    bench.stop().await;
}

#[tokio::test]
async fn code_that_does_not_load_leaves_the_old_generation_in_place() {
    let bench = Bench::start("", config(2)).await;
    bench.handle.ready().await.unwrap();
    let old = bench.pids().await;
    for (app, words) in
        [("die syntax error", "syntax error"), ("exit 9", "exit status 9"), ("crash 4", "exit status 4")]
    {
        bench.edit(app);
        let error = bench.handle.reload().await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let snapshot = bench.until("only the old", |s| s.workers.len() == 2).await;
    assert_eq!(snapshot.generation, 1);
    assert_eq!(bench.pids().await, old);
    bench.stop().await;
}

#[tokio::test]
async fn a_second_reload_takes_the_place_of_a_slow_one() {
    let bench = Bench::start("", config(2)).await;
    bench.edit("slow 50");
    let handle = bench.handle.clone();
    let first = tokio::spawn(async move { handle.reload().await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    bench.edit("");
    bench.handle.reload().await.unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(bench.handle.snapshot().await.generation, 3);
    bench.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_slow_load() {
    let bench = Bench::start("", config(1)).await;
    bench.edit("slow 50");
    let handle = bench.handle.clone();
    let reload = tokio::spawn(async move { handle.reload().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    bench.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(matches!(reload.await.unwrap(), Err(ReloadError::Stopping)));
}

#[tokio::test]
async fn workers_outlive_their_zygote_until_a_new_generation_is_ready() {
    let bench = Bench::start("", config(2)).await;
    bench.handle.ready().await.unwrap();
    let old = bench.pids().await;
    bench.edit("slow 0.5");
    let zygote = bench.handle.snapshot().await.zygote.unwrap();
    kill(zygote);
    bench.until("the death is noticed", |s| s.zygote.is_none()).await;
    assert_eq!(bench.pids().await, old);
    assert_eq!(bench.able(), 2);
    bench.until("a new generation", |s| s.generation == 2 && s.workers.len() == 2).await;
    bench.stop().await;
}

#[tokio::test]
async fn an_orphaned_worker_that_dies_is_noticed_and_its_status_known() {
    let bench = Bench::start("", config(2)).await;
    bench.handle.ready().await.unwrap();
    bench.edit("slow 1");
    let snapshot = bench.handle.snapshot().await;
    kill(snapshot.zygote.unwrap());
    bench.until("the death is noticed", |s| s.zygote.is_none()).await;
    let victim = &snapshot.workers[0];
    kill(victim.pid.unwrap());
    bench.until("one worker less", |s| s.workers.len() == 1).await;
    assert_eq!(bench.told.lock().unwrap().gone, [(victim.index, ExitKind::Signaled(9))]);
    bench.until("a new generation", |s| s.generation == 2 && s.workers.len() == 2).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_zygote_that_cannot_come_back_is_tried_again_more_slowly() {
    let bench = Bench::start("", config(1)).await;
    bench.handle.ready().await.unwrap();
    bench.edit("die broken deploy");
    kill(bench.handle.snapshot().await.zygote.unwrap());
    let told = |s: &Snapshot| s.trouble.as_ref().is_some_and(|trouble| trouble.contains("broken deploy"));
    let snapshot = bench.until("trouble", told).await;
    assert_eq!(snapshot.workers.len(), 1);
    bench.edit("");
    bench.until("a new generation", |s| s.generation > 1 && s.workers.len() == 1).await;
    bench.stop().await;
}

#[tokio::test]
async fn zygotes_that_die_soon_after_their_load_are_replaced_more_and_more_slowly() {
    let bench = Bench::start("", config(1)).await;
    bench.handle.ready().await.unwrap();
    bench.edit("mortal 0.2");
    kill(bench.handle.snapshot().await.zygote.unwrap());
    let told = |s: &Snapshot| {
        s.generation > 3 && s.trouble.as_ref().is_some_and(|trouble| trouble.contains("die soon"))
    };
    let snapshot = bench.until("trouble", told).await;
    assert_eq!(snapshot.workers.len(), 1);
    bench.edit("");
    bench.handle.reload().await.unwrap();
    bench.until("a zygote that lives", |s| s.zygote.is_some() && s.trouble.is_none()).await;
    bench.stop().await;
}

/// As plackup does: somebody else starts the zygote, we get its control socket.
async fn adopted(app: &str, config: Config) -> (Bench, Pid) {
    let stage = stage(app);
    let (ours, theirs) = howdah_sys::socketpair_seqpacket().unwrap();
    let recipe = recipe("perl".as_ref(), ["-I".into(), fake_library().into()], &stage.spec);
    let child = Job::here(recipe).start(None, None, vec![theirs]).unwrap();
    (Bench::with_source(stage, Source::Adopted { control: ours }, config).await.unwrap(), child)
}

#[tokio::test]
async fn with_an_adopted_zygote_a_reload_replaces_the_workers() {
    let (bench, zygote) = adopted("", config(2)).await;
    bench.handle.ready().await.unwrap();
    assert_eq!(bench.handle.snapshot().await.zygote, Some(zygote));
    let old = bench.pids().await;
    bench.handle.reload().await.unwrap();
    let snapshot = bench.until("two workers", |s| s.workers.len() == 2).await;
    assert!(snapshot.workers.iter().all(|worker| worker.pid.is_some_and(|pid| !old.contains(&pid))));
    assert_eq!(snapshot.generation, 1);
    bench.stop().await;
}

#[tokio::test]
async fn without_its_adopted_zygote_the_server_ends_with_the_last_worker() {
    let (bench, zygote) = adopted("", config(2)).await;
    bench.handle.ready().await.unwrap();
    let workers = bench.pids().await;
    kill(zygote);
    bench.until("the death is noticed", |s| s.zygote.is_none()).await;
    assert!(bench.handle.reload().await.is_err());
    assert_eq!(bench.pids().await, workers);
    workers.into_iter().for_each(kill);
    assert_eq!(bench.ended.await.unwrap(), Ended::Lost);
}

#[tokio::test]
async fn a_zygote_that_does_not_leave_after_its_workers_is_killed() {
    let bench = Bench::start("stays", config(1)).await;
    bench.handle.ready().await.unwrap();
    bench.edit("");
    bench.handle.reload().await.unwrap();
    bench.until("the new zygote alone", |s| s.zygotes.len() == 1).await;
    bench.stop().await;
}
