//! What each of several would have had if all that went to one or the other of them had been shared evenly.

use std::cell::Cell;

/// Parts of a byte.
const PARTS: u64 = 1 << 16;

/// See the module. It rises as long as there are any; who joins them notes how far it has, and has had by what it rises from then on.
#[derive(Debug, Default)]
pub(crate) struct Share(Cell<u64>);

impl Share {
    /// So many bytes went to one `among` so many.
    pub(crate) fn add(&self, bytes: u64, among: u64) {
        self.0.set(self.0.get() + bytes * PARTS / among.max(1));
    }

    /// For [`Share::since`].
    pub(crate) fn now(&self) -> u64 {
        self.0.get()
    }

    /// Bytes that each has had since then.
    pub(crate) fn since(&self, then: u64) -> u64 {
        (self.0.get() - then) / PARTS
    }
}
