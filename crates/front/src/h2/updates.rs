//! What a client says of priorities after its requests, or before: PRIORITY_UPDATE (RFC 9218 7.1), which the `h2` crate passes
//! over; and by how much it opens the window of all streams together, which that keeps to itself. `meter` brings these frames.
//!
//! What is said of a stream whose task has begun is passed on at once. Of one that is opened and has no task yet, or that the client
//! will open, the last word is kept.

use std::collections::BTreeMap;

use h2::Reason;

/// Types of frames (RFC 9113 6.2 and 6.9, RFC 9218 7.1).
const HEADERS: u8 = 1;
const WINDOW_UPDATE: u8 = 8;
const PRIORITY_UPDATE: u8 = 16;
/// Bytes of the number that the frame begins with, and of the whole that are read: what is said in more is nothing that we know.
const NUMBER: usize = 4;
const MOST: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Updates {
    /// Streams that there may be at a time.
    streams: usize,
    /// The last stream that the client has opened, how many that were, and the last that has a task.
    opened: u32,
    pub(crate) count: u64,
    begun: u32,
    /// Bytes that are still to come of a frame, and those that have.
    left: usize,
    payload: Vec<u8>,
    /// The same of one that opens the window of all streams; and by how much that was opened since it was asked.
    opening: (usize, u32),
    opened_by: u64,
    /// What is to be passed on: streams, and how urgent each is.
    news: Vec<(u32, u8)>,
    /// The same of streams that have been opened, and of those that have not.
    ahead: BTreeMap<u32, u8>,
    idle: BTreeMap<u32, u8>,
    /// The connection has to end for that.
    wrong: Option<(Reason, &'static str)>,
}

impl Updates {
    pub(crate) fn new(streams: u32) -> Self {
        Self {
            streams: streams as usize,
            opened: 0,
            count: 0,
            begun: 0,
            left: 0,
            payload: Vec::new(),
            opening: (0, 0),
            opened_by: 0,
            news: Vec::new(),
            ahead: BTreeMap::new(),
            idle: BTreeMap::new(),
            wrong: None,
        }
    }

    /// A frame begins that is no body's, with so many bytes to come.
    pub(crate) fn begin(&mut self, kind: u8, stream: u32, length: usize) {
        match kind {
            HEADERS if stream > self.opened => self.open(stream),
            PRIORITY_UPDATE if stream != 0 => {
                self.refuse(Reason::PROTOCOL_ERROR, "PRIORITY_UPDATE on a stream");
            }
            PRIORITY_UPDATE if length < NUMBER => {
                self.refuse(Reason::FRAME_SIZE_ERROR, "PRIORITY_UPDATE of less than 4 bytes");
            }
            PRIORITY_UPDATE => self.left = length,
            WINDOW_UPDATE if stream == 0 && length == NUMBER => self.opening = (length, 0),
            _ => {}
        }
    }

    /// More of a frame has come, of whichever.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        if self.opening.0 > 0 {
            self.open_window(bytes);
        }
        if self.left == 0 {
            return;
        }
        let room = (MOST + 1).saturating_sub(self.payload.len());
        self.payload.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.left = self.left.saturating_sub(bytes.len());
        if self.left == 0 {
            self.conclude();
        }
    }

    /// The client opens a stream. Those before it that it has not opened it will not (RFC 9113 5.1.1).
    fn open(&mut self, stream: u32) {
        (self.opened, self.count) = (stream, self.count + 1);
        if let Some(urgency) = take_up_to(&mut self.idle, stream)
            && self.ahead.len() < self.streams
        {
            self.ahead.insert(stream, urgency);
        }
    }

    fn open_window(&mut self, bytes: &[u8]) {
        for &byte in bytes.iter().take(self.opening.0) {
            self.opening = (self.opening.0 - 1, (self.opening.1 << 8) | u32::from(byte));
        }
        if self.opening.0 == 0 {
            self.opened_by += u64::from(self.opening.1 & (u32::MAX >> 1));
        }
    }

    /// By how much the window of all streams was opened since this was asked last.
    pub(crate) fn take_opened(&mut self) -> u64 {
        std::mem::take(&mut self.opened_by)
    }

    fn conclude(&mut self) {
        let payload = std::mem::take(&mut self.payload);
        let Some((number, value)) = payload.split_first_chunk() else { return };
        let stream = u32::from_be_bytes(*number) & (u32::MAX >> 1);
        let is_whole = payload.len() <= MOST;
        let urgency = howdah_http2::updated(value).filter(|_| is_whole);
        if stream.is_multiple_of(2) {
            // Such streams would be ours, who begin none.
            return self.refuse(Reason::PROTOCOL_ERROR, "PRIORITY_UPDATE of a stream that no client opens");
        }
        let is_idle = stream > self.opened;
        let (of, most) = (if is_idle { &mut self.idle } else { &mut self.ahead }, self.streams);
        let Some(urgency) = urgency else { return };
        if stream <= self.begun {
            self.news.push((stream, urgency));
        } else if of.len() < most || of.contains_key(&stream) {
            of.insert(stream, urgency);
        } else if is_idle {
            self.refuse(Reason::PROTOCOL_ERROR, "PRIORITY_UPDATE of more streams than there may be");
        }
    }

    fn refuse(&mut self, reason: Reason, what: &'static str) {
        self.wrong.get_or_insert((reason, what));
    }

    /// A stream's task begins. How urgent the client has said that it is.
    pub(crate) fn begin_stream(&mut self, stream: u32) -> Option<u8> {
        self.begun = self.begun.max(stream);
        take_up_to(&mut self.ahead, stream)
    }

    /// What is to be passed on.
    pub(crate) fn news(&mut self) -> impl Iterator<Item = (u32, u8)> {
        self.news.drain(..)
    }

    /// Why the connection has to end, if it has.
    pub(crate) fn wrong(&mut self) -> Option<(Reason, &'static str)> {
        self.wrong.take()
    }
}

