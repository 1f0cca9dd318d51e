//! The applications that are served, each with the options that hold for it: the first, and one for each --mount.

use super::mounts::Mount;
use super::serve::Serve;
use super::values::Time;
use super::workers::Workers;

/// An application, and what is asked for it.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    /// What operators call it: where it is mounted, `/` for everywhere.
    pub(crate) name: String,
    /// The same for the front and the loader; none for everywhere.
    pub(crate) mount: Option<String>,
    /// What is served, as messages call it.
    pub(crate) application: String,
    /// A .psgi file or a module; none for code of -e alone.
    pub(crate) app: Option<String>,
    /// Code of -e.
    pub(crate) eval: Option<String>,
    pub(crate) workers: Workers,
    pub(crate) request_timeout: Time,
}

impl Serve {
    /// All of them, in the order of the options; the first is the one that needs no --mount.
    pub(crate) fn pools(&self) -> Vec<Pool> {
        [self.first()].into_iter().chain(self.app.mount.iter().map(|mount| self.mounted(mount))).collect()
    }

    fn first(&self) -> Pool {
        Pool {
            name: name(self.app.path.as_deref()),
            mount: self.app.path.clone(),
            application: self.application().to_owned(),
            app: self.app.name().map(str::to_owned),
            eval: self.app.eval.clone(),
            workers: self.workers.clone(),
            request_timeout: self.limits.request_timeout,
        }
    }

    fn mounted(&self, mount: &Mount) -> Pool {
        let (mut workers, mut limits) = (self.workers.clone(), self.limits.clone());
        // What was read once is read again.
        mount.apply(&mut workers, &mut limits).unwrap_or_default();
        Pool {
            name: name(Some(&mount.path)),
            mount: Some(mount.path.clone()).filter(|path| path != "/"),
            application: mount.app.clone(),
            app: Some(mount.app.clone()),
            eval: None,
            workers,
            request_timeout: limits.request_timeout,
        }
    }
}

fn name(path: Option<&str>) -> String {
    format!("/{}", path.unwrap_or_default().trim_matches('/'))
}
