//! What came and went since the start, for status pages and metrics. `reconcile` counts starts, `departure` ends,
//! `reload` reloads; `status` shows the counts to those who ask.

use std::collections::BTreeMap;

/// Why a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It died: of a signal of its own making, by an exit without a word, or with the memory that one had damaged.
    Crash,
    /// The application called exit.
    AppExit,
    /// It had served its number of requests.
    MaxRequests,
    /// It was old enough.
    MaxLifetime,
    /// It had grown too large.
    MaxMemory,
    /// The application asked for it (psgix.harakiri).
    Harakiri,
    /// It was stuck in a request.
    Deadline,
    /// A newer generation took over, or comes of it.
    Reload,
    /// Fewer workers are wanted.
    Resize,
    /// Somebody outside sent it a signal.
    Signal,
    /// The server ends.
    Stop,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workers started.
    pub spawns: u64,
    /// Workers ended.
    pub exits: BTreeMap<Cause, u64>,
    /// Reloads that were asked for and succeeded.
    pub reloads: u64,
    /// Reloads that were asked for and failed.
    pub failed_reloads: u64,
    /// Zygotes that workers have left behind, from which all workers were forked anew.
    pub reforks: u64,
    /// Workers that were to leave one behind and could not, or whose zygote failed.
    pub failed_reforks: u64,
    /// Segments that were replaced because a worker had damaged them.
    pub replacements: u64,
}

impl Counts {
    pub(crate) fn exit(&mut self, cause: Cause) {
        *self.exits.entry(cause).or_default() += 1;
    }
}
