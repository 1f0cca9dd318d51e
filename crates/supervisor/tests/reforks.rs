//! What a worker hands over as the next zygote may be anything, come from anybody and at any time: a generation changes only by
//! a zygote that serves. That one does, t/50-feature/refork.t shows with real workers.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod common;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;

use common::{Bench, config};
use howdah_supervisor::Config;
use howdah_wire::Command;

/// Two workers, of which number 0 is asked after five requests.
async fn bench() -> Bench {
    let bench = Bench::start("", Config { reforks: vec![5], ..config(2) }).await;
    bench.handle.ready().await.unwrap();
    bench.segment.workers()[0].requests.store(5, SeqCst);
    bench
}

async fn asked(bench: &Bench) {
    let told = |command: &Command| bench.segment.workers()[0].command.load(SeqCst) == *command as u32;
    bench.until("worker 0 is told to leave a zygote behind", |_| told(&Command::Promote)).await;
    let snapshot = bench.handle.snapshot().await;
    assert!(
        snapshot.workers.iter().filter(|worker| !worker.draining).count() == 2,
        "it has been replaced before"
    );
}

fn closed_pair() -> OwnedFd {
    howdah_sys::socketpair_seqpacket().unwrap().0
}

fn speaker(packet: &[u8]) -> OwnedFd {
    let (ours, theirs) = howdah_sys::socketpair_seqpacket().unwrap();
    howdah_sys::send_with_fds(&theirs, packet, &[]).unwrap();
    ours
}

#[tokio::test]
async fn nothing_but_a_zygote_that_serves_takes_over() {
    let anything = [
        ("a reason", Err("it has children".to_owned())),
        ("a file", Ok(tempfile::tempfile().unwrap().into())),
        ("an eventfd", Ok(howdah_sys::eventfd().unwrap())),
        ("a stream", Ok(howdah_sys::socketpair_stream().unwrap().0)),
        ("a socket without an end", Ok(closed_pair())),
        ("one that says nonsense and goes", Ok(speaker(b"nonsense"))),
    ];
    for (what, heir) in anything {
        let bench = bench().await;
        asked(&bench).await;
        bench.handle.leave_zygote(0, heir);
        let snapshot = bench.until(what, |s| s.counts.failed_reforks == 1).await;
        assert_eq!((snapshot.generation, snapshot.reforks, snapshot.zygotes.len()), (1, 0, 1), "{what}");
        bench.segment.workers()[0].command.store(Command::Drain as u32, SeqCst);
        bench.stop().await;
    }
}

#[tokio::test]
async fn nobody_is_heard_who_was_not_asked() {
    let bench = bench().await;
    bench.handle.leave_zygote(0, Ok(closed_pair()));
    asked(&bench).await;
    bench.handle.leave_zygote(1, Ok(closed_pair()));
    bench.handle.leave_zygote(u16::MAX, Err("no".to_owned()));
    bench.handle.leave_zygote(0, Err("yes".to_owned()));
    bench.handle.leave_zygote(0, Ok(closed_pair()));
    let snapshot = bench.until("one is heard", |s| s.counts.failed_reforks > 0).await;
    assert_eq!((snapshot.counts.failed_reforks, snapshot.generation), (1, 1));
    bench.segment.workers()[0].command.store(Command::Drain as u32, SeqCst);
    bench.stop().await;
}
