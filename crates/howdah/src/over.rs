//! When a command that looks for a while is over: after its time, or when somebody presses Ctrl-C, so that it still tells what
//! it has seen; or because it is ended by a signal, or its terminal is gone, when it has something to put back before.

use std::io;
#[cfg(feature = "top")]
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
#[cfg(feature = "top")]
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::anyhow;
#[cfg(feature = "top")]
use rustix::event::{PollFd, PollFlags, poll};
#[cfg(feature = "top")]
use rustix::io::Errno;
use tokio::runtime::Runtime;
#[cfg(feature = "top")]
use tokio::signal::unix::{SignalKind, signal};

use crate::shortage::{start_thread, try_sockets, with_limit};

/// Becomes true then; without a limit, at Ctrl-C.
pub(crate) fn over_after(limit: Option<Duration>) -> anyhow::Result<Arc<AtomicBool>> {
    let over = Arc::new(AtomicBool::new(false));
    let alarm = Arc::clone(&over);
    beside(move |runtime| {
        runtime.block_on(async {
            let never = Duration::from_secs(u64::from(u32::MAX));
            let interrupted = tokio::signal::ctrl_c();
            let _ = tokio::time::timeout(limit.unwrap_or(never), interrupted).await;
        });
        alarm.store(true, Relaxed);
    })?;
    Ok(over)
}

/// Has a thread wait for signals. A command that has none would be over before it has begun, or never.
fn beside(wait: impl FnOnce(Runtime) + Send + 'static) -> anyhow::Result<()> {
    let (tell, told) = channel();
    start_thread(move || match event_loop() {
        Ok(runtime) => {
            let _ = tell.send(Ok(()));
            wait(runtime);
        }
        Err(error) => drop(tell.send(Err(error))),
    })?;
    let begun = told.recv().map_err(io::Error::other).and_then(|begun| begun);
    begun.map_err(|error| anyhow!("cannot wait for signals: {}", with_limit(&error)))
}

fn event_loop() -> io::Result<Runtime> {
    try_sockets()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Calls `act` when somebody ends this process by TERM or HUP, or by INT from elsewhere than its terminal, or when its terminal is
/// gone, with the status that it is to exit with. From when it returns on, none of these ends the process by itself.
#[cfg(feature = "top")]
pub(crate) fn on_end(act: impl FnOnce(i32) + Send + 'static) -> anyhow::Result<()> {
    let (heeding, heeded) = channel();
    beside(move |runtime| {
        if let Ok(number) = runtime.block_on(end(heeding)) {
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
    if !io::stdin().is_terminal() {
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
    let input = io::stdin();
    while matches!(poll(&mut [PollFd::new(&input, PollFlags::empty())], None), Ok(0) | Err(Errno::INTR)) {}
}

/// The number of the signal. Lets go of `heeding` when signals are waited for.
#[cfg(feature = "top")]
async fn end(heeding: Sender<()>) -> io::Result<i32> {
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
