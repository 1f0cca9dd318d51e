//! Serving: starts the front threads and the supervisor, and does what signals and the control socket say until the end.
//!
//! ```text
//! launcher -> endpoints -> confine -> segment -> front threads -> control socket -> supervisor -> ready -> accept
//!     -> signals -> drain -> stop
//! ```

use std::pin::pin;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, bail};
use howdah_front::{Front, Listener, runtime};
use howdah_supervisor::Ended;
use howdah_sys::Patience;
use howdah_sys::daemon::{Daemon, daemonize};
use howdah_sys::process::{Process, Signal, adopt_fd, survive_file_limit};
use howdah_sys::tell_missing_page;
use tokio::task::{JoinError, JoinSet};

use crate::access::Access;
use crate::announce::announce;
use crate::confine::confine;
use crate::control::post::Post;
use crate::descriptors;
use crate::endpoints::Endpoints;
use crate::handover::Handover;
use crate::launchers;
use crate::log::{self, Intake};
use crate::manager::Manager;
use crate::operations::Operations;
use crate::options::{Inherited, Serve};
use crate::parts::{Ends, Parts};
use crate::pools::Pools;
use crate::processes::Processes;
use crate::protocol::Change;
use crate::reopening::Reopening;
use crate::shortage::crowded;
use crate::signals::{self, Signals};
use crate::socket_files::SocketFiles;
use crate::spool;
use crate::tls::Tls;
use crate::upgrade::{Program, Successor, Upgrade};
use crate::watch::Watch;
use crate::wish::{Reply, Wish};

/// Time in which idle connections may bring another request before they are closed, when the server stops...
const IDLE_AT_STOP: Duration = Duration::from_millis(300);
/// ...and when another process serves already, so that there is no hurry.
const IDLE_AT_UPGRADE: Duration = Duration::from_secs(5);
/// Why nothing is served.
const UNLOADED: &str = "stopped before the application was loaded";
const ABANDONED: &str = "whoever started it has not waited until the application was loaded";
/// Time for wishes that have been sent to a process before another served to be heard.
const LAST_WISHES: Duration = Duration::from_millis(10);
/// Time for front threads to tell what they have cut off.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Time for workers to leave when every request has its response, however late that was.
const LAST_STEPS: Duration = Duration::from_secs(1);

/// Serves the application until a signal ends it.
#[expect(clippy::needless_pass_by_value, reason = "the server keeps its options for its whole life")]
pub(crate) fn run(options: Serve, inherited: &Inherited) -> anyhow::Result<ExitCode> {
    howdah_sys::heap::keep_freed();
    if std::process::id() == 1 {
        // Of the first process of a container the kernel keeps what it does not catch: `docker stop` would be for nothing.
        signals::catch().context("cannot catch signals")?;
    }
    let program = Program::of_this_process()?;
    let mut handover = Handover::from_environment()?;
    // A process that replaces one in the background is there already.
    let background = options.process.daemonize && handover.is_none();
    let mut daemon = background.then(|| go_to_background(&options)).transpose()?;
    let parted = handover.as_mut().map_or(Ok(()), Handover::part);
    let outcome =
        parted.and_then(|()| run_here(&options, program, &mut handover, &mut daemon)).map_err(crowded);
    if let (Err(error), Some(handover)) = (&outcome, handover) {
        handover.failed(error);
    }
    match (outcome, daemon) {
        // Whoever waits for the launcher is told the reason before it ends.
        (Err(error), Some(_launcher)) => Ok(log::failed(&inherited.told(error))),
        (outcome, _) => outcome,
    }
}

/// Under plackup the process is there already.
fn go_to_background(options: &Serve) -> anyhow::Result<Daemon> {
    let Some(number) = options.process.launcher_fd else { return Ok(daemonize()?) };
    let launcher =
        adopt_fd(number).with_context(|| format!("--launcher-fd {number} is no open descriptor"))?;
    Ok(Daemon::adopt(launcher))
}

