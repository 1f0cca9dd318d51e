//! Serving: binds, starts the front threads and the supervisor, and does what signals say until the end.
//!
//! ```text
//! configure -> listeners -> segment -> front threads -> supervisor -> ready -> signals -> drain -> stop
//! ```

use std::io;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};

use anyhow::Context;
use howdah_front::{Front, Listener, Setup, runtime};
use howdah_metrics::Recorder;
use howdah_supervisor::{Ended, Event, ExitKind, Handle, Shared, Supervisor, cells_for, scale};
use howdah_sys::daemon::{Daemon, daemonize};
use howdah_wire::{MAX_SLOTS, Shape};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::access::Access;
use crate::deadline;
use crate::log;
use crate::options::Serve;
use crate::pidfile::PidFile;
use crate::signals::{self, Signals};

/// Serves the application until a signal ends it.
#[expect(clippy::needless_pass_by_value, reason = "the server keeps its options for its whole life")]
pub(crate) fn run(options: Serve) -> anyhow::Result<ExitCode> {
    let mut daemon = options.process.daemonize.then(daemonize).transpose()?;
    let outcome = run_here(&options, &mut daemon);
    match (outcome, daemon) {
        // Whoever waits for the launcher is told the reason before it ends.
        (Err(error), Some(_launcher)) => Ok(crate::failed(&error)),
        (outcome, _) => outcome,
    }
}

fn run_here(options: &Serve, daemon: &mut Option<Daemon>) -> anyhow::Result<ExitCode> {
    log::start(options.logs.error_log.as_deref())?;
    raise_file_limit();
    let listeners = listeners(options)?;
    let pid_file = options.process.pid.as_deref().map(PidFile::create).transpose()?;
    let main = runtime().context("cannot start the event loop")?;
    let outcome = main.block_on(async {
        let server = Server::start(options, &listeners).await?;
        announce(options, &listeners);
        if let Some(daemon) = daemon.take() {
            daemon.ready(options.logs.error_log.is_some())?;
        }
        Ok(server.serve().await)
    });
    for listener in &listeners {
        listener.unlink();
    }
    drop(pid_file);
    outcome
}

/// A connection is a descriptor: as many as the system allows us, not the few of the soft limit.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("cannot raise the limit of open files (ulimit -n): {error}");
    }
}

/// What runs.
struct Server {
    fronts: Vec<Front>,
    handle: Handle,
    ended: tokio::task::JoinHandle<Ended>,
    signals: Signals,
    access: Option<Access>,
    patience: std::time::Duration,
}

impl Server {
    async fn start(options: &Serve, listeners: &[Listener]) -> anyhow::Result<Self> {
        let signals = Signals::new().context("cannot take signals")?;
        let config = Arc::new(options.front()?);
        let settings = options.supervisor();
        let threads = options.workers.front_threads as usize;
        let shape = shape(config.max_queue, options.workers.count() as usize, threads);
        let (memfd, segment) = howdah_sys::create_segment(shape).context("cannot create shared memory")?;
        let eventfds = (0..threads).map(|_| howdah_sys::eventfd()).collect::<io::Result<Vec<_>>>()?;
        let access = Access::open(options)?;
        let (overdue, stuck) = unbounded_channel();
        let mut fronts = Vec::new();
        for (index, eventfd) in eventfds.iter().enumerate() {
            let setup = Setup {
                config: Arc::clone(&config),
                segment,
                index: u32::try_from(index)?,
                eventfd: eventfd.try_clone()?,
                listeners: listeners.iter().map(Listener::share).collect::<io::Result<_>>()?,
                access_log: access.as_ref().map(Access::log),
                recorder: Recorder::new(),
                local: None,
                overdue: overdue.clone(),
            };
            fronts.push(if index == 0 { Front::start(setup)? } else { start_thread(setup)? });
        }
        let (events, news) = unbounded_channel();
        tokio::spawn(bridge(news, fronts.clone()));
        let patience = settings.graceful_timeout;
        let shared = Shared { segment, memfd, eventfds };
        let (supervisor, handle) = Supervisor::start(settings, options.source()?, shared, events).await?;
        let ended = tokio::spawn(supervisor.run());
        tokio::spawn(deadline::watch(stuck, segment, handle.clone()));
        let (fewest, most) = (options.workers.fewest() as usize, options.workers.count() as usize);
        if fewest < most {
            tokio::spawn(scale(handle.clone(), segment, fewest..=most));
        }
        handle.ready().await?;
        Ok(Self { fronts, handle, ended, signals, access, patience })
    }

    /// Serves until a signal or the loss of the zygote ends it.
    async fn serve(mut self) -> ExitCode {
        let outcome = self.until_the_end().await;
        if let Some(access) = self.access.take() {
            access.close();
        }
        outcome
    }

