//! One of the applications that are served: its shared memory, its supervisor, and who watches its workers.
//!
//! Nothing of it is another's: what breaks here, breaks here. `parts` makes one for each of the options' pools, has the
//! front threads know them, and starts them beside each other.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::Context;
use howdah_front::{Damaged, Front, Loss, Overdue, PoolSetup, Rush, Upgrades, WorkerAnswer};
use howdah_supervisor::{
    self as supervisor, Ended, Errors, Event, ExitKind, Family, Shared, Source, Supervisor, cells_for, scale,
};
use howdah_sys::Retired;
use howdah_wire::{MAX_SLOTS, MAX_WORKERS, Roster, Segment, Shape};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::task::JoinHandle;
use tracing::{Instrument, Span};

use crate::deadline;
use crate::disconnect;
use crate::inquiry::Inquiries;
use crate::options::Serve;
use crate::options::pools::Pool as Wanted;
use crate::options::workers::cpus;
use crate::pools::Pool;
use crate::status::{Facts, Observer};

/// What all applications of a server have in common.
pub(crate) struct Common {
    /// Of each front thread, in order.
    pub(crate) eventfds: Vec<OwnedFd>,
    /// What Perl says.
    pub(crate) errors: Errors,
    pub(crate) family: Family,
}

/// One that is to be started.
pub(crate) struct Application {
    /// Which one, in the order of the options.
    number: usize,
    wanted: Wanted,
    config: supervisor::Config,
    shared: Shared,
    /// Connections that its workers have taken.
    upgrades: Arc<Upgrades>,
    /// How many of its requests have waited.
    rush: Arc<Rush>,
    /// Messages have to say whose they are.
    among_others: bool,
    outlets: Outlets,
    reports: Reports,
}

/// Where front threads report.
struct Outlets {
    overdue: UnboundedSender<Overdue>,
    departed: UnboundedSender<u16>,
    damaged: UnboundedSender<Damaged>,
    answers: Sender<WorkerAnswer>,
}

/// What they report.
struct Reports {
    stuck: UnboundedReceiver<Overdue>,
    left: UnboundedReceiver<u16>,
    damaged: UnboundedReceiver<Damaged>,
    answers: Receiver<WorkerAnswer>,
}

impl Application {
    /// All that are wanted.
    ///
    /// # Errors
    /// When the system refuses memory or descriptors.
    pub(crate) fn all(options: &Serve, common: &Common) -> anyhow::Result<Vec<Self>> {
        let pools = options.pools();
        let among_others = pools.len() > 1;
        let numbered = pools.into_iter().enumerate();
        numbered.map(|(number, wanted)| Self::new(number, wanted, among_others, options, common)).collect()
    }

    fn new(
        number: usize,
        wanted: Wanted,
        among_others: bool,
        options: &Serve,
        common: &Common,
    ) -> anyhow::Result<Self> {
        let (overdue, stuck) = unbounded_channel();
        let (departed, left) = unbounded_channel();
        let (damage, damaged) = unbounded_channel();
        // As many as may answer at the same moment: each has a descriptor.
        let (answers, answered) = channel(MAX_WORKERS);
        Ok(Self {
            number,
            config: options.supervisor(&wanted),
            shared: share(&wanted, !options.process.no_proctitle, common)?,
            upgrades: Arc::new(Upgrades::new(most_upgrades(&wanted))),
            rush: Arc::default(),
            wanted,
            among_others,
            outlets: Outlets { overdue, departed, damaged: damage, answers },
            reports: Reports { stuck, left, damaged, answers: answered },
        })
    }

    /// The segment that its workers begin with.
    pub(crate) fn segment(&self) -> Segment {
        self.shared.segment
    }

    /// What the status shows of it.
    pub(crate) fn facts(&self) -> Facts {
        let workers = &self.wanted.workers;
        Facts {
            name: self.wanted.name.clone(),
            application: self.wanted.application.clone(),
            segment: self.shared.segment,
            workers: workers.fewest() as usize..=workers.count() as usize,
            max_queue: u64::from(workers.max_queue),
            upgrades: Arc::clone(&self.upgrades),
            rush: Arc::clone(&self.rush),
        }
    }

    /// For a front thread.
    pub(crate) fn setup(&self) -> PoolSetup {
        let Outlets { overdue, departed, damaged, answers } = &self.outlets;
        PoolSetup {
            name: self.wanted.name.as_str().into(),
            mount: self.wanted.mount.clone(),
            segment: self.shared.segment,
            roster: self.shared.roster.clone(),
            max_queue: self.wanted.workers.max_queue as usize,
            cpus: u64::from(cpus()),
            request_timeout: self.wanted.request_timeout.limit().unwrap_or_default(),
            upgrades: Arc::clone(&self.upgrades),
            rush: Arc::clone(&self.rush),
            overdue: overdue.clone(),
            departed: departed.clone(),
            damaged: damaged.clone(),
            answers: answers.clone(),
        }
    }

