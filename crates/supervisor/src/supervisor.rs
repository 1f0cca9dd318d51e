//! The task that owns all state: news in, next step out.
//!
//! Every piece of news (a report from a zygote, a request through the handle, a child's end, a timer) is noted first;
//! then [`Supervisor::step`] in `reconcile` looks at the whole and does what is due, and says when it wants to look
//! again.

use std::io;
use std::time::Instant;

use howdah_sys::{Pid, set_subreaper};
use howdah_wire::Segment;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::backoff::Backoff;
use crate::config::{Config, Shared, Source, most_workers};
use crate::error::{ReloadError, StartError};
use crate::event::Event;
use crate::generation::{Generation, Role};
use crate::handle::{Damaged, Doom, Handle, Reply, Request, Resize};
use crate::jitter::Jitter;
use crate::message::Report;
use crate::pool::Pool;
use crate::recycle::Watch;
use crate::replace::Damage;
use crate::shutdown::Shutdown;
use crate::tally::Counts;
use crate::zygote::{Program, Zygote};

/// Where news for the supervisor goes.
pub(crate) type Mailbox = mpsc::UnboundedSender<Notice>;

/// News for the supervisor.
#[derive(Debug)]
pub(crate) enum Notice {
    /// Somebody asks.
    Request(Request),
    /// Every front thread has recovered the slots of this cell's dead worker.
    Recovered { index: u16 },
    /// A zygote has been started, or could not be.
    Started { generation: u32, outcome: io::Result<Pid> },
    /// A zygote speaks.
    Zygote { generation: u32, sender: Option<Pid>, report: Report },
    /// A zygote has closed its control socket; it said nothing more.
    ZygoteClosed { generation: u32 },
    /// Private memory of workers, in bytes.
    Memory(Vec<(u16, Pid, u64)>),
    /// The process of this worker has ended; its zygote may not know it yet.
    WorkerEnded { index: u16, pid: Pid },
}

/// How the supervisor's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As asked by [`Handle::stop`].
    Stopped,
    /// The last worker is gone and no zygote is left to fork another, nor can there be one.
    Lost,
}

/// Whether the first workers have been seen ready.
#[derive(Debug)]
pub(crate) enum Startup {
    Waiting(Vec<Reply<Result<(), StartError>>>),
    Done,
}

/// Owns zygotes and workers.
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub struct Supervisor {
    pub(crate) config: Config,
    /// None with a zygote from plackup, which cannot be started again.
    pub(crate) program: Option<Program>,
    pub(crate) shared: Shared,
    pub(crate) pool: Pool,
    pub(crate) generations: Vec<Generation>,
    pub(crate) last_generation: u32,
    /// Workers wanted.
    pub(crate) target: usize,
    pub(crate) events: mpsc::UnboundedSender<Event>,
    pub(crate) mailbox: Mailbox,
    inbox: mpsc::UnboundedReceiver<Notice>,
    children: Signal,
    pub(crate) jitter: Jitter,
    /// Zygotes that die or do not load when nobody asked for a reload.
    pub(crate) loads: Backoff,
    pub(crate) reload_replies: Vec<Reply<Result<(), ReloadError>>>,
    pub(crate) startup: Startup,
    pub(crate) shutdown: Option<Shutdown>,
    /// Who waits for the end of all hope.
    pub(crate) doom_replies: Vec<(Doom, Reply<()>)>,
    pub(crate) watch: Watch,
    pub(crate) counts: Counts,
    pub(crate) damage: Damage,
    pub(crate) segments: watch::Sender<Segment>,
    /// When to collect orphans that are not ours to know.
    pub(crate) sweep_at: Option<Instant>,
    pub(crate) ended: Option<Ended>,
}

