//! Replaces workers that are stuck in a request.
//!
//! The front has answered the client already. First the worker is told to take nothing more, so that it can be killed
//! without costing anybody else; then it is asked where it is stuck, which a Perl process tells the error log when it
//! gets USR2; then it has a moment to come to that, and is killed if it is still at the same request.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use howdah_front::Overdue;
use howdah_supervisor::{Handle, Pid, Signal};
use howdah_wire::{Command, Segment, WorkerCell};
use tokio::sync::mpsc::UnboundedReceiver;

/// Time for the backtrace: a signal is handled at the next statement, which a busy machine may delay.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How often to look whether the worker has come loose.
const LOOK: Duration = Duration::from_millis(20);

/// Sees to every worker that the front threads report.
pub(crate) async fn watch(mut reports: UnboundedReceiver<Overdue>, segment: Segment, handle: Handle) {
    while let Some(overdue) = reports.recv().await {
        tokio::spawn(replace(overdue, segment, handle.clone()));
    }
}

async fn replace(overdue: Overdue, segment: Segment, handle: Handle) {
    let Some(cell) = segment.workers().get(overdue.worker as usize) else { return };
    let pid = Pid::from_raw(cell.pid.load(SeqCst).cast_signed());
    cell.command.store(Command::Drain as u32, SeqCst);
    if !is_stuck(cell, overdue.slot) {
        return;
    }
    handle.kill_worker(overdue.worker, pid, Signal::USR2).await;
    for _ in 0..LAST_WORDS.as_millis() / LOOK.as_millis() {
        tokio::time::sleep(LOOK).await;
        if !is_stuck(cell, overdue.slot) {
            return;
        }
    }
    handle.kill_worker(overdue.worker, pid, Signal::KILL).await;
}

fn is_stuck(cell: &WorkerCell, slot: u32) -> bool {
    cell.slot.load(SeqCst) == slot + 1
}
