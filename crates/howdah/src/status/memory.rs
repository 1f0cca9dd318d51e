//! Memory of workers, for `collect` and for `howdah status`.
//!
//! To measure it the kernel walks a whole address space, and may wait for whoever changes that just then; a confined front
//! has the launcher do it, which may be stopped. So a thread of its own measures, each worker every few seconds at
//! most, and whoever asks waits for it a bounded time: what was known before must do then.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_supervisor::Pid;
use howdah_sys::usage::memory_of;
use tokio::sync::{mpsc, oneshot, watch};

/// A measurement is good for so long.
const FRESH: Duration = Duration::from_secs(3);

/// What is known of each process: bytes that it has for itself, none when it cannot be measured.
pub(crate) type Known = Arc<HashMap<Pid, Measured>>;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    at: Instant,
    /// None when there was nothing to measure.
    pub(crate) bytes: Option<u64>,
}

/// The thread, to those who ask it. Clones reach the same one.
#[derive(Clone, Debug)]
pub(crate) struct Memories {
    wishes: mpsc::Sender<Wish>,
    known: watch::Receiver<Known>,
}

/// Processes to be measured; all others are forgotten.
#[derive(Debug)]
struct Wish {
    pids: Vec<Pid>,
    /// To be spent on it; those that it does not come to have their turn at the next wish.
    time: Duration,
    /// Told, or dropped, when it is done.
    done: oneshot::Sender<()>,
}

impl Memories {
    /// Starts the thread, which ends with the last of those who could ask it.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start() -> io::Result<Self> {
        Self::with(|pid| memory_of(pid).ok().map(|memory| memory.private))
    }

    fn with(measure: impl Fn(Pid) -> Option<u64> + Send + 'static) -> io::Result<Self> {
        // While it is at one wish, one more may wait.
        let (wishes, inbox) = mpsc::channel(1);
        let (publish, known) = watch::channel(Known::default());
        let run = move || fulfil(inbox, &publish, &measure);
        std::thread::Builder::new().name("memory".into()).spawn(run)?;
        Ok(Self { wishes, known })
    }

    /// Has those of `pids` measured whose turn it is, as many as it comes to in that time, and returns what is known:
    /// soon after that time at the latest.
    pub(crate) async fn look(&self, pids: Vec<Pid>, time: Duration) -> Known {
        let (done, finished) = oneshot::channel();
        // Refused by a thread that is stuck, we need not wait for it.
        if self.wishes.try_send(Wish { pids, time, done }).is_ok() {
            let _ = tokio::time::timeout(time * 2, finished).await;
        }
        Known::clone(&self.known.borrow())
    }
}

fn fulfil(
    mut wishes: mpsc::Receiver<Wish>,
    publish: &watch::Sender<Known>,
    measure: &dyn Fn(Pid) -> Option<u64>,
) {
    let mut known = HashMap::new();
    while let Some(Wish { pids, time, done }) = wishes.blocking_recv() {
        refresh(&mut known, &pids, time, measure);
        publish.send_replace(Arc::new(known.clone()));
        // Whoever asked may have gone.
        let _ = done.send(());
    }
}

/// Measures those of `pids` whose turn it is, and forgets all others.
fn refresh(
    known: &mut HashMap<Pid, Measured>,
    pids: &[Pid],
    time: Duration,
    measure: &dyn Fn(Pid) -> Option<u64>,
) {
    known.retain(|pid, _| pids.contains(pid));
    let start = Instant::now();
    let at = |pid: &Pid| known.get(pid).map(|measured| measured.at);
    let mut due: Vec<Pid> = pids.to_vec();
    due.retain(|pid| at(pid).is_none_or(|at| start - at >= FRESH));
    // None comes first: a worker that was never measured.
    due.sort_by_key(at);
    for pid in due {
        // Who cannot measure just now takes nothing from what is known.
        let bytes = measure(pid).or_else(|| known.get(&pid)?.bytes);
        known.insert(pid, Measured { at: Instant::now(), bytes });
        if start.elapsed() > time {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    fn pids() -> (Pid, Pid) {
        (rustix::process::getpid(), Pid::from_raw(i32::MAX).unwrap())
    }

    fn bytes(known: &Known, pid: Pid) -> Option<u64> {
        known.get(&pid)?.bytes
    }

    #[tokio::test]
    async fn those_that_live_are_known_and_others_forgotten() {
        let (own, gone) = pids();
        let memories = Memories::start().unwrap();
        let known = memories.look(vec![own, gone], Duration::from_secs(10)).await;
        assert!(bytes(&known, own).is_some_and(|bytes| bytes > 0));
        assert_eq!(bytes(&known, gone), None);
        let known = memories.look(vec![], Duration::from_secs(10)).await;
        assert!(known.is_empty());
    }

    #[test]
    fn who_cannot_measure_takes_nothing_from_what_is_known() {
        let (own, other) = pids();
        let long_ago = Instant::now() - FRESH;
        let mut known = HashMap::from([(own, Measured { at: long_ago, bytes: Some(7) })]);
        refresh(&mut known, &[own, other], SOON, &|_| None);
        assert_eq!([own, other].map(|pid| known[&pid].bytes), [Some(7), None]);
        assert!(known[&own].at > long_ago, "and waits for its next turn");
    }

    #[tokio::test]
    async fn a_measurement_that_hangs_is_waited_for_a_bounded_time_and_not_at_all_later() {
        let (own, other) = pids();
        let (go_on, wait) = channel::<()>();
        let memories = Memories::with(move |pid| {
            if pid == other {
                let _ = wait.recv();
            }
            Some(7)
        })
        .unwrap();
        let known = memories.look(vec![own], Duration::from_secs(10)).await;
        assert_eq!(bytes(&known, own), Some(7));
        let looks = async {
            for _ in 0..50 {
                let known = memories.look(vec![own, other], SOON).await;
                assert_eq!(
                    (bytes(&known, own), bytes(&known, other)),
                    (Some(7), None),
                    "what was known before"
                );
            }
        };
        tokio::time::timeout(Duration::from_secs(10), looks).await.expect("fifty looks do not add up");
        drop(go_on);
        let mut known = Known::default();
        for _ in 0..500 {
            known = memories.look(vec![own, other], SOON).await;
            if bytes(&known, other).is_some() {
                break;
            }
            tokio::time::sleep(SOON).await;
        }
        assert_eq!(bytes(&known, other), Some(7), "and goes on when that does");
    }
}
