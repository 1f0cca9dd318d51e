//! Opening a file for root, who must not be led astray: of two directories between which an ordinary user may set links, one may be
//! his and the other /etc. Logs lie in the application's directory often enough, and what it says ends up in them.
//!
//! So a symbolic link of another user than root leads only to what that user might write without us: a file of his, or one in a
//! directory of his. What links of root's lead to is root's wish.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, openat, readlinkat};
use rustix::io::{Errno, retry_on_intr};

/// Links on a path, as the kernel has it.
const MOST_LINKS: usize = 40;
/// To look at what has a name, be it a link.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a file to write; one that is made has this mode, less the umask. For root no link of somebody else's leads to what is not
/// theirs.
///
/// # Errors
/// Of the system; with words of our own for such a link.
pub fn open_to_write(path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
    let mode = Mode::from_raw_mode(mode);
    let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC;
    if !rustix::process::geteuid().is_root() {
        return Ok(retry_on_intr(|| openat(CWD, path, flags, mode))?.into());
    }
    let place = Walk::new(path)?.place()?;
    Ok(retry_on_intr(|| openat(&place.directory, &place.name, flags | place.flags, mode))?.into())
}

/// Why root would not open it: for such a link alone.
#[must_use]
pub fn misleads(path: &Path) -> Option<io::Error> {
    let refused = Walk::new(path).and_then(Walk::place).err()?;
    (rustix::process::geteuid().is_root() && refused.get_ref().is_some()).then_some(refused)
}

/// Where a path leads.
struct Place {
    directory: OwnedFd,
    name: OsString,
    /// Nobody puts a link there meanwhile.
    flags: OFlags,
}

/// On the way along a path, one name after the other.
struct Walk {
    directory: OwnedFd,
    left: VecDeque<OsString>,
    links: usize,
    /// Those links that are not root's: what they are called, and whose they are.
    foreign: Vec<(OsString, u32)>,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Self> {
        let directory = openat(CWD, ".", LOOK | OFlags::DIRECTORY, Mode::empty())?;
        let mut walk = Self { directory, left: VecDeque::new(), links: 0, foreign: Vec::new() };
        walk.go_first(path)?;
        Ok(walk)
    }

    fn place(mut self) -> io::Result<Place> {
        while let Some(name) = self.left.pop_front() {
            let is_last = self.left.is_empty();
            let found = match openat(&self.directory, &name, LOOK, Mode::empty()) {
                Err(Errno::NOENT) if is_last => return self.end(name, None),
                found => found?,
            };
            match FileType::from_raw_mode(fstat(&found)?.st_mode) {
                // Those of processes lead to what has no name. Nobody else may set one.
                FileType::Symlink if fstatfs(&found)?.f_type == PROC_SUPER_MAGIC => {
                    let rest =
                        self.left.iter().fold(Path::new(&name).to_owned(), |path, name| path.join(name));
                    return self.end_by(rest.into_os_string(), None, OFlags::empty());
                }
                FileType::Symlink => self.follow(name, &found)?,
                _ if is_last => return self.end(name, Some(&found)),
                _ => self.directory = found,
            }
        }
        Err(Errno::ISDIR.into())
    }

    fn follow(&mut self, name: OsString, link: &OwnedFd) -> io::Result<()> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let owner = fstat(link)?.st_uid;
        if owner != 0 {
            self.foreign.push((name, owner));
        }
        let target = readlinkat(link, "", Vec::new())?;
        self.go_first(Path::new(&OsString::from_vec(target.into_bytes())))
    }

    /// Puts that path before what is left.
    fn go_first(&mut self, path: &Path) -> io::Result<()> {
        if path.is_absolute() {
            self.directory = openat(CWD, "/", LOOK | OFlags::DIRECTORY, Mode::empty())?;
        }
        let names = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
        names.rev().for_each(|part| self.left.push_front(part.as_os_str().to_owned()));
        Ok(())
    }

    fn end(self, name: OsString, found: Option<&OwnedFd>) -> io::Result<Place> {
        self.end_by(name, found, OFlags::NOFOLLOW)
    }

    fn end_by(self, name: OsString, found: Option<&OwnedFd>, flags: OFlags) -> io::Result<Place> {
        let owner = |what: &OwnedFd| Ok::<_, Errno>(fstat(what)?.st_uid);
        let owners = [Some(owner(&self.directory)?), found.map(owner).transpose()?];
        match self.foreign.into_iter().find(|(_, user)| !owners.contains(&Some(*user))) {
            Some((link, user)) => Err(misled(&link, user)),
            None => Ok(Place { directory: self.directory, name, flags }),
        }
    }
}