    async fn until_the_end(&mut self) -> ExitCode {
        loop {
            let signal = tokio::select! {
                signal = self.signals.next() => signal,
                ended = &mut self.ended => return after(&ended),
            };
            match signal {
                signals::Wish::StopNow => return self.stop_now().await,
                signals::Wish::Stop => return self.stop().await,
                signals::Wish::Reload => self.reload(),
                signals::Wish::Reopen => self.reopen(),
                signals::Wish::MoreWorkers => self.resize(1).await,
                signals::Wish::FewerWorkers => self.resize(-1).await,
            }
        }
    }

    /// Lets every request have its response, within the graceful timeout.
    async fn stop(&mut self) -> ExitCode {
        tracing::info!("stopping: requests under way have {:?}", self.patience);
        let threads =
            self.fronts.iter().cloned().map(|front| tokio::spawn(async move { front.stop().await }));
        let threads: Vec<_> = threads.collect();
        let drained = async {
            for thread in threads {
                let _ = thread.await;
            }
        };
        tokio::select! {
            () = drained => {
                self.handle.stop(true).await;
            }
            () = within(self.patience) => {
                tracing::warn!("requests still run after {:?}: cut them off", self.patience);
                self.handle.stop(false).await;
            }
            () = self.signals.stop_now() => return self.stop_now().await,
        }
        ExitCode::SUCCESS
    }

    async fn stop_now(&self) -> ExitCode {
        tracing::info!("stopping at once");
        self.handle.stop(false).await;
        ExitCode::SUCCESS
    }

    fn reload(&self) {
        let handle = self.handle.clone();
        tokio::spawn(async move {
            // The supervisor logs how it went.
            let _ = handle.reload().await;
        });
    }

    fn reopen(&self) {
        if let Some(access) = &self.access {
            access.reopen();
        }
        log::reopen();
    }

    async fn resize(&self, by: i32) {
        let workers = self.handle.resize(by).await;
        tracing::info!("{workers} workers from now on");
    }
}

/// Slots for every request that may wait and every worker that may run one.
fn shape(max_queue: usize, workers: usize, fronts: usize) -> Shape {
    let cells = cells_for(workers);
    Shape { fronts, workers: cells, slots: (max_queue + cells * fronts).min(MAX_SLOTS) }
}

async fn within(patience: std::time::Duration) {
    if patience.is_zero() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(patience).await;
}

fn after(ended: &Result<Ended, tokio::task::JoinError>) -> ExitCode {
    match ended {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::Lost) | Err(_) => {
            tracing::error!("no process is left that could fork workers: giving up");
            ExitCode::FAILURE
        }
    }
}

/// Sockets that systemd or Server::Starter hands over, or our own.
fn listeners(options: &Serve) -> anyhow::Result<Vec<Listener>> {
    let config = options.front()?;
    let inherited = howdah_sys::activation::inherited_listeners()?;
    if !inherited.is_empty() {
        return Ok(inherited
            .into_iter()
            .map(|given| Listener::adopt(given.socket, config.backlog))
            .collect::<Result<_, _>>()?);
    }
    let bind = |address| Listener::bind(address, config.backlog, config.socket_mode);
    Ok(config.listen.iter().map(bind).collect::<Result<_, _>>()?)
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
                    front.worker_up(index, channel);
                }
            }
            Event::WorkerGone { index, status, done } => {
                for front in fronts.clone() {
                    let done = done.clone();
                    tokio::spawn(async move {
                        front.worker_gone(index, status_for(status)).await;
                        drop(done);
                    });
                }
            }
        }
    }
}

/// The answer to the request that a dead worker was running: it failed (500), or was cut off (502).
fn status_for(exit: ExitKind) -> u16 {
    match exit {
        ExitKind::Exited(_) => 500,
        ExitKind::Signaled(_) | ExitKind::Unknown => 502,
    }
}

/// Says that requests are welcome, where, and what to try next.
fn announce(options: &Serve, listeners: &[Listener]) {
    let name = options.application();
    let workers = options.workers.count();
    let plural = if workers == 1 { "worker" } else { "workers" };
    for listener in listeners {
        eprintln!(
            "howdah: serving {name} on {} with {workers} {plural} (pid {})",
            listener.url,
            std::process::id()
        );
    }
    if let Some(first) = listeners.first() {
        match first.url.strip_prefix("unix:") {
            Some(path) => eprintln!(
                "howdah: try  curl --unix-socket {path} http://localhost/   stop with Ctrl-C, reload with kill -HUP {}",
                std::process::id()
            ),
            None => eprintln!(
                "howdah: try  curl {}/   stop with Ctrl-C, reload with kill -HUP {}",
                first.url,
                std::process::id()
            ),
        }
    }
}