    /// Returns when its workers are ready. The second value ends with its supervisor.
    ///
    /// # Errors
    /// When it does not load, or its workers do not start.
    pub(crate) async fn start(
        self,
        source: Source,
        fronts: Vec<Front>,
        observer: Observer,
    ) -> anyhow::Result<(Pool, JoinHandle<Ended>)> {
        let (path, among_others) = (self.wanted.name.clone(), self.among_others);
        let outcome = self.start_here(source, fronts, observer).await;
        if among_others { outcome.with_context(|| format!("the application at {path}")) } else { outcome }
    }

    async fn start_here(
        self,
        source: Source,
        fronts: Vec<Front>,
        observer: Observer,
    ) -> anyhow::Result<(Pool, JoinHandle<Ended>)> {
        let (events, news) = unbounded_channel();
        let (number, span) = (self.number, self.span());
        tokio::spawn(bridge(number, news, fronts));
        let start = Supervisor::start(self.config, source, self.shared, events);
        let (supervisor, handle) = start.instrument(span.clone()).await?;
        observer.supervised(number, handle.clone());
        let Reports { stuck, left, damaged, answers } = self.reports;
        tokio::spawn(deadline::replace_damaged(damaged, handle.clone()));
        let ended = tokio::spawn(supervisor.run().instrument(span));
        tokio::spawn(deadline::watch(stuck, handle.clone()));
        tokio::spawn(disconnect::watch(left, handle.clone()));
        if let Some(limit) = self.wanted.request_timeout.limit() {
            tokio::spawn(deadline::watch_behind(limit, handle.clone()));
        }
        let workers = &self.wanted.workers;
        let (fewest, most) = (workers.fewest() as usize, workers.count() as usize);
        if fewest < most {
            tokio::spawn(scale(handle.clone(), fewest..=most));
        }
        handle.ready().await?;
        let (name, application) = (self.wanted.name.into(), self.wanted.application.into());
        Ok((Pool { name, application, inquiries: Inquiries::start(handle.clone(), answers), handle }, ended))
    }

    /// What its supervisor says in the log bears its name, where there are others.
    fn span(&self) -> Span {
        if !self.among_others {
            return Span::none();
        }
        tracing::error_span!(target: "howdah_supervisor", "pool", pool = self.wanted.name)
    }
}

/// The segment, and what else its workers share with the front.
const NO_COPY: &str = "cannot copy a descriptor for the workers";

fn share(wanted: &Wanted, titles: bool, common: &Common) -> anyhow::Result<Shared> {
    let workers = &wanted.workers;
    let shape = shape(workers.max_queue as usize, workers.count() as usize, common.eventfds.len());
    let (memfd, segment) = howdah_sys::create_segment(shape).context("cannot create shared memory")?;
    Ok(Shared {
        segment,
        memfd,
        eventfds: common
            .eventfds
            .iter()
            .map(OwnedFd::try_clone)
            .collect::<io::Result<_>>()
            .context(NO_COPY)?,
        roster: Roster::default(),
        titles,
        errors: Some(common.errors.try_clone().context(NO_COPY)?),
        family: common.family.clone(),
    })
}

/// Scripts take no connections.
fn most_upgrades(wanted: &Wanted) -> u64 {
    if wanted.cgi.is_some() { 0 } else { wanted.workers.most_upgrades().into() }
}

/// Slots for every request that may wait and every worker that may run one, in each front thread: one that is not busy has all
/// connections. They take no memory before they are used.
fn shape(max_queue: usize, workers: usize, fronts: usize) -> Shape {
    let cells = cells_for(workers);
    Shape { fronts, workers: cells, slots: ((max_queue + cells) * fronts).min(MAX_SLOTS) }
}

/// Tells every front thread what becomes of the workers of a pool.
async fn bridge(pool: usize, mut news: UnboundedReceiver<Event>, fronts: Vec<Front>) {
    while let Some(event) = news.recv().await {
        match event {
            Event::WorkerUp { index, channels } => {
                for (front, channel) in fronts.iter().zip(channels) {
                    front.worker_up(pool, index, channel);
                }
            }
            Event::WorkerGone { index, status, done } => {
                for front in fronts.clone() {
                    let done = done.clone();
                    tokio::spawn(async move {
                        front.worker_gone(pool, index, loss(status)).await;
                        drop(done);
                    });
                }
            }
            Event::Replaced { segment, old } => {
                for front in &fronts {
                    front.replace(pool, segment, Arc::<Retired>::clone(&old));
                }
            }
        }
    }
}

/// How a dead worker has left the request that it was running.
fn loss(exit: ExitKind) -> Loss {
    match exit {
        ExitKind::Exited(_) => Loss::Exited,
        ExitKind::Signaled(_) | ExitKind::Unknown => Loss::Killed,
    }
}
