//! What keeps the server from starting workers, for people: the log hears of each when it begins, the status shows it for
//! as long as it lasts.

use std::time::{Duration, Instant};

use howdah_sys::launcher::Condition;

use crate::generation::{Generation, Role};
use crate::state::State;
use crate::worker::Worker;

/// A zygote forks within milliseconds, or within the time of its `before_fork` hooks.
const FORK: Duration = Duration::from_secs(5);
/// A load that takes longer than this is worth a line in the log.
const LOAD: Duration = Duration::from_secs(30);

impl State {
    /// All that is wrong at the moment; none when all is well.
    pub(crate) fn trouble(&self, now: Instant) -> Option<String> {
        let crashes = self.in_role(Role::Serving).and_then(|serving| serving.crashes.trouble(now));
        let launcher = self.program.as_ref().and_then(|program| without_launcher(program.condition()));
        let damage = self.damage.trouble(self.counts.replacements);
        let zygotes = [self.loads.trouble(now), self.dead_zygote(now), self.deaf_zygote(now)];
        let all = [crashes].into_iter().chain(zygotes).chain([launcher, damage, self.small_limit()]);
        let all: Vec<String> = all.flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn dead_zygote(&self, now: Instant) -> Option<String> {
        let lives = self.in_role(Role::Serving).is_some_and(|serving| !serving.zygote.is_gone());
        if lives || self.shutdown.is_some() {
            return None;
        }
        if let Some(loading) = self.in_role(Role::Loading) {
            return Some(format!("the zygote is dead, {}", has_been_loading(loading, now)));
        }
        let coming =
            if self.in_role(Role::Filling).is_some() { ", the workers of another come up" } else { "" };
        Some(format!("the zygote is dead{coming}"))
    }

    fn deaf_zygote(&self, now: Instant) -> Option<String> {
        let unborn = |(_, worker): &(u16, &Worker)| {
            worker.process.is_none() && worker.orphaned.is_none() && worker.started + FORK <= now
        };
        let (index, worker) = self.crew.workers().find(unborn)?;
        let generation = self.generations.iter().find(|generation| generation.number == worker.generation)?;
        let (zygote, age) = (generation.zygote.pid_number(), (now - worker.started).as_secs());
        Some(format!(
            "zygote {zygote} was told {age} s ago to fork worker {index} and has not; it may have been stopped"
        ))
    }

    /// Tells the log of a load that does not come to an end, once.
    pub(crate) fn look_at_loads(&mut self, now: Instant) {
        for generation in &mut self.generations {
            if is_long(generation, now) {
                generation.told_long = true;
                let (number, pid) = (generation.number, generation.zygote.pid_number());
                tracing::warn!(generation = number, pid, "{}", has_been_loading(generation, now));
            }
        }
    }

    /// When to look again.
    pub(crate) fn next_load(&self, now: Instant) -> Option<Instant> {
        let loading = |generation: &&Generation| generation.role == Role::Loading && !generation.told_long;
        let next = self.generations.iter().filter(loading).map(|generation| generation.started + LOAD);
        next.min().map(|at| at.max(now))
    }
}

fn is_long(generation: &Generation, now: Instant) -> bool {
    generation.role == Role::Loading && !generation.told_long && generation.started + LOAD <= now
}

fn has_been_loading(generation: &Generation, now: Instant) -> String {
    let (number, seconds) = (generation.number, (now - generation.started).as_secs());
    format!("generation {number} has been loading the application for {seconds} s")
}

fn without_launcher(condition: Condition) -> Option<String> {
    let what = match condition {
        Condition::Well => return None,
        Condition::Silent => "does not answer; it may have been stopped",
        Condition::Gone => "is gone: restart howdah",
    };
    Some(format!("the launcher, without which there is no reload, no upgrade and no new zygote, {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_that_is_well_is_no_trouble() {
        assert_eq!(without_launcher(Condition::Well), None);
        assert!(without_launcher(Condition::Silent).unwrap().contains("may have been stopped"));
        assert!(without_launcher(Condition::Gone).unwrap().contains("restart howdah"));
    }
}
