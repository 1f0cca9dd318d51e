//! One zygote: a Perl process with the application loaded, from which workers are forked.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_sys::launcher::{Condition, FIRST_FD, Job};
use howdah_sys::process::{Peer, try_wait};
use howdah_sys::recipe::Recipe;
use howdah_sys::{ExitKind, Patience, Pid, Signal, socketpair_seqpacket};
use tokio::sync::watch;

use crate::config::Shared;
use crate::error::StartError;
use crate::family::{Family, Relative};
use crate::link::{Link, Orders};
use crate::message::Order;
use crate::notice::{Mailbox, Notice};
use crate::pid::pid_number;
use crate::spec::ZygoteSpec;

/// Time for a zygote to exit once it was told and has no workers.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a zygote has said before its end is read in this time after it. Its socket may stay open for longer: a process that the
/// application has forked while it was loaded has that, too.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How a zygote is started.
#[derive(Debug)]
pub(crate) struct Program {
    /// None for a host, which has no Perl.
    pub(crate) perl: Option<PathBuf>,
    pub(crate) job: Job,
    /// Starts the zygote of a guest; none for a host.
    pub(crate) guest: Option<Job>,
    /// Of the launchers; none when this process starts zygotes itself.
    pub(crate) condition: Option<watch::Receiver<Condition>>,
}

impl Program {
    pub(crate) fn new(perl: Option<PathBuf>, job: Job) -> Self {
        let condition = job.condition();
        Self { perl, job, guest: None, condition }
    }

    /// Of those who start zygotes.
    pub(crate) fn condition(&self) -> Condition {
        self.condition.as_ref().map_or(Condition::Well, |condition| *condition.borrow())
    }

    /// Waits until that is another.
    pub(crate) async fn changed(program: &mut Option<Self>) {
        let condition = program.as_mut().and_then(|program| program.condition.as_mut());
        match condition {
            Some(condition) if condition.has_changed().is_ok() => drop(condition.changed().await),
            _ => std::future::pending().await,
        }
    }
}

/// What a zygote is, for [`Source::Start`](crate::Source::Start): a perl with these arguments that loads what `spec`
/// says. Its control socket is its first descriptor.
pub fn recipe(perl: &Path, perl_args: impl IntoIterator<Item = OsString>, spec: &ZygoteSpec) -> Recipe {
    Recipe::new(perl)
        .args(perl_args)
        .args(["-MHowdah::Zygote", "-e", "Howdah::Zygote->main"])
        .env("HOWDAH_ZYGOTE", spec.encode(Some(FIRST_FD)))
        // Ctrl-C is the front's to handle, or requests in flight would die with their workers.
        .in_own_group()
        // Deep in the application's code, it does not see that its socket is closed.
        .tied_to_us()
        .without_ours()
}

/// What is known of a zygote's process.
#[derive(Debug)]
enum Process {
    /// Somebody is starting it, and will say how that went.
    Starting,
    /// Nobody knows it: an adopted one has not spoken yet, or there is none.
    Unknown,
    Known(Relative),
    /// In this way, and then.
    Ended(ExitKind, Instant),
}

/// A zygote's process and the way to talk to it.
#[derive(Debug)]
pub(crate) struct Zygote {
    // None once the zygote has closed it.
    link: Option<Link>,
    family: Family,
    process: Process,
    told_to_stop: bool,
    // It reads its control socket, so the end of that is enough to end it.
    listens: bool,
    /// Until it is killed.
    patience: Option<Patience>,
    /// Its workers are threads of it.
    pub(crate) is_host: bool,
    /// Who runs it, once it has spoken.
    pub(crate) user: Option<u32>,
    /// Version of its perl, once that has loaded the application.
    pub(crate) perl: String,
    /// How many templates the application has compiled, once it is loaded.
    pub(crate) templates: u32,
}

impl Zygote {
    /// Has a zygote started; [`Notice::Started`] tells how that went.
    pub(crate) fn start(
        job: Job,
        is_host: bool,
        generation: u32,
        mailbox: Mailbox,
        shared: &Shared,
    ) -> Result<Self, StartError> {
        let (ours, theirs) = socketpair_seqpacket().map_err(system("create a socket pair"))?;
        let link = Link::open(ours, generation, mailbox.clone(), shared.roster.clone());
        let mut zygote = Self::connect(link, &shared.family)?;
        zygote.process = Process::Starting;
        zygote.is_host = is_host;
        // Whoever starts it may be slow, or not there at all.
        tokio::task::spawn_blocking(move || {
            let outcome = job.start(None, None, vec![theirs]);
            let _ = mailbox.send(Notice::Started { generation, outcome });
        });
        Ok(zygote)
    }

