//! The zygotes of all scripts. Each script that was asked for has an entry; there are at most as many as the limits say,
//! and the one that was not used for longest makes room for a new one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_sys::Pid;
use howdah_sys::process::watch_end_or_kill;

use super::entry::{Entry, Found, Job};
use super::modules::Modules;
use super::terms::{Fault, Limits, Log, Outcome};
use super::zygote::Trouble;
use super::{command, message};
use crate::place::{Perl, Script};
use crate::start::launch::{Launch, Mode, Running};

/// A zygote that dies again and again as it is asked is given up.
const ATTEMPTS: usize = 3;

/// One script, and the perl and switches that are to compile it.
type Key = (PathBuf, Perl);

/// See the module.
pub(super) struct Table {
    entries: Mutex<HashMap<Key, Arc<Entry>>>,
    modules: Modules,
    limits: Limits,
    log: Log,
}

impl Table {
    pub(super) fn new(modules: Modules, limits: Limits, log: Log) -> Self {
        Self { entries: Mutex::default(), modules, limits, log }
    }

    pub(super) fn start(&self, launch: Launch, given_up: &dyn Fn() -> bool) -> Result<Outcome, Fault> {
        let Some((perl, packet)) = what_can_be_forked(&launch) else { return Ok(execute(launch)) };
        let preamble = match self.modules.preamble() {
            Ok(preamble) => preamble,
            Err(reason) => {
                (self.log)(&launch.script.filename, &format!("is executed and not forked: {reason}"));
                return Ok(execute(launch));
            }
        };
        let entry = self.entry((launch.script.filename.clone(), perl.clone()));
        let job = Job { launch: &launch, perl, preamble, limits: &self.limits, log: &self.log };
        for _ in 0..ATTEMPTS {
            let Found::Zygote(zygote) = entry.obtain(&job, given_up)? else { return Ok(execute(launch)) };
            match zygote.fork(&launch, &packet) {
                Ok(pid) => return Ok(Outcome::Forked(running(pid)?)),
                Err(Trouble::System(error)) => return Err(error.into()),
                Err(Trouble::Gone) => entry.forget(&zygote),
                Err(Trouble::Lost) => {
                    entry.forget(&zygote);
                    return Err(Fault::Lost);
                }
            }
        }
        Err(Fault::Lost)
    }

    /// Whether the script will be executed, as far as that is known already.
    pub(super) fn executes(&self, script: &Script) -> bool {
        let Some(perl) = script.perl.as_ref().filter(|perl| command::can_be_stopped(perl)) else {
            return true;
        };
        let entry = self.lock().get(&(script.filename.clone(), perl.clone())).cloned();
        entry.is_some_and(|entry| entry.is_unfit(&script.version))
    }

    pub(super) fn living(&self) -> usize {
        self.lock().values().filter(|entry| entry.has_zygote()).count()
    }

    fn entry(&self, key: Key) -> Arc<Entry> {
        let mut entries = self.lock();
        if let Some(entry) = entries.get(&key) {
            return entry.clone();
        }
        let left = if entries.len() < self.limits.zygotes { None } else { make_room(&mut entries) };
        let entry = entries.entry(key).or_insert_with(|| Arc::new(Entry::new())).clone();
        drop(entries);
        // Its process is waited for without the lock.
        drop(left);
        entry
    }

    /// Ends what nobody has asked for in a while, and reaps what has ended by itself.
    fn sweep(&self) {
        let is_idle =
            |entry: &Arc<Entry>| entry.idle_since().is_some_and(|since| since.elapsed() >= self.limits.idle);
        let (idle, kept) = {
            let mut entries = self.lock();
            let idle: Vec<_> = entries.extract_if(|_, entry| is_idle(entry)).collect();
            (idle, entries.values().cloned().collect::<Vec<_>>())
        };
        drop(idle);
        kept.iter().for_each(|entry| entry.look_after());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The perl of a launch and its packet; none when it is to be executed.
fn what_can_be_forked(launch: &Launch) -> Option<(&Perl, Vec<u8>)> {
    let perl = launch.script.perl.as_ref().filter(|perl| command::can_be_stopped(perl))?;
    Some((perl, message::launch(&launch.arguments, &launch.environment)?))
}

fn execute(launch: Launch) -> Outcome {
    Outcome::Execute(Box::new(launch))
}

fn running(pid: Pid) -> Result<Running, Fault> {
    Ok(Running { pid, pidfd: watch_end_or_kill(pid)?, mode: Mode::Fork })
}

fn make_room(entries: &mut HashMap<Key, Arc<Entry>>) -> Option<Arc<Entry>> {
    let idle = entries.iter().filter_map(|(key, entry)| Some((entry.idle_since()?, key)));
    let oldest = idle.min_by_key(|&(since, _)| since)?.1.clone();
    entries.remove(&oldest)
}

/// Sweeps as long as there is a table.
pub(super) fn sweep_in_background(table: &Arc<Table>) {
    let pause = (table.limits.idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
    let table = Arc::downgrade(table);
    let sweep = move || {
        while let Some(table) = table.upgrade() {
            table.sweep();
            drop(table);
            std::thread::sleep(pause);
        }
    };
    // Without it zygotes stay until there are too many.
    let _ = std::thread::Builder::new().name("zygotes".into()).spawn(sweep);
}
