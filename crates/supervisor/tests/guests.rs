//! Guests: one more worker, for as long as somebody looks at it, of which the others do not notice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use common::*;
use howdah_supervisor::Config;

async fn two_workers() -> Bench {
    let bench = Bench::start("", config(2)).await;
    bench.handle.ready().await.unwrap();
    bench.until("two workers", |s| s.workers.len() == 2).await;
    bench
}

#[tokio::test]
async fn a_guest_serves_beside_the_others_and_leaves_with_its_lease() {
    let bench = two_workers().await;
    let old = bench.pids().await;
    for generation in 2..4 {
        let (lease, worker) = bench.handle.guest().await.unwrap();
        let there = bench.until("three workers", |s| s.workers.len() == 3).await;
        let guest = there.workers.iter().find(|it| it.index == worker).unwrap();
        assert_eq!((guest.generation, there.generation), (generation, 1));
        assert!(bench.handle.guest().await.unwrap_err().contains("under way"), "one at a time");
        drop(lease);
        bench.until("its zygote is gone, too", |s| s.workers.len() == 2 && s.zygotes.len() == 1).await;
        assert_eq!(bench.pids().await, old);
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_guest_stays_however_much_it_serves() {
    let quota = Config { max_requests: 20, ..config(2) };
    let bench = Bench::start("serve 100", quota).await;
    bench.handle.ready().await.unwrap();
    let (_lease, worker) = bench.handle.guest().await.unwrap();
    let guest = bench.handle.snapshot().await.workers.into_iter().find(|it| it.index == worker).unwrap();
    let left = || bench.told.lock().unwrap().gone.len();
    let before = left();
    bench.until("others have gone since", |_| left() >= before + 8).await;
    let there = bench.handle.snapshot().await.workers;
    assert!(there.iter().any(|it| it.pid == guest.pid && it.pid.is_some()));
    bench.stop().await;
}

#[tokio::test]
async fn a_guest_that_dies_is_not_replaced() {
    let bench = two_workers().await;
    let old = bench.pids().await;
    let (_lease, worker) = bench.handle.guest().await.unwrap();
    let there = bench.handle.snapshot().await;
    kill(there.workers.iter().find(|it| it.index == worker).unwrap().pid.unwrap());
    bench.until("its zygote is gone, too", |s| s.workers.len() == 2 && s.zygotes.len() == 1).await;
    assert_eq!(bench.pids().await, old);
    bench.stop().await;
}

#[tokio::test]
async fn a_guest_that_does_not_load_says_why_and_a_reload_leaves_it_alone() {
    let bench = two_workers().await;
    for (app, words) in [
        ("die syntax error", "syntax error"),
        ("exit 9", "exit status 9"),
        ("crash 9", "its worker has ended"),
    ] {
        bench.edit(app);
        let reason = bench.handle.guest().await.unwrap_err();
        assert!(reason.contains(words), "{reason}");
    }
    bench.edit("");
    let (lease, worker) = bench.handle.guest().await.unwrap();
    bench.handle.reload().await.unwrap();
    let after = bench.until("two new ones and the guest", |s| s.workers.len() == 3).await;
    assert!(after.workers.iter().any(|it| it.index == worker && !it.draining));
    drop(lease);
    bench.until("the guest is gone", |s| s.workers.len() == 2 && s.zygotes.len() == 1).await;
    bench.stop().await;
}

#[tokio::test]
async fn nobody_waits_for_a_guest_when_all_ends() {
    let bench = two_workers().await;
    let (_lease, _) = bench.handle.guest().await.unwrap();
    let handle = bench.handle.clone();
    bench.stop().await;
    assert!(handle.guest().await.unwrap_err().contains("stopping"));
}
