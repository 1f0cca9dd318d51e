//! A worker that has served enough requests leaves a process behind that is the next zygote: what was loaded, compiled and
//! cached in use is shared by all workers to come.
//!
//! ```text
//! a worker has served enough --replaced--> asked --its end of a socket--> Loading --> Filling --> Serving
//!                                            |                               |           |
//!                                            +---- says why not, or dies ----+-----------+--> the old zygote goes on
//! ```
//!
//! From there on it is a generation as any other (`reload.rs`); only that it was not loaded, and that the workers of the one
//! before it may finish what they do, however long that takes.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use howdah_sys::Pid;
use howdah_sys::channel::is_seqpacket;

use crate::error::ReloadError;
use crate::generation::{Generation, Role};
use crate::pid::pid_number;
use crate::promotion::Asked;
use crate::state::State;
use crate::worker::{Reason, Worker};
use crate::zygote::Zygote;

/// Time for a worker to be replaced, and to end its request.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a worker has said before its end is heard in this time after it.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Time for the new zygote to say that it is ready: it has nothing to load.
const READY: Duration = Duration::from_secs(20);

impl State {
    /// Asks a worker when one has served enough, and gives up what takes too long.
    pub(crate) fn look_at_reforks(&mut self, now: Instant) {
        self.give_up_late_refork(now);
        if self.promotion.look_at.is_none_or(|at| at > now) || self.promotion.asked.is_some() {
            return;
        }
        if self.in_role(Role::Serving).is_some_and(|it| it.reforks as usize >= self.config.reforks.len()) {
            self.promotion.look_at = None;
            return;
        }
        self.promotion.look_later(now);
        let Some((worker, generation)) = self.candidate() else { return };
        let Some(chosen) = self.crew.get_mut(worker) else { return };
        chosen.retire(Reason::Refork, now);
        let pid = chosen.pid();
        self.promotion.asked = Some(Asked { worker, pid, generation, since: now, gone: None });
        tracing::debug!(worker, pid = pid_number(pid), "worker is to leave the next zygote behind");
    }

    /// The worker of the serving generation that has served most, once that is enough; one that is idle before others.
    fn candidate(&self) -> Option<(u16, u32)> {
        let serving = self.in_role(Role::Serving)?;
        let enough = *self.config.reforks.get(serving.reforks as usize)?;
        let alone =
            self.generations.iter().all(|other| other.number == serving.number || other.role == Role::Guest);
        let alone = alone && self.reload_replies.is_empty();
        if !alone || !serving.zygote.can_fork() || serving.zygote.is_host || self.damage.is_under_way() {
            return None;
        }
        let able = |worker: &Worker| worker.generation == serving.number && worker.stays() && worker.up;
        let counted = self.crew.workers().filter(|(_, worker)| able(worker)).filter_map(|(index, _)| {
            let info = self.worker_info(index)?;
            (info.requests >= enough).then_some((info.slot.is_none(), info.requests, index))
        });
        counted.max().map(|(_, _, index)| (index, serving.number))
    }

    fn give_up_late_refork(&mut self, now: Instant) {
        if let Some(asked) = self.promotion.asked {
            self.give_up_late_worker(asked, now);
        }
        for number in self.numbers(|generation| ready_by(generation).is_some_and(|by| by <= now)) {
            let error = ReloadError::Zygote("it is not ready in time".to_owned());
            self.reload_failed(number, &error);
        }
    }

    fn give_up_late_worker(&mut self, asked: Asked, now: Instant) {
        if asked.gone.is_some_and(|at| at + LAST_WORDS <= now) {
            self.refork_failed(asked.pid, "it has ended before it said anything");
        } else if asked.gone.is_none() && asked.since + PATIENCE <= now {
            if let Some(worker) = self.crew.get_mut(asked.worker).filter(|worker| !worker.draining) {
                worker.retiring = None;
            }
            self.refork_failed(
                asked.pid,
                "it does not come to the end of its request, or cannot be replaced",
            );
        }
    }

    /// When to look again.
    pub(crate) fn next_refork(&self) -> Option<Instant> {
        let asked = self.promotion.asked;
        let waits = [
            asked.map(|asked| asked.gone.map_or(asked.since + PATIENCE, |at| at + LAST_WORDS)),
            self.promotion.look_at.filter(|_| asked.is_none()),
            self.generations.iter().filter_map(ready_by).min(),
        ];
        waits.into_iter().flatten().min().filter(|_| self.shutdown.is_none())
    }

