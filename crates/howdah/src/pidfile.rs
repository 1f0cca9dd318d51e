//! `--pid FILE`: the number of the process to signal, for as long as it runs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, bail};
use howdah_sys::launcher::HELPER;
use howdah_sys::process::runs;

use crate::directory;

/// Bytes of a pid file, and room for blanks.
const MOST: u64 = 64;

/// A pid file, removed when dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes our process id. A file left from a server that is gone is overwritten, also when another program has its
    /// number by now, as after a crash of the machine; with `relieves`, also that of one that runs, because it is about to
    /// leave.
    ///
    /// # Errors
    /// When the server named in the file still runs, the file is something else, or it cannot be written.
    pub(crate) fn create(path: &Path, relieves: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        if is_something_else(path) {
            bail!("--pid {shown} is there, and no file with a process id: it stays as it is, name another");
        }
        if let Some(pid) = running(path).filter(|_| !relieves) {
            bail!("{shown} names process {pid}, which runs: stop that first, or choose another --pid file");
        }
        let file = Self { path: absolute(path)? };
        file.write()?;
        Ok(file)
    }

    /// Writes our process id, in one step: nobody finds half a number.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        self.replace().with_context(|| format!("--pid: cannot write {}", self.path.display()))
    }

    fn replace(&self) -> io::Result<()> {
        let id = std::process::id();
        let mut fresh = OsString::from(&self.path);
        fresh.push(format!(".{id}"));
        // One that had our number may have left its own. In a directory for all, another's link is not followed.
        let _ = fs::remove_file(&fresh);
        let mut file = File::create_new(&fresh)?;
        let written = file.write_all(format!("{id}\n").as_bytes());
        let written = written.and_then(|()| fs::rename(&fresh, &self.path));
        written.inspect_err(|_| drop(fs::remove_file(&fresh)))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another process may have written its own number since.
        if named(&self.path) == Some(std::process::id()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Why a start could not write it, but for a server that has it: that one is to be replaced, perhaps.
pub(crate) fn fault(path: &Path) -> Option<String> {
    let shown = path.display();
    if is_something_else(path) {
        return Some(format!("--pid {shown} is there, and no file with a process id: name another"));
    }
    if path.is_dir() {
        return Some(format!("--pid {shown}: cannot be written: it is a directory"));
    }
    // It is made beside, and takes the place of the one that there is.
    directory::closed(directory::of(path)).map(|why| format!("--pid {shown}: cannot be written: {why}"))
}

fn named(path: &Path) -> Option<u32> {
    content(path)?.trim().parse().ok()
}

/// Nothing that blocks or has no end is opened.
fn content(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = path.is_file().then(|| File::open(path).ok()).flatten()?;
    file.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Whether something has the name that would be lost, as /dev/null, or the application whose name was left out.
fn is_something_else(path: &Path) -> bool {
    let blank = || content(path).is_some_and(|text| text.trim().is_empty());
    path.exists() && !path.is_dir() && named(path).is_none() && !blank()
}

fn running(path: &Path) -> Option<u32> {
    let (pid, ours) = (named(path)?, std::process::id());
    let runs = pid != ours && program(pid).is_some_and(|other| Some(other) == program(ours));
    runs.then_some(pid)
}

/// The name of the program that a server executes, which everybody may know. One that has ended executes none; and launchers and hosts of
/// scripts are no servers: in a container that starts anew, one of this very server's may have the number.
fn program(pid: u32) -> Option<Vec<u8>> {
    let shown = |what| fs::read(format!("/proc/{pid}/{what}")).ok();
    let serves = || shown("cmdline").is_none_or(|line| !is_helper(&line));
    (runs(pid) && serves()).then(|| shown("comm")).flatten()
}

fn is_helper(line: &[u8]) -> bool {
    line.split(|&byte| byte == 0).next() == Some(HELPER.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_stale_file_is_taken_over_and_a_live_one_respected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("howdah.pid");
        fs::write(&path, "4294967295\n").unwrap();
        let file = PidFile::create(&path, false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), std::process::id().to_string());
        drop(file);
        assert!(!path.exists());
        let mut other = another_of_us(directory.path());
        fs::write(&path, other.id().to_string()).unwrap();
        let refused = PidFile::create(&path, false).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", other.id())), "{refused}");
        other.kill().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while PidFile::create(&path, false).is_err() {
            assert!(Instant::now() < end, "it has ended, but nobody has waited for it");
            std::thread::sleep(Duration::from_millis(5));
        }
        other.wait().unwrap();
    }

    #[test]
    fn nothing_else_is_taken_for_a_pid_file() {
        let directory = tempfile::tempdir().unwrap();
        let [path, beside] = ["app.pid", "app.tmp"].map(|name| directory.path().join(name));
        for text in ["sub { }\n", "12 34\n", "-1\n", "\u{e9}\n"] {
            fs::write(&path, text).unwrap();
            let refused = PidFile::create(&path, true).unwrap_err().to_string();
            assert!(refused.starts_with("--pid /") && refused.ends_with(" name another"), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(PidFile::create(Path::new("/dev/null"), false).is_err());
        fs::write(&beside, "mine").unwrap();
        for text in ["", "\n", " 4294967295 \n"] {
            fs::write(&path, text).unwrap();
            drop(PidFile::create(&path, false).unwrap());
        }
        assert_eq!(fs::read_to_string(&beside).unwrap(), "mine");
    }

    #[test]
    fn one_that_cannot_be_written_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("howdah.pid");
        fs::create_dir(&path).unwrap();
        assert!(PidFile::create(&path, false).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    fn another_of_us(directory: &Path) -> std::process::Child {
        another(directory).arg("60").spawn().unwrap()
    }

    /// A program that has the name of ours.
    fn another(directory: &Path) -> std::process::Command {
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        let program = directory.join(name.trim_end());
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        std::process::Command::new(program)
    }

    #[test]
    fn a_number_that_another_program_has_by_now_is_stale() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("howdah.pid");
        fs::write(&path, "1\n").unwrap();
        assert!(PidFile::create(&path, false).is_ok());
    }

    #[test]
    fn a_number_that_a_launcher_has_by_now_is_stale() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("howdah.pid");
        let mut launcher = another(directory.path()).arg0(HELPER).arg("60").spawn().unwrap();
        let line = format!("/proc/{}/cmdline", launcher.id());
        let end = Instant::now() + Duration::from_secs(30);
        while !is_helper(&fs::read(&line).unwrap()) {
            assert!(Instant::now() < end, "the kernel is still executing it");
            std::thread::sleep(Duration::from_millis(1));
        }
        fs::write(&path, launcher.id().to_string()).unwrap();
        let created = PidFile::create(&path, false).map(drop);
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        created.unwrap();
    }

    #[test]
    fn the_file_of_a_process_that_leaves_is_taken_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("howdah.pid");
        fs::write(&path, "1\n").unwrap();
        let file = PidFile::create(&path, true).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }
}
