//! Replaces workers that are stuck in a request, by what front threads report; and segments that are damaged.
//!
//! The front has answered the client already. First the worker is told to take nothing more, so that it can be killed
//! without costing anybody else; then it is asked where it is stuck, which it tells the error log when it gets USR2,
//! whatever it waits for; then it has a moment to come to that, and is killed if it is still at the same request.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use howdah_front::{Damaged, Overdue};
use howdah_supervisor::{Handle, Signal};
use howdah_wire::Command;
use tokio::sync::mpsc::UnboundedReceiver;

/// Time for the backtrace, which a busy machine may delay.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How often to look whether the worker has come loose.
const LOOK: Duration = Duration::from_millis(20);

/// Sees to every worker that the front threads report.
pub(crate) async fn watch(mut reports: UnboundedReceiver<Overdue>, handle: Handle) {
    while let Some(overdue) = reports.recv().await {
        tokio::spawn(replace(overdue, handle.clone()));
    }
}

/// Has segments replaced in which front threads find what cannot be true.
pub(crate) async fn replace_damaged(mut reports: UnboundedReceiver<Damaged>, handle: Handle) {
    while let Some(Damaged { segment, what }) = reports.recv().await {
        handle.replace(segment, what);
    }
}

async fn replace(overdue: Overdue, handle: Handle) {
    let segment = handle.segment();
    let Some(cell) = segment.workers().get(overdue.worker as usize) else { return };
    let workers = handle.snapshot().await.workers;
    // By the zygote's word: the cell may say anything.
    let known = workers.iter().find(|worker| worker.index == overdue.worker);
    let Some(pid) = known.and_then(|worker| worker.pid) else { return };
    cell.command.store(Command::Drain as u32, SeqCst);
    if !cell.is_at(overdue.slot) {
        return;
    }
    handle.kill_worker(overdue.worker, Some(pid), Signal::USR2).await;
    for _ in 0..LAST_WORDS.as_millis() / LOOK.as_millis() {
        tokio::time::sleep(LOOK).await;
        if !cell.is_at(overdue.slot) {
            return;
        }
    }
    handle.kill_worker(overdue.worker, Some(pid), Signal::KILL).await;
}
