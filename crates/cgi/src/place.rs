//! A path becomes a script, or a refusal.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::spec::Spec;

/// The directory of a mount, held open, or its one script.
#[derive(Debug)]
pub struct Mount {
    root: OwnedFd,
}

/// A file that may be run, and how a request names it.
#[derive(Debug)]
pub struct Script {
    /// The file, open for reading: what was checked, whatever its name means by now.
    pub file: OwnedFd,
    /// SCRIPT_FILENAME: an absolute name, without symbolic links below the mount's directory.
    pub filename: PathBuf,
    /// The working directory of its process: where the file lies.
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

/// A perl as a `#!` line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Perl {
    /// The program; with `/usr/bin/env perl` what PATH has.
    pub program: PathBuf,
    /// Its switches, as `-T` or `-w`; `-I lib` in one or two.
    pub switches: Vec<CString>,
}

/// Why there is no script for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 403 or 404.
    pub status: u16,
    /// For the log: the thing and what is wrong with it.
    pub reason: String,
}

impl Mount {
    /// Opens what the specification names.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(spec: &Spec) -> io::Result<Self> {
        Ok(Self { root: std::fs::File::open(&spec.root)?.into() })
    }

    /// The script for a path, which is decoded and begins with the mount's.
    ///
    /// # Errors
    /// [`Refusal`] with status and reason.
    pub fn find(&self, path: &[u8]) -> Result<Script, Refusal> {
        let _ = (&self.root, path);
        Err(Refusal { status: 404, reason: "not found yet".into() })
    }
}
