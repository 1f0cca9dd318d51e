//! The end: graceful or at once, and the answers that are still owed.

use std::time::Duration;

use howdah_sys::launcher::Condition;

use crate::call::{Doom, Grace, Reply};
use crate::error::{ReloadError, StartError};
use crate::generation::Role;
use crate::state::{Ended, Shutdown, Startup, State};
use crate::worker::UNREADY;
use crate::zygote::Program;

impl State {
    /// Through the handle; a second time to cut a graceful stop short.
    pub(crate) fn request_stop(&mut self, within: Grace, reply: Reply<()>) {
        let shutdown = self.shutdown.get_or_insert_with(|| Shutdown { at_once: false, replies: Vec::new() });
        shutdown.replies.push(reply);
        shutdown.at_once |= within == Grace::Within(Duration::ZERO);
        self.answer_reload(&Err(ReloadError::Stopping));
        self.fail_start(|| StartError::Stopped);
        for number in self.numbers(|generation| generation.role != Role::Leaving) {
            self.dismiss(number);
        }
        let grace = match within {
            Grace::Usual => self.config.grace(),
            Grace::Within(time) => Some(time),
        };
        for index in self.crew.pick(|_| true) {
            self.crew.drain(index, grace);
        }
        for (_, _, worker) in self.crew.workers_mut().filter(|(_, _, worker)| !worker.up) {
            worker.limit(UNREADY);
        }
    }

    /// Nothing is left to do, or nothing can be done any more.
    pub(crate) fn look_for_the_end(&mut self) {
        let (doomed, empty) = (self.is_doomed(), self.crew.is_empty());
        // As long as workers of plackup's serve, there may be somebody who starts it anew in time.
        let hopeless = doomed && self.program.is_some();
        for (which, reply) in std::mem::take(&mut self.doom_replies) {
            if doomed && empty || hopeless && which == Doom::NoZygote {
                let _ = reply.send(());
            } else {
                self.doom_replies.push((which, reply));
            }
        }
        if self.shutdown.is_some() {
            if empty && self.generations.is_empty() {
                self.ended = Some(Ended::Stopped);
            }
            return;
        }
        if self.program.is_none() && doomed && empty {
            tracing::error!("plackup's zygote and all its workers are gone; restart the server");
            self.ended = Some(Ended::Lost);
        }
    }

    /// There is no zygote, and there can be no other. Launchers that were stopped may be continued, so as long as workers
    /// serve there is hope.
    fn is_doomed(&self) -> bool {
        let barren = match self.program.as_ref().map(Program::condition) {
            None | Some(Condition::Gone) => true,
            Some(Condition::Silent) => self.crew.is_empty(),
            Some(Condition::Well) => false,
        };
        barren && self.generations.iter().all(|generation| generation.zygote.is_gone())
    }

    /// Whoever still waits for an answer gets it.
    pub(crate) fn answer_all(&mut self, ended: Ended) {
        tracing::debug!("the supervisor ends: {ended:?}");
        self.answer_reload(&Err(ReloadError::Stopping));
        self.fail_start(|| StartError::Stopped);
        self.doom_replies.clear();
        for reply in self.shutdown.take().into_iter().flat_map(|shutdown| shutdown.replies) {
            let _ = reply.send(());
        }
    }

    /// Whoever waits for the first workers hears that they will not be.
    pub(crate) fn fail_start(&mut self, why: impl Fn() -> StartError) {
        if let Startup::Waiting(replies) = &mut self.startup {
            replies.drain(..).for_each(|reply| drop(reply.send(Err(why()))));
        }
    }
}
