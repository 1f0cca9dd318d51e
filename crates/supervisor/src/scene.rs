//! All that the supervisor knows, without a process: for tests of its steps.

use std::os::fd::OwnedFd;

use howdah_sys::{Pid, socketpair_seqpacket};
use howdah_wire::{Roster, Shape};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::config::{Config, Shared};
use crate::event::Event;
use crate::family::Family;
use crate::generation::{Generation, Role};
use crate::notice::Notice;
use crate::state::State;
use crate::worker::Worker;
use crate::zygote::Zygote;

/// A state, and the other end of all that it says.
pub(crate) struct Scene {
    pub(crate) state: State,
    zygotes: Vec<OwnedFd>,
    _events: UnboundedReceiver<Event>,
    _inbox: UnboundedReceiver<Notice>,
}

impl Scene {
    /// As many workers as are wanted are ready; their zygote takes orders and obeys none.
    pub(crate) fn new(config: Config) -> Self {
        let (events_to, events) = unbounded_channel();
        let (mailbox, inbox) = unbounded_channel();
        let state = State::new(config, shared(), events_to, mailbox);
        let mut scene = Self { state, zygotes: Vec::new(), _events: events, _inbox: inbox };
        scene.load(0).serve();
        scene
    }

    /// Another generation with all its workers, to which no requests go yet; left behind by a worker if there were `reforks`.
    pub(crate) fn load(&mut self, reforks: u32) -> &mut Generation {
        let state = &mut self.state;
        let number = state.last_generation + 1;
        state.last_generation = number;
        let (control, zygote) = socketpair_seqpacket().unwrap();
        self.zygotes.push(zygote);
        let mut adopted = Zygote::adopt(control, &state.shared, number, state.mailbox.clone()).unwrap();
        adopted.loaded(String::new(), 0);
        let generation = Generation { role: Role::Filling, reforks, ..Generation::new(number, adopted) };
        state.generations.push(generation);
        for _ in 0..state.target {
            self.worker();
        }
        self.state.generations.last_mut().unwrap()
    }

    /// One more of the last generation that is ready.
    pub(crate) fn worker(&mut self) -> u16 {
        let index = self.state.crew.free().unwrap();
        let mut worker = Worker::new(self.state.last_generation, None, 0);
        worker.up = true;
        self.state.crew.occupy(index, worker);
        self.state.forked(index, pid_of(index));
        index
    }

    /// Those whose time to leave is over, where that is next to none.
    pub(crate) fn overdue(&mut self) -> Vec<u16> {
        let workers = self.state.crew.workers_mut();
        workers.filter_map(|(index, _, worker)| worker.is_overdue().then_some(index)).collect()
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
