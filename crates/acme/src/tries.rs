//! The tries since the last certificate came, which have failed or are under way. They are kept in a file, so that a server that is
//! started over and over does not ask the authority more often than one that stays: authorities count failures by the hour, and
//! what they have issued by the week.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Error;
use crate::place::{Place, write};
use crate::schedule::{self, LATEST, at_start, now};

/// See the module.
#[derive(Debug)]
pub struct Tries {
    file: PathBuf,
    failures: u32,
    /// When the authority was asked last, in seconds since 1970.
    at: i64,
    /// When it may be asked again, of its own saying.
    later: i64,
    /// The last of them had not come to its end when the process that made it did.
    cut_short: bool,
}

impl Tries {
    /// Those that the processes before this one have made; what is older than a day does not count.
    #[must_use]
    pub fn kept(place: &Place) -> Self {
        let (file, day) = (place.tries(), LATEST.as_secs().cast_signed());
        let read = || {
            let kept: Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
            let failures = u32::try_from(kept["failures"].as_u64()?).ok()?;
            let cut_short = kept["begun"].as_bool().unwrap_or_default();
            Some((failures, kept["at"].as_i64()?, kept["later"].as_i64()?, cut_short))
        };
        // One in the future was made by a clock that was wrong.
        let (failures, at, later, cut_short) =
            read().filter(|(_, at, ..)| (0..day).contains(&now().saturating_sub(*at))).unwrap_or_default();
        Self { file, failures, at, later: later.min(now() + day), cut_short }
    }

    /// How long a process that starts leaves the authority alone, and for how much of that the authority wants it.
    #[must_use]
    pub fn wait(&self) -> (Duration, Duration) {
        let left = |until: i64| Duration::from_secs((until - now()).max(0).cast_unsigned());
        let later = left(self.later);
        (left(self.at + at_start(self.failures).as_secs().cast_signed()).max(later), later)
    }

    /// Whether the process before this one has left an order that it had begun.
    #[must_use]
    pub fn are_cut_short(&self) -> bool {
        self.cut_short
    }

    /// Why a process that starts waits.
    #[must_use]
    pub fn why(&self) -> &'static str {
        match self.cut_short {
            true => "an order of the process before this one was cut short, or is still under way",
            false => "the last try did not go well, before this process was started",
        }
    }

    /// The authority is about to be asked. Kept as a failure: the process may not live to see how it ends.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn begin(&mut self) -> Result<(), Error> {
        (self.at, self.later) = (now(), now());
        self.keep(self.failures.saturating_add(1), true)
    }

    /// It went well.
    pub fn succeed(&mut self) {
        (self.failures, self.at, self.later) = Default::default();
        let _ = std::fs::remove_file(&self.file);
    }

    /// It failed: how long to wait, but for what is `random`, and until when the authority does not want to be asked.
    pub fn fail(&mut self, random: u64, later: Duration) -> Duration {
        let wait = schedule::wait(self.failures, random, later);
        self.failures = self.failures.saturating_add(1);
        self.later = now() + later.min(LATEST).as_secs().cast_signed();
        // Where the disk is full it was another's failure, too.
        let _ = self.keep(self.failures, false);
        wait
    }

    fn keep(&self, failures: u32, begun: bool) -> Result<(), Error> {
        let kept = json!({"failures": failures, "at": self.at, "later": self.later, "begun": begun});
        write(&self.file, kept.to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_starts_waits_for_what_others_have_tried() {
        let all = tempfile::tempdir().unwrap();
        let place = Place::of(all.path(), "https://x", &["a.example".to_owned()]);
        place.make().unwrap();
        let wait = || {
            let (wait, later) = Tries::kept(&place).wait();
            (wait.as_secs(), later.as_secs())
        };
        let about = |seconds: u64, wanted: u64| (wanted.saturating_sub(2)..=wanted).contains(&seconds);
        assert_eq!(wait(), (0, 0), "there was none");
        let mut tries = Tries::kept(&place);
        tries.begin().unwrap();
        assert!(about(wait().0, 10), "one was begun: {:?}", wait());
        assert!(Tries::kept(&place).why().contains("cut short"), "of which nobody knows how it went");
        for (later, wanted, asked) in [(0, 40, 0), (0, 160, 0), (5000, 5000, 5000), (0, 600, 0), (0, 600, 0)]
        {
            tries = Tries::kept(&place);
            tries.begin().unwrap();
            tries.fail(0, Duration::from_secs(later));
            assert!(Tries::kept(&place).why().contains("did not go well"));
            let (seconds, of_these) = wait();
            assert!(about(seconds, wanted) && about(of_these, asked), "{wanted}: {seconds} {of_these}");
        }
        tries.succeed();
        assert_eq!((wait(), place.tries().exists()), ((0, 0), false));
        assert_eq!(tries.fail(0, Duration::ZERO).as_secs(), 10, "the next failure is the first again");
        tries.succeed();
        for (at, kept) in [(now() - 100_000, "old"), (now() + 1000, "of another clock")] {
            std::fs::write(place.tries(), json!({"failures": 9, "at": at, "later": at + 9999}).to_string())
                .unwrap();
            assert_eq!(wait(), (0, 0), "{kept}");
        }
        let years = json!({"failures": 0, "at": now(), "later": now() + 100 * 24 * 3600});
        std::fs::write(place.tries(), years.to_string()).unwrap();
        assert!(about(wait().1, 24 * 3600), "no authority puts us off for longer: {:?}", wait());
        std::fs::write(place.tries(), "nonsense").unwrap();
        assert_eq!(wait(), (0, 0));
    }
}
