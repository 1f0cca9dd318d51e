//! The way down into a directory, a name at a time, that never leads out of it.
//!
//! Each directory on the way is held open, and names are looked up in those, never followed by the kernel: symbolic links are
//! read here, and go on from the directory that they lie in. So a link may lead anywhere below the top, by a relative name or
//! an absolute one, and where somebody exchanges a directory for a link in the meantime, nothing is won.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};

use super::refusal::Refusal;

/// Links on one way, as the kernel has it.
const MOST_LINKS: u32 = 40;

/// See the module.
#[derive(Debug)]
pub(super) struct Walk {
    /// From the top to where we are.
    directories: Vec<OwnedFd>,
    top: PathBuf,
    links: u32,
}

/// What a name was.
#[derive(Debug)]
pub(super) enum Node {
    /// We are in it now.
    Directory,
    File(File),
    /// Neither, such as a socket.
    Special,
}

/// A regular file.
#[derive(Debug)]
pub(super) struct File {
    /// Where it lies, and its name there; not a link.
    pub(super) directory: OwnedFd,
    pub(super) name: Vec<u8>,
    pub(super) stat: Stat,
}

/// Why a name leads nowhere.
#[derive(Debug)]
pub(super) enum Astray {
    Kernel(io::Error),
    /// Out of the top directory.
    Out,
    TooManyLinks,
}

impl From<rustix::io::Errno> for Astray {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Kernel(error.into())
    }
}

impl Astray {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Kernel(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Of a file, which the path `name` stands for.
    pub(super) fn about(&self, file: &Path, name: &[u8]) -> Refusal {
        let (shown, name) = (file.display(), String::from_utf8_lossy(name));
        match self {
            Self::Kernel(error) => Refusal::of(error, file),
            Self::Out => Refusal::forbidden(format!(
                "{shown} is a symbolic link out of the directory: give it a mount of its own, \
                 --cgi {name}={shown}"
            )),
            Self::TooManyLinks => {
                Refusal::forbidden(format!("{shown} leads through too many symbolic links"))
            }
        }
    }
}

impl Walk {
    /// From `root`, which is at `top`.
    pub(super) fn new(root: OwnedFd, top: PathBuf) -> Self {
        Self { directories: vec![root], top, links: 0 }
    }

    /// Goes to what has that name where we are.
    pub(super) fn enter(&mut self, name: &[u8]) -> Result<Node, Astray> {
        let here = self.here()?;
        let found = openat(
            here,
            OsStr::from_bytes(name),
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let stat = fstat(&found)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.directories.push(found);
                Ok(Node::Directory)
            }
            FileType::RegularFile => {
                let directory = here.try_clone().map_err(Astray::Kernel)?;
                Ok(Node::File(File { directory, name: name.to_vec(), stat }))
            }
            FileType::Symlink => {
                let target = readlinkat(&found, "", Vec::new())?;
                self.follow(Path::new(OsStr::from_bytes(target.as_bytes())))
            }
            _ => Ok(Node::Special),
        }
    }

    fn follow(&mut self, target: &Path) -> Result<Node, Astray> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Astray::TooManyLinks);
        }
        let target = if target.is_absolute() { self.start_over(target)? } else { target.to_owned() };
        let mut node = Node::Directory;
        for step in target.components() {
            if !matches!(node, Node::Directory) {
                return Err(rustix::io::Errno::NOTDIR.into());
            }
            match step {
                Component::ParentDir if self.directories.len() == 1 => return Err(Astray::Out),
                Component::ParentDir => drop(self.directories.pop()),
                Component::Normal(name) => node = self.enter(name.as_bytes())?,
                _ => {}
            }
        }
        Ok(node)
    }

    /// Back at the top; what an absolute name has below that.
    fn start_over(&mut self, target: &Path) -> Result<PathBuf, Astray> {
        let real = self.top.canonicalize().map_err(Astray::Kernel)?;
        let below = target.strip_prefix(&real).or_else(|_| target.strip_prefix(&self.top));
        let below = below.map_err(|_| Astray::Out)?.to_owned();
        self.directories.truncate(1);
        Ok(below)
    }

    fn here(&self) -> Result<&OwnedFd, Astray> {
        // The top is never left.
        self.directories.last().ok_or(Astray::Out)
    }
}
