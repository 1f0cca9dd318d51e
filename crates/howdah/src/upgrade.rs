//! Replaces the running program by the one that is at its path now (USR2, `howdah upgrade`): the old process's side.
//!
//! ```text
//! old  starts new --------------- serves --------------- go --> drains, leaves
//! new      loads the application, starts workers -- ready   serving -->
//! ```
//!
//! `serve` calls [`Upgrade::begin`] and goes on serving; when there is a [`Successor`] it makes way. Connections that
//! come in between wait in the listening sockets, which both processes have. What the new process does is in `handover`.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Channel;
use std::path::{Path, PathBuf};
use std::time::Duration;

use howdah_supervisor::Signal;
use howdah_sys::Patience;
use howdah_sys::activation::UPGRADE;
use howdah_sys::launcher::{FIRST_FD, Job};
use howdah_sys::orphan;
use howdah_sys::process::{Pid, Process};
use howdah_sys::recipe::Recipe;
use howdah_sys::shortage::with_way_out;
use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::endpoints::{Endpoints, is_under_starter};
use crate::handover::{ALONE, GO, HandedOver, NO, Progress};
use crate::options::Serve;
use crate::shortage::crowded;
use crate::tls::Tls;
use crate::wish::Reply;

/// Time for the new process to begin serving when it is ready and has been told to.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time to read what it has said by then.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Bytes of what it says at a time; the program at our path may be any by now.
const LONGEST: u64 = 64 * 1024;
/// Time for one that is not wanted any more to end by itself.
const TO_LEAVE: Duration = Duration::from_secs(5);

/// What it says makes no sense where it says it.
const CONFUSED: &str = "the new process is confused";

/// How this program was called, to call it so again.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// Call it before the working directory or the file can have changed.
    ///
    /// The name that it was called by is kept, with its symbolic links: that is where a new version will be.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let mut arguments = env::args_os();
        let own = env::current_exe()?;
        let called = arguments.next().map(PathBuf::from).and_then(|name| called(&name, &own));
        Ok(Self { path: called.unwrap_or(own), arguments: arguments.collect() })
    }

    /// How to call it again, as the successor of this process.
    pub(crate) fn recipe(&self) -> Recipe {
        Recipe::new(&self.path).args(&self.arguments).told_by(UPGRADE).without("WATCHDOG_PID")
    }
}

/// Where the name leads, if that is to this very program.
fn called(name: &Path, own: &Path) -> Option<PathBuf> {
    let is_own = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == own);
    if name.components().count() > 1 {
        return std::path::absolute(name).ok().filter(is_own);
    }
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(name)).find(is_own)
}

/// Why this server cannot be replaced by itself, with the way out.
fn obstacle(options: &Serve) -> Option<&'static str> {
    if options.process.zygote_fd.is_some() {
        return Some(
            "plackup has loaded the application, so only plackup can do it anew: start plackup again",
        );
    }
    if is_under_starter() {
        return Some("start_server replaces the server: send HUP to start_server");
    }
    (std::process::id() == 1)
        .then_some("this is process 1, with which its container would end: replace the container")
}

/// The state of an upgrade, for the main loop.
#[derive(Debug)]
pub(crate) struct Upgrade {
    program: Program,
    job: Job,
    obstacle: Option<&'static str>,
    tls: Option<Tls>,
    /// Time for a new process to become ready; none for any.
    patience: Option<Duration>,
    under_way: Option<UnderWay>,
    endings: Endings,
}

/// Knows when the new processes that were not wanted have ended: each of them has a sender.
#[derive(Debug)]
struct Endings {
    sender: mpsc::Sender<()>,
    receiver: mpsc::Receiver<()>,
}

#[derive(Debug)]
struct UnderWay {
    task: JoinHandle<Result<Successor, String>>,
    reply: Option<Reply>,
    /// The way to the new process, also to one that has not been started yet.
    channel: Channel,
}

impl Upgrade {
    /// `job` starts `program` by its recipe.
    pub(crate) fn new(program: Program, job: Job, options: &Serve, tls: Option<Tls>) -> Self {
        let patience = options.process.upgrade_timeout.limit();
        let (sender, receiver) = mpsc::channel(1);
        let endings = Endings { sender, receiver };
        Self { program, job, obstacle: obstacle(options), tls, patience, under_way: None, endings }
    }

