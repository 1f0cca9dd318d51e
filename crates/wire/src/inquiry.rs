//! What an operator wants of a worker that serves: a word in its cell for each [`Inquiry`], written by the program.
//!
//! A word says what is wanted *now*, not what has happened: a serial number (upper half) and whatever the inquiry makes of
//! the lower half; 0 while nobody wants anything. So one that changes twice before the worker looks is no order lost. The
//! worker looks between two requests, at one word that tells whether any other has changed, and answers over its channel
//! ([`crate::MessageKind::Answer`]), where there is room for a file of any size.

use crate::layout::{Inquiry, WorkerCell};
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// The word for what is wanted under this number.
#[must_use]
pub fn inquiry_word(serial: u32, what: u32) -> u64 {
    u64::from(serial) << 32 | u64::from(what)
}

/// The number in a word.
#[must_use]
pub fn inquiry_serial(word: u64) -> u32 {
    (word >> 32) as u32
}

/// By what a class is named in a word, which has no room for more: FNV-1a.
#[must_use]
pub fn class_hash(name: &[u8]) -> u32 {
    name.iter().fold(2_166_136_261, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619))
}

impl WorkerCell {
    /// Has the worker find `word` when it looks next.
    pub fn ask(&self, inquiry: Inquiry, word: u64) {
        self.asked[inquiry as usize].store(word, Relaxed);
        self.asks.fetch_add(1, Release);
    }

    /// What is wanted of the worker.
    #[must_use]
    pub fn asked(&self, inquiry: Inquiry) -> u64 {
        self.asked[inquiry as usize].load(Acquire)
    }

    /// A new worker is to have the cell, of whom nobody wants anything yet.
    pub fn ask_nothing(&self) {
        self.asked.iter().for_each(|word| word.store(0, Relaxed));
        self.asks.store(0, Release);
    }
}
