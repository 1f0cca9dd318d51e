//! What a front thread tells the program about workers.

use std::fmt;
use std::os::fd::OwnedFd;

use howdah_wire::Segment;

use crate::capacity::Permit;

/// A worker that has not begun to answer within the request timeout. Its client has had 504; it must be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The worker.
    pub worker: u16,
    /// The slot in which it is stuck: when it has left that meanwhile, it may live.
    pub slot: u32,
}

/// A segment in which something stands that cannot be true: somebody has written over it. It must be replaced, together
/// with every worker that uses it, by [`crate::Front::replace`]; until then this thread gives them nothing more to do.
#[derive(Clone, Copy)]
pub struct Damaged {
    /// The segment.
    pub segment: Segment,
    /// What was found there.
    pub what: &'static str,
}

impl fmt::Debug for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Damaged").field("what", &self.what).finish_non_exhaustive()
    }
}

/// What a worker says to an inquiry. It may say anything: the program knows whom it has asked for what.
#[derive(Debug)]
pub struct WorkerAnswer {
    /// The worker.
    pub worker: u16,
    /// The number of the inquiry.
    pub inquiry: u32,
    /// The word that it answers.
    pub word: u64,
    /// Why there is no file, in the worker's words.
    pub text: Vec<u8>,
    /// The answer, with its place among the descriptors of this process.
    pub file: Option<(OwnedFd, Permit)>,
}

/// What the program tells a front thread of a dead worker: how it left the request that it was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It has exited: the application called `exit`. Its client gets 500.
    Exited,
    /// It was killed, or nobody knows. Its client gets 502.
    Killed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_shown_by_what_it_is() {
        let (_, segment) =
            howdah_sys::create_segment(howdah_wire::Shape { fronts: 1, workers: 1, slots: 1 }).unwrap();
        assert_eq!(format!("{:?}", Damaged { segment, what: "odd" }), "Damaged { what: \"odd\", .. }");
    }
}
