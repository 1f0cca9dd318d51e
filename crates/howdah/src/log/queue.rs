//! Lines on their way to the writer. Whoever has one leaves it here and goes on: the lock is held to copy bytes, never
//! to write them.
//!
//! There is a bound. Beyond it lines are dropped and counted, from the first that finds no room to the moment when the
//! writer takes what there is; so the loss is one gap, and the writer tells of it in its place. The thread that reads
//! Perl's standard error waits a little for room first, so that an application which says much is slowed down by a slow
//! disk rather than losing lines. The front never does, and has room that the application cannot take.

use std::mem;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes for what Perl says.
const ROOM: usize = 1024 * 1024;
/// And so many more for the front's own messages.
const RESERVE: usize = 1024 * 1024;
/// How long the reader of Perl's standard error waits for room.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two attempts to write to what refuses.
const RETRY: Duration = Duration::from_secs(1);
/// The same when time runs out.
const RETRY_AT_END: Duration = Duration::from_millis(20);

/// Who waits for a file to be opened anew.
pub(super) type Reopener = SyncSender<Result<(), String>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// For the writer: there is something to do.
    filled: Condvar,
    /// For everybody else: the writer has taken what there was, or has written all of it.
    emptied: Condvar,
}

#[derive(Debug)]
struct State {
    text: Vec<u8>,
    lost: u64,
    /// There is a writer, and it has lines in its hands.
    served: bool,
    writing: bool,
    /// When nobody may wait any more.
    deadline: Option<Instant>,
    reopeners: Vec<Reopener>,
    /// Why the last attempt to write has failed.
    refused: Option<String>,
    /// Why lines still go to the old file, when it could not be opened anew.
    old_file: Option<String>,
}

/// What the writer gets.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) text: Vec<u8>,
    /// Lines behind the text for which there was no room.
    pub(super) lost: u64,
}

impl Queue {
    pub(super) const fn new() -> Self {
        let state = State {
            text: Vec::new(),
            lost: 0,
            served: false,
            writing: false,
            deadline: None,
            reopeners: Vec::new(),
            refused: None,
            old_file: None,
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new() }
    }

    /// There is a writer from now on.
    pub(super) fn serve(&self) {
        self.lock().served = true;
    }

    /// Whether there is a writer.
    pub(super) fn is_served(&self) -> bool {
        self.lock().served
    }

    /// Adds whole lines, or counts them as lost. Never waits.
    pub(super) fn offer(&self, lines: &[u8]) {
        self.lock().add(lines, ROOM + RESERVE);
        self.filled.notify_one();
    }

    /// The same, after some time for room to be made. None when lines have been lost already.
    pub(super) fn offer_patiently(&self, lines: &[u8]) {
        let end = Instant::now() + PATIENCE;
        let mut state = self.lock();
        while state.lost == 0 && !state.has_room(lines, ROOM) {
            let end = state.deadline.map_or(end, |deadline| deadline.min(end));
            let Some(left) = time_until(end) else { break };
            state = wait(&self.emptied, state, left);
        }
        state.add(lines, ROOM);
        drop(state);
        self.filled.notify_one();
    }

