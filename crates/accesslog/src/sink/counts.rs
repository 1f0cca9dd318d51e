//! What a sink tells of its work.

/// What has become of the lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines handed to the system.
    pub written: u64,
    /// Lines given up: the outlet had stalled and the buffers were full, or it was still stalled at the end.
    pub dropped: u64,
}
