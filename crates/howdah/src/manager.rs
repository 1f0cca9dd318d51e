//! What the service manager is told (`sd_notify(3)`), when one has set `NOTIFY_SOCKET`: ready, reloading, stopping, a
//! status text, which process is the main one, and that the event loop still turns.

use std::io::ErrorKind::WouldBlock;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a manager that has not read its last messages is left in peace before the next is tried again.
const PEACE: Duration = Duration::from_millis(100);

/// Tells the service manager, and never waits for it: what it does not take now is kept until it does, and replaced by
/// what makes it out of date. Clones speak with one voice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manager {
    voice: Arc<Mutex<Voice>>,
}

#[derive(Debug, Default)]
struct Voice {
    main_process: Option<u32>,
    /// Whether we serve, with what belongs to it.
    phase: Option<String>,
    status: Option<String>,
    /// The end was announced: nothing comes after it.
    ended: bool,
    /// Another process speaks.
    silent: bool,
    /// A task tries again.
    retried: bool,
}

impl Manager {
    /// Requests are served.
    pub(crate) fn ready(&self, status: &str) {
        self.enter("READY=1".to_owned(), status);
    }

    /// A new generation is being loaded; [`Manager::ready`] ends it.
    pub(crate) fn reloading(&self) {
        let now = howdah_sys::monotonic_ns() / 1000;
        self.enter(format!("RELOADING=1\nMONOTONIC_USEC={now}"), "loading the application anew");
    }

    /// The end is near.
    pub(crate) fn stopping(&self) {
        self.enter("STOPPING=1".to_owned(), "running requests have their time to end");
        self.voice().ended = true;
    }

    /// One line for people.
    pub(crate) fn status(&self, status: &str) {
        self.say(|voice| voice.status = Some(one_line(status)));
    }

    /// This process is the one to watch and to signal.
    pub(crate) fn main_process(&self, pid: u32) {
        self.say(|voice| voice.main_process = Some(pid));
    }

    /// Another process speaks from now on.
    pub(crate) fn fall_silent(&self) {
        self.voice().silent = true;
    }

    /// Says twice in each interval that the event loop, in which this runs, still turns.
    pub(crate) async fn watchdog(self) {
        let Some(interval) = interval() else { return };
        let mut ticks = tokio::time::interval(interval / 2);
        loop {
            ticks.tick().await;
            if !self.voice().silent {
                // A manager that has not read the last of these needs no other.
                sent("WATCHDOG=1");
            }
        }
    }

    fn enter(&self, phase: String, status: &str) {
        self.say(|voice| (voice.phase, voice.status) = (Some(phase), Some(one_line(status))));
    }

    fn voice(&self) -> MutexGuard<'_, Voice> {
        self.voice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, what: impl FnOnce(&mut Voice)) {
        let mut voice = self.voice();
        if voice.ended || voice.silent {
            return;
        }
        what(&mut voice);
        if !voice.speak() && !mem::replace(&mut voice.retried, true) {
            tokio::spawn(self.clone().repeat());
        }
    }

    async fn repeat(self) {
        loop {
            tokio::time::sleep(PEACE).await;
            let mut voice = self.voice();
            if voice.speak() {
                voice.retried = false;
                return;
            }
        }
    }
}

impl Voice {
    /// Says what there is to say. False when the manager does not take all of it now.
    fn speak(&mut self) -> bool {
        // First, because of others it takes nothing.
        if let Some(pid) = self.main_process {
            if !sent(&format!("MAINPID={pid}")) {
                return false;
            }
            self.main_process = None;
        }
        let status = self.status.as_ref().map(|status| format!("STATUS={status}"));
        let lines: Vec<_> = self.phase.iter().chain(&status).map(String::as_str).collect();
        if !lines.is_empty() && !sent(&lines.join("\n")) {
            return false;
        }
        (self.phase, self.status) = (None, None);
        true
    }
}

/// False when the manager has not read what it was told before.
fn sent(state: &str) -> bool {
    match howdah_sys::notify::notify(state) {
        Err(error) if error.kind() == WouldBlock => return false,
        Err(error) => tracing::warn!("cannot tell the service manager by NOTIFY_SOCKET: {error}"),
        Ok(_) => {}
    }
    true
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
