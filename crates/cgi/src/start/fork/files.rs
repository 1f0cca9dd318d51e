//! Whether what a zygote has compiled is still what lies on the disk.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::place::Version;

/// A script and the files that it has loaded, as they were when they were compiled.
#[derive(Debug)]
pub(super) struct Files {
    script: Version,
    loaded: Vec<(PathBuf, Option<Version>)>,
    // One of them was written after the zygote had begun to read them.
    doubtful: bool,
}

impl Files {
    /// Looks at files that a zygote has loaded that was started at `since`.
    pub(super) fn look(script: Version, loaded: Vec<PathBuf>, since: SystemTime) -> Self {
        let found: Vec<_> = loaded.iter().map(|path| path.metadata().ok()).collect();
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // By the time that no copy keeps: a file may have come with an old one for its content, as of rsync or tar.
        let is_new =
            |at: &Metadata| (at.ctime(), at.ctime_nsec()) >= since && at.ctime().unsigned_abs() <= now;
        let doubtful = found.iter().flatten().any(is_new);
        let versions = found.iter().map(|found| found.as_ref().map(version));
        let loaded = loaded.into_iter().zip(versions).collect();
        Self { script, loaded, doubtful }
    }

    /// For what is not the script's fault: soon to be tried again.
    pub(super) fn unknown(script: Version) -> Self {
        Self { script, loaded: Vec::new(), doubtful: true }
    }

    /// Whether the script is this one; it costs nothing to ask.
    pub(super) fn are_of(&self, script: &Version) -> bool {
        self.script == *script
    }

    /// Whether the files are what they were, by a look at each.
    pub(super) fn are_unchanged(&self) -> bool {
        !self.doubtful && self.loaded.iter().all(|(path, at)| look_at(path) == *at)
    }
}

/// What a file is now; none when it is not there.
pub(super) fn look_at(path: &Path) -> Option<Version> {
    path.metadata().ok().map(|found| version(&found))
}

fn version(found: &Metadata) -> Version {
    Version {
        file: (found.dev(), found.ino()),
        size: found.size(),
        modified: (found.mtime(), u32::try_from(found.mtime_nsec()).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    const SCRIPT: Version = Version { file: (1, 2), size: 3, modified: (4, 5) };

    fn long_ago() -> SystemTime {
        SystemTime::now() - Duration::from_secs(100)
    }

    /// A file that was written long ago.
    fn module(dir: &tempfile::TempDir) -> PathBuf {
        let path = dir.path().join("Module.pm");
        fs::write(&path, "1;").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(long_ago() - Duration::from_secs(100)).unwrap();
        path
    }

    #[test]
    fn a_change_in_a_file_or_its_end_is_seen() {
        type Change = fn(&Path);
        let changes: [(&str, bool, Change); 5] = [
            ("nothing", true, |_| ()),
            ("another size", false, |path| fs::write(path, "2; 1;").unwrap()),
            ("another time", false, |path| fs::write(path, "2;").unwrap()),
            ("another file", false, |path| {
                let other = path.with_extension("new");
                fs::copy(path, &other).unwrap();
                fs::rename(other, path).unwrap();
            }),
            ("its end", false, |path| fs::remove_file(path).unwrap()),
        ];
        for (what, unchanged, change) in changes {
            let dir = tempfile::tempdir().unwrap();
            let path = module(&dir);
            let files = Files::look(SCRIPT, vec![path.clone()], SystemTime::now());
            change(&path);
            assert_eq!(files.are_unchanged(), unchanged, "{what}");
        }
    }

    #[test]
    fn a_file_that_never_was_may_stay_away() {
        let files = Files::look(SCRIPT, vec!["/none/Set.pm".into()], long_ago());
        assert!(files.are_unchanged());
    }

    #[test]
    fn a_file_written_while_it_was_compiled_is_compiled_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Module.pm");
        fs::write(&path, "1;").unwrap();
        assert!(!Files::look(SCRIPT, vec![path], long_ago()).are_unchanged());
    }

    #[test]
    fn so_is_one_that_came_meanwhile_with_an_old_time() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!Files::look(SCRIPT, vec![module(&dir)], long_ago()).are_unchanged());
    }
}
