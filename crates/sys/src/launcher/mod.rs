//! Starting processes, by ourselves or through a launcher.
//!
//! ```text
//! front (confined) ── recipe number, descriptors ──> launcher (not confined) ── fork, exec ──> zygote, successor, log command
//!        ^──────────────────────────────── is the parent of ────────────────────────────────────────┘
//! ```
//!
//! What confines a process (no_new_privs, seccomp, Landlock, a lack of capabilities) also confines whatever it starts,
//! and the application must be free to do as its user may. So a front that confines itself leaves a launcher behind
//! first: the same program, started anew, that keeps the front's rights, knows a fixed list of [`Recipe`]s, and waits on
//! a socket to be told the number of one. It forks with CLONE_PARENT, which makes the new process a child of the front:
//! that waits for it and signals it as if it had forked itself. The launcher leaves when the front does.
//!
//! There are two launchers, for a confined front could not start another when one dies: the second is a fork of the
//! first, and whichever is left forks the next. A thread of the front, the attendant, asks them and watches them.
//!
//! A launcher also measures memory for the front ([`memory_of`](crate::usage::memory_of)), since Landlock hides the
//! memory of other processes.
//!
//! Supervisor, upgrade and access log have a [`Job`] each.
//!
//! ```text
//! serve       the launcher's side
//! attendant   the front's thread: questions in, a launcher that answers, another for one that does not
//! line        what is said, and the front's end of the socket to one launcher
//! ```

mod serve;
mod attendant;
mod line;

use std::ffi::OsStr;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::channel::{is_handed_seqpacket, socketpair_seqpacket};
use crate::process::{Pid, Process, Signal, spawn};
use crate::readable::is_readable_within;
use crate::recipe::{Recipe, encode};
use crate::smaps::Memory;
use attendant::{Attendant, Desk};
use line::{Line, Question};

pub use crate::process::FIRST_FD;
pub use attendant::{Condition, News};
pub use serve::serve;

/// What a process is called that is this program once more, but no server. The name may get lost on the way: see [`is_this`].
pub const HELPER: &str = "howdah:";
/// The argument of a launcher.
const LAUNCHER: &str = "launcher";

/// Time for a launcher to start a process or to say that it cannot, with one try at the other launcher.
const TO_START: Duration = Duration::from_secs(15);
/// Time for a program to be executed, which may be on a slow disk.
const TO_EXECUTE: Duration = Duration::from_secs(20);
/// Time for the launchers to be gone, which they are in a millisecond.
const TO_DISMISS: Duration = Duration::from_secs(1);
/// Bytes that a process which cannot be executed has for its reason.
const LONGEST_FAILURE: usize = 1024;
/// Time for a measurement, which nobody misses: the next look brings another.
const TO_MEASURE: Duration = Duration::from_secs(2);

/// The launchers of this process between [`start`] and [`attend`].
static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());
/// Who asks them.
static DESK: OnceLock<Desk> = OnceLock::new();

/// A process that can be started, again and again.
#[derive(Clone, Debug)]
pub struct Job {
    how: How,
    /// Its standard error; none for ours.
    errors: Option<Arc<OwnedFd>>,
}

#[derive(Clone, Debug)]
enum How {
    Here(Box<Recipe>),
    Launcher(u32),
}

/// Starts the launchers of this process, which must not have any: the jobs that they can do, in the order of `recipes`.
/// They do them once [`attend`] was called.
///
/// # Errors
/// When the program cannot be started again (it needs /proc), or the launcher does not answer.
pub fn start(recipes: Vec<Recipe>) -> io::Result<Vec<Job>> {
    let (ours, theirs) = socketpair_seqpacket()?;
    let mut list =
        std::fs::File::from(rustix::fs::memfd_create(c"recipes", rustix::fs::MemfdFlags::CLOEXEC)?);
    list.write_all(&encode(&recipes))?;
    list.rewind()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(HELPER).arg(LAUNCHER).process_group(0);
    // The supervisor collects children that it does not know.
    let pid = spawn(&mut command, None, &[theirs.as_fd(), list.as_fd()])?;
    drop(theirs);
    let mut first = Line::new(ours, Process::open(pid));
    let second = first.double()?;
    *LINES.lock().unwrap_or_else(PoisonError::into_inner) = vec![first, second];
    Ok((0..).zip(recipes).map(|(number, _)| Job::new(How::Launcher(number))).collect())
}

/// Whether this process was started by [`start`]. Its name does not tell: where the kernel has an emulator execute programs of
/// another machine (binfmt_misc), that is called by the file's. A server in the launcher's place would start launchers of its own,
/// and so on without end.
#[must_use]
pub fn is_this() -> bool {
    std::env::args_os().skip(1).take(2).eq([LAUNCHER]) && is_handed_seqpacket(FIRST_FD)
}

/// From now on a thread of this process asks the launchers and watches them; `report` hears what becomes of them. For a
/// process that has started them, once it is confined.
///
/// # Errors
/// When the system gives no thread, or there is one already.
pub fn attend(report: impl Fn(News) + Send + 'static) -> io::Result<()> {
    let lines = std::mem::take(&mut *LINES.lock().unwrap_or_else(PoisonError::into_inner));
    let (attendant, desk) = Attendant::new(lines, Box::new(report))?;
    DESK.set(desk).map_err(|_| io::Error::other("the launchers are attended to already"))?;
    std::thread::Builder::new().name("launchers".into()).spawn(move || attendant.run())?;
    Ok(())
}

/// Has the launchers leave, for a process that is about to end: a service manager kills what is left then, and tells so. Waits
/// for a second at most.
pub fn dismiss() {
    if let Some(desk) = DESK.get() {
        desk.dismiss(TO_DISMISS);
    }
}

