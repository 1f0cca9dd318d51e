//! The parts of a server: shared memory, front threads, supervisor, joined so that each front thread hears what becomes
//! of workers. `serve` starts them and accepts connections when they are ready.

use std::io;
use std::sync::{Arc, mpsc};

use anyhow::Context;
use howdah_front::{Capacity, Damaged, Front, Listener, Loss, Overdue, PoolSetup, Setup, Stock, runtime};
use howdah_metrics::Recorder;
use howdah_supervisor::{
    Ended, Errors, Event, ExitKind, Family, Handle, Shared, Source, Supervisor, cells_for, scale,
};
use howdah_sys::Retired;
use howdah_wire::{MAX_SLOTS, Roster, Segment, Shape};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::access::{Access, Commands};
use crate::deadline;
use crate::disconnect;
use crate::options::Serve;
use crate::status::{Facts, Observer};

/// Front threads and supervisor, ready to serve.
pub(crate) struct Parts {
    pub(crate) fronts: Vec<Front>,
    pub(crate) handle: Handle,
    pub(crate) ended: JoinHandle<Ended>,
    pub(crate) access: Option<Access>,
    pub(crate) observer: Observer,
    pub(crate) capacity: &'static Capacity,
}

impl Parts {
    /// Returns when the workers are ready. Meanwhile `pages` are listened on: they need no worker.
    ///
    /// # Errors
    /// When the system refuses something, or the application does not load.
    pub(crate) async fn start(
        options: &Serve,
        source: Source,
        logs: &Commands,
        pages: &[Listener],
        errors: Errors,
    ) -> anyhow::Result<Self> {
        let shared = share(options, errors)?;
        let segment = shared.segment;
        let access = Access::open(options, logs)?;
        access.as_ref().map_or(Ok(()), |access| access.ask_for_variables(segment))?;
        let (departed, left) = unbounded_channel();
        let capacity: &'static Capacity =
            Box::leak(Box::new(Capacity::new(options.limits.max_connections.map(|most| most as usize))));
        let (fronts, observer, Reports { stuck, damaged }) =
            start_threads(options, &shared, access.as_ref(), pages, &departed, capacity)?;
        let (events, news) = unbounded_channel();
        tokio::spawn(bridge(news, fronts.clone()));
        let (supervisor, handle) = Supervisor::start(options.supervisor(), source, shared, events).await?;
        observer.supervised(0, handle.clone());
        tokio::spawn(deadline::replace_damaged(damaged, handle.clone()));
        let ended = tokio::spawn(supervisor.run());
        tokio::spawn(deadline::watch(stuck, handle.clone()));
        tokio::spawn(disconnect::watch(left, handle.clone()));
        let (fewest, most) = (options.workers.fewest() as usize, options.workers.count() as usize);
        if fewest < most {
            tokio::spawn(scale(handle.clone(), fewest..=most));
        }
        handle.ready().await?;
        observer.serving();
        Ok(Self { fronts, handle, ended, access, observer, capacity })
    }
}

/// What front threads report.
struct Reports {
    stuck: UnboundedReceiver<Overdue>,
    damaged: UnboundedReceiver<Damaged>,
}

/// The segment and the wake-ups of each front thread.
fn share(options: &Serve, errors: Errors) -> anyhow::Result<Shared> {
    let threads = options.workers.front_threads as usize;
    let shape = shape(options.workers.max_queue as usize, options.workers.count() as usize, threads);
    let (memfd, segment) = howdah_sys::create_segment(shape).context("cannot create shared memory")?;
    let eventfds = (0..threads).map(|_| howdah_sys::eventfd()).collect::<io::Result<Vec<_>>>()?;
    let titles = !options.process.no_proctitle;
    let family = Family::new().context("cannot become the parent of orphaned workers")?;
    Ok(Shared { segment, memfd, eventfds, roster: Roster::default(), titles, errors: Some(errors), family })
}

