use std::fmt;

/// Why a request is refused: the client's fault, answered with `status`, after which the
/// connection must be closed because its framing can no longer be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject {
    /// Status code to answer with.
    pub status: u16,
    /// The rule that was broken, for the log.
    pub reason: &'static str,
    /// Where that rule is written, such as `RFC 9112 5.1`.
    pub clause: &'static str,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.reason, self.status, self.clause)
    }
}

impl std::error::Error for Reject {}
