//! A new generation beside the old one, on request or because a zygote died.
//!
//! ```text
//! Loading --ready--> Filling --all workers ready--> Serving     (the one that served: Leaving)
//!    |                  |
//!    +---- failed ------+--> Leaving                            (the one that served goes on)
//! ```

use std::io;
use std::time::Instant;

use howdah_sys::Pid;

use crate::call::Reply;
use crate::error::{ReloadError, StartError};
use crate::generation::{Generation, Role};
use crate::state::State;
use crate::worker::{Reason, UNREADY, Worker};
use crate::zygote::Zygote;

impl State {
    /// Through the handle. A load that is under way is given up: newer code may be there by now.
    pub(crate) fn request_reload(&mut self, reply: Reply<Result<(), ReloadError>>) {
        if self.shutdown.is_some() {
            let _ = reply.send(Err(ReloadError::Stopping));
            return;
        }
        self.reload_replies.push(reply);
        for number in self.coming() {
            tracing::info!(generation = number, "what is under way is given up for a newer reload");
            self.dismiss(number);
        }
        if self.program.is_none() {
            self.replace_workers();
            return;
        }
        if let Err(error) = self.add_generation() {
            self.log_and_answer(&ReloadError::of_start(&error));
        }
    }

    /// Starts the zygote of a new generation.
    pub(crate) fn add_generation(&mut self) -> Result<(), StartError> {
        let Some(program) = &self.program else { return Ok(()) };
        self.last_generation += 1;
        let number = self.last_generation;
        let zygote = Zygote::start(
            program.job.clone(),
            program.perl.is_none(),
            number,
            self.mailbox.clone(),
            &self.shared,
        )?;
        self.generations.push(Generation::new(number, zygote));
        Ok(())
    }

    /// The zygote of `number` has been started, or could not be.
    pub(crate) fn note_start(&mut self, number: u32, outcome: io::Result<Pid>) {
        let Some(program) = &self.program else { return };
        let generation = self.generations.iter_mut().find(|generation| generation.number == number);
        let Some(generation) = generation.filter(|generation| generation.zygote.is_starting()) else {
            return;
        };
        let outcome = outcome.map_err(|error| StartError::of_perl(program.perl.as_deref(), error));
        match outcome.and_then(|pid| generation.zygote.started(pid, &self.shared, number)) {
            Ok(()) => {
                let pid = generation.zygote.pid_number();
                let what = match &program.perl {
                    None => "the host of the scripts is being started",
                    Some(_) if self.config.preload => "the application is being loaded",
                    Some(_) => "the zygote is being started",
                };
                tracing::info!(generation = number, pid, "{what}");
            }
            Err(error) => {
                generation.zygote.abandon();
                self.reload_failed(number, &ReloadError::of_start(&error));
            }
        }
    }

    /// The zygote of `number` has loaded the application, with this version of perl and so many templates.
    pub(crate) fn loaded(&mut self, number: u32, perl: String, templates: u32) {
        let first = self.in_role(Role::Serving).is_none();
        let Some(generation) = self.generation_mut(number) else { return };
        generation.zygote.loaded(perl, templates);
        let (is_heir, age) = (generation.reforks > 0, generation.age());
        if generation.role == Role::Loading {
            if first {
                generation.serve();
            } else {
                generation.role = Role::Filling;
            }
            tracing::info!(generation = number, "{}", self.ready(is_heir, age));
        }
    }

    /// What is true of a zygote that is ready: only of its own load does it know how long that took.
    fn ready(&self, is_heir: bool, age: f64) -> String {
        match &self.program {
            _ if is_heir => format!("the new zygote is ready, in {age:.2} s"),
            Some(program) if program.perl.is_none() => {
                format!("the host of the scripts is ready, in {age:.2} s")
            }
            _ if !self.config.preload => {
                format!("the zygote is ready, in {age:.2} s; each worker loads the application for itself")
            }
            Some(_) => format!("the application is loaded, in {age:.2} s"),
            None => "the zygote has the application as plackup has loaded it".to_owned(),
        }
    }

    /// A coming generation cannot serve; the old one goes on.
    pub(crate) fn reload_failed(&mut self, number: u32, error: &ReloadError) {
        if self.guest_failed(number, error)
            || self.heir_failed(number, error)
            || !self.coming().contains(&number)
        {
            return;
        }
        self.dismiss(number);
        if self.reload_replies.is_empty() {
            let now = Instant::now();
            self.loads.failed(now, now, error.to_string());
        }
        self.log_and_answer(error);
    }

    /// Requests go to the coming generation alone once it has all its workers.
    pub(crate) fn finish_reload(&mut self) {
        if self.program.is_none() {
            self.finish_replacement();
        }
        let Some(coming) = self.in_role(Role::Filling) else { return };
        let (number, born, reforks) = (coming.number, coming.started, coming.reforks);
        let ready = self.crew.count(|worker| worker.generation == number && worker.stays() && worker.up);
        if ready < self.target {
            return;
        }
        for old in self.numbers(|generation| generation.role == Role::Serving) {
            tracing::info!(from = old, to = number, workers = ready, "requests go to the new generation");
            self.retire_generation(old, reforks == 0);
        }
        if let Some(coming) = self.generation_mut(number) {
            coming.serve();
        }
        self.give_up_refork();
        self.promotion.begin_anew(Instant::now());
        if reforks > 0 {
            self.counts.reforks += 1;
            return;
        }
        // Of one that nobody has asked for only time will tell.
        if !self.reload_replies.is_empty() {
            self.loads.worked(born);
        }
        self.answer_reload(&Ok(()));
    }

