//! All that the supervisor knows; what it does with that, the steps, is told in the files above.

use std::time::Instant;

use howdah_wire::Segment;
use tokio::sync::{mpsc, watch};

use crate::backoff::Backoff;
use crate::call::{Doom, Reply};
use crate::config::{Config, Shared};
use crate::counts::Counts;
use crate::crew::Crew;
use crate::damage::Damage;
use crate::error::{ReloadError, StartError};
use crate::event::Event;
use crate::generation::{Generation, Role};
use crate::jitter::Jitter;
use crate::notice::Mailbox;
use crate::promotion::Promotion;
use crate::watch::Watch;
use crate::zygote::Program;

/// How the supervisor's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As asked by [`Handle::stop`](crate::Handle::stop).
    Stopped,
    /// The last worker is gone and no zygote is left to fork another, nor can there be one.
    Lost,
}

/// Whether the first workers have been seen ready.
#[derive(Debug)]
pub(crate) enum Startup {
    Waiting(Vec<Reply<Result<(), StartError>>>),
    Done,
}

/// A stop under way.
#[derive(Debug)]
pub(crate) struct Shutdown {
    /// Workers get no time to leave: that one does not is nothing to tell.
    pub(crate) at_once: bool,
    pub(crate) replies: Vec<Reply<()>>,
}

/// The state; one task owns it.
pub(crate) struct State {
    pub(crate) config: Config,
    /// None with a zygote from plackup, which cannot be started again.
    pub(crate) program: Option<Program>,
    pub(crate) shared: Shared,
    pub(crate) crew: Crew,
    pub(crate) generations: Vec<Generation>,
    pub(crate) last_generation: u32,
    /// Workers wanted.
    pub(crate) target: usize,
    pub(crate) events: mpsc::UnboundedSender<Event>,
    pub(crate) mailbox: Mailbox,
    pub(crate) jitter: Jitter,
    /// Zygotes that die or do not load when nobody asked for a reload.
    pub(crate) loads: Backoff,
    pub(crate) reload_replies: Vec<Reply<Result<(), ReloadError>>>,
    pub(crate) startup: Startup,
    pub(crate) shutdown: Option<Shutdown>,
    /// Who waits for the end of all hope.
    pub(crate) doom_replies: Vec<(Doom, Reply<()>)>,
    pub(crate) watch: Watch,
    pub(crate) counts: Counts,
    pub(crate) damage: Damage,
    pub(crate) promotion: Promotion,
    pub(crate) segments: watch::Sender<Segment>,
    /// When to collect orphans that are not ours to know.
    pub(crate) sweep_at: Option<Instant>,
    pub(crate) ended: Option<Ended>,
}

impl State {
    pub(crate) fn new(
        config: Config,
        shared: Shared,
        events: mpsc::UnboundedSender<Event>,
        mailbox: Mailbox,
    ) -> Self {
        Self {
            target: config.workers.max(1),
            watch: Watch::new(&config),
            counts: Counts::default(),
            damage: Damage::default(),
            promotion: Promotion::new(&config),
            segments: watch::Sender::new(shared.segment),
            config,
            program: None,
            crew: Crew::new(shared.segment),
            shared,
            generations: Vec::new(),
            last_generation: 0,
            events,
            mailbox,
            jitter: Jitter::new(),
            loads: Backoff::default(),
            reload_replies: Vec::new(),
            startup: Startup::Waiting(Vec::new()),
            shutdown: None,
            doom_replies: Vec::new(),
            sweep_at: None,
            ended: None,
        }
    }

    pub(crate) fn generation_mut(&mut self, number: u32) -> Option<&mut Generation> {
        self.generations.iter_mut().find(|generation| generation.number == number)
    }

    /// The generation in `role`; of serving and coming ones there is at most one.
    pub(crate) fn in_role(&self, role: Role) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.role == role)
    }

    pub(crate) fn numbers(&self, wanted: impl Fn(&Generation) -> bool) -> Vec<u32> {
        self.generations.iter().filter(|generation| wanted(generation)).map(|g| g.number).collect()
    }

    /// Somebody wants an end without delay.
    pub(crate) fn stops_at_once(&self) -> bool {
        self.shutdown.as_ref().is_some_and(|shutdown| shutdown.at_once)
    }
}