    /// A worker has ended, perhaps the one that was asked.
    pub(crate) fn note_end_of_asked(&mut self, index: u16, pid: Option<Pid>) {
        let now = Instant::now();
        let asked = self.promotion.asked.as_mut();
        if let Some(asked) =
            asked.filter(|asked| asked.worker == index && (pid.is_none() || asked.pid == pid))
        {
            asked.gone.get_or_insert(now);
        }
    }

    /// Through the handle: what a worker says that was asked. Anybody may say it, and at any time.
    pub(crate) fn note_heir(&mut self, worker: u16, outcome: Result<OwnedFd, String>) {
        let Some(asked) = self.promotion.asked.filter(|asked| asked.worker == worker) else { return };
        self.promotion.asked = None;
        let serves = self.in_role(Role::Serving).is_some_and(|serving| serving.number == asked.generation);
        if self.shutdown.is_some() || !serves || self.generations.iter().any(Generation::is_coming) {
            return given_up();
        }
        if let Err(why) = outcome.and_then(|control| self.adopt_heir(asked, control)) {
            self.refork_failed(asked.pid, &why);
        }
    }

    fn adopt_heir(&mut self, asked: Asked, control: OwnedFd) -> Result<(), String> {
        if !is_seqpacket(&control) {
            return Err("what it has sent is no control socket".to_owned());
        }
        let number = self.last_generation + 1;
        let zygote = Zygote::adopt(control, &self.shared, number, self.mailbox.clone());
        let zygote = zygote.map_err(|error| error.with_way_out())?;
        let before = self.generation_mut(asked.generation);
        let reforks = before.map_or(0, |generation| generation.reforks) + 1;
        self.last_generation = number;
        self.generations.push(Generation { reforks, ..Generation::new(number, zygote) });
        let (worker, pid) = (asked.worker, pid_number(asked.pid));
        tracing::info!(generation = number, worker, pid, "a worker has left the next zygote behind");
        Ok(())
    }

    /// Another generation serves: what the worker that was asked says or does is of no concern any more, and no failure.
    pub(crate) fn give_up_refork(&mut self) {
        if self.promotion.asked.take().is_some() {
            given_up();
        }
    }

    /// The old zygote goes on; another worker is asked later.
    fn refork_failed(&mut self, pid: Option<Pid>, why: &str) {
        self.promotion.asked = None;
        self.counts.failed_reforks += 1;
        let wait = self.promotion.failed(Instant::now()).as_secs();
        let pid = pid_number(pid);
        tracing::warn!(
            pid,
            "no refork, the zygote stays: {why}. The next try is in {wait} s at the earliest; see docs/refork.md"
        );
    }

    /// A coming generation cannot serve. False when it is none of a refork.
    pub(crate) fn heir_failed(&mut self, number: u32, error: &ReloadError) -> bool {
        let coming = |it: &&mut Generation| it.is_coming() && it.reforks > 0;
        if self.generation_mut(number).filter(coming).is_none() {
            return false;
        }
        self.dismiss(number);
        self.refork_failed(None, &error.of_heir());
        true
    }
}

/// By when a zygote has to say that it is ready which a worker has left behind; none when it has, or was loaded.
fn ready_by(generation: &Generation) -> Option<Instant> {
    let is_awaited = generation.role == Role::Loading && generation.reforks > 0;
    is_awaited.then(|| generation.started + READY)
}

