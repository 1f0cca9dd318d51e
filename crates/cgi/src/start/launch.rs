//! A process that is wanted, and one that runs.

use std::ffi::CString;
use std::fmt;
use std::os::fd::OwnedFd;

use howdah_sys::Pid;

use crate::place::Script;

/// How a script is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Executed.
    Exec,
    /// Forked from a perl that has compiled it.
    Fork,
}

/// As `HOWDAH_CGI_MODE`, the log and the titles of processes have it.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exec => "exec",
            Self::Fork => "fork",
        })
    }
}

/// A process that is wanted: in a group of its own, in the script's directory.
#[derive(Debug)]
pub struct Launch {
    /// What runs.
    pub script: Script,
    /// Words of an indexed query, behind the script's name.
    pub arguments: Vec<CString>,
    /// `NAME=VALUE`, the whole environment.
    pub environment: Vec<CString>,
    /// Descriptor 0.
    pub stdin: OwnedFd,
    /// Descriptor 1.
    pub stdout: OwnedFd,
    /// Descriptor 2.
    pub stderr: OwnedFd,
}

/// A process of a script: a child of ours, and the leader of its group.
#[derive(Debug)]
pub struct Running {
    /// Its process, and its group.
    pub pid: Pid,
    /// Becomes readable at its end.
    pub pidfd: OwnedFd,
    /// How it was started.
    pub mode: Mode,
}
