//! A response on its way from a worker to the front: a ring of bytes with one writer and one reader.
//!
//! Header lines come first, body bytes behind. The worker counts what it has produced, the front what it has consumed, each
//! in memory of its own; what they store is for the other to see. Their difference is what lies in the ring. A worker that
//! finds no room sleeps on the `room` futex.
//!
//! Any process may write over these words, and the ring still holds what earlier responses have left there. So the worker
//! seals what it says of a response ([`Answer`]) with the ticket that it has claimed, and the front believes no word that is
//! not sealed with the ticket that it has given: one wrong word among them and nothing counts. This finds accidents; a
//! worker that wants to deceive the others of its application can.

use crate::layout::{LENGTH_UNKNOWN, RESPONSE_HEAD_READY, RESPONSE_RING, SlotControl};
use crate::sync::Ordering::{Relaxed, SeqCst};

/// So long a worker goes on to make a body that nobody gets, in nanoseconds.
const IN_VAIN: u64 = 30_000_000_000;

/// What a worker says of its response, copied once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Bytes ever put into the ring.
    pub produced: u64,
    /// Content-Length that the application gave, or [`LENGTH_UNKNOWN`].
    pub content_length: u64,
    /// RESPONSE_ flags.
    pub flags: u32,
    /// HTTP status.
    pub status: u32,
    /// Length of the header lines, which come first in the ring.
    pub head_length: u32,
    /// Body bytes that the worker has sent to the client by itself.
    pub direct: u64,
}

impl Default for Answer {
    /// Nothing has been said.
    fn default() -> Self {
        Self { produced: 0, content_length: LENGTH_UNKNOWN, flags: 0, status: 0, head_length: 0, direct: 0 }
    }
}

impl Answer {
    /// Each step is one-to-one in its word, so a single word that is wrong always makes another seal.
    fn seal(&self, ticket: u64) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let Self { produced, content_length, flags, status, head_length, direct } = *self;
        let said = u64::from(flags) << 32 | u64::from(status);
        let words = [produced, content_length, said, u64::from(head_length) ^ direct.rotate_right(16)];
        words.into_iter().fold(!ticket, |seal, word| (seal ^ word).wrapping_mul(ODD).rotate_left(29))
    }

    fn store(&self, control: &SlotControl) {
        control.produced.store(self.produced, Relaxed);
        control.content_length.store(self.content_length, Relaxed);
        control.status.store(self.status, Relaxed);
        control.head_length.store(self.head_length, Relaxed);
        control.flags.store(self.flags, Relaxed);
        if self.direct != 0 {
            // It lies with the front's words, which have been cleared.
            control.direct.store(self.direct, Relaxed);
        }
    }

    fn load(control: &SlotControl) -> Self {
        Self {
            produced: control.produced.load(Relaxed),
            content_length: control.content_length.load(Relaxed),
            flags: control.flags.load(Relaxed),
            status: control.status.load(Relaxed),
            head_length: control.head_length.load(Relaxed),
            direct: control.direct.load(Relaxed),
        }
    }
}

/// A worker's own knowledge of the response that it makes.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    ticket: u64,
    answer: Answer,
    sealed: bool,
    /// When the first piece of a body came that nobody gets.
    in_vain_since: Option<u64>,
}

impl Outgoing {
    /// The response to the request that was claimed under `ticket`.
    #[must_use]
    pub fn new(ticket: u64) -> Self {
        Self { ticket, answer: Answer::default(), sealed: false, in_vain_since: None }
    }

    /// The ticket that was claimed.
    #[must_use]
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Bytes put into the ring so far.
    #[must_use]
    pub fn produced(&self) -> u64 {
        self.answer.produced
    }

    /// Bytes that may be added now: never more than the ring has. Of a front's count that makes no sense there is no room.
    #[must_use]
    pub fn room_left(&self, control: &SlotControl) -> usize {
        // Nothing is consumed before the head is ready, whatever stands there.
        let ready = self.answer.flags & RESPONSE_HEAD_READY != 0;
        let consumed = if ready { control.consumed.load(SeqCst) } else { 0 };
        let used = self.answer.produced.wrapping_sub(consumed);
        usize::try_from(used).map_or(0, |used| RESPONSE_RING.saturating_sub(used))
    }

