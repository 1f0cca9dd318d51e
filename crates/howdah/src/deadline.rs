//! Replaces workers that are stuck in a request, by what front threads report, or behind their response, as their cells say; and
//! segments that are damaged.
//!
//! The client has its answer already. First the worker is told to take nothing more, so that it can be killed
//! without costing anybody else; then it is asked where it is stuck, which it tells the error log when it gets USR2,
//! whatever it waits for; then it has a moment to come to that, and is killed if it is still at the same request.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use howdah_front::{Damaged, Overdue};
use howdah_supervisor::{Handle, Signal, WorkerInfo};
use howdah_sys::{Patience, Pid};
use howdah_wire::{Command, WorkerCell, WorkerPhase};
use tokio::sync::mpsc::UnboundedReceiver;

/// Time for the backtrace, which a busy machine may delay.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How often to look whether the worker has come loose.
const LOOK: Duration = Duration::from_millis(20);
/// How often to look for workers that are behind a response.
const ROUND: Duration = Duration::from_millis(500);

/// Sees to every worker that the front threads report.
pub(crate) async fn watch(mut reports: UnboundedReceiver<Overdue>, handle: Handle) {
    while let Some(overdue) = reports.recv().await {
        let handle = handle.clone();
        tokio::spawn(async move {
            replace(overdue.worker, &handle, |cell| cell.is_at(overdue.slot)).await;
        });
    }
}

/// Sees to workers whose response is out, and which go on for longer than `limit`: by psgix.cleanup, close, or a destructor. No
/// request has them, so that no front thread misses them, but none gets them either.
pub(crate) async fn watch_behind(limit: Duration, handle: Handle) {
    let mut known: HashMap<u16, (Pid, u64, Patience)> = HashMap::new();
    loop {
        tokio::time::sleep(ROUND).await;
        let mut workers = Vec::new();
        // Seldom is there one at any instant, and the supervisor need not be asked.
        if handle.segment().workers().iter().any(is_behind) {
            workers = handle.snapshot().await.workers;
            workers.retain(WorkerInfo::is_behind_response);
        }
        known.retain(|&index, (pid, requests, _)| {
            workers.iter().any(|it| (it.index, it.pid, it.requests) == (index, Some(*pid), *requests))
        });
        for WorkerInfo { index, pid, requests, .. } in workers {
            let Some(pid) = pid else { continue };
            let (_, _, patience) = known.entry(index).or_insert((pid, requests, Patience::new(limit)));
            if !patience.look().is_zero() {
                continue;
            }
            known.remove(&index);
            tracing::error!(
                worker = index,
                pid = pid.as_raw_pid(),
                "no end within --request-timeout of what runs after a response, as by psgix.cleanup.handlers; replacing the worker"
            );
            let handle = handle.clone();
            tokio::spawn(async move {
                let same = |cell: &WorkerCell| is_behind(cell) && cell.requests.load(SeqCst) == requests;
                replace(index, &handle, same).await;
            });
        }
    }
}

fn is_behind(cell: &WorkerCell) -> bool {
    cell.phase.load(SeqCst) == WorkerPhase::Busy as u32 && cell.slot.load(SeqCst) == 0
}

/// Has segments replaced in which front threads find what cannot be true.
pub(crate) async fn replace_damaged(mut reports: UnboundedReceiver<Damaged>, handle: Handle) {
    while let Some(Damaged { segment, what }) = reports.recv().await {
        handle.replace(segment, what);
    }
}

async fn replace(worker: u16, handle: &Handle, is_stuck: impl Fn(&WorkerCell) -> bool) {
    let segment = handle.segment();
    let Some(cell) = segment.workers().get(usize::from(worker)) else { return };
    let workers = handle.snapshot().await.workers;
    // By the zygote's word: the cell may say anything.
    let known = workers.iter().find(|known| known.index == worker);
    let Some(pid) = known.and_then(|known| known.pid) else { return };
    cell.command.store(Command::Drain as u32, SeqCst);
    if !is_stuck(cell) {
        return;
    }
    handle.kill_worker(worker, Some(pid), Signal::USR2).await;
    for _ in 0..LAST_WORDS.as_millis() / LOOK.as_millis() {
        tokio::time::sleep(LOOK).await;
        if !is_stuck(cell) {
            return;
        }
    }
    handle.kill_worker(worker, Some(pid), Signal::KILL).await;
}