/// Starts the front threads, this one among them, and who watches them.
fn start_threads(
    options: &Serve,
    shared: &Shared,
    access: Option<&Access>,
    pages: &[Listener],
    departed: &UnboundedSender<u16>,
    capacity: &'static Capacity,
) -> anyhow::Result<(Vec<Front>, Observer, Reports)> {
    let config = Arc::new(options.front()?);
    let stock = Arc::new(Stock::new(&config));
    let recorders: Vec<_> = shared.eventfds.iter().map(|_| Recorder::new()).collect();
    let counters = recorders.iter().map(Recorder::counters).collect();
    let (observer, local) = Observer::start(
        options,
        vec![facts(options, shared.segment)],
        counters,
        access.and_then(Access::lines),
        Arc::clone(&stock),
    )
    .context("cannot start the status thread")?;
    let ((overdue, stuck), (damage, damaged)) = (unbounded_channel(), unbounded_channel());
    let pool = PoolSetup {
        name: "/".into(),
        mount: options.app.path.clone(),
        segment: shared.segment,
        roster: shared.roster.clone(),
        max_queue: options.workers.max_queue as usize,
        request_timeout: options.limits.request_timeout.limit().unwrap_or_default(),
        overdue,
        departed: departed.clone(),
        damaged: damage,
    };
    let mut fronts = Vec::new();
    for (index, (eventfd, recorder)) in shared.eventfds.iter().zip(recorders).enumerate() {
        let setup = Setup {
            config: Arc::clone(&config),
            pools: vec![pool.clone()],
            index: u32::try_from(index)?,
            eventfd: eventfd.try_clone()?,
            // Until there are workers, other connections wait in the kernel: if none come up, another process has them.
            listeners: pages.iter().map(Listener::share).collect::<io::Result<_>>()?,
            access_log: access.and_then(Access::log),
            slow_log: access.and_then(Access::slow_log),
            recorder,
            local: local.clone(),
            capacity,
            stock: Arc::clone(&stock),
        };
        fronts.push(if index == 0 { Front::start(setup)? } else { start_thread(setup)? });
    }
    Ok((fronts, observer, Reports { stuck, damaged }))
}

/// What the status shows of the application.
fn facts(options: &Serve, segment: Segment) -> Facts {
    let workers = &options.workers;
    Facts {
        name: format!("/{}", options.app.path.as_deref().unwrap_or_default().trim_matches('/')),
        application: options.application().to_owned(),
        segment,
        workers: workers.fewest() as usize..=workers.count() as usize,
        max_queue: u64::from(workers.max_queue),
    }
}

/// Slots for every request that may wait and every worker that may run one.
fn shape(max_queue: usize, workers: usize, fronts: usize) -> Shape {
    let cells = cells_for(workers);
    Shape { fronts, workers: cells, slots: (max_queue + cells * fronts).min(MAX_SLOTS) }
}

/// A further front thread with an event loop of its own.
fn start_thread(setup: Setup) -> anyhow::Result<Front> {
    let (started, wait) = mpsc::channel();
    std::thread::Builder::new().name(format!("front {}", setup.index)).spawn(move || {
        let outcome = runtime().map(|runtime| {
            runtime.block_on(async {
                let _ = started.send(Front::start(setup));
                std::future::pending::<()>().await;
            });
        });
        if let Err(error) = outcome {
            tracing::error!("a front thread cannot start its event loop: {error}");
        }
    })?;
    Ok(wait.recv().context("a front thread ended at its start")??)
}

/// Tells every front thread what becomes of workers.
async fn bridge(mut news: UnboundedReceiver<Event>, fronts: Vec<Front>) {
    while let Some(event) = news.recv().await {
        match event {
            Event::WorkerUp { index, channels } => {
                for (front, channel) in fronts.iter().zip(channels) {
                    front.worker_up(0, index, channel);
                }
            }
            Event::WorkerGone { index, status, done } => {
                for front in fronts.clone() {
                    let done = done.clone();
                    tokio::spawn(async move {
                        front.worker_gone(0, index, loss(status)).await;
                        drop(done);
                    });
                }
            }
            Event::Replaced { segment, old } => {
                for front in &fronts {
                    front.replace(0, segment, Arc::<Retired>::clone(&old));
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
