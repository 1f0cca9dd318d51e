//! One script: its zygote, or why it has none. Whoever needs one that is not there has it compiled, in a thread beside, and
//! waits; others who come meanwhile wait for the same. While a changed script is compiled the old zygote serves.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::command;
use super::compiling::{self, Compiled, End};
use super::files::{self, Files};
use super::terms::{Fault, Limits, Log};
use super::zygote::Zygote;
use crate::place::{Perl, Version};
use crate::start::launch::Launch;

/// Two looks at a script that is being replaced may disagree; this keeps them from compiling in turns.
const SETTLE: Duration = Duration::from_millis(100);
/// What did not compile for the lack of a module may do so once that is installed, which no file in %INC tells.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// How often one who waits looks whether anybody still wants the response.
const GIVEN_UP: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(super) struct Entry {
    state: Mutex<State>,
    compiled: Condvar,
}

#[derive(Debug)]
struct State {
    known: Option<Known>,
    // A thread is about to find out.
    compiling: bool,
    // When `known` was found out, when its files were looked at, when somebody asked.
    found: Instant,
    looked: Instant,
    used: Instant,
}

/// What has become of a script.
#[derive(Debug)]
enum Known {
    Zygote(Arc<Zygote>),
    Failed(String, Files),
    /// The system's reason why its perl cannot be started.
    Unstarted(i32, Files),
    Unfit(Files),
}

/// What a launch gets.
#[derive(Debug)]
pub(super) enum Found {
    Zygote(Arc<Zygote>),
    Execute,
}

impl Known {
    fn files(&self) -> &Files {
        match self {
            Self::Zygote(zygote) => &zygote.files,
            Self::Failed(_, files) | Self::Unstarted(_, files) | Self::Unfit(files) => files,
        }
    }

    fn answer(&self) -> Result<Found, Fault> {
        match self {
            Self::Zygote(zygote) => Ok(Found::Zygote(zygote.clone())),
            Self::Failed(text, _) => Err(Fault::Compile(text.clone())),
            Self::Unstarted(error, _) => Err(io::Error::from_raw_os_error(*error).into()),
            Self::Unfit(_) => Ok(Found::Execute),
        }
    }
}

impl Entry {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let state = State { known: None, compiling: false, found: now, looked: now, used: now };
        Self { state: Mutex::new(state), compiled: Condvar::new() }
    }

    /// The script's zygote, as soon as there is one.
    pub(super) fn obtain(
        self: &Arc<Self>,
        job: &Job<'_>,
        given_up: &dyn Fn() -> bool,
    ) -> Result<Found, Fault> {
        let mut state = self.lock();
        loop {
            state.used = Instant::now();
            let is_fresh = state.is_fresh(&job.launch.script.version, job.limits);
            if let Some(known) = state.known.as_ref().filter(|_| is_fresh || state.compiling) {
                return known.answer();
            }
            if !state.compiling {
                state.compiling = true;
                self.compile(job).inspect_err(|_| state.compiling = false)?;
            }
            if let Some(Known::Zygote(old)) = &state.known {
                return Ok(Found::Zygote(old.clone()));
            }
            state.known = None;
            if given_up() {
                return Err(Fault::Late);
            }
            state = self.compiled.wait_timeout(state, GIVEN_UP).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// In a thread of its own, so that no request's deadline ends it.
    fn compile(self: &Arc<Self>, job: &Job<'_>) -> Result<(), Fault> {
        let (entry, work) = (self.clone(), job.work());
        let run = move || {
            let known = work.run();
            let mut state = entry.lock();
            state.compiling = false;
            state.found = Instant::now();
            state.looked = state.found;
            state.known = Some(known);
            drop(state);
            entry.compiled.notify_all();
        };
        std::thread::Builder::new().name("compile".into()).spawn(run)?;
        Ok(())
    }

    /// This zygote is of no use any more.
    pub(super) fn forget(&self, zygote: &Arc<Zygote>) {
        let mut state = self.lock();
        if matches!(&state.known, Some(Known::Zygote(known)) if Arc::ptr_eq(known, zygote)) {
            state.known = None;
        }
    }

    /// Forgets a zygote that has ended by itself.
    pub(super) fn look_after(&self) {
        let mut state = self.lock();
        if matches!(&state.known, Some(Known::Zygote(zygote)) if zygote.has_ended()) {
            state.known = None;
        }
    }

    /// Whether it is known that this version of the script is to be executed.
    pub(super) fn is_unfit(&self, script: &Version) -> bool {
        matches!(&self.lock().known, Some(Known::Unfit(files)) if files.are_of(script))
    }

    pub(super) fn has_zygote(&self) -> bool {
        matches!(self.lock().known, Some(Known::Zygote(_)))
    }

    /// When somebody last asked; none while it is compiled.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        (!state.compiling).then_some(state.used)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether what is known is of this version, and of the files that lie there now.
    fn is_fresh(&mut self, script: &Version, limits: &Limits) -> bool {
        let Some(known) = &self.known else { return false };
        if matches!(known, Known::Failed(..) | Known::Unstarted(..)) && self.found.elapsed() > TRY_AGAIN {
            return false;
        }
        if !known.files().are_of(script) {
            return self.found.elapsed() < SETTLE;
        }
        if self.looked.elapsed() < limits.look {
            return true;
        }
        self.looked = Instant::now();
        known.files().are_unchanged()
    }
}

/// A launch and what is needed to compile its script.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) launch: &'a Launch,
    pub(super) perl: &'a Perl,
    pub(super) preamble: &'a OsStr,
    pub(super) limits: &'a Limits,
    pub(super) log: &'a Log,
}

impl Job<'_> {
    fn work(&self) -> Work {
        let script = &self.launch.script;
        Work {
            command: command::command(script, self.perl, self.preamble, &self.launch.environment),
            script: script.filename.clone(),
            version: script.version,
            limit: self.limits.compile,
            log: self.log.clone(),
        }
    }
}

/// The same, for the thread that does it.
struct Work {
    command: Command,
    script: PathBuf,
    version: Version,
    limit: Duration,
    log: Log,
}

impl Work {
    fn run(self) -> Known {
        let since = SystemTime::now();
        let version = files::look_at(&self.script).unwrap_or(self.version);
        let look = |loaded| Files::look(version, loaded, since);
        let Compiled { end, text } = match compiling::compile(self.command, self.limit) {
            Ok(compiled) => compiled,
            Err(error) => {
                let files = Files::unknown(version);
                return match error.raw_os_error() {
                    Some(number) => Known::Unstarted(number, files),
                    None => Known::Failed(format!("cannot start its perl: {error}"), files),
                };
            }
        };
        match end {
            End::Ready(process, socket, loaded) => {
                say(&self.log, &self.script, &text);
                Known::Zygote(Arc::new(Zygote::new(process, socket, look(loaded))))
            }
            End::Failed(loaded) => Known::Failed(reason(text), look(loaded)),
            End::Unfit(why) => {
                say(&self.log, &self.script, &text);
                (self.log)(&self.script, &format!("is executed and not forked: {why}"));
                Known::Unfit(look(Vec::new()))
            }
            End::Slow => {
                Known::Failed(format!("not within {} s. {text}", self.limit.as_secs()), look(Vec::new()))
            }
        }
    }
}

fn reason(text: String) -> String {
    if text.is_empty() { "perl ends without a word".into() } else { text }
}

fn say(log: &Log, script: &Path, text: &str) {
    text.lines().for_each(|line| log(script, line));
}