    /// Starts a new process, unless that is impossible or under way.
    pub(crate) fn begin(&mut self, endpoints: &Endpoints, reply: Option<Reply>) {
        match self.sockets(endpoints) {
            Ok((sockets, channel)) => {
                let (program, job) = (self.program.clone(), self.job.clone());
                let ending = self.endings.sender.clone();
                let task = tokio::spawn(start(program, job, sockets, self.patience, ending));
                self.under_way = Some(UnderWay { task, reply, channel });
            }
            Err(reason) => conclude(&Err(reason), reply),
        }
    }

    /// A new process is being started.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// What a successor gets, and the way to it once more.
    fn sockets(&self, endpoints: &Endpoints) -> Result<(Sockets, Channel), String> {
        if let Some(reason) = self.obstacle {
            return Err(reason.to_owned());
        }
        if self.is_under_way() {
            return Err("an upgrade is under way already".to_owned());
        }
        Sockets::of(endpoints, self.tls.as_ref())
            .and_then(|sockets| sockets.channel.try_clone().map(|channel| (sockets, channel)))
            .map_err(|error| format!("cannot copy the listening sockets: {}", with_way_out(&error)))
    }

    /// Waits for the new process. None when it failed, which then has been told.
    pub(crate) async fn ready(&mut self) -> Option<Successor> {
        let Some(under_way) = &mut self.under_way else { return std::future::pending().await };
        match (&mut under_way.task).await {
            Ok(Ok(successor)) => Some(successor),
            Ok(Err(reason)) => {
                self.conclude(&Err(reason));
                None
            }
            Err(error) => {
                self.conclude(&Err(error.to_string()));
                None
            }
        }
    }

    /// This process leaves by itself: a new one that is under way is told to end, and with it what it has started. Ready when it
    /// has, or has had its time.
    pub(crate) fn give_up(&mut self) -> impl Future<Output = ()> + use<> {
        self.under_way = None;
        let (sender, receiver) = mpsc::channel(1);
        let Endings { sender: last, mut receiver } =
            std::mem::replace(&mut self.endings, Endings { sender, receiver });
        drop(last);
        async move {
            let _ = tokio::time::timeout(TO_LEAVE, receiver.recv()).await;
        }
    }

    /// Tells how it went.
    pub(crate) fn conclude(&mut self, outcome: &Result<Process, String>) {
        conclude(outcome, self.under_way.take().and_then(|mut under_way| under_way.reply.take()));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.task.abort();
        // It may hear this later than its end. One that serves by now does not listen.
        let _ = self.channel.write_all(NO.as_bytes());
    }
}

fn number(process: &Process) -> u32 {
    process.pid().as_raw_pid().unsigned_abs()
}

fn conclude(outcome: &Result<Process, String>, reply: Option<Reply>) {
    let own = std::process::id();
    let told = match outcome.as_ref().map(number) {
        Ok(pid) => Ok(format!("process {pid} serves, process {own} finishes what it has begun")),
        Err(reason) => Err(format!("no upgrade, process {own} goes on: {reason}")),
    };
    match &told {
        Ok(message) => tracing::info!("{message}"),
        Err(message) => tracing::error!("{message}"),
    }
    if let Some(reply) = reply {
        // A client that went away is not told.
        let _ = reply.send(told);
    }
}

/// A new process that is to take over. Dropped before it has, it is ended.
#[derive(Debug)]
pub(crate) struct Successor {
    /// None once it serves.
    process: Option<Process>,
    channel: BufReader<UnixStream>,
    ending: mpsc::Sender<()>,
}

