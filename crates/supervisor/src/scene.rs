//! All that the supervisor knows, without a process: for tests of its steps.

use std::os::fd::OwnedFd;

use howdah_sys::{Pid, socketpair_seqpacket};
use howdah_wire::{Roster, Shape};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::config::{Config, Shared};
use crate::event::Event;
use crate::family::Family;
use crate::generation::Generation;
use crate::notice::Notice;
use crate::state::State;
use crate::worker::Worker;
use crate::zygote::Zygote;

/// A state, and the other end of all that it says.
pub(crate) struct Scene {
    pub(crate) state: State,
    _zygote: OwnedFd,
    _events: UnboundedReceiver<Event>,
    _inbox: UnboundedReceiver<Notice>,
}

impl Scene {
    /// As many workers as are wanted are ready; their zygote takes orders and obeys none.
    pub(crate) fn new(config: Config) -> Self {
        let shared = shared();
        let (events_to, events) = unbounded_channel();
        let (mailbox, inbox) = unbounded_channel();
        let (control, zygote) = socketpair_seqpacket().unwrap();
        let adopted = Zygote::adopt(control, &shared, 1, mailbox.clone()).unwrap();
        let mut generation = Generation::new(1, adopted);
        generation.zygote.loaded(String::new(), 0);
        generation.serve();
        let mut state = State::new(config, shared, events_to, mailbox);
        state.generations.push(generation);
        let mut scene = Self { state, _zygote: zygote, _events: events, _inbox: inbox };
        for _ in 0..scene.state.target {
            scene.worker();
        }
        scene
    }

    /// One more that is ready.
    pub(crate) fn worker(&mut self) -> u16 {
        let index = self.state.crew.free().unwrap();
        let mut worker = Worker::new(1, None, 0);
        worker.up = true;
        self.state.crew.occupy(index, worker);
        self.state.forked(index, pid_of(index));
        index
    }

    /// Those that have been asked to leave.
    pub(crate) fn draining(&self) -> Vec<u16> {
        self.state.crew.pick(|worker| worker.draining)
    }

    /// Those that are to be replaced.
    pub(crate) fn retiring(&self) -> Vec<u16> {
        self.state.crew.pick(|worker| worker.retiring.is_some())
    }
}

/// No process has a number as high as that.
pub(crate) fn pid_of(index: u16) -> Pid {
    Pid::from_raw(i32::MAX - i32::from(index)).unwrap()
}

fn shared() -> Shared {
    let (memfd, segment) = howdah_sys::create_segment(Shape { fronts: 1, workers: 64, slots: 8 }).unwrap();
    Shared {
        segment,
        memfd,
        eventfds: vec![howdah_sys::eventfd().unwrap()],
        roster: Roster::default(),
        titles: false,
        errors: None,
        family: Family::new().unwrap(),
    }
}