/// What is known of that stream. It is forgotten, with what is known of those before it.
fn take_up_to(known: &mut BTreeMap<u32, u8>, stream: u32) -> Option<u8> {
    while let Some(first) = known.first_entry()
        && *first.key() <= stream
    {
        let (number, urgency) = first.remove_entry();
        if number == stream {
            return Some(urgency);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(updates: &mut Updates, stream: u32, value: &str) {
        let payload = [&stream.to_be_bytes(), value.as_bytes()].concat();
        updates.begin(PRIORITY_UPDATE, 0, payload.len());
        // However it is cut, and whatever follows.
        payload.chunks(3).for_each(|bytes| updates.take(bytes));
        updates.take(b"body");
    }

    #[test]
    fn the_last_word_is_kept_until_a_streams_task_begins_and_then_passed_on() {
        let mut updates = Updates::new(3);
        of(&mut updates, 1, "u=1");
        of(&mut updates, 3, "u=2");
        of(&mut updates, 3, "u=5");
        of(&mut updates, 5, "u=6");
        updates.begin(HEADERS, 3, 9);
        of(&mut updates, 1, "u=1");
        updates.begin(HEADERS, 7, 9);
        updates.begin(HEADERS, 9, 9);
        of(&mut updates, 9, "u=0");
        assert_eq!(
            [1, 3, 5, 7, 9, 9].map(|stream| updates.begin_stream(stream)),
            [Some(1), Some(5), None, None, Some(0), None]
        );
        of(&mut updates, 7, "i");
        of(&mut updates, 11, "u=4");
        assert_eq!(updates.news().collect::<Vec<_>>(), [(7, 3)]);
        updates.begin(HEADERS, 9, 9);
        assert!(updates.news().next().is_none() && updates.wrong().is_none(), "trailers open nothing");
        updates.begin(HEADERS, 11, 9);
        assert_eq!(updates.begin_stream(11), Some(4));
    }

    #[test]
    fn by_how_much_the_window_of_all_streams_is_opened_is_told_once() {
        let mut updates = Updates::new(3);
        for (stream, size, pieces) in [(0, 1000_u32, 4), (0, 0x8000_0007, 1), (1, 1 << 20, 4), (0, 65_535, 3)]
        {
            updates.begin(WINDOW_UPDATE, stream, NUMBER);
            size.to_be_bytes().chunks(pieces).for_each(|bytes| updates.take(bytes));
            updates.take(b"body");
        }
        updates.begin(WINDOW_UPDATE, 0, 5);
        updates.take(&[1; 5]);
        assert_eq!((updates.take_opened(), updates.take_opened()), (1000 + 7 + 65_535, 0));
    }

    #[test]
    fn little_is_kept_whatever_a_client_says() {
        let mut updates = Updates::new(3);
        for stream in (1..2000).step_by(2) {
            // They are opened, and none gets a task.
            of(&mut updates, stream, "u=1");
            updates.begin(HEADERS, stream, 9);
            of(&mut updates, stream, &"x".repeat(1000));
        }
        assert_eq!((updates.ahead.len(), updates.idle.len()), (3, 0));
        assert!(updates.payload.capacity() == 0 && updates.wrong().is_none());
    }
}