/// Starts the program anew; returns when it could serve. Until then everything stays as it is.
///
/// # Errors
/// When it cannot be started or does not come so far in time: the reason, for people.
async fn start(
    program: Program,
    job: Job,
    sockets: Sockets,
    patience: Option<Duration>,
    ending: mpsc::Sender<()>,
) -> Result<Successor, String> {
    let path = program.path.display().to_string();
    // Starting it is to wait for others, which a front thread must not. It goes on when nobody waits for it any more, so a
    // successor is what it yields: dropped, that is ended.
    let launched = tokio::task::spawn_blocking(move || {
        launch(&job, sockets).and_then(|(process, channel)| Successor::of(process, channel, ending))
    });
    let launched = launched.await.map_err(io::Error::other).and_then(|launched| launched);
    let mut successor = launched.map_err(|error| {
        format!("{:#}", crowded(anyhow::Error::from(error).context(format!("cannot start {path}"))))
    })?;
    let progress = match patience {
        Some(time) => Patience::new(time).wait_for(successor.prepare(&path)).await.unwrap_or_else(|| {
            Err(format!("the new process was not ready after {time:?} (--upgrade-timeout) and is ended"))
        }),
        None => successor.prepare(&path).await,
    };
    match progress? {
        Progress::Ready => Ok(successor),
        Progress::Failed(reason) => Err(reason),
        Progress::Forked(_) | Progress::Serving => Err(CONFUSED.to_owned()),
    }
}

/// Copies of what a successor gets.
#[derive(Debug)]
struct Sockets {
    /// Our end, which does not wait, and the successor's.
    channel: Channel,
    theirs: OwnedFd,
    /// Those of one name together.
    listeners: Vec<Vec<OwnedFd>>,
    control: Option<OwnedFd>,
    ours: bool,
    tickets: Option<OwnedFd>,
}

impl Sockets {
    fn of(endpoints: &Endpoints, tls: Option<&Tls>) -> io::Result<Self> {
        let control =
            endpoints.control.as_ref().map(crate::control::socket::ControlSocket::descriptor).transpose()?;
        let tickets = tls.map(Tls::tickets).transpose()?;
        let (channel, theirs) = Channel::pair()?;
        channel.set_nonblocking(true)?;
        Ok(Self {
            channel,
            theirs: theirs.into(),
            listeners: endpoints.sockets()?,
            control,
            ours: endpoints.ours,
            tickets,
        })
    }
}

/// The new process, and where to talk to it.
fn launch(job: &Job, sockets: Sockets) -> io::Result<(Process, Channel)> {
    let mut numbers = FIRST_FD..;
    let mut number = || numbers.next().unwrap_or_default();
    let handed = HandedOver {
        parent: std::process::id(),
        channel: number(),
        listeners: sockets
            .listeners
            .iter()
            .map(|group| group.iter().map(|_| number()).collect::<Vec<_>>().into())
            .collect(),
        control: sockets.control.as_ref().map(|_| number()),
        ours: sockets.ours,
        tickets: sockets.tickets.as_ref().map(|_| number()),
        orphan: orphan::is_possible(),
    };
    let Sockets { channel, theirs, listeners, control, tickets, .. } = sockets;
    let fds = std::iter::once(theirs).chain(listeners.into_iter().flatten()).chain(control).chain(tickets);
    // The supervisor collects children that it does not know.
    let handed = serde_json::to_string(&handed)?;
    let pid = job.start(Some(handed.as_ref()), Some(io::stdin().as_fd()), fds.collect())?;
    Ok((Process::open(pid), channel))
}

