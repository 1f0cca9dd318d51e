//! A script that was found, and what is known of it without running it.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::io::pread;

use super::shebang::{self, Perl};
use super::walk::File;

/// A file that may be run, and how a request names it.
#[derive(Debug)]
pub struct Script {
    /// SCRIPT_FILENAME: its name below the mount's directory, with symbolic links as they are. Absolute.
    pub filename: PathBuf,
    /// The working directory of its process: where that name lies.
    pub directory: PathBuf,
    /// SCRIPT_NAME, decoded.
    pub name: Vec<u8>,
    /// PATH_INFO, decoded: what of the path lies behind the name, empty for none.
    pub path_info: Vec<u8>,
    /// What has to be compiled anew once it differs.
    pub version: Version,
    /// The perl on its `#!` line.
    pub perl: Option<Perl>,
    /// It writes the whole response itself.
    pub nph: bool,
}

/// Tells one content of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Device and inode.
    pub file: (u64, u64),
    /// Bytes.
    pub size: u64,
    /// Seconds and nanoseconds of the last change of what is in it.
    pub modified: (i64, u32),
}

impl Script {
    pub(super) fn new(file: &File, filename: PathBuf, name: Vec<u8>, path_info: &[u8]) -> Self {
        let base = filename.file_name().unwrap_or_default().as_bytes();
        let (nph, directory) =
            (base.starts_with(b"nph-"), filename.parent().unwrap_or(Path::new("/")).to_owned());
        let version = Version::of(&file.stat);
        let mut first = [0; shebang::LONGEST];
        let length = readable(file).and_then(|file| pread(file, &mut first, 0).ok()).unwrap_or_default();
        let perl = Perl::parse(&first[..length]);
        Self { filename, directory, name, path_info: path_info.to_vec(), version, perl, nph }
    }
}

impl Version {
    fn of(stat: &Stat) -> Self {
        Self {
            file: (stat.st_dev, stat.st_ino),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or_default()),
        }
    }
}

/// The same file, open for reading; none where it may only be executed.
fn readable(file: &File) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(&file.directory, OsStr::from_bytes(&file.name), flags, Mode::empty());
    let is_same = |stat: Stat| (stat.st_dev, stat.st_ino) == (file.stat.st_dev, file.stat.st_ino);
    opened.ok().filter(|opened| fstat(opened).is_ok_and(is_same))
}