fn run_here(
    options: &Serve,
    program: Program,
    handover: &mut Option<Handover>,
    daemon: &mut Option<Daemon>,
) -> anyhow::Result<ExitCode> {
    log::start(&options.logs)?;
    descriptors::raise_limit();
    descriptors::suffice(options)?;
    survive_file_limit().context("cannot catch SIGXFSZ")?;
    tell_missing_page().context("cannot catch SIGBUS")?;
    let identity = options.process.identity()?;
    spool::try_out(options.limits.spool_dir.as_deref())?;
    let processes = Processes::prepare(options, &program, identity.as_ref())?;
    // Keys may be root's alone.
    let tickets = handover.as_ref().map(|handover| &*handover.tickets).unwrap_or_default();
    let tls = Tls::load(options, tickets, handover.is_some())?;
    // Before anybody finds our number in the pid file.
    signals::catch().context("cannot catch signals")?;
    let mut endpoints = Endpoints::obtain(options, handover.as_mut())?;
    if processes.launched {
        confine(options, &endpoints);
        launchers::attend()?;
    }
    let Processes { sources, successor, logs, .. } = processes;
    // The first thread. It goes last, with what Perl said at the end.
    let (_intake, errors) = Intake::start().context("cannot start the error log")?;
    let main = runtime().context("cannot start the event loop")?;
    let outcome = main.block_on(async {
        let signals = Signals::new().context("cannot take signals")?;
        let parts = Parts::prepare(options, &logs, endpoints.early()?, errors, tls.as_ref())?;
        let observer = parts.observer();
        observer.listening(endpoints.listeners().map(Listener::shown).collect());
        let mut wishes = Wishes { signals, post: Post::new(observer), later: Later::default() };
        wishes.post.open(endpoints.early_control());
        let watch = Watch::start(options)?;
        let parts = tokio::select! {
            parts = parts.start(sources) => parts?,
            () = wishes.end() => bail!(UNLOADED),
            () = abandoned(daemon.as_ref()) => bail!(ABANDONED),
        };
        if let Some(handover) = handover {
            handover.take_over()?;
            endpoints.take(options)?;
        }
        let upgrade = Upgrade::new(program, successor, options, tls.clone());
        let mut server = Server::open(options, upgrade, parts, wishes, endpoints, tls).await?;
        server.reload_on_changes(watch);
        if let Some(daemon) = daemon.take() {
            // What has been said is for the terminal, which is let go of now.
            let _ = tokio::task::spawn_blocking(log::settle).await;
            daemon.ready(options.logs.error_log.is_some())?;
        }
        if let Some(handover) = handover.take() {
            server.predecessor = Some(handover.serving()?);
            server.endpoints.keep_for_good();
        }
        log::let_starter_go();
        Ok(server.serve().await)
    });
    // Whoever still waits for a disk, a log or a launcher, or measures memory, is not waited for.
    main.shutdown_background();
    howdah_sys::launcher::dismiss();
    outcome
}

/// Where wishes come from.
struct Wishes {
    signals: Signals,
    post: Post,
    later: Later,
}

/// What was wished too early, by a signal that nobody answers: for when there is a server that can heed it.
#[derive(Debug, Default)]
struct Later {
    reload: bool,
    reopen: bool,
}

impl Wishes {
    async fn next(&mut self) -> Wish {
        tokio::select! {
            wish = self.signals.next() => wish,
            Some(wish) = self.post.next() => wish,
        }
    }

    /// Waits until the server is to end: no other wish can be heeded while it starts. The files of the application, or of the logs,
    /// may be others since they were opened, so these two are for later.
    async fn end(&mut self) {
        loop {
            match self.next().await {
                Wish::Reload => self.later.reload = true,
                Wish::Reopen(_) => self.later.reopen = true,
                wish if wish.ends() => return,
                _ => {}
            }
        }
    }
}

/// What runs.
struct Server {
    fronts: Vec<Front>,
    ends: Ends,
    wishes: Wishes,
    operations: Operations,
    access: Option<Access>,
    patience: Duration,
    upgrade: Upgrade,
    endpoints: Endpoints,
    /// Whom this process has replaced, and who may still finish what it has begun.
    predecessor: Option<Process>,
    watch: Option<Watch>,
}

