//! What the service manager is told (`sd_notify(3)`), when one has set `NOTIFY_SOCKET`: ready, reloading, stopping, a
//! status text, which process is the main one, and that the event loop still turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Tells the service manager. Clones speak with one voice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manager {
    silent: Arc<AtomicBool>,
}

impl Manager {
    /// Requests are served.
    pub(crate) fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// A new generation is being loaded; [`Manager::ready`] ends it.
    pub(crate) fn reloading(&self) {
        let now = howdah_sys::monotonic_ns() / 1000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=loading the application anew"));
    }

    /// The end is near.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=running requests have their time to end");
    }

    /// One line for people.
    pub(crate) fn status(&self, status: &str) {
        self.say(&format!("STATUS={}", one_line(status)));
    }

    /// This process is the one to watch and to signal.
    pub(crate) fn main_process(&self, pid: u32) {
        self.say(&format!("MAINPID={pid}"));
    }

    /// Another process speaks from now on.
    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    /// Says twice in each interval that the event loop, in which this runs, still turns.
    pub(crate) async fn watchdog(self) {
        let Some(interval) = interval() else { return };
        let mut ticks = tokio::time::interval(interval / 2);
        loop {
            ticks.tick().await;
            self.say("WATCHDOG=1");
        }
    }

    fn say(&self, state: &str) {
        if self.silent.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = howdah_sys::notify::notify(state) {
            tracing::warn!("cannot tell the service manager by NOTIFY_SOCKET: {error}");
        }
    }
}

/// The time within which a watchdog wants to hear of us. A process that took over from the one that it was meant for
/// has no `WATCHDOG_PID`.
fn interval() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|&micros| ours && micros > 0).map(Duration::from_micros)
}

/// A line break would begin another assignment.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
