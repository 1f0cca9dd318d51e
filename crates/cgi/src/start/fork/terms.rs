//! What the rest of the host is told of zygotes, and tells them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use howdah_sys::shortage::with_way_out;
use thiserror::Error;

use crate::start::launch::{Launch, Running};

/// How many zygotes there are and how long they last.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Zygotes at a time; the one that has not been used for longest makes room.
    pub zygotes: usize,
    /// Without a request for so long, a zygote leaves.
    pub idle: Duration,
    /// A script that takes longer to compile is given up.
    pub compile: Duration,
    /// How often a script's files are looked at, at most.
    pub look: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            zygotes: 64,
            idle: Duration::from_secs(600),
            compile: Duration::from_secs(30),
            look: Duration::from_secs(1),
        }
    }
}

/// What a launch has come to.
#[derive(Debug)]
pub enum Outcome {
    /// A process was forked.
    Forked(Running),
    /// This script or this request is none for it: execute it.
    Execute(Box<Launch>),
}

/// Why there is no process.
#[derive(Debug, Error)]
pub enum Fault {
    /// perl says what is wrong, with file and line. The request is answered 500.
    #[error("it does not compile: {0}")]
    Compile(String),
    /// The request's time is over. 504.
    #[error("nobody waits any longer for it to compile")]
    Late,
    /// The zygote has died as it was to fork; perhaps the script has begun. 502.
    #[error("its zygote has died while it forked")]
    Lost,
    /// 500.
    #[error("cannot be run: {}", with_way_out(.0))]
    System(#[from] io::Error),
}

impl Fault {
    /// The status of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Compile(_) | Self::System(_) => 500,
            Self::Lost => 502,
            Self::Late => 504,
        }
    }
}

/// Takes a line for the log, and the script that it is about.
pub type Log = Arc<dyn Fn(&Path, &str) + Send + Sync>;