impl Server {
    /// Accepts connections, and tells everybody.
    async fn open(
        options: &Serve,
        upgrade: Upgrade,
        parts: Parts,
        mut wishes: Wishes,
        endpoints: Endpoints,
        tls: Option<Tls>,
    ) -> anyhow::Result<Self> {
        let Parts { fronts, pools, ends, access, observer, capacity } = parts;
        let manager = Manager::default();
        let loaded_by_plackup = options.loaded_by_plackup();
        let operations = Operations::new(pools, manager.clone(), observer, tls, loaded_by_plackup);
        wishes.post.operate(operations.clone());
        let mut server = Self {
            fronts,
            ends,
            wishes,
            access,
            patience: options.patience(),
            upgrade,
            endpoints,
            predecessor: None,
            watch: None,
            operations,
        };
        server.wishes.post.open(server.endpoints.control.as_ref());
        descriptors::divide(capacity, options, &server.endpoints);
        server.endpoints.open(&server.fronts)?;
        // Whoever issues one may look at our listeners at once.
        server.operations.tls.as_ref().map_or(Ok(()), Tls::watch).context("cannot watch the certificates")?;
        announce(options, &server.endpoints);
        manager.ready(&server.operations.summary().await);
        tokio::spawn(manager.watchdog());
        Ok(server)
    }

    /// Serves until a signal, an order or the loss of the zygote ends it.
    async fn serve(mut self) -> ExitCode {
        let outcome = self.until_the_end().await;
        drop(self.access.take());
        outcome
    }

    async fn until_the_end(&mut self) -> ExitCode {
        let pools = self.operations.pools.clone();
        let mut doomed = std::pin::pin!(pools.doomed());
        let mut files = SocketFiles::of(&self.endpoints);
        let Later { reload, reopen } = std::mem::take(&mut self.wishes.later);
        if reopen {
            self.reopen(None);
        }
        if reload {
            self.reload();
        }
        loop {
            let wish = tokio::select! {
                wish = self.wishes.next() => wish,
                successor = self.upgrade.ready() => {
                    if let Some(successor) = successor && self.hand_over(successor).await {
                        return self.leave(IDLE_AT_UPGRADE).await;
                    }
                    continue;
                }
                () = files.look_after() => continue,
                () = &mut doomed => return self.give_up().await,
                Some(ended) = self.ends.join_next() => return after(ended),
            };
            match wish {
                Wish::StopNow => return self.stop_now().await,
                Wish::Stop => return self.stop().await,
                Wish::Reload => self.reload(),
                Wish::Reopen(reply) => {
                    self.wishes.later.reopen = true;
                    self.reopen(reply);
                }
                Wish::Upgrade(reply) => {
                    if !self.upgrade.is_under_way() {
                        self.wishes.later = Later::default();
                        self.operations.reloaded.store(false, Relaxed);
                    }
                    self.upgrade.begin(&self.endpoints, reply);
                }
                Wish::MoreWorkers => self.resize(1).await,
                Wish::FewerWorkers => self.resize(-1).await,
            }
        }
    }

    /// Lets another process serve. False when it fails to, so that we go on.
    async fn hand_over(&mut self, successor: Successor) -> bool {
        let manager = self.operations.manager.clone();
        self.wishes.post.close();
        manager.main_process(successor.pid());
        let outcome = successor.succeed().await;
        if let Ok(process) = &outcome {
            manager.fall_silent();
            self.endpoints.hand_over();
            self.operations.tls.iter().for_each(Tls::retire);
            // Who comes when the upgrade is announced comes to the new process.
            self.close().await;
            self.hand_on(process).await;
        } else {
            manager.main_process(std::process::id());
            self.endpoints.keep();
            self.wishes.post.open(self.endpoints.control.as_ref());
        }
        self.upgrade.conclude(&outcome);
        outcome.is_ok()
    }

