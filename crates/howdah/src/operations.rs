//! What an operator may do to a running server without ending it: by signal, by the control socket, or by saving a file
//! under `--reload`. Each goes to the supervisor, and the service manager hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use howdah_supervisor::{Handle, ReloadError, Resized};
use tokio::task::JoinSet;

use crate::manager::Manager;
use crate::options::workers::MOST;
use crate::pools::{Pool, Pools};
use crate::protocol::Change;
use crate::status::Observer;
use crate::tls::Tls;

/// The means to do it. Clones do the same.
#[derive(Clone, Debug)]
pub(crate) struct Operations {
    /// What is served.
    pub(crate) pools: Pools,
    pub(crate) manager: Manager,
    pub(crate) observer: Observer,
    pub(crate) tls: Option<Tls>,
    /// plackup has loaded the application: a reload replaces the workers alone.
    pub(crate) loaded_by_plackup: bool,
    ending: Arc<AtomicBool>,
    /// Somebody has wanted a reload since this was last set back.
    pub(crate) reloaded: Arc<AtomicBool>,
}

/// What a reload cannot do then, and the way out.
const PLACKUPS: &str = "the workers are replaced, but the code is what plackup has loaded: start howdah itself to be able to load it anew";

/// What can be done no more.
const STOPPING: &str = "the server is stopping";

impl Operations {
    pub(crate) fn new(
        pools: Pools,
        manager: Manager,
        observer: Observer,
        tls: Option<Tls>,
        loaded_by_plackup: bool,
    ) -> Self {
        let (ending, reloaded) = Default::default();
        Self { pools, manager, observer, tls, loaded_by_plackup, ending, reloaded }
    }

    /// The server leaves: from now on whoever wants it to change is refused.
    pub(crate) fn end(&self) {
        self.ending.store(true, Relaxed);
    }

    fn goes_on(&self) -> Result<(), String> {
        if self.ending.load(Relaxed) { Err(STOPPING.to_owned()) } else { Ok(()) }
    }

    /// Loads these applications anew, beside each other. What became of each, for people.
    ///
    /// # Errors
    /// When one of them is not exchanged; the others are.
    pub(crate) async fn reload(&self, which: &[usize]) -> Result<String, String> {
        self.goes_on()?;
        self.reloaded.store(true, Relaxed);
        self.manager.reloading();
        let certificates = self.reload_certificates().await;
        let all = self.pools.all();
        let mut reloads = JoinSet::new();
        for (&number, pool) in which.iter().filter_map(|number| Some((number, all.get(*number)?))) {
            let handle = pool.handle.clone();
            // The supervisor logs how it went.
            reloads.spawn(async move { (number, outcome(&handle).await) });
        }
        let mut outcomes = reloads.join_all().await;
        outcomes.sort_by_key(|(number, _)| *number);
        let failed = outcomes.iter().any(|(_, outcome)| outcome.is_err())
            || certificates.as_ref().is_some_and(Result::is_err);
        let note = if failed { "; the last reload failed, see the log" } else { "" };
        self.manager.ready(&format!("{}{note}", self.summary().await));
        let told = outcomes.into_iter().map(|(number, outcome)| self.said(number, outcome));
        let certificates = certificates.map(|outcome| outcome.unwrap_or_else(|error| error));
        let told = told.chain(certificates).collect::<Vec<_>>().join("; ");
        if failed { Err(told) } else { Ok(told) }
    }

    async fn reload_certificates(&self) -> Option<Result<String, String>> {
        let tls = self.tls.clone()?;
        // Files may be on a disk that is slow.
        let outcome = tokio::task::spawn_blocking(move || tls.reload_and_try()).await;
        Some(outcome.unwrap_or_else(|error| Err(error.to_string())))
    }

    fn said(&self, number: usize, outcome: Result<u32, ReloadError>) -> String {
        let text = match outcome {
            Ok(_) if self.loaded_by_plackup => PLACKUPS.to_owned(),
            Ok(generation) => format!("generation {generation} serves"),
            Err(error) => error.to_string(),
        };
        match self.pools.all() {
            [_] => text,
            all => format!("{}: {text}", all[number].name),
        }
    }

    /// Changes the number of workers of an application. The number from now on, for people.
    ///
    /// # Errors
    /// When it is another than was wanted: why, and the way out.
    pub(crate) async fn resize(&self, which: usize, change: Change) -> Result<String, String> {
        self.goes_on()?;
        let Some(pool) = self.pools.all().get(which) else { return Err("no such application".to_owned()) };
        let resized = match change {
            Change::By(by) => pool.handle.resize(by).await,
            Change::To(count) => pool.handle.set_workers(count).await,
        };
        self.manager.status(&self.summary().await);
        bounded(resized)
    }

    /// For people who look at the service manager.
    pub(crate) async fn summary(&self) -> String {
        let mut served = Vec::new();
        for Pool { name, application, handle, .. } in self.pools.all() {
            let (state, several) = (handle.snapshot().await, self.pools.all().len() > 1);
            let (workers, generation) = (state.target, state.generation);
            let workers = counted(workers);
            let place = if several { format!(" at {name}") } else { String::new() };
            served.push(format!("{application}{place} with {workers}, generation {generation}"));
        }
        format!("serving {}", served.join("; "))
    }
}

/// What became of a wish for workers.
fn bounded(Resized { workers, wanted, most }: Resized) -> Result<String, String> {
    let now = format!("{} from now on", counted(workers));
    if workers > 0 && workers == wanted {
        return Ok(now);
    }
    Err(match workers {
        0 => STOPPING.to_owned(),
        _ if wanted == 0 => format!("{now}: at least one is kept, and howdah stop ends the server"),
        _ if most as u64 >= MOST => format!("{now}, not {wanted}: no server has room for more"),
        _ => format!(
            "{now}, not {wanted}: {most} is the most that this server has room for; start it with a larger --workers"
        ),
    })
}

fn counted(workers: usize) -> String {
    format!("{workers} worker{}", if workers == 1 { "" } else { "s" })
}

/// The generation that serves then.
async fn outcome(handle: &Handle) -> Result<u32, ReloadError> {
    let outcome = handle.reload().await;
    let generation = handle.snapshot().await.generation;
    outcome.map(|()| generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_other_workers_than_asked_for_is_told_the_bound_and_the_way_out() {
        for (workers, wanted, most, told) in [
            (4, 4, 32, Ok("4 workers from now on")),
            (1, 1, 32, Ok("1 worker from now on")),
            (
                32,
                100,
                32,
                Err("32 is the most that this server has room for; start it with a larger --workers"),
            ),
            (512, 600, 512, Err("512 workers from now on, not 600: no server has room for more")),
            (1, 0, 32, Err("1 worker from now on: at least one is kept")),
            (0, 0, 0, Err("the server is stopping")),
        ] {
            let outcome = bounded(Resized { workers, wanted, most });
            let is_told = match (&outcome, told) {
                (Ok(said), Ok(told)) => said == told,
                (Err(said), Err(told)) => said.contains(told),
                _ => false,
            };
            assert!(is_told, "{outcome:?} {told:?}");
        }
    }
}