impl Supervisor {
    /// Starts or adopts the zygote, waits until the application is loaded, and asks for the first workers. Call it
    /// inside a tokio runtime with I/O and time; it makes this process the subreaper of its descendants. Dropping the
    /// future ends the zygote.
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
        match source {
            Source::Start { perl, job } => {
                supervisor.program = Some(Program::new(perl, job));
                supervisor.add_generation()?;
            }
            Source::Adopted { control } => {
                let zygote = Zygote::adopt(control, &supervisor.shared, 1, supervisor.mailbox.clone())?;
                supervisor.last_generation = 1;
                supervisor.generations.push(Generation::new(1, zygote));
            }
        }
        supervisor.wait_for_load().await?;
        supervisor.step(Instant::now());
        let handle = Handle::new(supervisor.mailbox.clone(), supervisor.segments.subscribe());
        Ok((supervisor, handle))
    }

    fn new(config: Config, shared: Shared, events: mpsc::UnboundedSender<Event>) -> Result<Self, StartError> {
        let pool = Pool::new(shared.segment);
        let most = most_workers(pool.cells());
        if config.workers > most {
            return Err(StartError::TooManyWorkers { asked: config.workers, most });
        }
        let system = |what| move |error| StartError::System { what, error };
        set_subreaper().map_err(system("become the parent of orphaned workers"))?;
        let children = signal(SignalKind::child()).map_err(system("watch for ended processes"))?;
        let (mailbox, inbox) = mpsc::unbounded_channel();
        let (segments, _) = watch::channel(shared.segment);
        Ok(Self {
            target: config.workers.max(1),
            watch: Watch::new(&config),
            counts: Counts::default(),
            damage: Damage::default(),
            segments,
            config,
            program: None,
            shared,
            pool,
            generations: Vec::new(),
            last_generation: 0,
            events,
            mailbox,
            inbox,
            children,
            jitter: Jitter::new(),
            loads: Backoff::default(),
            reload_replies: Vec::new(),
            startup: Startup::Waiting(Vec::new()),
            shutdown: None,
            doom_replies: Vec::new(),
            sweep_at: None,
            ended: None,
        })
    }

    /// Does the work until all is stopped. Spawn it beside the front.
    pub async fn run(mut self) -> Ended {
        loop {
            let again = self.step(Instant::now());
            if let Some(ended) = self.ended {
                self.answer_all(ended);
                return ended;
            }
            self.wait_for_news(again).await;
        }
    }

    async fn wait_for_news(&mut self, again: Option<Instant>) {
        tokio::select! {
            Some(notice) = self.inbox.recv() => self.note_all(notice),
            Some(()) = self.children.recv() => self.reap(),
            () = Program::changed(&mut self.program) => {}
            () = sleep_until(again) => {}
        }
    }

    /// What came together is looked at together.
    fn note_all(&mut self, first: Notice) {
        self.note(first);
        while let Ok(notice) = self.inbox.try_recv() {
            self.note(notice);
        }
    }

    fn note(&mut self, notice: Notice) {
        match notice {
            Notice::Request(request) => self.note_request(request),
            Notice::Recovered { index } => self.pool.recovered(index),
            Notice::Zygote { generation, sender, report } => self.note_report(generation, sender, report),
            Notice::ZygoteClosed { generation } => {
                if let Some(generation) = self.generation_mut(generation) {
                    generation.zygote.closed(Instant::now());
                }
            }
            Notice::Started { generation, outcome } => self.note_start(generation, outcome),
            Notice::Memory(found) => self.note_memory(&found),
            Notice::WorkerEnded { index, pid } => self.note_end(index, pid),
        }
    }

    fn note_request(&mut self, request: Request) {
        match request {
            Request::Ready(reply) => self.note_wait_for_ready(reply),
            Request::Reload(reply) => self.request_reload(reply),
            Request::Stop { within, reply } => self.request_stop(within, reply),
            Request::Doom { which, reply } => self.doom_replies.push((which, reply)),
            Request::Resize { change, reply } => {
                let _ = reply.send(self.resize(change));
            }
            Request::Snapshot(reply) => {
                let _ = reply.send(self.snapshot());
            }
            Request::Signal { index, pid, signal, reply } => {
                let worker = self.pool.get_mut(index);
                let meant = worker.filter(|worker| pid.is_none() || worker.pid() == pid);
                let _ = reply.send(meant.is_some_and(|worker| worker.signal(signal)));
            }
            Request::Replace(Damaged { segment, what }) => self.request_replacement(&segment, what),
        }
    }

    fn note_report(&mut self, number: u32, sender: Option<Pid>, report: Report) {
        if let Some(generation) = self.generation_mut(number) {
            generation.zygote.heard_from(sender);
        }
        match report {
            Report::Ready { perl } => self.loaded(number, perl),
            Report::Failed(message) => self.reload_failed(number, &ReloadError::Application(message)),
            Report::Spawned { index, pid } => self.forked(index, pid),
            Report::Exited { index, pid, status } => self.departed(index, pid, status),
            // It only speaks up when something is wrong.
            Report::Log(text) => tracing::warn!(generation = number, "zygote: {text}"),
        }
    }

    fn note_wait_for_ready(&mut self, reply: Reply<Result<(), StartError>>) {
        match &mut self.startup {
            Startup::Waiting(replies) => replies.push(reply),
            Startup::Done => {
                let _ = reply.send(Ok(()));
            }
        }
    }

    fn resize(&mut self, change: Resize) -> usize {
        let wanted = match change {
            Resize::By(delta) => self.target.saturating_add_signed(delta as isize),
            Resize::To(count) => count,
        };
        let target = wanted.clamp(1, most_workers(self.pool.cells()));
        if target != self.target {
            tracing::info!(from = self.target, to = target, "the number of workers changes");
        }
        self.target = target;
        target
    }

    /// Before the first workers: nobody can ask anything yet, so only the zygote's news count.
    async fn wait_for_load(&mut self) -> Result<(), StartError> {
        loop {
            tokio::select! {
                Some(notice) = self.inbox.recv() => {
                    if let Some(outcome) = self.note_load(notice) {
                        return outcome;
                    }
                }
                Some(()) = self.children.recv() => {}
            }
            let Some(generation) = self.generations.first_mut() else { return Err(StartError::Stopped) };
            generation.zygote.reap();
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
                let perl = self.program.as_ref().map(|program| program.perl.as_path());
                Some(Err(StartError::of_perl(perl.unwrap_or("perl".as_ref()), error)))
            }
            other => {
                self.note(other);
                let loaded = self.generations.first().is_some_and(|first| first.role == Role::Serving);
                loaded.then_some(Ok(()))
            }
        }
    }

    pub(crate) fn generation_mut(&mut self, number: u32) -> Option<&mut Generation> {
        self.generations.iter_mut().find(|generation| generation.number == number)
    }

    /// The generation in `role`; of serving and coming ones there is at most one.
    pub(crate) fn in_role(&self, role: Role) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.role == role)
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