    /// The writer is through with what it had: waits for more.
    pub(super) fn take(&self) -> Batch {
        let mut state = self.lock();
        state.writing = false;
        self.emptied.notify_all();
        while state.is_empty() && state.reopeners.is_empty() {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.writing = !state.is_empty();
        let batch = Batch { text: mem::take(&mut state.text), lost: mem::take(&mut state.lost) };
        self.emptied.notify_all();
        batch
    }

    /// Lets the writer rest before it tries again, unless a file is to be opened anew.
    pub(super) fn pause(&self) {
        let start = Instant::now();
        let mut state = self.lock();
        while state.reopeners.is_empty() {
            let pause = if state.deadline.is_some() { RETRY_AT_END } else { RETRY };
            let Some(left) = time_until(start + pause) else { return };
            state = wait(&self.filled, state, left);
        }
    }

    /// Waits until everything is written, but no longer than that.
    pub(super) fn settle(&self, end: Instant) {
        let mut state = self.lock();
        while state.served && (state.writing || !state.is_empty()) {
            let Some(left) = time_until(end) else { return };
            state = wait(&self.emptied, state, left);
        }
    }

    /// Nobody waits for this log any longer than that.
    pub(super) fn end_by(&self, deadline: Instant) {
        self.lock().deadline = Some(deadline);
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// How the last attempt to write went.
    pub(super) fn tell_written(&self, refused: Option<String>) {
        self.lock().refused = refused;
    }

    /// How it went to open the file anew.
    pub(super) fn tell_reopened(&self, refused: Option<String>) {
        self.lock().old_file = refused;
    }

    /// What is wrong, in words.
    pub(super) fn trouble(&self) -> Option<String> {
        let state = self.lock();
        let refused = state.refused.as_ref().map(|why| format!("{why}; lines wait in memory"));
        let lost =
            || (state.lost > 0).then(|| format!("nobody reads it; {} lines are lost so far", state.lost));
        let not_reopened =
            |why: &String| format!("it could not be opened anew: {why}; lines go to the old file");
        refused.or_else(lost).or_else(|| state.old_file.as_ref().map(not_reopened))
    }

    /// Asks the writer to open its file anew.
    pub(super) fn reopen(&self, reopener: Reopener) {
        self.lock().reopeners.push(reopener);
        self.filled.notify_one();
    }

    /// Those who have asked since the last time.
    pub(super) fn reopeners(&self) -> Vec<Reopener> {
        mem::take(&mut self.lock().reopeners)
    }

    /// A lock whose other holder panicked is as good as any: every state is a valid one.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.lost == 0
    }

    /// Something always fits into nothing, however long it is.
    fn has_room(&self, lines: &[u8], room: usize) -> bool {
        self.text.is_empty() || self.text.len() + lines.len() <= room
    }

    fn add(&mut self, lines: &[u8], room: usize) {
        if self.lost == 0 && self.has_room(lines, room) {
            self.text.extend_from_slice(lines);
        } else {
            self.lost += lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
    }
}

/// None when it is over.
fn time_until(end: Instant) -> Option<Duration> {
    Some(end.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

fn wait<'a>(event: &Condvar, state: MutexGuard<'a, State>, most: Duration) -> MutexGuard<'a, State> {
    event.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(length: usize) -> Vec<u8> {
        [vec![b'x'; length - 1], vec![b'\n']].concat()
    }

    #[test]
    fn what_finds_no_room_is_counted_until_the_writer_takes_the_rest() {
        let queue = Queue::new();
        queue.offer_patiently(&line(ROOM));
        queue.offer(b"the front's own\n");
        let start = Instant::now();
        queue.offer_patiently(b"one\ntwo\n");
        assert!(start.elapsed() >= PATIENCE, "waited for room");
        queue.offer(b"lost, because it would stand before those that are lost\n");
        queue.offer_patiently(b"not waited for again\n");
        assert!(start.elapsed() < PATIENCE * 3);
        let batch = queue.take();
        assert!(batch.text.ends_with(b"x\nthe front's own\n"));
        assert_eq!(batch.lost, 4);
        queue.offer(b"after it\n");
        let batch = queue.take();
        assert_eq!((&batch.text[..], batch.lost), (&b"after it\n"[..], 0));
    }

    #[test]
    fn trouble_is_told_as_long_as_it_lasts() {
        let queue = Queue::new();
        let told = |refused, lost, old_file: Option<&str>| {
            queue.tell_written(refused);
            queue.tell_reopened(old_file.map(str::to_owned));
            queue.lock().lost = lost;
            queue.trouble()
        };
        let old = "it could not be opened anew: no; lines go to the old file";
        assert_eq!(told(None, 0, None), None);
        assert_eq!(told(Some("full".to_owned()), 3, Some("no")).unwrap(), "full; lines wait in memory");
        assert_eq!(told(None, 3, Some("no")).unwrap(), "nobody reads it; 3 lines are lost so far");
        assert_eq!(told(None, 0, Some("no")).unwrap(), old);
    }

    #[test]
    fn the_front_never_waits() {
        let queue = Queue::new();
        let start = Instant::now();
        for _ in 0..2 * (ROOM + RESERVE) / 1000 {
            queue.offer(&line(1000));
        }
        assert!(start.elapsed() < PATIENCE);
        let batch = queue.take();
        assert!(batch.text.len() > ROOM && batch.text.len() <= ROOM + RESERVE);
        assert!(batch.lost > 1000);
    }

    #[test]
    fn a_reader_that_waits_for_room_gets_it() {
        let queue = Queue::new();
        queue.offer_patiently(&line(ROOM));
        std::thread::scope(|scope| {
            scope.spawn(|| queue.offer_patiently(b"late\n"));
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(queue.take().text.len(), ROOM);
            assert_eq!(queue.take().text, b"late\n");
        });
    }

    #[test]
    fn at_the_end_nobody_waits_longer_than_until_the_deadline() {
        let queue = Queue::new();
        queue.serve();
        queue.offer_patiently(&line(ROOM));
        let start = Instant::now();
        let deadline = start + Duration::from_millis(50);
        queue.end_by(deadline);
        queue.settle(deadline);
        queue.offer_patiently(b"too late\n");
        assert!(start.elapsed() >= Duration::from_millis(50) && start.elapsed() < PATIENCE);
        assert_eq!(queue.take().lost, 1);
    }
}
