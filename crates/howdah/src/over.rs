//! When a command that looks for a while is over: after its time, or when somebody presses Ctrl-C, so that it still tells what
//! it has seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Becomes true then; without a limit, at Ctrl-C.
pub(crate) fn over_after(limit: Option<Duration>) -> Arc<AtomicBool> {
    let over = Arc::new(AtomicBool::new(false));
    let alarm = Arc::clone(&over);
    std::thread::spawn(move || wait(limit, &alarm));
    over
}

fn wait(limit: Option<Duration>, over: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Ok(runtime) = runtime {
        runtime.block_on(async {
            let never = Duration::from_secs(u64::from(u32::MAX));
            let interrupted = tokio::signal::ctrl_c();
            let _ = tokio::time::timeout(limit.unwrap_or(never), interrupted).await;
        });
    }
    over.store(true, Relaxed);
}
