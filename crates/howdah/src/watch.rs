//! `--reload`, for development: watches the application's files and loads it anew when one changes.
//!
//! Watched are each application's .psgi file, the directory lib beside it, and the directories of -I and --reload-dir, each
//! with all below it. What belongs to one application alone reloads no other. An editor writes a file in several steps, so
//! the reload waits for a moment of quiet.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::directory::unseen;
use crate::operations::Operations;
use crate::options::Serve;

/// Quiet after the last change.
const QUIET: Duration = Duration::from_millis(200);

/// Watches until dropped. What changes before somebody reloads waits.
#[derive(Debug)]
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
    news: Option<UnboundedReceiver<Change>>,
}

/// What belongs to an application.
#[derive(Clone, Debug, Default)]
struct Files {
    /// The .psgi file.
    file: Option<PathBuf>,
    /// Directories, with all below them.
    trees: Vec<PathBuf>,
}

/// A path that has changed, and the applications that it belongs to.
type Change = (PathBuf, Vec<usize>);

impl Watch {
    /// Starts watching, if that was asked for: before the application is loaded, so that what changes meanwhile counts.
    ///
    /// # Errors
    /// When the system grants no more watches.
    pub(crate) fn start(options: &Serve) -> anyhow::Result<Option<Self>> {
        if !options.app.reload && options.app.reload_dir.is_empty() {
            return Ok(None);
        }
        let base = base(options)?;
        doubts(options)?.iter().for_each(|doubt| tracing::warn!("{doubt}"));
        let pools = options.pools().into_iter().map(|pool| Files::of(options, &base, pool.app.as_deref()));
        let pools: Vec<_> = pools.collect();
        let (changes, news) = unbounded_channel();
        let known = pools.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if let Some(change) = event.ok().and_then(|event| change(&event, &known)) {
                // Once the server ends nobody listens.
                let _ = changes.send(change);
            }
        })
        .context(
            "cannot watch files for --reload (the bounds are fs.inotify.max_user_instances and ulimit -n)",
        )?;
        let places: BTreeSet<_> = pools.iter().flat_map(Files::places).collect();
        for (dir, with_all_below) in places {
            watch(&mut watcher, dir, with_all_below)?;
        }
        let counting: BTreeSet<_> = pools.iter().flat_map(Files::counting).collect();
        for changes in counting {
            tracing::info!("{changes} reload the application");
        }
        Ok(Some(Self { _watcher: watcher, news: Some(news) }))
    }

    /// Reloads from now on, and for what has changed so far.
    pub(crate) fn reload(&mut self, operations: Operations) {
        if let Some(news) = self.news.take() {
            tokio::spawn(reload_on(news, operations));
        }
    }
}

impl Files {
    fn of(options: &Serve, base: &Path, app: Option<&str>) -> Self {
        let file = app.map(|name| base.join(name)).filter(|path| path.is_file()).map(|path| settled(&path));
        let beside = file.as_deref().and_then(Path::parent).unwrap_or(base).join("lib");
        let named =
            options.app.include.iter().map(PathBuf::from).chain(options.app.reload_dir.iter().cloned());
        let there = named.map(|dir| base.join(dir)).chain([beside]).filter(|dir| dir.is_dir());
        let mut trees: Vec<PathBuf> = there.map(|dir| real(&dir)).collect();
        trees.sort();
        trees.dedup();
        Self { file, trees }
    }

    /// Directories to watch, and whether all below them is meant.
    fn places(&self) -> impl Iterator<Item = (&Path, bool)> {
        // Editors put a new file in the place of the old one, so its directory is watched.
        let parent = self.file.as_deref().and_then(Path::parent).map(|dir| (dir, false));
        self.trees.iter().map(|dir| (dir.as_path(), true)).chain(parent)
    }

    /// What counts, for people.
    fn counting(&self) -> impl Iterator<Item = String> {
        let trees = self.trees.iter().map(|dir| format!("changes below {}", dir.display()));
        trees.chain(self.file.iter().map(|file| format!("changes of {}", file.display())))
    }

    fn have(&self, path: &Path) -> bool {
        Some(path) == self.file.as_deref() || self.trees.iter().any(|tree| path.starts_with(tree))
    }
}

/// A directory by the name that it has without links. The kernel watches it once, however often it is named, and what changes there would
/// be told by the last of these names alone.
fn real(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}

