//! For tests: a thread's slots in a test's hands, with exchanges that wait there and workers, without an event loop.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};

use howdah_wire::{Roster, Segment, Shape};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::exchange::{Desks, Exchange, Mail, Note};
use crate::reports::Damaged;
use crate::request_record::{Body, Complete};
use crate::sample::parts::{client, forever, with};
use crate::sample::worker::Worker;
use crate::slots::{Dispatch, Position, Ring};

/// See the module.
pub(crate) struct Bench {
    pub(crate) dispatch: &'static RefCell<Dispatch>,
    pub(crate) segment: Segment,
    /// The memory of the segment.
    pub(crate) file: OwnedFd,
    desks: &'static Desks,
    damaged: UnboundedReceiver<Damaged>,
}

/// An exchange whose request is in that slot.
pub(crate) struct Waiting {
    pub(crate) slot: u32,
    exchange: Exchange,
}

impl Bench {
    /// With so many slots, and requests that may wait.
    pub(crate) fn of(slots: usize, max_queue: usize) -> Self {
        let (file, segment) = segment(slots);
        let desks: &'static Desks = forever(Desks::default());
        let (damage, damaged) = unbounded_channel();
        let roster = Roster::default();
        let dispatch = Dispatch::new(segment, 0, max_queue, 16, desks, damage, roster);
        let dispatch = forever(RefCell::new(dispatch));
        Self { dispatch, segment, file, desks, damaged }
    }

    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut Dispatch) -> T) -> T {
        act(&mut self.dispatch.borrow_mut())
    }

    /// A worker that lives.
    pub(crate) fn worker(&self, number: u16) -> Worker {
        self.act(|dispatch| dispatch.worker_up(number));
        Worker::new(number, self.segment)
    }

    /// Takes a slot and writes a request into it.
    pub(crate) fn write(&self, target: &str) -> (u32, Position) {
        let slot = self.act(Dispatch::take_slot).expect("a slot");
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let place = with(&head, &client(""), |request| {
            let body = Body::Inline(b"");
            Complete { request, body: &body, path: request.path, id: b"", lends: false }
                .place(&self.segment, slot)
                .expect("room")
        });
        (slot, place)
    }

    /// Queues a request.
    pub(crate) fn queue(&self, target: &str) -> Waiting {
        let (slot, place) = self.write(target);
        let mut exchange = Exchange::default();
        let desk = exchange.open(self.desks);
        assert!(
            self.act(|dispatch| dispatch.queue(slot, place, desk, 1)),
            "{target} has no place in the queue"
        );
        Waiting { slot, exchange }
    }

    /// The exchange is through with its slot.
    pub(crate) fn leave(&self, waiting: Waiting) -> u32 {
        let Waiting { slot, exchange } = waiting;
        drop(exchange);
        self.act(|dispatch| dispatch.give_back(slot));
        slot
    }

    pub(crate) fn ring(&self, waiting: &Waiting) -> Ring {
        Ring::new(self.dispatch, waiting.slot)
    }

    /// What has been said of the segment since the last time.
    pub(crate) fn damage(&mut self) -> Vec<&'static str> {
        std::iter::from_fn(|| self.damaged.try_recv().ok()).map(|damaged| damaged.what).collect()
    }
}

/// A segment of one front thread with so many slots, and its memory.
pub(crate) fn segment(slots: usize) -> (OwnedFd, Segment) {
    howdah_sys::create_segment(Shape { fronts: 1, workers: 8, slots }).expect("a segment")
}

impl Waiting {
    /// What has come to its desk, in words.
    pub(crate) fn notes(&self) -> Vec<String> {
        let context = Context::from_waker(Waker::noop());
        let next = || match self.exchange.poll(&context) {
            Poll::Pending => None,
            Poll::Ready(Note::Mail(Mail::Lost(fault))) => Some(format!("{fault:?}")),
            Poll::Ready(note) => Some(format!("{note:?}")),
        };
        std::iter::from_fn(next).collect()
    }
}
