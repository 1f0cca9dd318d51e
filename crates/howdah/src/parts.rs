//! The parts of a server: front threads, and the applications that they serve, joined so that each front thread hears what
//! becomes of workers. `serve` starts them and accepts connections when they are ready.

use std::io;
use std::sync::{Arc, mpsc};

use anyhow::Context;
use howdah_front::{Capacity, Front, Listener, Setup, Sharing, Stock, runtime};
use howdah_metrics::Recorder;
use howdah_supervisor::{Ended, Errors, Family, Source};
use tokio::task::{JoinError, JoinSet};

use crate::access::{Access, Commands};
use crate::application::{Application, Common};
use crate::options::Serve;
use crate::pools::{Pool, Pools};
use crate::status::{Observer, Sources};
use crate::tls::Tls;

/// Front threads and applications, ready to serve.
pub(crate) struct Parts {
    pub(crate) fronts: Vec<Front>,
    pub(crate) pools: Pools,
    pub(crate) ends: Ends,
    pub(crate) access: Option<Access>,
    pub(crate) observer: Observer,
    pub(crate) capacity: &'static Capacity,
}

/// The ends of all supervisors.
pub(crate) type Ends = JoinSet<Result<Ended, JoinError>>;

/// The same before there are workers.
pub(crate) struct Prepared {
    fronts: Vec<Front>,
    applications: Vec<Application>,
    access: Option<Access>,
    observer: Observer,
    capacity: &'static Capacity,
}

impl Parts {
    /// Makes all but the workers, so that `pages` are listened on, which need none.
    ///
    /// # Errors
    /// When the system refuses something.
    pub(crate) fn prepare(
        options: &Serve,
        logs: &Commands,
        pages: Vec<Listener>,
        errors: Errors,
        tls: Option<&Tls>,
    ) -> anyhow::Result<Prepared> {
        let common = common(options, errors)?;
        let applications = Application::all(options, &common)?;
        let access = Access::open(options, logs)?;
        for application in &applications {
            access.as_ref().map_or(Ok(()), |access| access.ask_for_variables(application.segment()))?;
        }
        let capacity: &'static Capacity =
            Box::leak(Box::new(Capacity::new(options.limits.max_connections.map(|most| most as usize))));
        let (fronts, observer) =
            start_threads(options, &common, &applications, access.as_ref(), pages, capacity, tls)?;
        Ok(Prepared { fronts, applications, access, observer, capacity })
    }
}

impl Prepared {
    /// Who knows how far it is.
    pub(crate) fn observer(&self) -> Observer {
        self.observer.clone()
    }

    /// Returns when the workers of all applications are ready. `sources` are in the order of the options' pools.
    ///
    /// # Errors
    /// When an application does not load, or the system refuses something.
    pub(crate) async fn start(self, sources: Vec<Source>) -> anyhow::Result<Parts> {
        let Self { fronts, applications, access, observer, capacity } = self;
        let (pools, ends) = start_all(applications, sources, &fronts, &observer).await?;
        observer.serving();
        Ok(Parts { fronts, pools, ends, access, observer, capacity })
    }
}

fn common(options: &Serve, errors: Errors) -> anyhow::Result<Common> {
    let threads = options.workers.front_threads as usize;
    let eventfds = (0..threads).map(|_| howdah_sys::eventfd()).collect::<io::Result<Vec<_>>>();
    let eventfds = eventfds.context("cannot make what front threads are woken by")?;
    let family = Family::new().context("cannot become the parent of orphaned workers")?;
    Ok(Common { eventfds, errors, family })
}

/// Beside each other. When one does not come up, all end.
async fn start_all(
    applications: Vec<Application>,
    sources: Vec<Source>,
    fronts: &[Front],
    observer: &Observer,
) -> anyhow::Result<(Pools, Ends)> {
    let mut starts = JoinSet::new();
    for (number, (application, source)) in applications.into_iter().zip(sources).enumerate() {
        let start = application.start(source, fronts.to_vec(), observer.clone());
        starts.spawn(async move { start.await.map(|started| (number, started)) });
    }
    let (mut pools, mut ends) = (Vec::new(), Ends::new());
    while let Some(started) = starts.join_next().await {
        let (number, (pool, ended)) = started??;
        pools.push((number, pool));
        ends.spawn(ended);
    }
    pools.sort_by_key(|(number, _)| *number);
    let pools: Vec<Pool> = pools.into_iter().map(|(_, pool)| pool).collect();
    Ok((pools.into(), ends))
}

const NO_THREAD: &str = "cannot start a front thread";

/// Starts the front threads, this one among them, and who watches them.
fn start_threads(
    options: &Serve,
    common: &Common,
    applications: &[Application],
    access: Option<&Access>,
    mut pages: Vec<Listener>,
    capacity: &'static Capacity,
    tls: Option<&Tls>,
) -> anyhow::Result<(Vec<Front>, Observer)> {
    let config = Arc::new(options.front()?);
    let stock = Arc::new(Stock::new(&config));
    let recorders: Vec<_> = common.eventfds.iter().map(|_| Recorder::new()).collect();
    let sources = Sources {
        pools: applications.iter().map(Application::facts).collect(),
        counters: recorders.iter().map(Recorder::counters).collect(),
        log: access.and_then(Access::watch),
        slow_log: access.and_then(Access::watch_slow),
        stock: Arc::clone(&stock),
        tls: tls.cloned(),
    };
    let (observer, local) = Observer::start(options, sources).context("cannot start the status thread")?;
    let sharing: &'static Sharing =
        Box::leak(Box::new(Sharing::new(recorders.len(), options.workers.spread_connections)));
    let mut fronts = Vec::new();
    for (index, (eventfd, recorder)) in common.eventfds.iter().zip(recorders).enumerate() {
        let setup = Setup {
            config: Arc::clone(&config),
            pools: applications.iter().map(Application::setup).collect(),
            index: u32::try_from(index)?,
            eventfd: eventfd.try_clone().context(NO_THREAD)?,
            // Until there are workers, other connections wait in the kernel: if none come up, another process has them.
            listeners: match index {
                0 => std::mem::take(&mut pages),
                _ => Vec::new(),
            },
            access_log: access.and_then(Access::log),
            slow_log: access.and_then(Access::slow_log),
            recorder,
            local: local.clone(),
            capacity,
            sharing,
            stock: Arc::clone(&stock),
            tls: tls.map(|tls| Arc::clone(&tls.acceptor)),
        };
        fronts.push(if index == 0 { Front::start(setup).context(NO_THREAD)? } else { start_thread(setup)? });
    }
    Ok((fronts, observer))
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