impl Job {
    /// One that this process does itself.
    #[must_use]
    pub fn here(recipe: Recipe) -> Self {
        Self::new(How::Here(Box::new(recipe)))
    }

    fn new(how: How) -> Self {
        Self { how, errors: None }
    }

    /// With that as standard error, from its first word on.
    #[must_use]
    pub fn with_errors(self, errors: OwnedFd) -> Self {
        Self { errors: Some(Arc::new(errors)), ..self }
    }

    /// Starts the program. It is a child of this process, has `input` (or /dev/null) as its standard input, our
    /// standard output and, unless it has another, our standard error, `fds` from [`FIRST_FD`] on, which may be any number
    /// and are closed here, and nothing else of ours. `value` is that of the variable which the recipe leaves open.
    ///
    /// Waits, usually for milliseconds, but for half a minute when all goes wrong: never call it on a front thread.
    ///
    /// # Errors
    /// As [`Command::spawn`]: NotFound when there is no such program. BrokenPipe when no launcher is left, TimedOut
    /// when none answers or the program is not executed in time. What was begun then does not come later: see
    /// [`Line::ask`].
    pub fn start(
        &self,
        value: Option<&OsStr>,
        input: Option<BorrowedFd<'_>>,
        fds: Vec<OwnedFd>,
    ) -> io::Result<Pid> {
        let own = io::stderr();
        let errors = self.errors.as_ref().map_or(own.as_fd(), |errors| errors.as_fd());
        match &self.how {
            How::Here(recipe) => {
                let mut command = recipe.command(value)?;
                // Before the user is another.
                recipe.score().iter().for_each(|score| score.give(&mut command));
                recipe.identity()?.iter().for_each(|identity| identity.give(&mut command));
                command.stderr(errors.try_clone_to_owned()?);
                spawn(&mut command, input, &fds.iter().map(AsFd::as_fd).collect::<Vec<_>>())
            }
            How::Launcher(number) => launch(*number, value, input, errors, fds),
        }
    }

    /// How those are who start it; none when this process does.
    #[must_use]
    pub fn condition(&self) -> Option<watch::Receiver<Condition>> {
        match &self.how {
            How::Here(_) => None,
            How::Launcher(_) => DESK.get().map(Desk::condition),
        }
    }
}

fn launch(
    number: u32,
    value: Option<&OsStr>,
    input: Option<BorrowedFd<'_>>,
    errors: BorrowedFd<'_>,
    fds: Vec<OwnedFd>,
) -> io::Result<Pid> {
    let desk = DESK.get().ok_or_else(|| io::Error::other("nobody attends to the launchers"))?;
    let (failure, tell) = io::pipe()?;
    let sent = with_standard(input, errors, fds, tell.into())?;
    let answer = desk.ask(Question::start(number, value, sent), TO_START)?;
    let pid = answer.pid().ok_or_else(|| io::Error::other("no process id"))?;
    executed(pid, failure.into(), TO_EXECUTE)
}

/// What goes with an order to start something, and is closed once it has been given.
fn with_standard(
    input: Option<BorrowedFd<'_>>,
    errors: BorrowedFd<'_>,
    fds: Vec<OwnedFd>,
    tell: OwnedFd,
) -> io::Result<Vec<OwnedFd>> {
    let input = input
        .map_or_else(|| Ok(std::fs::File::open("/dev/null")?.into()), |input| input.try_clone_to_owned());
    let mut sent = vec![input?, io::stdout().as_fd().try_clone_to_owned()?, errors.try_clone_to_owned()?];
    sent.extend(fds);
    sent.push(tell);
    Ok(sent)
}

/// The new process says by `failure` why it cannot execute its program; the end of that means that it has.
fn executed(pid: Pid, failure: OwnedFd, time: Duration) -> io::Result<Pid> {
    if !is_readable_within(&failure, time)? {
        // It may have ended just now.
        let _ = Process::open(pid).signal(Signal::KILL);
        return Err(io::Error::new(io::ErrorKind::TimedOut, not_executed(time)));
    }
    let mut said = [0; LONGEST_FAILURE];
    let length = std::fs::File::from(failure).read(&mut said).unwrap_or_default();
    match said[..length].split_first_chunk() {
        Some((number, words)) => Err(told(i32::from_ne_bytes(*number), words)),
        None => Ok(pid),
    }
}

/// Before it executes its program, the new process asks who its user is.
fn not_executed(time: Duration) -> String {
    format!(
        "the new process has not come to its program within {} s and is killed; a disk does not answer, or with --user the list of users \
         (/etc/nsswitch.conf: LDAP, SSSD)",
        time.as_secs()
    )
}

/// The kernel's number, or 0 and a sentence.
fn told(number: i32, words: &[u8]) -> io::Error {
    if number != 0 {
        return io::Error::from_raw_os_error(number);
    }
    io::Error::other(String::from_utf8_lossy(words))
}

/// The launcher's measurement; none when this process has no launcher and can look itself.
pub(crate) fn memory_of(pid: Pid) -> Option<io::Result<Memory>> {
    let desk = DESK.get()?;
    Some(desk.ask(Question::memory(pid), TO_MEASURE).map(|answer| {
        let [private, proportional, resident] = answer.numbers;
        Memory { private, proportional, resident }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_process_that_does_not_come_to_its_program_it_is_told_what_that_waits_for() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (failure, tell) = io::pipe().unwrap();
        let error = executed(Pid::from_child(&child), failure.into(), Duration::from_millis(50)).unwrap_err();
        drop(tell);
        child.wait().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("nsswitch.conf"), "{error}");
    }
}
