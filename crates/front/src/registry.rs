//! Every connection of the thread, by key: how other parts reach the task that serves it.
//!
//! A connection's task sleeps in one of its waits; whoever has something for it leaves a note here and wakes it.
//! Deadlines are checked for all connections together by [`Registry::sweep`], so setting one is a store and not a timer.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::task::{Context, Waker};

use slab::Slab;

use crate::capacity::Permit;
use crate::idle::Candidates;

/// Something that a worker sent about the slot in which a connection's request is.
#[derive(Debug)]
pub(crate) enum Mail {
    /// The worker wants the spooled request body.
    WantBody { worker: u16 },
    /// The worker wants the client's socket.
    WantSocket { worker: u16 },
    /// Send this interim response.
    Interim { worker: u16, status: u16, lines: Vec<u8> },
    /// This file is the response body. None when there is no descriptor for it.
    File { file: Option<(OwnedFd, Permit)>, length: u64 },
    /// The worker is dead; answer with this status, or cut the connection when it is too late for that.
    Lost { status: u16 },
}

/// Whether a connection rests: nothing of a request has been received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It has something to do.
    #[default]
    No,
    /// It is new, and its first request is due.
    New,
    /// It is kept for another request.
    Kept,
}

/// What the rest of the thread knows of a connection.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    waker: Option<Waker>,
    /// Monotonic nanoseconds; 0 for none.
    pub(crate) deadline: u64,
    /// The deadline has passed.
    pub(crate) expired: bool,
    /// The slot has news.
    pub(crate) news: bool,
    /// The sweep asks whether the client is still there.
    pub(crate) check_peer: bool,
    pub(crate) rest: Rest,
    /// When it came to rest, in monotonic nanoseconds.
    pub(crate) since: u64,
    /// It is to close if it still rests, to make room.
    pub(crate) unwanted: bool,
    /// Through a listener for the server's own pages.
    pub(crate) for_pages: bool,
    /// A worker has its request, or is to have it.
    pub(crate) waiting: bool,
    pub(crate) mail: VecDeque<Mail>,
}

impl Entry {
    /// Notes whom to wake.
    pub(crate) fn listen(&mut self, context: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => self.waker = Some(context.waker().clone()),
        }
    }

    /// Wakes the connection's task.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

/// All connections of a front thread.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) entries: Slab<Entry>,
    /// Those that could make room: to the application, and to the server's own pages.
    pub(crate) candidates: [Candidates; 2],
}

impl Registry {
    pub(crate) fn insert(&mut self, for_pages: bool) -> usize {
        self.entries.insert(Entry { for_pages, ..Entry::default() })
    }

    pub(crate) fn remove(&mut self, key: usize) {
        self.entries.remove(key);
    }

    pub(crate) fn get(&mut self, key: usize) -> &mut Entry {
        &mut self.entries[key]
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Wakes those whose deadline has passed, and lets those that wait for a worker look after their client.
    pub(crate) fn sweep(&mut self, now: u64) {
        for (_, entry) in &mut self.entries {
            if entry.deadline != 0 && entry.deadline <= now {
                entry.deadline = 0;
                entry.expired = true;
                entry.wake();
            } else if entry.waiting {
                entry.check_peer = true;
                entry.wake();
            }
        }
    }

    /// Idle connections have until `deadline`, in monotonic nanoseconds, and not longer than they had before.
    pub(crate) fn hurry_idle(&mut self, deadline: u64) {
        for (_, entry) in &mut self.entries {
            if entry.rest != Rest::No && (entry.deadline == 0 || entry.deadline > deadline) {
                entry.deadline = deadline;
            }
        }
    }
}
