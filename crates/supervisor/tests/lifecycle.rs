//! Workers come, go and are replaced.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use std::cell::Cell;
use std::time::{Duration, Instant};

use common::*;
use howdah_supervisor::*;

#[tokio::test]
async fn all_workers_come_up_and_leave_no_process_behind() {
    let bench = Bench::start("", config(3)).await;
    bench.handle.ready().await.unwrap();
    let snapshot = bench.handle.snapshot().await;
    assert_eq!((snapshot.workers.len(), snapshot.generation, snapshot.target), (3, 1, 3));
    let pids: Vec<Pid> = bench.pids().await.into_iter().chain(snapshot.zygote).collect();
    assert_eq!(pids.len(), 4);
    bench.stop().await;
    assert!(pids.into_iter().all(|pid| !lives(pid)));
}

#[tokio::test]
async fn an_application_that_does_not_load_fails_the_start_with_perls_message() {
    let error = Bench::try_start("die Can't locate Foo.pm", config(2)).await.err().unwrap();
    assert!(
        matches!(&error, StartError::Application(message) if message == "Can't locate Foo.pm"),
        "{error}"
    );
}

#[tokio::test]
async fn a_zygote_that_ends_without_a_word_fails_the_start_with_its_status() {
    let error = Bench::try_start("exit 7", config(2)).await.err().unwrap();
    assert!(matches!(error, StartError::Zygote(ExitKind::Exited(7))), "{error}");
}

