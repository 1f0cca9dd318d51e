//! The applications that are served, to those who ask something of one of them or of all. `application` starts each;
//! `operations` and `serve` ask.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use howdah_supervisor::Handle;
use tokio::task::JoinSet;

use crate::inquiry::Inquiries;

/// An application that is served.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Where it is mounted, `/` for everywhere: what operators call it.
    pub(crate) name: Arc<str>,
    /// What is served.
    pub(crate) application: Arc<str>,
    /// To its supervisor.
    pub(crate) handle: Handle,
    /// To its workers.
    pub(crate) inquiries: Arc<Inquiries>,
}

/// All of them, in the order of the options: never none. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Pools(Arc<[Pool]>);

impl From<Vec<Pool>> for Pools {
    fn from(pools: Vec<Pool>) -> Self {
        Self(pools.into())
    }
}

impl Pools {
    /// All.
    pub(crate) fn all(&self) -> &[Pool] {
        &self.0
    }

    /// Their numbers.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        (0..self.0.len()).collect()
    }

    /// The number of the one that somebody calls so.
    ///
    /// # Errors
    /// A sentence that says which there are, when there is none.
    pub(crate) fn number_of(&self, name: &str) -> Result<usize, String> {
        let meant = mounted(name);
        let found = self.0.iter().position(|pool| *pool.name == meant);
        found.ok_or_else(|| none_at(&meant, self.0.iter().map(|pool| &*pool.name)))
    }

    /// The number of the only one.
    ///
    /// # Errors
    /// A sentence that says which there are, when there are several.
    pub(crate) fn only(&self) -> Result<usize, String> {
        match &*self.0 {
            [_] => Ok(0),
            _ => Err(format!(
                "several applications are served: say by --pool which is meant, {}",
                joined(self.0.iter().map(|pool| &*pool.name))
            )),
        }
    }

    /// Waits until one of them will never have another worker. Nothing can be started any more then, so the others are
    /// only the next.
    pub(crate) async fn doomed(&self) {
        self.ask(async |handle: Handle| handle.doomed().await).join_next().await;
    }

    /// Waits until none has a worker, nor ever will.
    pub(crate) async fn deserted(&self) {
        self.ask(async |handle: Handle| handle.deserted().await).join_all().await;
    }

    /// Ends them, each gracefully or at once; returns when all are gone.
    pub(crate) async fn stop(&self, graceful: bool) {
        self.ask(move |handle| async move { handle.stop(graceful).await }).join_all().await;
    }

    /// As a graceful stop, when some of that time is over.
    pub(crate) async fn stop_within(&self, time: Duration) {
        self.ask(move |handle| async move { handle.stop_within(time).await }).join_all().await;
    }

    /// All at once.
    fn ask<F>(&self, question: impl Fn(Handle) -> F) -> JoinSet<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.0.iter().map(|pool| question(pool.handle.clone())).collect()
    }
}

/// Where the application is mounted that somebody calls so: the slashes around it may be left out.
pub(crate) fn mounted(name: &str) -> String {
    format!("/{}", name.trim_matches('/'))
}

/// Says that nothing is mounted there, but at `names`.
pub(crate) fn none_at<'a>(meant: &str, names: impl Iterator<Item = &'a str>) -> String {
    format!("no application is mounted at {meant}; there is {}", joined(names))
}

/// For a sentence.
fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" or ")
}
