//! A guest: one more worker, of a generation of its own that a second recipe starts, for somebody who looks at it. It serves
//! beside the others, who do not notice; when it dies nobody replaces it, and it leaves with whoever has asked for it
//! (`lease.rs`).

use std::sync::Weak;

use crate::call::Reply;
use crate::error::ReloadError;
use crate::generation::{Generation, Role};
use crate::lease::Guest;
use crate::state::State;
use crate::zygote::Zygote;

/// For whoever waits.
const DEAD: &str = "its worker has ended: see the error log";

impl State {
    /// Through the handle. The answer is the number of its worker, once that is ready, or why there is none.
    pub(crate) fn request_guest(&mut self, lease: Weak<()>, reply: Reply<Result<u16, String>>) {
        let guest = Guest { lease, reply: Some(reply), forked: false };
        if let Err((mut guest, reason)) = self.invite(guest) {
            guest.answer(Err(reason));
        }
    }

    fn invite(&mut self, guest: Guest) -> Result<(), (Guest, String)> {
        let refused = if self.shutdown.is_some() {
            Some("the server is stopping")
        } else if self.generations.iter().any(Generation::has_guest) {
            Some("another such command is under way: wait for its end, or end it")
        } else {
            None
        };
        if let Some(reason) = refused {
            return Err((guest, reason.to_owned()));
        }
        let Some(job) = self.program.as_ref().and_then(|program| program.guest.clone()) else {
            return Err((guest, self.no_guest().to_owned()));
        };
        let number = self.last_generation + 1;
        match Zygote::start(job, false, number, self.mailbox.clone(), &self.shared) {
            Ok(zygote) => {
                self.last_generation = number;
                let generation = Generation::new(number, zygote);
                self.generations.push(Generation { role: Role::Guest, guest: Some(guest), ..generation });
                Ok(())
            }
            Err(error) => Err((guest, error.with_way_out())),
        }
    }

    fn no_guest(&self) -> &'static str {
        if self.program.is_some() {
            "there is nothing to look into: it runs CGI scripts; those of mode keep can be profiled"
        } else {
            "plackup has loaded the application, so it cannot be loaded a second time: start the server by howdah"
        }
    }

    /// Tells who waits that the worker is ready, and sees off guests who have died or whom nobody wants any more.
    pub(crate) fn look_at_guests(&mut self) {
        let mut leaving = Vec::new();
        for generation in self.generations.iter_mut().filter(|generation| generation.role == Role::Guest) {
            let number = generation.number;
            let Some(guest) = &mut generation.guest else { continue };
            let worker = self.crew.workers().find(|(_, worker)| worker.generation == number);
            let dead = guest.forked && worker.is_none();
            match worker {
                Some((index, worker)) if worker.up => guest.answer(Ok(index)),
                _ if dead => guest.answer(Err(DEAD.to_owned())),
                _ => {}
            }
            if dead || guest.lease.strong_count() == 0 {
                leaving.push(number);
            }
        }
        for number in leaving {
            self.dismiss(number);
        }
    }

    /// Its zygote cannot serve. False when `number` is no guest.
    pub(crate) fn guest_failed(&mut self, number: u32, error: &ReloadError) -> bool {
        let Some(generation) = self.generation_mut(number) else { return false };
        let Some(guest) = &mut generation.guest else { return false };
        guest.answer(Err(in_words(error)));
        if generation.role == Role::Guest {
            self.dismiss(number);
        }
        true
    }
}

/// Whoever reads it knows that it concerns the guest alone.
fn in_words(error: &ReloadError) -> String {
    match error {
        ReloadError::Application(message) => message.trim_end().to_owned(),
        ReloadError::Zygote(reason) => format!("its zygote failed: {reason}"),
        ReloadError::Workers(status) => {
            format!("its worker has ended before it served ({status}): see the error log")
        }
        ReloadError::Stopping => "the server is stopping".to_owned(),
    }
}