    /// It has been started: now it is told what it needs to load the application. One that comes when it is not wanted
    /// any more finds its socket closed instead, and leaves.
    pub(crate) fn started(&mut self, pid: Pid, shared: &Shared, generation: u32) -> Result<(), StartError> {
        self.process = Process::Known(self.family.know(pid));
        self.attach(shared, generation)
    }

    /// Nobody has said yet how its start went.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.process, Process::Starting)
    }

    /// It cannot be started, or need not be any more.
    pub(crate) fn abandon(&mut self) {
        self.link = None;
        if self.is_starting() {
            self.process = Process::Unknown;
        }
    }

    /// Takes over a zygote that somebody else forked.
    pub(crate) fn adopt(
        control: OwnedFd,
        shared: &Shared,
        generation: u32,
        mailbox: Mailbox,
    ) -> Result<Self, StartError> {
        let link = Link::open(control, generation, mailbox, shared.roster.clone());
        let zygote = Self::connect(link, &shared.family)?;
        zygote.attach(shared, generation)?;
        Ok(zygote)
    }

    fn connect(link: io::Result<Link>, family: &Family) -> Result<Self, StartError> {
        let link = link.map_err(system("use the zygote's control socket"))?;
        Ok(Self {
            link: Some(link),
            family: family.clone(),
            process: Process::Unknown,
            told_to_stop: false,
            listens: false,
            patience: None,
            is_host: false,
            user: None,
            perl: String::new(),
            templates: 0,
        })
    }

    fn attach(&self, shared: &Shared, generation: u32) -> Result<(), StartError> {
        let copy = |fd: &OwnedFd| fd.try_clone().map_err(system("copy a descriptor for the zygote"));
        let mut fds = vec![copy(&shared.memfd)?];
        for eventfd in &shared.eventfds {
            fds.push(copy(eventfd)?);
        }
        if let Some(errors) = &shared.errors {
            fds.push(copy(&errors.pipe)?);
        }
        let secret = shared.errors.as_ref().map(|errors| errors.secret);
        self.say(Order::Attach { generation, titles: shared.titles, secret }, fds);
        Ok(())
    }

    /// Has workers that it forks from now on use another segment. One that is being started gets that from the first.
    pub(crate) fn attach_anew(&self, memfd: OwnedFd) {
        if !self.is_starting() {
            self.say(Order::Segment, vec![memfd]);
        }
    }

    /// Asks for this worker; `channels` are its ends.
    pub(crate) fn fork(&self, worker: u16, channels: Vec<OwnedFd>) {
        self.say(Order::Spawn { worker }, channels);
    }

    /// By which it is told what to do with a worker that is a thread of it; none when workers are processes.
    pub(crate) fn orders(&self, worker: u16) -> Option<Orders> {
        self.link.as_ref().filter(|_| self.is_host).map(|link| link.orders(worker))
    }

    /// Asks it to exit when its last worker has.
    pub(crate) fn stop(&mut self) {
        self.told_to_stop = true;
        if self.is_starting() {
            return self.abandon();
        }
        self.say(Order::Stop, Vec::new());
    }

    /// Ends it at once, for a zygote without workers that may be deep in the application's code.
    pub(crate) fn interrupt(&mut self) {
        self.told_to_stop = true;
        self.signal(Signal::TERM);
        self.expect_exit();
    }

    /// It has nothing left to do: if it does not exit soon, it is killed.
    pub(crate) fn expect_exit(&mut self) {
        self.patience.get_or_insert_with(|| Patience::new(PATIENCE));
    }

    /// It is killed at once. False when it was to be anyway.
    pub(crate) fn end(&mut self) -> bool {
        self.patience.replace(Patience::new(Duration::ZERO)).is_none()
    }

    /// Kills it when its time is up, and waits for no more words of one that has ended. Returns when to ask again.
    pub(crate) fn enforce(&mut self, now: Instant) -> Option<Instant> {
        if let Process::Ended(_, at) = self.process {
            let heard_by = Some(at + LAST_WORDS).filter(|by| self.link.is_some() && *by > now);
            if heard_by.is_none() {
                self.link = None;
            }
            return heard_by;
        }
        if self.is_gone() {
            return None;
        }
        if self.patience.as_mut().is_some_and(|patience| patience.look().is_zero()) {
            if self.link.is_none() && !self.told_to_stop {
                self.tell_without_socket();
            }
            self.signal(Signal::KILL);
            self.patience = Some(Patience::new(PATIENCE));
        }
        self.patience.as_mut().map(|patience| now + patience.look())
    }

    fn tell_without_socket(&self) {
        let (who, why) = if self.listens {
            (
                "the zygote",
                "a hook (before_fork) has executed another program (exec) or closed all descriptors, or its end takes long",
            )
        } else {
            (
                "the process that loads the application",
                "it has executed another program (exec), or closed all descriptors",
            )
        };
        let pid = self.pid_number();
        tracing::error!(pid, "{who} goes on without its control socket, and is killed: {why}");
    }

    /// It has loaded the application and listens to us.
    pub(crate) fn loaded(&mut self, perl: String, templates: u32) {
        self.listens = true;
        self.perl = perl;
        self.templates = templates;
    }

    /// It does not have to be interrupted.
    pub(crate) fn has_loaded(&self) -> bool {
        self.listens
    }

    /// It spoke, so its process id is known, and who runs it and thus its workers.
    pub(crate) fn heard_from(&mut self, sender: Option<Peer>) {
        let Some(Peer { pid, user }) = sender else { return };
        if matches!(self.process, Process::Unknown) {
            self.process = Process::Known(self.family.know(pid));
        }
        if self.pid() == Some(pid) {
            self.user = Some(user);
        }
    }

    /// It has closed its end: it is dead, or dying, or useless. A perl that exits takes a moment, and its own status
    /// tells more than ours would.
    pub(crate) fn closed(&mut self) {
        self.link = None;
        if !self.told_to_stop {
            self.expect_exit();
        }
        self.reap();
    }

    /// Looks whether the process has ended.
    pub(crate) fn reap(&mut self) {
        let Some(pid) = self.pid() else { return };
        match try_wait(pid) {
            // Its number may be another process's from now on.
            Ok(Some(status)) => self.process = Process::Ended(status, Instant::now()),
            Ok(None) => {}
            // Somebody else's child: its closed socket must be enough.
            Err(_) if self.link.is_none() => {
                self.process = Process::Ended(ExitKind::Unknown, Instant::now());
            }
            Err(_) => {}
        }
    }

    /// Everything it said has been read and its process is gone, so its workers are children of ours.
    pub(crate) fn is_gone(&self) -> bool {
        self.link.is_none() && matches!(self.process, Process::Unknown | Process::Ended(..))
    }

    /// Can be asked for workers.
    pub(crate) fn can_fork(&self) -> bool {
        self.link.is_some() && !self.told_to_stop
    }

    /// Its end was our wish.
    pub(crate) fn was_told_to_stop(&self) -> bool {
        self.told_to_stop
    }

    /// How it ended.
    pub(crate) fn status(&self) -> ExitKind {
        match self.process {
            Process::Ended(status, _) => status,
            Process::Starting | Process::Unknown | Process::Known(_) => ExitKind::Unknown,
        }
    }

    /// Process id, while it runs.
    pub(crate) fn pid(&self) -> Option<Pid> {
        match &self.process {
            Process::Known(process) => Some(process.pid()),
            Process::Starting | Process::Unknown | Process::Ended(..) => None,
        }
    }

    /// For the log; 0 when unknown.
    pub(crate) fn pid_number(&self) -> i32 {
        pid_number(self.pid())
    }

    fn say(&self, order: Order, fds: Vec<OwnedFd>) {
        if let Some(link) = &self.link {
            link.send(order, fds);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Process::Known(process) = &self.process {
            // It may have ended just now.
            let _ = process.signal(signal);
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // Only when the supervisor itself is dropped early, and this process is about to end: a zygote that is loading does not see its
        // socket close, and one that ignores TERM would be left behind.
        if let (false, Process::Known(process)) = (self.listens, &self.process) {
            process.end_within(PATIENCE);
        }
    }
}

fn system(what: &'static str) -> impl Fn(io::Error) -> StartError {
    move |error| StartError::System { what, error }
}
