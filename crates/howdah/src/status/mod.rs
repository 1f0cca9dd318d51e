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
//! nobody who asks for the health waits for somebody's page. `parts` starts it before the front threads; `serve` tells it
//! how far the server is.
//!
//! There is one [`Snapshot`]: pages, metrics, the control socket, and by that `howdah status` and `howdah top`, show what
//! stands in it, and call it alike.

mod collect;
mod pool;
mod cpu;
mod memory;
mod saturation;
mod workers;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_front::{Answer, OwnPage, OwnPages, Question};
use howdah_metrics::{Label, Page, Snapshot, metrics_page, status_page};
use howdah_proxied::Trust;
use howdah_supervisor::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval};

use collect::{Collector, Condition, Shared, condition, look_at_queues, snapshot};
pub(crate) use collect::{LogWatch, Sources};
use memory::Memories;
pub(crate) use pool::Facts;
use pool::Stage;

use crate::options::Serve;

/// Time between two looks at the counters.
const TICK: Duration = Duration::from_secs(1);
/// Time to measure memory for somebody who looks again and again, or has a browser wait.
const SOON: Duration = Duration::from_millis(50);
/// Time to measure memory for somebody who looks once: enough for hundreds of workers.
const PATIENT: Duration = Duration::from_secs(1);

/// What others say to the thread.
#[derive(Debug)]
enum Note {
    Supervisor { pool: usize, handle: Handle },
    Listening(Vec<String>),
    Stage(Stage),
    Snapshot { measuring: Duration, reply: oneshot::Sender<Snapshot> },
}

/// The thread, to those who tell it something or ask it. Clones reach the same one.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    notes: UnboundedSender<Note>,
}

impl Observer {
    /// Starts the thread. The second value is for the front threads; none when there is no page.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(options: &Serve, sources: Sources) -> io::Result<(Self, Option<Arc<OwnPages>>)> {
        let (notes, inbox) = unbounded_channel();
        let (questions, asked) = unbounded_channel();
        let collector = Collector::new(options, sources);
        let memories = Memories::start()?;
        // The thread makes its event loop itself: one that finds no thread must not be dropped inside of another.
        let watch = move || match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => {
                let shared = Rc::new(RefCell::new(collector));
                LocalSet::new().block_on(&runtime, observe(shared, memories, inbox, asked));
            }
            Err(error) => tracing::error!("there is no status: {error}"),
        };
        std::thread::Builder::new().name("status".into()).spawn(watch)?;
        let (places, allow) = (options.status.pages(), Trust::new(options.status.status_allow.clone()));
        let local = (!places.is_empty()).then(|| Arc::new(OwnPages { places, allow, questions }));
        Ok((Self { notes }, local))
    }

    /// A pool has a supervisor to ask.
    pub(crate) fn supervised(&self, pool: usize, handle: Handle) {
        let _ = self.notes.send(Note::Supervisor { pool, handle });
    }

    /// Clients are waited for at these addresses.
    pub(crate) fn listening(&self, addresses: Vec<String>) {
        let _ = self.notes.send(Note::Listening(addresses));
    }

    /// Requests are welcome.
    pub(crate) fn serving(&self) {
        let _ = self.notes.send(Note::Stage(Stage::Serving));
    }

    /// The server finishes what it has, and ends.
    pub(crate) fn draining(&self) {
        let _ = self.notes.send(Note::Stage(Stage::Draining));
    }

    /// The state of the server, for somebody who looks again and again, or once.
    pub(crate) async fn snapshot(&self, again: bool) -> Snapshot {
        let (reply, answer) = oneshot::channel();
        let measuring = if again { SOON } else { PATIENT };
        let _ = self.notes.send(Note::Snapshot { measuring, reply });
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
                spawn_local(look_at_queues(Shared::clone(&shared)));
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
        Note::Supervisor { pool, handle } => {
            if let Some(pool) = shared.borrow_mut().pools.get_mut(pool) {
                pool.handle = Some(handle);
            }
        }
        Note::Listening(addresses) => shared.borrow_mut().server.listeners = addresses,
        Note::Stage(stage) => shared.borrow_mut().stage = stage,
        Note::Snapshot { measuring, reply } => {
            let (shared, memories) = (Shared::clone(shared), memories.clone());
            // Whoever asked may have gone.
            spawn_local(async move { drop(reply.send(snapshot(&shared, &memories, measuring).await)) });
        }
    }
}

/// Nothing is done for a client that has gone: by those who ask and leave all others would wait for pages that nobody sees.
async fn answer(shared: Shared, memories: Memories, mut question: Question) {
    let answer = tokio::select! {
        biased;
        () = question.reply.closed() => return,
        answer = page(&shared, &memories, question.page, &question.query, &question.accept) => answer,
    };
    let _ = question.reply.send(answer);
}

async fn page(shared: &Shared, memories: &Memories, page: OwnPage, query: &[u8], accept: &[u8]) -> Answer {
    match page {
        OwnPage::Status => shown(status_page(query, &snapshot(shared, memories, SOON).await)),
        OwnPage::Metrics => shown(metrics_page(accept, &snapshot(shared, memories, SOON).await)),
        OwnPage::Health => health(condition(shared).await),
        OwnPage::Ready => readiness(condition(shared).await),
    }
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

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use howdah_front::{Config, Stock};

    use super::*;
    use crate::options::{Action, parse};

    #[tokio::test]
    async fn nothing_is_looked_up_for_a_client_that_has_gone() {
        let Action::Serve(options) = parse(["howdah", "-e", "sub{}"].map(Into::into)).unwrap().action else {
            panic!("another action");
        };
        let stock = Arc::new(Stock::new(&Config::default()));
        let sources =
            Sources { pools: vec![], counters: vec![], log: None, slow_log: None, stock, tls: None };
        let shared = Rc::new(RefCell::new(Collector::new(&options, sources)));
        let memories = Memories::start().unwrap();
        // Whoever looks up anything borrows it.
        let _borrowed = shared.borrow_mut();
        for page in [OwnPage::Status, OwnPage::Metrics, OwnPage::Health, OwnPage::Ready] {
            let (reply, gone) = oneshot::channel();
            drop(gone);
            let question = Question { page, query: vec![], accept: vec![], reply };
            let answered = pin!(answer(Shared::clone(&shared), memories.clone(), question))
                .poll(&mut Context::from_waker(Waker::noop()));
            assert!(answered.is_ready(), "{page:?}");
        }
    }
}
