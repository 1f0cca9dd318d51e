//! The applications that are served, each with the options that hold for it: the first, one for each --mount, and one for
//! each --cgi.

use std::path::{Path, PathBuf, absolute};

use super::cgi::{Mode, Scripts};
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
    /// It is scripts, and no application of its own.
    pub(crate) cgi: Option<Cgi>,
    pub(crate) workers: Workers,
    pub(crate) request_timeout: Time,
}

/// CGI scripts.
#[derive(Debug, Clone)]
pub(crate) struct Cgi {
    pub(crate) mode: Mode,
    /// Their directory, or the one script; absolute.
    pub(crate) root: PathBuf,
    pub(crate) index: Vec<String>,
    /// Modules, and files, which have a slash.
    pub(crate) preload: Vec<String>,
}

impl Serve {
    /// All of them, in the order of the options; the first is the one that needs no --mount, if there is one.
    pub(crate) fn pools(&self) -> Vec<Pool> {
        let mounted = self.app.mount.iter().map(|mount| self.mounted(mount));
        let scripts = self.cgi.cgi.iter().map(|scripts| self.scripts(scripts));
        self.has_first().then(|| self.first()).into_iter().chain(mounted).chain(scripts).collect()
    }

    /// Whether there is an application that needs no --mount.
    pub(crate) fn has_first(&self) -> bool {
        self.app().is_some() || self.app.eval.is_some()
    }

    fn first(&self) -> Pool {
        Pool {
            name: name(self.app.path.as_deref()),
            mount: self.app.path.clone(),
            application: self.application().to_owned(),
            app: self.app().map(str::to_owned),
            eval: self.app.eval.clone(),
            cgi: None,
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
            cgi: None,
            workers,
            request_timeout: limits.request_timeout,
        }
    }

    fn scripts(&self, given: &Scripts) -> Pool {
        let (mode, root) = (given.mode(&self.cgi), self.absolute(&given.root));
        let preload = given.preload(&self.cgi).iter().map(|what| self.preload(what)).collect();
        let (mut workers, mut limits) = (self.workers.clone(), self.limits.clone());
        if mode != Mode::Keep {
            workers.for_scripts();
        }
        // What scripts leave behind is looked after by each worker for itself.
        workers.never_refork();
        given.apply(&mut workers, &mut limits).unwrap_or_default();
        Pool {
            name: name(Some(&given.path)),
            mount: Some(given.path.clone()).filter(|path| path != "/"),
            application: format!("CGI scripts of {} ({mode})", given.root.display()),
            app: None,
            eval: None,
            cgi: Some(Cgi { mode, root, index: given.index(&self.cgi), preload }),
            workers,
            request_timeout: limits.request_timeout,
        }
    }

    /// A module stays what it is, a file is absolute.
    fn preload(&self, what: &str) -> String {
        if !what.contains('/') {
            what.to_owned()
        } else {
            self.absolute(what.as_ref()).to_string_lossy().into()
        }
    }

    /// A name of a file as the application will see it, from --chdir on.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        let named = self.app.chdir.as_deref().unwrap_or_else(|| "".as_ref()).join(path);
        absolute(&named).unwrap_or(named)
    }
}

fn name(path: Option<&str>) -> String {
    format!("/{}", path.unwrap_or_default().trim_matches('/'))
}
