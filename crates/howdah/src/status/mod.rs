//! Knows the state of the server, and makes the pages that show it.
//!
//! ```text
//! front threads ── Question ──┐
//! control socket, serve ──────┼──> status thread ── Collector ──> Snapshot ──> howdah_metrics renders ──> Answer
//! timer, once a second ───────┘          └──> memory thread
//! ```
//!
//! It has a thread of its own: reading the system's books and rendering take milliseconds, in which no connection is to
//! wait. What may take longer (the supervisor's answer, measuring memory) is waited for beside other questions, so that
//! nobody who asks for the health waits for somebody's page. `parts` starts it before the front threads; `serve` tells it how far the server is.

mod collect;
mod cpu;
mod memory;
mod saturation;
mod workers;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use howdah_front::{Answer, Local, LocalPage, Question, Stock};
use howdah_metrics::{Counters, Page, Snapshot, metrics_page, status_page};
use howdah_supervisor::Handle;
use howdah_wire::Segment;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval};

pub(crate) use collect::LineCounter;
use collect::{Collector, Condition, Shared, Stage, condition, look_at_queue, snapshot};
pub(crate) use memory::Memories;
pub(crate) use saturation::oldest_wait;
pub(crate) use workers::request_of;

use crate::options::Serve;

/// Time between two looks at the counters.
const TICK: Duration = Duration::from_secs(1);

/// What others say to the thread.
#[derive(Debug)]
enum Note {
    Supervisor(Handle),
    Stage(Stage),
    Snapshot(oneshot::Sender<Snapshot>),
}

/// The thread, to those who tell it something or ask it. Clones reach the same one.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    notes: UnboundedSender<Note>,
    /// Of the workers.
    pub(crate) memories: Memories,
    saturated: Arc<AtomicBool>,
    stock: Arc<Stock>,
}

impl Observer {
    /// Starts the thread. The second value is for the front threads; none when there is no page.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(
        options: &Serve,
        segment: Segment,
        counters: Vec<Arc<Counters>>,
        lines: Option<LineCounter>,
        stock: Arc<Stock>,
    ) -> io::Result<(Self, Option<Arc<Local>>)> {
        let (notes, inbox) = unbounded_channel();
        let (questions, asked) = unbounded_channel();
        let collector = Collector::new(options, segment, counters, lines, Arc::clone(&stock));
        let saturated = Arc::clone(&collector.saturated);
        let memories = Memories::start()?;
        let measured = memories.clone();
        // The thread makes its event loop itself: one that finds no thread must not be dropped inside of another.
        let watch = move || match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => {
                let shared = Rc::new(RefCell::new(collector));
                LocalSet::new().block_on(&runtime, observe(shared, measured, inbox, asked));
            }
            Err(error) => tracing::error!("there is no status: {error}"),
        };
        std::thread::Builder::new().name("status".into()).spawn(watch)?;
        let (places, allow) = (options.status.pages(), options.status.status_allow.clone());
        let local = (!places.is_empty()).then(|| Arc::new(Local { places, allow, questions }));
        Ok((Self { notes, memories, saturated, stock }, local))
    }

    /// Bytes of responses that lie in files.
    pub(crate) fn spooled(&self) -> u64 {
        self.stock.spooled()
    }

    /// There is a supervisor to ask.
    pub(crate) fn supervised(&self, handle: Handle) {
        let _ = self.notes.send(Note::Supervisor(handle));
    }

    /// Requests are welcome.
    pub(crate) fn serving(&self) {
        let _ = self.notes.send(Note::Stage(Stage::Serving));
    }

    /// The server finishes what it has, and ends.
    pub(crate) fn draining(&self) {
        let _ = self.notes.send(Note::Stage(Stage::Draining));
    }

    /// Requests wait for long, and there may be no more workers.
    pub(crate) fn is_saturated(&self) -> bool {
        self.saturated.load(Relaxed)
    }

    /// The state of the server.
    pub(crate) async fn snapshot(&self) -> Snapshot {
        let (reply, answer) = oneshot::channel();
        let _ = self.notes.send(Note::Snapshot(reply));
        answer.await.unwrap_or_default()
    }
}

async fn observe(
    shared: Shared,
    memories: Memories,
    mut notes: UnboundedReceiver<Note>,
    mut questions: UnboundedReceiver<Question>,
) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                shared.borrow_mut().tick();
                spawn_local(look_at_queue(Shared::clone(&shared)));
            }
            note = notes.recv() => match note {
                Some(note) => heed(&shared, &memories, note),
                None => return,
            },
            Some(question) = questions.recv() => {
                spawn_local(answer(Shared::clone(&shared), memories.clone(), question));
            }
        }
    }
}

fn heed(shared: &Shared, memories: &Memories, note: Note) {
    match note {
        Note::Supervisor(handle) => shared.borrow_mut().handle = Some(handle),
        Note::Stage(stage) => shared.borrow_mut().stage = stage,
        Note::Snapshot(reply) => {
            let (shared, memories) = (Shared::clone(shared), memories.clone());
            // Whoever asked may have gone.
            spawn_local(async move { drop(reply.send(snapshot(&shared, &memories).await)) });
        }
    }
}

async fn answer(shared: Shared, memories: Memories, question: Question) {
    let Question { page, query, accept, reply } = question;
    let answer = match page {
        LocalPage::Status => shown(status_page(&query, &snapshot(&shared, &memories).await)),
        LocalPage::Metrics => shown(metrics_page(&accept, &snapshot(&shared, &memories).await)),
        LocalPage::Health => health(condition(&shared).await),
        LocalPage::Ready => readiness(condition(&shared).await),
    };
    let _ = reply.send(answer);
}

fn shown(page: Page) -> Answer {
    let Page { content_type, refresh, body } = page;
    Answer { status: 200, content_type, refresh, body }
}

/// A server that starts, stops or waits for a working application lives.
fn health(condition: Option<Condition>) -> Answer {
    verdict(condition.is_some(), condition)
}

fn readiness(condition: Option<Condition>) -> Answer {
    verdict(condition.is_some_and(|condition| condition.state.is_ready()), condition)
}

/// What the trouble is, not everybody may know; of a server that fails the word says enough.
fn verdict(well: bool, condition: Option<Condition>) -> Answer {
    let body = match condition {
        Some(Condition { state, trouble: true }) if state.is_ready() => {
            format!("{}\nin trouble: see howdah status\n", state.name())
        }
        Some(Condition { state, .. }) => format!("{}\n", state.name()),
        None => "no answer from the supervisor\n".to_owned(),
    };
    let status = if well { 200 } else { 503 };
    Answer { status, content_type: "text/plain; charset=utf-8", refresh: None, body }
}
