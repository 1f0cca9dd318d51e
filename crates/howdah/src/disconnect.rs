//! `--abort-on-disconnect`: interrupts workers whose client has left.
//!
//! The signal is URG, which does nothing to a process that has no use for it. A worker that gets it looks whether the
//! response to its present request is still wanted (`xs/gone.c`), so one that comes late interrupts nothing else.

use howdah_supervisor::{Handle, Signal};
use tokio::sync::mpsc::UnboundedReceiver;

/// Sees to every worker that the front threads report.
pub(crate) async fn watch(mut departures: UnboundedReceiver<u16>, handle: Handle) {
    while let Some(worker) = departures.recv().await {
        handle.kill_worker(worker, None, Signal::URG).await;
    }
}