fn misled(link: &OsStr, user: u32) -> io::Error {
    let link = link.display();
    let reason = format!(
        "the symbolic link {link} on its path is user {user}'s and leads to what is not, which root does not follow: name the \
         file that it leads to, or let root set the link"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown, symlink};
    use std::path::PathBuf;

    use super::*;

    const SOMEBODY: u32 = 54_321;
    const ANOTHER: u32 = 54_322;

    fn append(path: &Path) -> io::Result<File> {
        open_to_write(path, OFlags::APPEND | OFlags::CREATE, 0o666)
    }

    #[test]
    fn an_ordinary_path_leads_where_it_does_for_everybody() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        symlink("../real/log", dir.path().join("real/other")).unwrap();
        for path in ["new", "real/log", "link/log", "./real/../link/log", "link/other", "real//log"] {
            append(&dir.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        for path in ["/dev/null", "/dev/stderr", "/proc/self/fd/2", "/dev/../dev/null"] {
            append(path.as_ref()).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        symlink("circle", dir.path().join("circle")).unwrap();
        for (path, kind) in [
            ("no/log", Errno::NOENT),
            ("new/log", Errno::NOTDIR),
            ("real", Errno::ISDIR),
            ("", Errno::ISDIR),
            ("circle", Errno::LOOP),
        ] {
            let refused = append(&dir.path().join(path)).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(kind.raw_os_error()), "{path}: {refused}");
        }
    }

    #[test]
    fn a_link_of_somebody_else_leads_root_only_to_what_is_theirs() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let own = |path: PathBuf, user| std::os::unix::fs::lchown(path, Some(user), None).unwrap();
        for (name, user) in [("roots", 0), ("theirs", SOMEBODY), ("others", ANOTHER)] {
            std::fs::create_dir(at(name)).unwrap();
            chown(at(name), Some(user), None).unwrap();
            std::fs::write(at(name).join("log"), "").unwrap();
        }
        std::fs::write(at("roots/theirs"), "").unwrap();
        own(at("roots/theirs"), SOMEBODY);
        // What the link is called, whose it is, and where it leads.
        for (name, user, target, allowed) in [
            ("theirs/to-root", SOMEBODY, "../roots/log", false),
            ("theirs/to-new", SOMEBODY, "../roots/new", false),
            ("theirs/to-dir", SOMEBODY, "../roots", false),
            ("theirs/to-other", SOMEBODY, "../others/log", false),
            ("theirs/to-process", SOMEBODY, "/proc/self/fd/2", false),
            ("theirs/to-own", SOMEBODY, "log", true),
            ("theirs/to-own-new", SOMEBODY, "new", true),
            ("theirs/to-own-file", SOMEBODY, "../roots/theirs", true),
            ("theirs/by-others", SOMEBODY, "../others/back", false),
            ("others/back", ANOTHER, "../theirs/log", false),
            ("roots/to-theirs", 0, "../theirs/log", true),
            ("roots/by-theirs", 0, "../theirs/to-root", false),
        ] {
            symlink(target, at(name)).unwrap();
            own(at(name), user);
            let path = if name.ends_with("dir") { at(name).join("log") } else { at(name) };
            let opened = append(&path);
            assert_eq!(opened.is_ok(), allowed, "{name}: {opened:?}");
            assert_eq!(misleads(&path).is_none(), allowed, "{name}");
            if let Err(refused) = opened {
                assert!(
                    refused.to_string().contains("which root does not follow: name the file"),
                    "{refused}"
                );
            }
        }
        assert!(!at("roots/new").exists());
        assert_eq!(std::fs::metadata(at("theirs/new")).unwrap().uid(), 0, "made by root");
        append(&at("theirs/to-own-new")).unwrap();
    }
}