/// A file in such a directory. It may itself be a link.
fn settled(file: &Path) -> PathBuf {
    match (file.parent(), file.file_name()) {
        (Some(dir), Some(name)) => real(dir).join(name),
        _ => file.to_owned(),
    }
}

/// A sentence for each --reload-dir that cannot be watched.
///
/// # Errors
/// When there is no working directory.
pub(crate) fn doubts(options: &Serve) -> std::io::Result<Vec<String>> {
    let base = base(options)?;
    let lost = options.app.reload_dir.iter().filter(|dir| !base.join(dir).is_dir());
    let told = lost.map(|dir| {
        let why = unseen(&base.join(dir)).unwrap_or_else(|| "it is no directory".to_owned());
        format!("--reload-dir {} is not watched: {why}", dir.display())
    });
    Ok(told.collect())
}

/// Where the application is loaded.
fn base(options: &Serve) -> std::io::Result<PathBuf> {
    match &options.app.chdir {
        Some(dir) => std::path::absolute(dir),
        None => std::env::current_dir(),
    }
}

fn watch(watcher: &mut RecommendedWatcher, dir: &Path, with_all_below: bool) -> anyhow::Result<()> {
    let mode = if with_all_below { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
    watcher.watch(dir, mode).with_context(|| {
        format!("cannot watch {} (the system's bound is fs.inotify.max_user_watches)", dir.display())
    })
}

/// The first path of an event that matters, to whom it does.
fn change(event: &Event, pools: &[Files]) -> Option<Change> {
    if !matches!(event.kind, EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_)) {
        return None;
    }
    event.paths.iter().filter(|path| !is_scratch(path)).find_map(|path| {
        let whose = pools.iter().enumerate().filter(|(_, files)| files.have(path)).map(|(number, _)| number);
        let whose: Vec<usize> = whose.collect();
        (!whose.is_empty()).then(|| (path.clone(), whose))
    })
}

/// Files that editors and version control make in passing.
fn is_scratch(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with(['.', '#']) || name.ends_with(['~', '#']) || name == "4913" || name.ends_with(".swp")
}

async fn reload_on(mut news: UnboundedReceiver<Change>, operations: Operations) {
    while let Some((path, whose)) = news.recv().await {
        let mut whose: BTreeSet<usize> = whose.into_iter().collect();
        while let Ok(Some((_, others))) = tokio::time::timeout(QUIET, news.recv()).await {
            whose.extend(others);
        }
        tracing::info!("{} has changed: reloading", path.display());
        let operations = operations.clone();
        // A load that does not come to its end is given up for the next change, so nobody waits for it here.
        tokio::spawn(async move { operations.reload(&whose.into_iter().collect::<Vec<_>>()).await });
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, ModifyKind};

    use super::*;

    #[test]
    fn what_is_said_to_count_is_what_counts() {
        let files = Files { file: Some("/app/app.psgi".into()), trees: vec!["/app/lib".into()] };
        let said: Vec<String> = files.counting().collect();
        assert_eq!(said, ["changes below /app/lib", "changes of /app/app.psgi"]);
        let places: Vec<_> = files.places().map(|(dir, _)| dir).collect();
        assert_eq!(places, [Path::new("/app/lib"), Path::new("/app")], "more is watched");
    }

    #[test]
    fn changes_of_the_application_count_and_an_editors_scratch_files_do_not() {
        let files = |file: &str, tree: &str| Files { file: Some(file.into()), trees: vec![tree.into()] };
        let pools = [files("/app/app.psgi", "/app/lib"), files("/admin/app.psgi", "/app/lib/Admin")];
        let modified = EventKind::Modify(ModifyKind::Any);
        for (kind, path, whose) in [
            (modified, "/app/app.psgi", &[0][..]),
            (modified, "/app/lib/My/App.pm", &[0]),
            (modified, "/admin/app.psgi", &[1]),
            (modified, "/app/lib/Admin/App.pm", &[0, 1]),
            (modified, "/app/lib/My/.App.pm.swp", &[]),
            (modified, "/app/lib/My/App.pm~", &[]),
            (modified, "/app/access.log", &[]),
            (EventKind::Access(AccessKind::Any), "/app/lib/My/App.pm", &[]),
        ] {
            let event = Event::new(kind).add_path(path.into());
            let found = change(&event, &pools).map(|(_, whose)| whose).unwrap_or_default();
            assert_eq!(found, whose, "{kind:?} {path}");
        }
    }
}