    /// `length` more bytes are in the ring. The front hears of them once the head is ready.
    pub fn produce(&mut self, control: &SlotControl, length: usize) {
        self.answer.produced = self.answer.produced.wrapping_add(length as u64);
        self.sealed = false;
        if self.answer.flags & RESPONSE_HEAD_READY != 0 {
            self.publish(control);
        }
    }

    /// Sets all but the count of bytes.
    pub fn set_head(&mut self, control: &SlotControl, head: Answer) {
        let Answer { produced, direct, .. } = self.answer;
        self.answer = Answer { produced, direct, ..head };
        self.publish(control);
    }

    /// Adds flags.
    pub fn add_flags(&mut self, control: &SlotControl, flags: u32) {
        self.answer.flags |= flags;
        self.publish(control);
    }

    /// `length` more bytes of the body are out, by the connection that the front has lent.
    pub fn sent(&mut self, control: &SlotControl, length: u64) {
        self.answer.direct = self.answer.direct.saturating_add(length);
        self.publish(control);
    }

    /// A piece of a body has been made that nobody gets, as behind the head of a HEAD. Nothing is written there that would tell
    /// whether the client is still about, so one who goes on with that for long is told that nobody is. One who has
    /// something else to do behind a head, and makes no body, is left to it.
    pub fn drop_piece(&mut self, control: &SlotControl, now: u64) {
        let since = *self.in_vain_since.get_or_insert(now);
        if now.saturating_sub(since) >= IN_VAIN {
            control.abandoned.store(1, SeqCst);
        }
    }

    /// The last word on the response, before the slot is finished.
    pub fn close(&mut self, control: &SlotControl) {
        if !self.sealed {
            self.publish(control);
        }
    }

    /// The worker says that it waits for room; returns the futex value to wait on, or none when it need not wait.
    #[must_use]
    pub fn wait_for_room(&self, control: &SlotControl) -> Option<u32> {
        let seen = control.room.load(SeqCst);
        control.waiting.store(1, SeqCst);
        if self.room_left(control) > 0 || control.abandoned.load(SeqCst) != 0 {
            control.waiting.store(0, SeqCst);
            return None;
        }
        Some(seen)
    }

    fn publish(&mut self, control: &SlotControl) {
        self.answer.store(control);
        control.seal.store(self.answer.seal(self.ticket), SeqCst);
        self.sealed = true;
    }
}

impl SlotControl {
    /// The front makes the control words ready for a new request.
    pub fn reset(&self, now: u64) {
        Answer::default().store(self);
        self.consumed.store(0, Relaxed);
        self.begun.store(0, Relaxed);
        self.report.store(0, Relaxed);
        self.direct.store(0, Relaxed);
        self.waiting.store(0, Relaxed);
        self.abandoned.store(0, Relaxed);
        self.claimed_at.store(0, Relaxed);
        self.finished_at.store(0, Relaxed);
        self.queued_at.store(now, SeqCst);
    }

    /// What the worker that has claimed `ticket` says of its response. None as long as it has said nothing, is just about
    /// to say more, or somebody has written over it.
    #[must_use]
    pub fn answer(&self, ticket: u64) -> Option<Answer> {
        let seal = self.seal.load(SeqCst);
        let answer = Answer::load(self);
        (answer.seal(ticket) == seal).then_some(answer)
    }

    /// The front has taken `consumed` bytes in all. True when the caller must wake the `room` futex.
    #[must_use]
    pub fn consume(&self, consumed: u64) -> bool {
        self.consumed.store(consumed, SeqCst);
        self.wake_writer()
    }

    /// Nobody wants the response any more. True when the caller must wake the `room` futex.
    #[must_use]
    pub fn abandon(&self) -> bool {
        self.abandoned.store(1, SeqCst);
        self.wake_writer()
    }

    fn wake_writer(&self) -> bool {
        if self.waiting.load(SeqCst) == 0 || self.waiting.swap(0, SeqCst) == 0 {
            return false;
        }
        self.room.fetch_add(1, SeqCst);
        true
    }
}
