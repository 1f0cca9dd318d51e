//! What a sink tells of its work.

/// What has become of the lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that have arrived: the file has them, or the command has read them.
    pub written: u64,
    /// Lines given up: the outlet had stalled and the buffers were full, or it was still stalled at the end.
    pub dropped: u64,
}

/// How a sink is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// What has become of its lines.
    pub counts: Counts,
    /// Why they do not get out at the moment, or not where they should, and what becomes of them.
    pub trouble: Option<String>,
}
