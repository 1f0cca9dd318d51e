//! What a client may send that is for no request: frames that only cost, such as PING and SETTINGS, by which nobody earns
//! anything. The `h2` crate keeps them from taking memory; this keeps them from taking the thread. Bodies are not counted.

/// Bytes that may come at once...
const FULL: i64 = 256 << 10;
/// ...and in each second.
const RATE: u64 = 16 << 10;
const SECOND: u64 = 1_000_000_000;
/// So many requests may be abandoned before it is asked whether that is most of them.
const FEW: u64 = 100;

/// Bytes that a client still has, as a bucket that fills up.
#[derive(Debug)]
pub(crate) struct Budget {
    left: i64,
    /// When time was last counted, in monotonic nanoseconds.
    at: u64,
    received: u64,
    earned: u64,
}

impl Budget {
    pub(crate) fn new(now: u64) -> Self {
        Self { left: FULL, at: now, received: 0, earned: 0 }
    }

    /// In all, so much was received and so much earned. False when the client has sent too much that is for nothing.
    pub(crate) fn allows(&mut self, now: u64, received: u64, earned: u64) -> bool {
        let seconds = now.saturating_sub(self.at) / SECOND;
        self.at += seconds * SECOND;
        let gained = earned - std::mem::replace(&mut self.earned, earned) + seconds.saturating_mul(RATE);
        let spent = received - std::mem::replace(&mut self.received, received);
        self.left = self.left.saturating_add_unsigned(gained).saturating_sub_unsigned(spent).min(FULL);
        self.left >= 0
    }
}

/// Whether a client only makes work: of so many requests it has abandoned so many (CVE-2023-44487).
pub(crate) fn is_in_vain(requests: u64, abandoned: u64) -> bool {
    abandoned > FEW && abandoned > requests / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_nothing_is_bounded_at_once_and_by_time() {
        let full = FULL.cast_unsigned();
        // Seconds, bytes received and earned, in all, at each look, and whether all was allowed.
        for (what, looks, allowed) in [
            ("a little", vec![(0, full, 0)], true),
            ("too much", vec![(0, full + 1, 0)], false),
            ("too much, bit by bit", vec![(0, full, 0), (0, full + 1, 0)], false),
            ("for requests", vec![(0, 10 * full, 10 * full)], true),
            ("slowly", vec![(0, full, 0), (1, full + RATE, 0), (2, full + 2 * RATE, 0)], true),
            ("not slowly enough", vec![(0, full, 0), (1, full + RATE + 1, 0)], false),
            ("earned long ago", vec![(0, 0, 10 * full), (9, 2 * full, 10 * full)], false),
        ] {
            let mut budget = Budget::new(7);
            let all = looks
                .iter()
                .all(|&(second, received, earned)| budget.allows(7 + second * SECOND, received, earned));
            assert_eq!(all, allowed, "{what}");
        }
    }

    #[test]
    fn who_abandons_most_requests_makes_only_work() {
        for (requests, abandoned, vain) in
            [(100, 100, false), (101, 101, true), (300, 150, false), (300, 151, true), (0, 0, false)]
        {
            assert_eq!(is_in_vain(requests, abandoned), vain, "{abandoned} of {requests}");
        }
    }
}