impl Successor {
    fn of(process: Process, channel: Channel, ending: mpsc::Sender<()>) -> io::Result<Self> {
        let channel = BufReader::new(UnixStream::from_std(channel)?);
        Ok(Self { process: Some(process), channel, ending })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, number)
    }

    /// Waits until it could serve, as no child of this process.
    async fn prepare(&mut self, path: &str) -> Result<Progress, String> {
        let said = match self.hear().await? {
            Progress::Forked(pid) => {
                self.part(pid).await?;
                None
            }
            said => Some(said),
        };
        tracing::info!(pid = self.pid(), "upgrade: {path} is being started");
        match said {
            Some(said) => Ok(said),
            None => self.hear().await,
        }
    }

    /// The new process is `pid`, the child of the one that was started.
    async fn part(&mut self, pid: u32) -> Result<(), String> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(CONFUSED)?;
        // Its parent does not collect it, so the number is its own.
        let Some(keeper) = self.process.replace(Process::open(pid)) else { return Ok(()) };
        let parted = tokio::task::spawn_blocking(move || orphan::orphan(&keeper)).await;
        if let Err(error) = parted.map_err(io::Error::other).and_then(|parted| parted) {
            // It serves as well as a child of ours.
            tracing::warn!("upgrade: the new process stays a child of this one: {error}");
        }
        self.say(ALONE).await
    }

    async fn say(&mut self, word: &str) -> Result<(), String> {
        let told = self.channel.get_mut().write_all(word.as_bytes()).await;
        told.map_err(|error| format!("the new process does not listen: {error}"))
    }

    /// Lets it go ahead; returns it when it serves.
    ///
    /// # Errors
    /// When it fails after all; then it is gone or will be.
    pub(crate) async fn succeed(self) -> Result<Process, String> {
        self.succeed_within(PATIENCE).await
    }

    async fn succeed_within(mut self, time: Duration) -> Result<Process, String> {
        self.say(GO).await?;
        let progress = match Patience::new(time).wait_for(self.hear()).await {
            Some(progress) => progress?,
            None => self
                .last_word()
                .await
                .ok_or_else(|| format!("the new process did not serve within {time:?}"))?,
        };
        match progress {
            Progress::Serving => self.process.take().ok_or_else(|| "there is no new process".to_owned()),
            Progress::Failed(reason) => Err(reason),
            Progress::Forked(_) | Progress::Ready => Err(CONFUSED.to_owned()),
        }
    }

    /// What it has said by now, and the last that it can: a process that has told that it serves, and was not heard, would take the files
    /// of the sockets with it.
    async fn last_word(&mut self) -> Option<Progress> {
        shutdown(self.channel.get_ref(), Shutdown::Read).ok()?;
        // What is there is there, or else the end.
        tokio::time::timeout(LAST_WORD, self.hear()).await.ok()?.ok()
    }

    async fn hear(&mut self) -> Result<Progress, String> {
        let mut line = String::new();
        match (&mut self.channel).take(LONGEST).read_line(&mut line).await {
            Ok(length) if length > 0 => serde_json::from_str(&line)
                .map_err(|error| format!("cannot understand the new process: {error}")),
            _ => Err("the new process ended before it was ready; the log has its last words".to_owned()),
        }
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        // It may have ended by itself.
        let _ = process.signal(Signal::INT);
        let (ending, told) = (Ending(process), self.ending.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(TO_LEAVE, ending.by_itself()).await;
                drop(ending);
                drop(told);
            });
        }
    }
}

/// A process that hangs may not heed a signal. Dropped, also because this process ends, it is killed.
#[derive(Debug)]
struct Ending(Process);

impl Ending {
    async fn by_itself(&self) {
        match self.0.end().map(howdah_sys::watch_readable) {
            Some(Ok(end)) => drop(end.readable().await),
            _ => std::future::pending().await,
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.0.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_tells_at_the_last_moment_that_it_serves_has_been_heard_or_knows_that_not() {
        for (said, is_heard) in [("\"serving\"\n", true), ("\"ready\"\n", false), ("", false)] {
            let (channel, mut theirs) = Channel::pair().unwrap();
            channel.set_nonblocking(true).unwrap();
            // No process has a number as high as that.
            let process = Process::open(Pid::from_raw(i32::MAX).unwrap());
            let successor = Successor::of(process, channel, mpsc::channel(1).0).unwrap();
            theirs.write_all(said.as_bytes()).unwrap();
            let outcome = successor.succeed_within(Duration::ZERO).await;
            assert_eq!(outcome.is_ok(), is_heard, "{said}");
            assert!(theirs.write_all(b"\"serving\"\n").is_err(), "the time is up");
        }
    }

    #[test]
    fn the_name_that_a_program_was_called_by_is_kept_if_it_leads_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (own, link, other) = (root.join("howdah-1"), root.join("howdah"), root.join("other"));
        std::fs::write(&own, "").unwrap();
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert_eq!(called(&link, &own), Some(link));
        assert_eq!(called(&other, &own), None);
        assert_eq!(called(Path::new("no-such-program"), &own), None);
    }
}