fn given_up() {
    tracing::info!("the refork is given up: something newer is under way");
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use tokio::sync::oneshot;

    use super::*;
    use crate::config::Config;
    use crate::scene::{Scene, pid_of};

    /// Three workers, of which one is asked after five requests.
    fn scene() -> Scene {
        Scene::new(Config { workers: 3, reforks: vec![5, 50], ..Config::default() })
    }

    /// So many requests has each served.
    fn serve(scene: &Scene, requests: [u64; 3]) {
        for (index, requests) in (0..).zip(requests) {
            scene.state.crew.cell(index).unwrap().requests.store(requests, SeqCst);
        }
    }

    fn asked(generation: u32, since: Instant) -> Option<Asked> {
        Some(Asked { worker: 0, pid: Some(pid_of(0)), generation, since, gone: None })
    }

    #[tokio::test]
    async fn who_has_served_most_is_asked_and_one_that_is_idle_before_others() {
        for (requests, busy, asked) in [
            ([4, 4, 4], None, None),
            ([4, 5, 4], None, Some(1)),
            ([6, 5, 7], None, Some(2)),
            ([6, 5, 7], Some(2), Some(0)),
            ([4, 4, 7], Some(2), Some(2)),
        ] {
            let scene = scene();
            serve(&scene, requests);
            if let Some(busy) = busy {
                scene.state.crew.cell(busy).unwrap().slot.store(1, SeqCst);
            }
            assert_eq!(scene.state.candidate(), asked.map(|index| (index, 1)), "{requests:?} {busy:?}");
        }
    }

    #[tokio::test]
    async fn nobody_is_asked_while_something_else_is_under_way() {
        type Act = fn(&mut Scene);
        let acts: [(&str, Act, bool); 7] = [
            ("nothing", |_| {}, true),
            ("somebody looks at a guest", |scene| scene.load(0).role = Role::Guest, true),
            ("another generation comes", |scene| scene.load(0).role = Role::Loading, false),
            ("a reload is wished", |scene| scene.state.reload_replies.push(oneshot::channel().0), false),
            ("shared memory is damaged", |scene| scene.state.damage.under_way = Some(Instant::now()), false),
            ("its zygote leaves", |scene| scene.state.generations[0].zygote.stop(), false),
            ("its zygote is a host", |scene| scene.state.generations[0].zygote.is_host = true, false),
        ];
        for (what, act, is_asked) in acts {
            let mut scene = scene();
            serve(&scene, [5, 5, 5]);
            act(&mut scene);
            assert_eq!(scene.state.candidate().is_some(), is_asked, "{what}");
        }
    }

    #[tokio::test]
    async fn what_is_left_behind_takes_over_from_the_one_that_serves_when_nothing_else_does() {
        // Whether another generation comes, the one of which somebody was asked, how many there are then.
        for (comes, generation, there) in [(false, 1, 2), (false, 9, 1), (true, 1, 2)] {
            let mut scene = scene();
            if comes {
                scene.load(0);
            }
            scene.state.promotion.asked = asked(generation, Instant::now());
            let (control, _end) = howdah_sys::socketpair_seqpacket().unwrap();
            scene.state.note_heir(0, Ok(control));
            assert_eq!(scene.state.generations.len(), there, "{comes} {generation}");
            assert!(scene.state.promotion.asked.is_none() && scene.state.counts.failed_reforks == 0);
        }
    }

    #[tokio::test]
    async fn what_takes_too_long_is_given_up_and_the_worker_goes_on() {
        let (mut scene, now) = (scene(), Instant::now());
        scene.state.crew.get_mut(0).unwrap().retire(Reason::Refork, now);
        scene.state.promotion.asked = asked(1, now);
        scene.state.give_up_late_refork(now + PATIENCE / 2);
        assert_eq!((scene.retiring(), scene.state.counts.failed_reforks), (vec![0], 0));
        scene.state.give_up_late_refork(now + PATIENCE);
        assert_eq!((scene.retiring(), scene.state.counts.failed_reforks), (vec![], 1));
    }

    #[tokio::test]
    async fn a_zygote_that_does_not_come_to_say_that_it_is_ready_is_given_up_once() {
        for (role, is_late) in [(Role::Loading, true), (Role::Filling, false)] {
            let mut scene = scene();
            scene.state.promotion.look_at = None;
            let heir = scene.load(1);
            heir.role = role;
            let (number, late) = (heir.number, heir.started + READY);
            assert_eq!(scene.state.next_refork(), is_late.then_some(late), "{role:?}");
            scene.state.look_at_reforks(late);
            let role = scene.state.generation_mut(number).map(|heir| heir.role);
            let failed = scene.state.counts.failed_reforks;
            assert_eq!((role == Some(Role::Leaving), failed), (is_late, u64::from(is_late)));
            assert!(scene.state.next_refork().is_none_or(|at| at > late), "nobody looks without end");
        }
    }

    #[tokio::test]
    async fn a_reload_that_overtakes_it_is_no_failure() {
        let mut scene = scene();
        scene.state.promotion.asked = asked(1, Instant::now());
        scene.load(0);
        scene.state.finish_reload();
        assert!(scene.state.promotion.asked.is_none() && scene.state.counts.failed_reforks == 0);
    }
}
