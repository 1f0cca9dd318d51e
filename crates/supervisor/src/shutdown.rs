//! The end: graceful or at once, and the answers that are still owed.

use std::time::Instant;

use crate::error::{ReloadError, StartError};
use crate::generation::Role;
use crate::handle::Reply;
use crate::supervisor::{Ended, Startup, Supervisor};

/// A stop under way.
#[derive(Debug)]
pub(crate) struct Shutdown {
    /// Workers get no time to leave: that one does not is nothing to tell.
    at_once: bool,
    replies: Vec<Reply<()>>,
}

impl Supervisor {
    /// Through the handle; a second time to cut a graceful stop short.
    pub(crate) fn request_stop(&mut self, graceful: bool, reply: Reply<()>) {
        let shutdown = self.shutdown.get_or_insert_with(|| Shutdown { at_once: false, replies: Vec::new() });
        shutdown.replies.push(reply);
        shutdown.at_once |= !graceful;
        self.answer_reload(&Err(ReloadError::Stopping));
        self.fail_startup();
        for number in self.numbers(|generation| generation.role != Role::Leaving) {
            self.dismiss(number);
        }
        let now = Instant::now();
        for index in self.pool.pick(|_| true) {
            self.pool.drain(index, self.config.grace());
        }
        if !graceful {
            for (_, _, worker) in self.pool.workers_mut() {
                worker.limit(now);
            }
        }
    }

    /// Somebody wants an end without delay.
    pub(crate) fn stops_at_once(&self) -> bool {
        self.shutdown.as_ref().is_some_and(|shutdown| shutdown.at_once)
    }

    /// Nothing is left to do.
    pub(crate) fn look_for_the_end(&mut self) {
        if self.shutdown.is_some() {
            if self.pool.is_empty() && self.generations.is_empty() {
                self.ended = Some(Ended::Stopped);
            }
            return;
        }
        let lost = self.program.is_none() && self.generations.iter().all(|g| g.zygote.is_gone());
        if lost && self.pool.is_empty() {
            tracing::error!("plackup's zygote and all its workers are gone; restart the server");
            self.ended = Some(Ended::Lost);
        }
    }

    /// Whoever still waits for an answer gets it.
    pub(crate) fn answer_all(&mut self, ended: Ended) {
        tracing::debug!("the supervisor ends: {ended:?}");
        self.answer_reload(&Err(ReloadError::Stopping));
        self.fail_startup();
        for reply in self.shutdown.take().into_iter().flat_map(|shutdown| shutdown.replies) {
            let _ = reply.send(());
        }
    }

    fn fail_startup(&mut self) {
        if let Startup::Waiting(replies) = &mut self.startup {
            replies.drain(..).for_each(|reply| drop(reply.send(Err(StartError::Stopped))));
        }
    }
}
