//! What is asked through the handle, each with the way back for its answer.

use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::time::Duration;

use howdah_sys::{Pid, Signal};
use howdah_wire::Segment;
use tokio::sync::oneshot;

use crate::error::{ReloadError, StartError};
use crate::snapshot::Snapshot;

/// An answer on its way back.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// A question with the way back for its answer.
#[derive(Debug)]
pub(crate) enum Call {
    Ready(Reply<Result<(), StartError>>),
    Reload(Reply<Result<(), ReloadError>>),
    Stop {
        within: Grace,
        reply: Reply<()>,
    },
    Doom {
        which: Doom,
        reply: Reply<()>,
    },
    Resize {
        change: Resize,
        reply: Reply<Resized>,
    },
    Snapshot(Reply<Snapshot>),
    Signal {
        index: u16,
        pid: Option<Pid>,
        signal: Signal,
        reply: Reply<bool>,
    },
    Replace(Damaged),
    Guest {
        lease: Weak<()>,
        reply: Reply<Result<u16, String>>,
    },
    /// What a worker says that was to leave a zygote behind.
    Heir {
        worker: u16,
        outcome: Result<OwnedFd, String>,
    },
    /// Something has changed that the supervisor sees by itself.
    Look,
}

/// A segment in which something cannot be true.
pub(crate) struct Damaged {
    pub(crate) segment: Segment,
    pub(crate) what: &'static str,
}

impl std::fmt::Debug for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Damaged").field("what", &self.what).finish_non_exhaustive()
    }
}

/// Time for workers to leave when all is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    /// As configured.
    Usual,
    /// Less than that.
    Within(Duration),
}

/// What cannot be helped any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doom {
    /// There is no zygote, and there can be no other: no worker will be replaced.
    NoZygote,
    /// No worker is left, either.
    NoWorker,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Resize {
    By(i32),
    To(usize),
}

/// What became of a wish for more or fewer workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resized {
    /// Workers from now on: none when the supervisor has ended.
    pub workers: usize,
    /// What the number would be without bounds.
    pub wanted: usize,
    /// Workers that there is room for. One is always kept.
    pub most: usize,
}
