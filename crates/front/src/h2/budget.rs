//! What a client may cost that gets nothing for it: frames for no request, such as PING and SETTINGS, and requests that it breaks
//! off (CVE-2023-44487). The `h2` crate keeps them from taking memory; this keeps them from taking the thread, and the workers.
//! Bodies are not counted.

const SECOND: u64 = 1_000_000_000;

/// What may come at once, and in each second.
#[derive(Clone, Copy, Debug)]
struct Terms {
    full: i64,
    rate: u64,
}

const BYTES: Terms = Terms { full: 256 << 10, rate: 16 << 10 };
/// Requests that are broken off, less those that are not. Who moves over a map breaks off whole screens of tiles, several in a second.
const BROKEN: Terms = Terms { full: 512, rate: 64 };

/// What a connection has done, in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deeds {
    /// Bytes that were received, and those that requests were good for.
    pub(crate) received: u64,
    pub(crate) earned: u64,
    pub(crate) requests: u64,
    /// Those of them that it has broken off.
    pub(crate) abandoned: u64,
}

/// What a client still has.
#[derive(Debug)]
pub(crate) struct Budget {
    /// When time was last counted, in monotonic nanoseconds.
    at: u64,
    bytes: Bucket,
    broken: Bucket,
}

impl Budget {
    pub(crate) fn new(now: u64) -> Self {
        Self { at: now, bytes: Bucket::new(BYTES), broken: Bucket::new(BROKEN) }
    }

    /// False when the client has done too much that is for nothing.
    pub(crate) fn allows(&mut self, now: u64, deeds: Deeds) -> bool {
        let seconds = now.saturating_sub(self.at) / SECOND;
        self.at += seconds * SECOND;
        let bytes = self.bytes.allows(seconds, deeds.received, deeds.earned);
        // What a request is good for goes with it, and as much more.
        let broken = self.broken.allows(seconds, 2 * deeds.abandoned, deeds.requests);
        bytes && broken
    }

    /// Whether it has broken off so many requests that it had better come anew. Behind a proxy each may be another's, and whoever else has
    /// one under way is to have the response.
    pub(crate) fn is_low(&self) -> bool {
        self.broken.left < BROKEN.full / 2
    }
}

/// Fills up with time, and with what is earned.
#[derive(Debug)]
struct Bucket {
    terms: Terms,
    left: i64,
    spent: u64,
    earned: u64,
}

impl Bucket {
    fn new(terms: Terms) -> Self {
        Self { terms, left: terms.full, spent: 0, earned: 0 }
    }

    /// Since the last look so many seconds have passed; spent and earned was so much in all.
    fn allows(&mut self, seconds: u64, spent: u64, earned: u64) -> bool {
        let gained =
            earned - std::mem::replace(&mut self.earned, earned) + seconds.saturating_mul(self.terms.rate);
        let lost = spent - std::mem::replace(&mut self.spent, spent);
        self.left =
            self.left.saturating_add_unsigned(gained).saturating_sub_unsigned(lost).min(self.terms.full);
        self.left >= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u64 = BYTES.full as u64;
    const RATE: u64 = BYTES.rate;

    /// Whether all is allowed of what has been done in all by each of these seconds.
    fn allowed(deeds: &[(u64, Deeds)]) -> bool {
        let mut budget = Budget::new(7);
        deeds.iter().all(|&(second, deeds)| budget.allows(7 + second * SECOND, deeds))
    }

    #[test]
    fn what_is_for_nothing_is_bounded_at_once_and_by_time() {
        // Seconds, bytes received and earned, in all, at each look, and whether all was allowed.
        for (what, looks, expected) in [
            ("a little", &[(0, FULL, 0)][..], true),
            ("too much", &[(0, FULL + 1, 0)], false),
            ("too much, bit by bit", &[(0, FULL, 0), (0, FULL + 1, 0)], false),
            ("for requests", &[(0, 10 * FULL, 10 * FULL)], true),
            ("slowly", &[(0, FULL, 0), (1, FULL + RATE, 0), (2, FULL + 2 * RATE, 0)], true),
            ("not slowly enough", &[(0, FULL, 0), (1, FULL + RATE + 1, 0)], false),
            ("earned long ago", &[(0, 0, 10 * FULL), (9, 2 * FULL, 10 * FULL)], false),
            ("a second twice", &[(0, FULL, 0), (1, FULL + RATE, 0), (1, FULL + RATE + 1, 0)], false),
        ] {
            let deed = |&(second, received, earned)| (second, Deeds { received, earned, ..Deeds::default() });
            assert_eq!(allowed(&looks.iter().map(deed).collect::<Vec<_>>()), expected, "{what}");
        }
    }

    #[test]
    fn who_breaks_off_most_requests_makes_only_work() {
        // Seconds, requests and those broken off, in all, at each look.
        for (what, looks, expected) in [
            ("a few screens of tiles", &[(0, 512, 512)][..], true),
            ("one request more", &[(0, 512, 512), (0, 513, 513)], false),
            ("as many as are answered", &[(0, 100_000, 50_000)], true),
            ("more than that by some hundreds", &[(0, 100_000, 50_257)], false),
            ("some in each second", &[(0, 512, 512), (1, 576, 576), (2, 640, 640)], true),
            ("too many in a second", &[(0, 512, 512), (1, 577, 577)], false),
            ("answered long ago", &[(0, 100_000, 0), (1, 100_600, 600)], false),
        ] {
            let deed =
                |&(second, requests, abandoned)| (second, Deeds { requests, abandoned, ..Deeds::default() });
            assert_eq!(allowed(&looks.iter().map(deed).collect::<Vec<_>>()), expected, "{what}");
        }
    }
}
