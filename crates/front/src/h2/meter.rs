//! How much of what a client sends is no body's.
//!
//! Bodies are bounded by windows, rates and their greatest length, wherever they end up. What is left are the heads of
//! frames and all that other frames carry. That has to be told apart as it comes in: until a stream takes its body, a client
//! has as much of it in our hands as its windows are open for.

use crate::h2::updates::Updates;

/// The head of a frame: length, type, flags, stream (RFC 9113 4.1).
const HEAD: usize = 9;
/// Of the last four bytes, those that are a stream's number.
const STREAM: u32 = u32::MAX >> 1;
/// The types of frames of bodies and of settings (RFC 9113 6.1, 6.5).
const DATA: u8 = 0;
const SETTINGS: u8 = 4;
/// What settings count for beside their bytes, unless they are empty: they may change the window of each stream there is, which takes
/// as long as hundreds of other frames.
const SETTINGS_COST: u64 = 1024;
/// What a client says first is no frame (RFC 9113 3.4).
const PREFACE: usize = 24;

/// Follows frames through the bytes of a connection, however they are cut. It judges nothing; those that the crate passes over are
/// for `updates` to read.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) updates: Updates,
    /// So much is left of a frame's payload.
    left: usize,
    is_body: bool,
    /// The head of the next one, as far as it has come.
    head: [u8; HEAD],
    filled: usize,
}

impl Meter {
    /// At the beginning of a connection that may have so many streams at a time.
    pub(crate) fn new(streams: u32) -> Self {
        let updates = Updates::new(streams);
        Self { updates, left: PREFACE, is_body: false, head: [0; HEAD], filled: 0 }
    }

    /// Bytes that are still to come of a body's frame.
    pub(crate) fn body_left(&self) -> usize {
        if self.is_body { self.left } else { 0 }
    }

    /// How many of the bytes that come next are no body's, and what they cost beside that.
    pub(crate) fn measure(&mut self, mut bytes: &[u8]) -> u64 {
        let mut measured = 0;
        while !bytes.is_empty() {
            let payload = self.left > 0;
            let now = bytes.len().min(if payload { self.left } else { HEAD - self.filled });
            if payload {
                self.left -= now;
                self.updates.take(&bytes[..now]);
            } else {
                measured += self.take_head(&bytes[..now]);
            }
            if !payload || !self.is_body {
                measured += now as u64;
            }
            bytes = &bytes[now..];
        }
        measured
    }

    /// Gives what a frame costs beside its bytes.
    fn take_head(&mut self, bytes: &[u8]) -> u64 {
        self.head[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
        if self.filled < HEAD {
            return 0;
        }
        let [a, b, c, kind, _, stream @ ..] = self.head;
        self.left = u32::from_be_bytes([0, a, b, c]) as usize;
        self.is_body = kind == DATA;
        self.filled = 0;
        if !self.is_body {
            self.updates.begin(kind, u32::from_be_bytes(stream) & STREAM, self.left);
        }
        if kind == SETTINGS && self.left > 0 { SETTINGS_COST } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let length_bytes = u32::try_from(length).unwrap().to_be_bytes();
        [&length_bytes[1..], &[kind, 0, 0, 0, 0, 1], &vec![b'x'; length]].concat()
    }

    #[test]
    fn bodies_are_free_and_all_else_is_measured_however_it_is_cut() {
        let said = [
            vec![b'P'; PREFACE],
            frame(4, 0),
            frame(1, 300),
            frame(DATA, 70_000),
            frame(DATA, 0),
            frame(DATA, 1),
            frame(6, 8),
            frame(SETTINGS, 6),
        ]
        .concat();
        let expected = (PREFACE + 7 * HEAD + 300 + 8 + 6) as u64 + SETTINGS_COST;
        for size in [1, 2, 8, 9, 10, 33, 1000, 1 << 20] {
            let mut meter = Meter::new(1);
            let measured: u64 = said.chunks(size).map(|bytes| meter.measure(bytes)).sum();
            assert_eq!(measured, expected, "{size} at a time");
        }
    }
}