    /// Whoever wished something while this process was the server, and was not heard yet, meant the one that serves now. So did who
    /// was heard while that one was starting: it may have loaded, or opened, what there was before.
    async fn hand_on(&mut self, successor: &Process) {
        let mut heard = std::pin::pin!(tokio::time::sleep(LAST_WISHES));
        loop {
            let wish = tokio::select! {
                wish = self.wishes.next() => wish,
                () = &mut heard => break,
            };
            let signal = wish.signal();
            match wish {
                Wish::Upgrade(_) => continue,
                Wish::Reopen(Some(reply)) => self.reopen(Some(reply)),
                _ => {}
            }
            // One that is gone already needs no word.
            let _ = successor.signal(signal);
        }
        let reload = self.operations.reloaded.load(Relaxed);
        for (wished, signal) in [(self.wishes.later.reopen, Signal::USR1), (reload, Signal::HUP)] {
            if wished {
                let _ = successor.signal(signal);
            }
        }
    }

    /// Asks all front threads at the same time.
    fn all_fronts<F: Future<Output = ()> + Send + 'static>(&self, ask: impl Fn(Front) -> F) -> JoinSet<()> {
        self.fronts.iter().cloned().map(ask).collect()
    }

    /// Lets go of the listeners.
    async fn close(&mut self) {
        self.endpoints.close();
        self.all_fronts(|front| async move { front.close().await }).join_all().await;
    }

    fn reload_on_changes(&mut self, watch: Option<Watch>) {
        self.watch = watch;
        if let Some(watch) = &mut self.watch {
            watch.reload(self.operations.clone());
        }
    }

    async fn stop(&mut self) -> ExitCode {
        tracing::info!("stopping: requests under way have {:?}", self.patience);
        self.operations.manager.stopping();
        self.leave(IDLE_AT_STOP).await
    }

    /// Workers that are left finish what they have; whoever manages this server is to start it anew.
    async fn give_up(&mut self) -> ExitCode {
        tracing::error!(
            "the zygote is dead and nothing can start another: ending, so that the server is started anew"
        );
        self.operations.manager.stopping();
        self.leave(IDLE_AT_STOP).await;
        ExitCode::FAILURE
    }

    /// Lets every request have its response, within the graceful timeout.
    async fn leave(&mut self, idle: Duration) -> ExitCode {
        let time = if self.patience.is_zero() { Duration::MAX } else { self.patience };
        let mut patience = Patience::new(time);
        let pools = self.operations.pools.clone();
        self.operations.end();
        let no_upgrade = self.upgrade.give_up();
        self.operations.observer.draining();
        self.endpoints.close_to_requests();
        let mut drained = self.all_fronts(|front| async move { front.drain(idle).await });
        let are_answered = tokio::select! {
            () = async { while drained.join_next().await.is_some() {} } => true,
            // Nobody is left to answer, nor will there be.
            () = pools.deserted() => false,
            () = patience.end() => {
                tracing::warn!("requests still run after {:?}: cut them off", self.patience);
                false
            }
            () = self.lose_patience() => return self.stop_now().await,
        };
        if !are_answered {
            self.cut_off().await;
        } else {
            let bound = Some(&mut patience).filter(|_| !self.patience.is_zero());
            tokio::select! {
                () = let_go(&pools, bound) => {}
                () = self.lose_patience() => return self.stop_now().await,
            }
        }
        no_upgrade.await;
        self.outlast_predecessor(patience.left().max(LAST_STEPS)).await;
        ExitCode::SUCCESS
    }

    /// With this process a service manager, or a container, would end the one before it, which may still finish what it has begun. It
    /// began to leave before us, and has as much patience.
    async fn outlast_predecessor(&mut self, time: Duration) {
        let Some(process) = self.predecessor.as_ref().filter(|process| !process.has_ended()) else { return };
        let Some(Ok(end)) = process.end().map(howdah_sys::watch_readable) else { return };
        tracing::info!("process {} still finishes what it has begun", process.pid().as_raw_pid());
        let mut patience = Patience::new(time);
        tokio::select! {
            _ = end.readable() => {}
            () = patience.end() => {}
            () = self.lose_patience() => self.pass_on(Signal::INT),
        }
    }

    /// While the server leaves its logs may be rotated, and whoever wants anything else hears at once that it leaves. Resolves
    /// when somebody has lost patience.
    async fn lose_patience(&mut self) {
        loop {
            match self.wishes.next().await {
                Wish::StopNow => return,
                Wish::Reopen(reply) => self.reopen(reply),
                _ => {}
            }
        }
    }

    async fn stop_now(&mut self) -> ExitCode {
        tracing::info!("stopping at once");
        self.pass_on(Signal::INT);
        self.operations.end();
        let no_upgrade = self.upgrade.give_up();
        self.operations.manager.stopping();
        self.cut_off().await;
        no_upgrade.await;
        ExitCode::SUCCESS
    }

    /// Ends all that is under way. Requests that workers were running are answered; what else there is the front threads tell
    /// their logs, which are closed next.
    async fn cut_off(&self) {
        self.operations.pools.stop(false).await;
        let cut = self.all_fronts(|front| async move { front.cut_off().await });
        let _ = tokio::time::timeout(LAST_LINES, cut.join_all()).await;
    }

    fn reload(&self) {
        let operations = self.operations.clone();
        tokio::spawn(async move {
            // The supervisor logs how it went.
            let _ = operations.reload(&operations.pools.numbers()).await;
        });
    }

    fn reopen(&self, reply: Option<Reply>) {
        self.pass_on(Signal::USR1);
        let access = self.access.as_ref().map(Access::reopen).unwrap_or_default();
        let errors = log::reopen();
        let Some(reply) = reply else { return };
        tokio::task::spawn_blocking(move || {
            let outcomes = access.into_iter().chain(errors).map(Reopening::wait).collect();
            // Whoever asked may have gone.
            let _ = reply.send(reopened(outcomes));
        });
    }

    /// To the process before this one, if it still finishes what it has begun: it hears of no command any more, and writes to the
    /// same files.
    fn pass_on(&self, signal: Signal) {
        let _ = self.predecessor.as_ref().map(|process| process.signal(signal));
    }

    /// A signal cannot say which is meant.
    async fn resize(&self, by: i32) {
        if let Err(why) = self.operations.resize(0, Change::By(by)).await {
            tracing::warn!("{why}");
        }
    }
}