    /// When the serving generation has lost its zygote, a new one is loaded by itself.
    pub(crate) fn revive(&mut self, now: Instant) {
        let needed = self.in_role(Role::Serving).is_none_or(|serving| serving.zygote.is_gone());
        let under_way = !self.coming().is_empty() || self.loads.wait_until(now).is_some();
        if !needed || under_way || self.program.is_none() {
            return;
        }
        if let Err(error) = self.add_generation() {
            let why = format!("no new zygote: {}", error.with_way_out());
            tracing::error!("{why}");
            self.loads.failed(now, now, why);
        }
    }

    /// All workers of the serving generation drain, within the graceful time; its zygote leaves after them.
    fn retire_generation(&mut self, number: u32, wished: bool) {
        let Some(generation) = self.generation_mut(number) else { return };
        // Neither a dead zygote nor a refork was a wish of the operator's: the workers may finish what they do.
        let hurry = wished && !generation.orphaned;
        generation.role = Role::Leaving;
        generation.zygote.stop();
        let limit = self.config.grace().filter(|_| hurry);
        for index in self.crew.pick(|worker| worker.generation == number) {
            self.crew.drain(index, limit);
        }
        self.hurry_unforked(number);
    }

    /// A worker that its zygote has not come to fork yet has nothing to finish: without a limit, one that has been stopped would
    /// stay with it for ever.
    fn hurry_unforked(&mut self, number: u32) {
        for (_, _, worker) in self.crew.workers_mut() {
            if worker.generation == number && worker.process.is_none() && !worker.is_thread() {
                worker.limit(UNREADY);
            }
        }
    }

    /// A coming generation is given up.
    pub(crate) fn dismiss(&mut self, number: u32) {
        let Some(generation) = self.generation_mut(number) else { return };
        let loading = !generation.zygote.has_loaded();
        if loading && generation.reforks > 0 {
            // Its process is not known before it speaks. It ends when it finds its socket closed.
            generation.zygote.abandon();
        }
        self.retire_generation(number, true);
        if let (true, Some(generation)) = (loading, self.generation_mut(number)) {
            generation.zygote.interrupt();
        }
    }

    fn replace_workers(&mut self) {
        let now = Instant::now();
        if self.in_role(Role::Serving).is_none_or(|serving| !serving.zygote.can_fork()) {
            let lost = "plackup's zygote is dead, restart the server".to_owned();
            self.log_and_answer(&ReloadError::Zygote(lost));
            return;
        }
        tracing::info!("workers are replaced from plackup's zygote, which keeps its code");
        for (_, _, worker) in self.crew.workers_mut() {
            worker.retire(Reason::Reload, now);
        }
    }

    fn finish_replacement(&mut self) {
        let reload = |reason| reason == Reason::Reload;
        let waiting = |worker: &Worker| {
            !worker.draining && worker.retiring.is_some_and(|retirement| reload(retirement.reason))
        };
        if self.crew.count(waiting) == 0 {
            self.answer_reload(&Ok(()));
        }
    }

    fn log_and_answer(&mut self, error: &ReloadError) {
        tracing::error!("{error}");
        self.answer_reload(&Err(error.clone()));
    }

    /// Tells everybody who asked for a reload.
    pub(crate) fn answer_reload(&mut self, outcome: &Result<(), ReloadError>) {
        if self.reload_replies.is_empty() {
            return;
        }
        match outcome {
            Ok(()) => self.counts.reloads += 1,
            Err(ReloadError::Stopping) => {}
            Err(_) => self.counts.failed_reloads += 1,
        }
        for reply in self.reload_replies.drain(..) {
            let _ = reply.send(outcome.clone());
        }
    }

    fn coming(&self) -> Vec<u32> {
        self.numbers(Generation::is_coming)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::scene::Scene;

    #[tokio::test]
    async fn no_request_is_cut_off_by_a_load_that_nobody_has_asked_for() {
        // How often the coming generation was left behind, whether the zygote of the old one is dead, whose time is bounded.
        for (reforks, orphaned, bounded) in [(0, false, &[0, 1][..]), (1, false, &[]), (0, true, &[])] {
            let brief = Duration::from_millis(1);
            let mut scene = Scene::new(Config { workers: 2, graceful_timeout: brief, ..Config::default() });
            scene.state.generations[0].orphaned = orphaned;
            scene.load(reforks);
            scene.state.finish_reload();
            assert_eq!(scene.state.in_role(Role::Serving).map(|it| it.number), Some(2));
            assert_eq!(
                (scene.draining(), scene.overdue()),
                (vec![0, 1], bounded.to_vec()),
                "{reforks} {orphaned}"
            );
        }
    }

    #[tokio::test]
    async fn a_worker_that_is_not_forked_yet_has_a_bound_where_there_is_none_for_others() {
        let forever = Config { workers: 1, graceful_timeout: Duration::ZERO, ..Config::default() };
        let mut scene = Scene::new(forever);
        scene.state.crew.occupy(1, Worker::new(1, None, 0));
        scene.state.dismiss(1);
        let bounds =
            [0, 1].map(|index| scene.state.crew.get_mut(index).and_then(Worker::next_look).is_some());
        assert_eq!((scene.draining(), bounds), (vec![0, 1], [false, true]));
    }
}
