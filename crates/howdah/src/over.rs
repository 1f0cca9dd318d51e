//! When a command that looks for a while is over: after its time, or when somebody presses Ctrl-C, so that it still tells what
//! it has seen; or because it is ended by a signal, or its terminal is gone, when it has something to put back before.

#[cfg(feature = "top")]
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
#[cfg(feature = "top")]
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

#[cfg(feature = "top")]
use rustix::event::{PollFd, PollFlags, poll};
#[cfg(feature = "top")]
use rustix::io::Errno;
#[cfg(feature = "top")]
use tokio::signal::unix::{SignalKind, signal};

use crate::shortage::start_thread;

/// Becomes true then; without a limit, at Ctrl-C.
pub(crate) fn over_after(limit: Option<Duration>) -> anyhow::Result<Arc<AtomicBool>> {
    let over = Arc::new(AtomicBool::new(false));
    let alarm = Arc::clone(&over);
    start_thread(move || wait(limit, &alarm))?;
    Ok(over)
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

/// Calls `act` when somebody ends this process by TERM or HUP, or by INT from elsewhere than its terminal, or when its terminal is
/// gone, with the status that it is to exit with. From when it returns on, none of these ends the process by itself.
#[cfg(feature = "top")]
pub(crate) fn on_end(act: impl FnOnce(i32) + Send + 'static) -> anyhow::Result<()> {
    let (heeding, heeded) = channel();
    start_thread(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(number) = runtime.and_then(|runtime| runtime.block_on(end(heeding))) {
            // As a shell shows it.
            act(128 + number);
        }
    })?;
    // Nothing is ever sent: this returns when the other end is gone.
    let _ = heeded.recv();
    Ok(())
}

/// Resolves when the terminal on standard input is gone.
#[cfg(feature = "top")]
async fn hung_up() {
    if !std::io::stdin().is_terminal() {
        // Keys may come from /dev/tty, with something else on standard input, whose end means nothing.
        return std::future::pending().await;
    }
    let (tell, told) = tokio::sync::oneshot::channel();
    let waits = start_thread(move || {
        wait_for_hangup();
        let _ = tell.send(());
    });
    if waits.is_err() {
        return std::future::pending().await;
    }
    let _ = told.await;
}

/// Until the terminal on standard input is gone. Of that the kernel tells by HUP the leader of the session alone, and crossterm,
/// which reads the keys, goes round without end.
#[cfg(feature = "top")]
fn wait_for_hangup() {
    let input = std::io::stdin();
    while matches!(poll(&mut [PollFd::new(&input, PollFlags::empty())], None), Ok(0) | Err(Errno::INTR)) {}
}

/// The number of the signal. Lets go of `heeding` when signals are waited for.
#[cfg(feature = "top")]
async fn end(heeding: Sender<()>) -> std::io::Result<i32> {
    let (hangup, interrupt, terminate) =
        (SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate());
    let (mut by_hangup, mut by_interrupt, mut by_terminate) =
        (signal(hangup)?, signal(interrupt)?, signal(terminate)?);
    drop(heeding);
    let kind = tokio::select! {
        _ = by_hangup.recv() => hangup,
        () = hung_up() => hangup,
        _ = by_interrupt.recv() => interrupt,
        _ = by_terminate.recv() => terminate,
    };
    Ok(kind.as_raw_value())
}