/// Has workers leave whose requests all have their responses: what runs behind one, and their hooks, may take as long as there is.
async fn let_go(pools: &Pools, patience: Option<&mut Patience>) {
    let Some(patience) = patience else { return pools.stop(true).await };
    let mut stop = pin!(pools.stop_within(patience.left().max(LAST_STEPS)));
    // They end it in time. Meanwhile the time passes here, too, for who comes after them.
    if patience.wait_for(&mut stop).await.is_none() {
        stop.await;
    }
}

/// What has become of all logs: what is wrong, if anything is.
fn reopened(outcomes: Vec<Result<String, String>>) -> Result<String, String> {
    let wrong: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err().cloned()).collect();
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    let logs: Vec<_> = outcomes.into_iter().flatten().collect();
    Ok(match &logs[..] {
        [] => "no log goes to a file: there is nothing to open anew".to_owned(),
        [log] => format!("{log} is open anew"),
        [first @ .., last] => format!("{} and {last} are open anew", first.join(", ")),
    })
}

/// Resolves when nobody waits any more for a server to go to the background.
async fn abandoned(daemon: Option<&Daemon>) {
    match daemon.map(|daemon| howdah_sys::watch_readable(daemon.abandoned())) {
        Some(Ok(launcher)) => drop(launcher.readable().await),
        _ => std::future::pending().await,
    }
}

fn after(ended: Result<Result<Ended, JoinError>, JoinError>) -> ExitCode {
    match ended.and_then(|ended| ended) {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::Lost) | Err(_) => {
            tracing::error!("no process is left that could fork workers: giving up");
            ExitCode::FAILURE
        }
    }
}
