//! What the routes of an application leave behind in a worker: cells in shared memory, which the worker writes after each
//! request (`xs/growth.c`) and the program reads for the status.
//!
//! An application that has warmed up leaves nothing; one that leaks does so at each request. So a cell remembers what it
//! said at an earlier time, and moves that time whenever the number of requests has doubled since: what came after it is
//! the newer half, which is told apart from the whole.

use crate::layout::{Counts, ROUTE_NAME, RouteCell};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// What a route has left behind in one worker, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Requests.
    pub requests: u64,
    /// Perl values that were there after them and not before.
    pub values: i64,
    /// Requests of which memory was measured.
    pub measured: u64,
    /// Bytes of private memory that were there after those and not before.
    pub bytes: i64,
}

impl Growth {
    /// With those of another worker.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            values: self.values.saturating_add(other.values),
            measured: self.measured.saturating_add(other.measured),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            values: self.values.saturating_sub(earlier.values),
            measured: self.measured.saturating_sub(earlier.measured),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

impl Counts {
    fn read(&self) -> Growth {
        Growth {
            requests: self.requests.load(Acquire),
            values: self.values.load(Relaxed).cast_signed(),
            measured: self.measured.load(Relaxed),
            bytes: self.bytes.load(Relaxed).cast_signed(),
        }
    }

    fn words(&self) -> [&AtomicU64; 4] {
        [&self.requests, &self.values, &self.measured, &self.bytes]
    }

    fn write(&self, growth: Growth) {
        self.values.store(growth.values.cast_unsigned(), Relaxed);
        self.measured.store(growth.measured, Relaxed);
        self.bytes.store(growth.bytes.cast_unsigned(), Relaxed);
        self.requests.store(growth.requests, Release);
    }
}

impl RouteCell {
    /// A route is counted here from now on; number 0 has no name.
    pub fn name(&self, name: &[u8]) {
        let mut bytes = [0; ROUTE_NAME];
        let length = name.len().min(ROUTE_NAME);
        bytes[..length].copy_from_slice(&name[..length]);
        for (word, value) in self.name.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_ne_bytes(*value), Relaxed);
        }
    }

    /// A request has left that behind.
    pub fn grow(&self, growth: Growth) {
        let whole = self.all.read().and(growth);
        self.all.write(whole);
        if whole.requests >= self.marked.read().requests.saturating_mul(2).max(2) {
            self.earlier.write(self.marked.read());
            self.marked.write(whole);
        }
    }

    /// Nothing is counted here yet. Most cells are empty already: to look first is cheaper, for the first look at a page
    /// maps its neighbours and the first write does not.
    pub fn forget(&self) {
        let counts = [&self.all, &self.marked, &self.earlier].into_iter().flat_map(Counts::words);
        for word in counts.chain(&self.name) {
            if word.load(Relaxed) != 0 {
                word.store(0, Relaxed);
            }
        }
    }

    /// The name, empty for the routes that have no cell of their own; what all requests have left behind; and the newer
    /// half of them, or a little more.
    #[must_use]
    pub fn read(&self) -> (Vec<u8>, Growth, Growth) {
        let mut name: Vec<u8> = self.name.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
        let (all, marked, earlier) = (self.all.read(), self.marked.read(), self.earlier.read());
        let young = all.requests < marked.requests.saturating_add(marked.requests / 2);
        (name, all, all.since(if young { earlier } else { marked }))
    }
}
