//! `--pid FILE`: the number of the process to signal, for as long as it runs.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, bail};

/// A pid file, removed when dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes our process id. A file left from a process that is gone is overwritten.
    ///
    /// # Errors
    /// When the process named in the file still runs, or the file cannot be written.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if let Some(pid) = running(path) {
            bail!("{shown} names process {pid}, which runs: stop that first, or choose another --pid file");
        }
        let path = absolute(path)?;
        let fresh = path.with_extension("tmp");
        fs::write(&fresh, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write {shown}"))?;
        fs::rename(&fresh, &path).with_context(|| format!("cannot write {shown}"))?;
        Ok(Self { path })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn running(path: &Path) -> Option<u32> {
    let pid = fs::read_to_string(path).ok()?.trim().parse::<u32>().ok()?;
    (pid != std::process::id() && Path::new(&format!("/proc/{pid}")).exists()).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_file_is_taken_over_and_a_live_one_respected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("howdah.pid");
        fs::write(&path, "4294967295\n").unwrap();
        let file = PidFile::create(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), std::process::id().to_string());
        drop(file);
        assert!(!path.exists());
        fs::write(&path, "1\n").unwrap();
        assert!(PidFile::create(&path).unwrap_err().to_string().contains("process 1"));
    }
}
