//! The task that owns all state: news in, next step out.
//!
//! Every piece of news (a report from a zygote, a request through the handle, a child's end, a timer) is noted first;
//! then [`State::step`] in `reconcile` looks at the whole and does what is due, and says when it wants to look again.

use std::time::Instant;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::config::{Config, Shared, Source, most_workers};
use crate::error::StartError;
use crate::event::Event;
use crate::generation::{Generation, Role};
use crate::handle::Handle;
use crate::message::Report;
use crate::notice::Notice;
use crate::state::{Ended, State};
use crate::zygote::{Program, Zygote};

/// Owns zygotes and workers.
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub struct Supervisor {
    state: State,
    inbox: mpsc::UnboundedReceiver<Notice>,
    children: Signal,
}

impl Supervisor {
    /// Starts or adopts the zygote, waits until the application is loaded, and asks for the first workers. Call it
    /// inside a tokio runtime with I/O and time. Dropping the future ends the zygote.
    ///
    /// # Errors
    /// When perl cannot be run or the application does not load.
    pub async fn start(
        config: Config,
        source: Source,
        shared: Shared,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<(Self, Handle), StartError> {
        let source = source.with_errors(shared.errors.as_ref());
        let source = source.map_err(|error| StartError::System { what: "copy a descriptor", error })?;
        let mut supervisor = Self::new(config, shared, events)?;
        let state = &mut supervisor.state;
        match source {
            Source::Start { perl, job, guest } => {
                state.program = Some(Program { guest: Some(guest), ..Program::new(Some(perl), job) });
                state.add_generation()?;
            }
            Source::Host { job } => {
                state.program = Some(Program::new(None, job));
                state.add_generation()?;
            }
            Source::Adopted { control } => {
                let zygote = Zygote::adopt(control, &state.shared, 1, state.mailbox.clone())?;
                state.last_generation = 1;
                state.generations.push(Generation::new(1, zygote));
            }
        }
        supervisor.wait_for_load().await?;
        supervisor.state.step(Instant::now());
        let handle = Handle::new(supervisor.state.mailbox.clone(), supervisor.state.segments.subscribe());
        Ok((supervisor, handle))
    }

    fn new(config: Config, shared: Shared, events: mpsc::UnboundedSender<Event>) -> Result<Self, StartError> {
        let most = most_workers(shared.segment.workers().len());
        if config.workers > most {
            return Err(StartError::TooManyWorkers { asked: config.workers, most });
        }
        let system = |what| move |error| StartError::System { what, error };
        let children = signal(SignalKind::child()).map_err(system("watch for ended processes"))?;
        let (mailbox, inbox) = mpsc::unbounded_channel();
        Ok(Self { state: State::new(config, shared, events, mailbox), inbox, children })
    }

    /// Does the work until all is stopped. Spawn it beside the front.
    pub async fn run(mut self) -> Ended {
        loop {
            let again = self.state.step(Instant::now());
            if let Some(ended) = self.state.ended {
                self.state.answer_all(ended);
                return ended;
            }
            self.wait_for_news(again).await;
        }
    }

    async fn wait_for_news(&mut self, again: Option<Instant>) {
        tokio::select! {
            Some(notice) = self.inbox.recv() => self.note_all(notice),
            Some(()) = self.children.recv() => self.state.reap(),
            () = Program::changed(&mut self.state.program) => {}
            () = sleep_until(again) => {}
        }
    }

    /// What came together is looked at together.
    fn note_all(&mut self, first: Notice) {
        self.state.note(first);
        while let Ok(notice) = self.inbox.try_recv() {
            self.state.note(notice);
        }
    }

    /// Before the first workers: nobody can ask anything yet, so only the zygote's news count.
    async fn wait_for_load(&mut self) -> Result<(), StartError> {
        let mut again = None;
        loop {
            tokio::select! {
                Some(notice) = self.inbox.recv() => {
                    if let Some(outcome) = self.note_load(notice) {
                        return outcome;
                    }
                }
                Some(()) = self.children.recv() => {}
                () = sleep_until(again) => {}
            }
            let Some(generation) = self.state.generations.first_mut() else {
                return Err(StartError::Stopped);
            };
            generation.zygote.reap();
            again = generation.zygote.enforce(Instant::now());
            if generation.zygote.is_gone() {
                return Err(StartError::Zygote(generation.zygote.status()));
            }
        }
    }

    fn note_load(&mut self, notice: Notice) -> Option<Result<(), StartError>> {
        match notice {
            Notice::Zygote { report: Report::Failed(message), .. } => {
                Some(Err(StartError::Application(message)))
            }
            Notice::Started { outcome: Err(error), .. } => {
                let perl = self.state.program.as_ref().and_then(|program| program.perl.as_deref());
                Some(Err(StartError::of_perl(perl, error)))
            }
            other => {
                self.state.note(other);
                let loaded = self.state.generations.first().is_some_and(|first| first.role == Role::Serving);
                loaded.then_some(Ok(()))
            }
        }
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
