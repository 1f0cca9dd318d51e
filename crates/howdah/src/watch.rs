//! `--reload`, for development: watches the application's files and loads it anew when one changes.
//!
//! Watched are the .psgi file, the directory lib beside it, and the directories of -I and --reload-dir, each with all
//! below it. An editor writes a file in several steps, so the reload waits for a moment of quiet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::operations::Operations;
use crate::options::Serve;

/// Quiet after the last change.
const QUIET: Duration = Duration::from_millis(200);

/// Watches until dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
}

/// What belongs to the application.
#[derive(Debug, Default)]
struct Files {
    /// The .psgi file.
    file: Option<PathBuf>,
    /// Directories, with all below them.
    trees: Vec<PathBuf>,
}

impl Watch {
    /// Starts watching, if that was asked for.
    ///
    /// # Errors
    /// When the system grants no more watches.
    pub(crate) fn start(options: &Serve, operations: Operations) -> anyhow::Result<Option<Self>> {
        if !options.app.reload && options.app.reload_dir.is_empty() {
            return Ok(None);
        }
        let files = Files::of(options)?;
        let (changes, news) = unbounded_channel();
        let shared = files.file.clone();
        let trees = files.trees.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let changed = event.ok().and_then(|event| change(&event, shared.as_deref(), &trees));
            if let Some(path) = changed {
                // Once the server ends nobody listens.
                let _ = changes.send(path);
            }
        })
        .context("cannot watch files for --reload")?;
        files.watch_with(&mut watcher)?;
        tokio::spawn(reload_on(news, operations));
        Ok(Some(Self { _watcher: watcher }))
    }
}

impl Files {
    fn of(options: &Serve) -> anyhow::Result<Self> {
        let base = match &options.app.chdir {
            Some(dir) => std::path::absolute(dir)?,
            None => std::env::current_dir()?,
        };
        let file = options.app.name().map(|name| base.join(name)).filter(|path| path.is_file());
        let beside = file.as_deref().and_then(Path::parent).unwrap_or(&base).join("lib");
        let named =
            options.app.include.iter().map(PathBuf::from).chain(options.app.reload_dir.iter().cloned());
        let mut trees: Vec<PathBuf> =
            named.map(|dir| base.join(dir)).chain([beside]).filter(|dir| dir.is_dir()).collect();
        trees.sort();
        trees.dedup();
        Ok(Self { file, trees })
    }

    fn watch_with(&self, watcher: &mut RecommendedWatcher) -> anyhow::Result<()> {
        // Editors put a new file in the place of the old one, so its directory is watched.
        let parent =
            self.file.as_deref().and_then(Path::parent).map(|dir| (dir, RecursiveMode::NonRecursive));
        let trees = self.trees.iter().map(|dir| (dir.as_path(), RecursiveMode::Recursive));
        for (dir, mode) in trees.chain(parent) {
            watcher.watch(dir, mode).with_context(|| {
                format!("cannot watch {} (the system's bound is fs.inotify.max_user_watches)", dir.display())
            })?;
            tracing::info!("changes in {} reload the application", dir.display());
        }
        Ok(())
    }
}

/// The first path of an event that matters.
fn change(event: &Event, file: Option<&Path>, trees: &[PathBuf]) -> Option<PathBuf> {
    if !matches!(event.kind, EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_)) {
        return None;
    }
    let matters = |path: &&PathBuf| {
        !is_scratch(path) && (Some(path.as_path()) == file || trees.iter().any(|tree| path.starts_with(tree)))
    };
    event.paths.iter().find(matters).cloned()
}

/// Files that editors and version control make in passing.
fn is_scratch(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with(['.', '#']) || name.ends_with(['~', '#']) || name == "4913" || name.ends_with(".swp")
}

async fn reload_on(mut news: UnboundedReceiver<PathBuf>, operations: Operations) {
    while let Some(path) = news.recv().await {
        while let Ok(Some(_)) = tokio::time::timeout(QUIET, news.recv()).await {}
        tracing::info!("{} has changed: reloading", path.display());
        let _ = operations.reload().await;
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, ModifyKind};

    use super::*;

    #[test]
    fn changes_of_the_application_count_and_an_editors_scratch_files_do_not() {
        let trees = ["/app/lib".into()];
        let modified = EventKind::Modify(ModifyKind::Any);
        for (kind, path, counts) in [
            (modified, "/app/app.psgi", true),
            (modified, "/app/lib/My/App.pm", true),
            (modified, "/app/lib/My/.App.pm.swp", false),
            (modified, "/app/lib/My/App.pm~", false),
            (modified, "/app/access.log", false),
            (EventKind::Access(AccessKind::Any), "/app/lib/My/App.pm", false),
        ] {
            let event = Event::new(kind).add_path(path.into());
            let found = change(&event, Some(Path::new("/app/app.psgi")), &trees);
            assert_eq!(found.is_some(), counts, "{kind:?} {path}");
        }
    }
}
