//! What is known of segments in which something stands that cannot be true.

use std::time::Instant;

/// What is known of damaged segments.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// The present one is: workers are being killed, or a new segment is due at this time.
    pub(crate) under_way: Option<Instant>,
    /// The last one, and what was found there.
    pub(crate) last: Option<(Instant, &'static str)>,
}

impl Damage {
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// For the status page; none when there never was any.
    pub(crate) fn trouble(&self, times: u64) -> Option<String> {
        let (when, what) = self.last?;
        if self.is_under_way() {
            return Some(format!(
                "a worker has damaged shared memory ({what}); it is being replaced with all workers"
            ));
        }
        let (plural, ago) = (if times == 1 { "" } else { "s" }, when.elapsed().as_secs());
        Some(format!(
            "workers have damaged shared memory {times} time{plural}, last {ago} s ago ({what}); see the error log"
        ))
    }
}
