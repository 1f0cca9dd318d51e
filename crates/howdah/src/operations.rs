//! What an operator may do to a running server without ending it: by signal, by the control socket, or by saving a file
//! under `--reload`. Each goes to the supervisor, and the service manager hears of it.

use std::sync::Arc;

use howdah_supervisor::{Handle, ReloadError};

use crate::manager::Manager;
use crate::protocol::Change;
use crate::status::Observer;

/// The means to do it. Clones do the same.
#[derive(Clone)]
pub(crate) struct Operations {
    pub(crate) handle: Handle,
    pub(crate) manager: Manager,
    pub(crate) observer: Observer,
    /// What is served.
    pub(crate) application: Arc<str>,
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operations").field("application", &self.application).finish_non_exhaustive()
    }
}

impl Operations {
    /// Loads the application anew. The generation that serves then.
    pub(crate) async fn reload(&self) -> Result<u32, ReloadError> {
        self.manager.reloading();
        // The supervisor logs how it went.
        let outcome = self.handle.reload().await;
        let state = self.handle.snapshot().await;
        let note = if outcome.is_ok() { "" } else { "; the last reload failed, see the log" };
        self.manager.ready(&format!("{}{note}", self.summary(state.target, state.generation)));
        outcome.map(|()| state.generation)
    }

    /// Changes the number of workers. The number from now on.
    pub(crate) async fn resize(&self, change: Change) -> usize {
        let workers = match change {
            Change::By(by) => self.handle.resize(by).await,
            Change::To(count) => self.handle.set_workers(count).await,
        };
        let generation = self.handle.snapshot().await.generation;
        self.manager.status(&self.summary(workers, generation));
        workers
    }

    /// For people who look at the service manager.
    pub(crate) fn summary(&self, workers: usize, generation: u32) -> String {
        let plural = if workers == 1 { "worker" } else { "workers" };
        format!("serving {} with {workers} {plural}, generation {generation}", self.application)
    }
}
