//! What to do when the shared processor is full while others are idle. Whether more is done apart depends on how many connections
//! there are and on where clients run; no figure of a processor tells. So front and worker go apart for a moment, the requests
//! of both ways are counted, and the better way is kept until it is asked again.

/// Looks over which each way is measured.
const LOOKS: u32 = 3;
/// It is asked again after that, and twice as long each time, at most so often: 16 seconds.
const SETTLED_NS: u64 = 1_000_000_000;
const DOUBLED: u32 = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Of the way that is taken now.
    measured: Measured,
    /// Of the way together, while they are apart.
    together: Option<Measured>,
    /// Not asked again until then.
    settled: u64,
    asked: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    looks: u32,
    requests: u64,
    time: u64,
}

impl Trial {
    /// So many requests in that time, together, on a processor that was full. True when it is time to try the other way.
    pub(super) fn full(&mut self, requests: u64, time: u64, now: u64) -> bool {
        if now < self.settled {
            return false;
        }
        self.measured.add(requests, time);
        if self.measured.looks < LOOKS {
            return false;
        }
        self.together = Some(std::mem::take(&mut self.measured));
        true
    }

    /// There is nothing to ask, or nobody any more.
    pub(super) fn pause(&mut self) {
        self.measured = Measured::default();
    }

    /// They are apart for a moment.
    pub(super) fn is_under_way(&self) -> bool {
        self.together.is_some()
    }

    /// So many requests in that time, apart. Then whether that is the better way, once that is known.
    pub(super) fn apart(&mut self, requests: u64, time: u64, now: u64) -> Option<bool> {
        let together = self.together?;
        self.measured.add(requests, time);
        // In the first of them they were on the way.
        if self.measured.looks == 1 {
            self.measured = Measured { looks: 1, ..Measured::default() };
        }
        if self.measured.looks <= LOOKS {
            return None;
        }
        let apart = std::mem::take(&mut self.measured);
        self.together = None;
        if now > self.settled + (SETTLED_NS << DOUBLED) {
            self.asked = 0;
        }
        self.settled = now + (SETTLED_NS << self.asked);
        self.asked = (self.asked + 1).min(DOUBLED);
        Some(apart.is_better_than(together))
    }
}

impl Measured {
    fn add(&mut self, requests: u64, time: u64) {
        self.looks += 1;
        self.requests += requests;
        self.time += time;
    }

    /// By a fiftieth: together is the cheaper way.
    fn is_better_than(self, other: Self) -> bool {
        let product = |requests: u64, time: u64| u128::from(requests) * u128::from(time);
        product(self.requests, other.time) * 50 > product(other.requests, self.time) * 51
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: u64 = 100_000_000;

    /// Looks at requests until there is an answer: whether apart is better, and when that was known.
    fn ask(trial: &mut Trial, now: &mut u64, together: u64, apart: [u64; 4]) -> bool {
        let looks = (1..20).find(|_| {
            *now += LOOK;
            trial.full(together, LOOK, *now)
        });
        assert_eq!(looks, Some(LOOKS));
        for (look, requests) in apart.into_iter().enumerate() {
            assert!(trial.is_under_way());
            *now += LOOK;
            let answer = trial.apart(requests, LOOK, *now);
            assert_eq!(answer.is_some(), look == 3);
            if let Some(answer) = answer {
                return answer;
            }
        }
        unreachable!("there are as many looks as it takes")
    }

    #[test]
    fn the_way_on_which_more_is_done_is_the_better_one() {
        for (together, apart, better) in [
            (9000, [1, 7000, 7000, 7000], false),
            (9000, [90_000, 9000, 9000, 9000], false),
            (9000, [0, 9180, 9180, 9180], false),
            (9000, [0, 9000, 9500, 9500], true),
        ] {
            let mut now = 0;
            assert_eq!(ask(&mut Trial::default(), &mut now, together, apart), better, "{together} {apart:?}");
        }
    }

    #[test]
    fn it_is_asked_again_later_each_time_and_soon_after_a_long_while() {
        let (mut trial, mut now) = (Trial::default(), 0);
        for seconds in [1, 2, 4, 8, 16, 16] {
            assert!(!ask(&mut trial, &mut now, 9000, [0; 4]));
            now += seconds * SETTLED_NS - LOOK;
            assert!(!trial.full(9000, LOOK, now), "{seconds}");
        }
        now += 40 * SETTLED_NS;
        ask(&mut trial, &mut now, 9000, [0; 4]);
        now += SETTLED_NS;
        ask(&mut trial, &mut now, 9000, [0; 4]);
    }

    #[test]
    fn what_is_full_for_a_moment_only_is_not_asked_about() {
        let mut trial = Trial::default();
        for now in [LOOK, 3 * LOOK, 5 * LOOK] {
            assert!(!trial.full(9000, LOOK, now) && !trial.full(9000, LOOK, now + LOOK));
            trial.pause();
        }
        assert!(!trial.is_under_way());
        assert_eq!(trial.apart(9000, LOOK, 7 * LOOK), None, "nobody has asked");
    }
}