#[tokio::test]
async fn what_a_zygote_says_that_is_no_report_changes_nothing() {
    let bench = Bench::start("babble", config(2)).await;
    bench.until("two workers", |snapshot| snapshot.workers.len() == 2).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_process_that_is_no_child_of_the_zygote_is_none_of_its_workers() {
    let mut shell = std::process::Command::new("sh")
        .args(["-c", "sleep 60 & echo $!; wait"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line)
        .unwrap();
    let victim = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    let bench = Bench::start(&format!("claim {}", victim.as_raw_pid()), config(2)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(bench.pids().await.is_empty());
    bench.handle.stop(false).await;
    let spared = lives(victim);
    shell.kill().unwrap();
    shell.wait().unwrap();
    let _ = howdah_sys::process::Process::open(victim).signal(Signal::KILL);
    assert!(spared);
}

#[tokio::test]
async fn a_missing_perl_is_named() {
    let stage = stage("");
    let source = start(&stage, "/no/such/perl");
    let error = Bench::with_source(stage, source, config(1)).await.err().unwrap();
    assert!(error.to_string().contains("/no/such/perl"), "{error}");
}

#[tokio::test]
async fn more_workers_than_cells_are_refused() {
    let error = Bench::try_start("", config(33)).await.err().unwrap();
    assert!(matches!(error, StartError::TooManyWorkers { asked: 33, most: 32 }), "{error}");
}

#[tokio::test]
async fn a_killed_worker_is_replaced_and_its_cell_rests_until_it_is_recovered() {
    let bench = Bench::start("", config(1)).await;
    bench.handle.ready().await.unwrap();
    bench.told.lock().unwrap().hold = true;
    let victim = bench.handle.snapshot().await.workers.remove(0);
    kill(victim.pid.unwrap());
    let after = bench
        .until("a new worker", |s| s.workers.iter().any(|w| w.pid.is_some_and(|p| Some(p) != victim.pid)))
        .await;
    assert_ne!(after.workers[0].index, victim.index);
    assert_eq!(bench.told.lock().unwrap().gone, [(victim.index, ExitKind::Signaled(9))]);
    kill(after.workers[0].pid.unwrap());
    bench
        .until("a third", |s| {
            s.workers
                .iter()
                .any(|w| w.pid.is_some() && ![victim.index, after.workers[0].index].contains(&w.index))
        })
        .await;
    bench.recover();
    bench.stop().await;
}

#[tokio::test]
async fn workers_that_die_at_once_are_forked_ever_more_slowly() {
    let bench = Bench::start("crash 3", config(4)).await;
    let error = bench.handle.ready().await.unwrap_err();
    assert!(matches!(error, StartError::Workers(ExitKind::Exited(3))), "{error}");
    bench.until("a wait that has grown", waits_long).await;
    // Without those waits there would be hundreds; with four failures in a row, and all that were forked together, at least one for each.
    let forks = bench.told.lock().unwrap().up.len();
    assert!((7..=60).contains(&forks), "{forks} forks");
    let trouble = bench.handle.snapshot().await.trouble.unwrap();
    assert!(trouble.contains("exit status 3"), "{trouble}");
    bench.stop().await;
}

/// The next worker is tried after more than half a second.
fn waits_long(snapshot: &Snapshot) -> bool {
    let told = snapshot.trouble.as_ref().and_then(|told| told.rsplit_once("next try in ")?.1.split_once(' '));
    told.is_some_and(|(seconds, _)| seconds.parse::<f64>().is_ok_and(|seconds| seconds > 0.5))
}

#[tokio::test]
async fn workers_that_come_up_and_die_before_they_serve_are_forked_ever_more_slowly() {
    let bench = Bench::start("frail 0.1", config(1)).await;
    bench.handle.ready().await.unwrap();
    bench.until("a wait that has grown", waits_long).await;
    bench.edit("serve 100");
    bench.handle.reload().await.unwrap();
    bench.until("workers that live", |s| s.workers.len() == 1 && s.trouble.is_none()).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_repaired_application_gets_out_of_a_crash_loop_by_reload() {
    let bench = Bench::start("crash 3", config(2)).await;
    bench.handle.ready().await.unwrap_err();
    bench.edit("");
    bench.handle.reload().await.unwrap();
    bench.handle.ready().await.unwrap();
    let snapshot = bench.handle.snapshot().await;
    assert_eq!((snapshot.generation, snapshot.trouble), (2, None));
    bench.stop().await;
}

#[tokio::test]
async fn the_number_of_workers_changes_on_request() {
    let bench = Bench::start("", config(2)).await;
    let handle = &bench.handle;
    assert_eq!(handle.resize(3).await, Resized { workers: 5, wanted: 5, most: 32 });
    bench.until("five workers", |s| s.workers.len() == 5).await;
    assert_eq!(handle.resize(-4).await, Resized { workers: 1, wanted: 1, most: 32 });
    bench.until("one worker", |s| s.workers.len() == 1).await;
    assert_eq!(handle.resize(-4).await, Resized { workers: 1, wanted: 0, most: 32 });
    assert_eq!(handle.set_workers(4000).await, Resized { workers: 32, wanted: 4000, most: 32 });
    bench.until("32 workers", |s| s.workers.len() == 32).await;
    bench.stop().await;
}

#[tokio::test]
async fn what_comes_and_goes_is_counted_by_cause() {
    let bench = Bench::start("", config(3)).await;
    bench.handle.ready().await.unwrap();
    bench.handle.resize(-1).await;
    bench.until("two workers", |s| s.workers.len() == 2).await;
    bench.handle.reload().await.unwrap();
    bench.until("the old ones gone", |s| s.counts.exits.get(&Cause::Reload) == Some(&2)).await;
    kill(bench.handle.snapshot().await.workers[0].pid.unwrap());
    bench.until("a replacement", |s| s.counts.spawns == 6).await;
    let counts = bench.handle.snapshot().await.counts;
    let exits: Vec<_> = counts.exits.into_iter().collect();
    assert_eq!(exits, [(Cause::Reload, 2), (Cause::Resize, 1), (Cause::Signal, 1)]);
    assert_eq!((counts.reloads, counts.failed_reloads), (1, 0));
    bench.edit("die unfit");
    bench.handle.reload().await.unwrap_err();
    assert_eq!(bench.handle.snapshot().await.counts.failed_reloads, 1);
    bench.stop().await;
}

#[tokio::test]
async fn a_worker_is_signalled_only_while_the_process_is_the_one_meant() {
    let bench = Bench::start("", config(1)).await;
    bench.handle.ready().await.unwrap();
    let worker = bench.handle.snapshot().await.workers.remove(0);
    let other = Pid::from_raw(1);
    assert!(!bench.handle.kill_worker(worker.index, other, Signal::KILL).await);
    assert!(!bench.handle.kill_worker(60, None, Signal::KILL).await);
    assert!(bench.handle.kill_worker(worker.index, worker.pid, Signal::KILL).await);
    bench
        .until("a new worker", |s| s.workers.iter().any(|w| w.pid.is_some_and(|pid| Some(pid) != worker.pid)))
        .await;
    assert_eq!(bench.handle.snapshot().await.trouble, None);
    bench.stop().await;
}

#[tokio::test]
async fn workers_at_their_quota_are_replaced_before_they_leave() {
    let quota = Config { max_requests: 200, ..config(4) };
    // A life of two seconds: replacements have a tenth of it to come up in, and most of them have to.
    let bench = Bench::start("serve 100", quota).await;
    bench.handle.ready().await.unwrap();
    // The first lives tell how long they are.
    let left = || bench.told.lock().unwrap().gone.len();
    bench.until("the first have left", |_| left() >= 4).await;
    let (before, end) = (left(), Instant::now() + Duration::from_secs(30));
    let (mut able, mut gaps) = (4, 0);
    while left() < before + 8 {
        assert!(Instant::now() < end, "{} have left in half a minute", left() - before);
        tokio::time::sleep(Duration::from_millis(2)).await;
        let before = std::mem::replace(&mut able, bench.able());
        gaps += usize::from(able < before && able < 4);
    }
    let left = left() - before;
    assert!(gaps * 2 < left, "{gaps} of {left} left before their replacement was up");
    bench.stop().await;
}

#[tokio::test]
async fn workers_that_do_not_come_to_the_end_of_their_hooks_are_replaced() {
    let patient = Config { max_requests: 5, graceful_timeout: Duration::from_secs(60), ..config(2) };
    let bench = Bench::start("serve 100\nlinger 60", patient).await;
    let pids = |s: &Snapshot| s.workers.iter().filter(|worker| worker.pid.is_some()).count();
    bench.until("the first", |s| pids(s) >= 2).await;
    let first = bench.pids().await;
    bench.until("others beside them", |s| pids(s) >= 4).await;
    assert!(first.is_subset(&bench.pids().await));
    bench.handle.stop(false).await;
}

#[tokio::test]
async fn workers_that_do_not_come_to_the_end_of_their_hooks_are_killed_in_time() {
    let short = Config { max_requests: 5, graceful_timeout: Duration::from_millis(200), ..config(1) };
    let bench = Bench::start("serve 100\nlinger 60", short).await;
    bench.until("they are gone", |_| bench.told.lock().unwrap().gone.len() >= 2).await;
    let gone = bench.told.lock().unwrap().gone.clone();
    assert!(gone.iter().all(|(_, status)| *status == ExitKind::Signaled(9)), "{gone:?}");
    bench.handle.stop(false).await;
}

#[tokio::test]
async fn old_workers_are_replaced_one_after_the_other() {
    let lifetime = Config { max_lifetime: Some(Duration::from_millis(300)), ..config(3) };
    let bench = Bench::start("", lifetime).await;
    bench.handle.ready().await.unwrap();
    let first = bench.pids().await;
    bench
        .until("all are new", |s| s.workers.iter().all(|w| w.pid.is_none_or(|pid| !first.contains(&pid))))
        .await;
    bench.stop().await;
}

#[tokio::test]
async fn a_quarter_of_the_crew_at_most_is_replaced_at_once() {
    let lifetime = Config { max_lifetime: Some(Duration::from_millis(300)), ..config(8) };
    let bench = Bench::start("late 0.2", lifetime).await;
    bench.handle.ready().await.unwrap();
    let first = bench.pids().await;
    let most = Cell::new(0);
    bench
        .until("all are new", |s| {
            most.set(most.get().max(s.workers.iter().filter(|w| !w.draining).count()));
            s.workers.iter().all(|w| w.pid.is_none_or(|pid| !first.contains(&pid)))
        })
        .await;
    assert!(most.get() > 8 && most.get() <= 10, "{} were there", most.get());
    bench.stop().await;
}

#[tokio::test]
async fn workers_that_grow_too_large_are_replaced() {
    let memory = Config { max_memory: Some(1), ..config(2) };
    // Who has served nothing stays: another one would be as large.
    let bench = Bench::start("serve 100", memory).await;
    bench.handle.ready().await.unwrap();
    let first = bench.pids().await;
    bench
        .until("all are new", |s| s.workers.iter().all(|w| w.pid.is_none_or(|pid| !first.contains(&pid))))
        .await;
    bench
        .until("measured", |s| s.workers.iter().any(|w| w.memory.is_some_and(|bytes| bytes > 1 << 16)))
        .await;
    bench.stop().await;
}

#[tokio::test]
async fn stubborn_workers_are_killed_when_the_graceful_time_is_over() {
    let brief = Config { graceful_timeout: Duration::from_millis(200), ..config(2) };
    let bench = Bench::start("stubborn", brief).await;
    bench.handle.ready().await.unwrap();
    let began = Instant::now();
    bench.handle.stop(true).await;
    assert!(began.elapsed() >= Duration::from_millis(200));
    let gone = bench.told.lock().unwrap().gone.clone();
    assert!(gone.iter().all(|(_, status)| *status == ExitKind::Signaled(9)) && gone.len() == 2, "{gone:?}");
}

#[tokio::test]
async fn a_graceful_stop_can_be_cut_short() {
    let bench = Bench::start("stubborn", config(2)).await;
    bench.handle.ready().await.unwrap();
    let handle = bench.handle.clone();
    let graceful = tokio::spawn(async move { handle.stop(true).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    bench.handle.stop(false).await;
    graceful.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(matches!(bench.handle.reload().await, Err(ReloadError::Stopping)));
}
