//! What a piece of news changes: a report from a zygote, a call through the handle.

use howdah_sys::process::Peer;

use crate::call::{Call, Damaged, Reply, Resize, Resized};
use crate::config::most_workers;
use crate::error::{ReloadError, StartError};
use crate::message::Report;
use crate::notice::Notice;
use crate::state::{Startup, State};

impl State {
    pub(crate) fn note(&mut self, notice: Notice) {
        match notice {
            Notice::Call(call) => self.note_call(call),
            Notice::Recovered { index } => self.crew.recovered(index),
            Notice::Zygote { generation, sender, report } => self.note_report(generation, sender, report),
            Notice::ZygoteClosed { generation } => {
                if let Some(generation) = self.generation_mut(generation) {
                    generation.zygote.closed();
                }
            }
            Notice::Started { generation, outcome } => self.note_start(generation, outcome),
            Notice::Memory { found, hidden } => {
                self.note_memory(&found);
                hidden.into_iter().for_each(|(pid, error)| self.note_hidden(pid, &error));
            }
            Notice::WorkerEnded { index, pid } => self.note_end(index, pid),
        }
    }

    fn note_call(&mut self, call: Call) {
        match call {
            Call::Ready(reply) => self.note_wait_for_ready(reply),
            Call::Reload(reply) => self.request_reload(reply),
            Call::Stop { within, reply } => self.request_stop(within, reply),
            Call::Doom { which, reply } => self.doom_replies.push((which, reply)),
            Call::Resize { change, reply } => {
                let _ = reply.send(self.resize(change));
            }
            Call::Snapshot(reply) => {
                let _ = reply.send(self.snapshot());
            }
            Call::Signal { index, pid, signal, reply } => {
                let worker = self.crew.get_mut(index);
                let meant = worker.filter(|worker| pid.is_none() || worker.pid() == pid);
                let _ = reply.send(meant.is_some_and(|worker| worker.signal(signal)));
            }
            Call::Guest { lease, reply } => self.request_guest(lease, reply),
            Call::Heir { worker, outcome } => self.note_heir(worker, outcome),
            Call::Look => {}
            Call::Replace(Damaged { segment, what }) => self.request_replacement(&segment, what),
        }
    }

    fn note_report(&mut self, number: u32, sender: Option<Peer>, report: Report) {
        if let Some(generation) = self.generation_mut(number) {
            generation.zygote.heard_from(sender);
        }
        match report {
            Report::Ready { perl, templates } => self.loaded(number, perl, templates),
            Report::Failed(message) => self.reload_failed(number, &ReloadError::Application(message)),
            Report::Spawned { worker, pid } => self.forked(worker, pid),
            Report::Exited { worker, pid, status } => self.departed(worker, pid, status),
            // It only speaks up when something is wrong.
            Report::Log(text) => tracing::warn!(generation = number, "zygote: {text}"),
        }
    }

    fn note_wait_for_ready(&mut self, reply: Reply<Result<(), StartError>>) {
        match &mut self.startup {
            Startup::Waiting(replies) => replies.push(reply),
            Startup::Done => {
                let _ = reply.send(Ok(()));
            }
        }
    }

    fn resize(&mut self, change: Resize) -> Resized {
        let wanted = match change {
            Resize::By(delta) => self.target.saturating_add_signed(delta as isize),
            Resize::To(count) => count,
        };
        let most = most_workers(self.crew.cells());
        let target = wanted.clamp(1, most);
        if target != self.target {
            tracing::info!(from = self.target, to = target, "the number of workers changes");
        }
        self.target = target;
        Resized { workers: target, wanted, most }
    }
}
