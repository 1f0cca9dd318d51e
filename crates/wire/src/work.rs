//! A worker and the request that it serves, as whoever runs it holds them: a process whose C files come by `c_abi`, or a
//! thread of a Rust process, which has one [`Post`] and one [`Work`] after the other.
//!
//! The order of the calls is that of `xs/loop.c` and `xs/exchange.c`: claim, enter, read the request, begin, answer,
//! finish, count; and between two requests enter_idle, sleep, leave_idle. Nothing here blocks: what has to be slept on, or
//! woken, is returned.

#[cfg(not(loom))]
use core::sync::atomic::AtomicU32;

use crate::layout::*;
use crate::queue::Claim;
use crate::report::{REPORT_MOST, REPORT_NONE};
use crate::request::RequestReader;
use crate::response::{Answer, Outgoing};
use crate::segment::Segment;
use crate::slot::{RING_AT, copy};
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// A worker's place: its cell in a segment.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub struct Post {
    segment: Segment,
    worker: u16,
    cell: &'static WorkerCell,
}

impl Post {
    /// Process `pid` has become `worker`. None when there is no such cell.
    #[must_use]
    pub fn start(segment: Segment, worker: u16, pid: u32, now: u64) -> Option<Self> {
        let post = Self::of(segment, worker)?;
        post.cell.start(pid, now);
        Some(post)
    }

    /// The place of a worker that has started.
    pub(crate) fn of(segment: Segment, worker: u16) -> Option<Self> {
        let cell = segment.workers().get(usize::from(worker))?;
        Some(Self { segment, worker, cell })
    }

    /// Its number.
    #[must_use]
    pub fn worker(&self) -> u16 {
        self.worker
    }

    /// Its cell.
    #[must_use]
    pub fn cell(&self) -> &'static WorkerCell {
        self.cell
    }

    /// Says which process is at work for it.
    pub fn show_process(&self, pid: u32) {
        self.cell.pid.store(pid, Release);
    }

    /// Claims the oldest waiting request.
    #[must_use]
    pub fn claim(&self) -> Option<Work> {
        let Claim { slot, ticket } = self.segment.queue().claim(self.worker)?;
        Some(Work::new(self.segment, slot, ticket))
    }

    /// Says that it is about to sleep. True when it may, on the word [`Post::wake`] while that reads 0. Call
    /// [`Post::leave_idle`] afterwards in either case.
    #[must_use]
    pub fn enter_idle(&self, now: u64) -> bool {
        let queue = self.segment.queue();
        let since = self.cell.rest(now);
        queue.cells.enter_idle(self.worker, self.cell, since);
        queue.may_sleep(self.cell)
    }

    /// The futex on which it sleeps.
    #[must_use]
    #[cfg(not(loom))]
    pub fn wake(&self) -> &'static AtomicU32 {
        &self.cell.wake
    }

    /// Says that it is awake.
    pub fn leave_idle(&self) {
        self.segment.queue().cells.leave_idle(self.worker);
    }

    /// Says that it leaves now, and why, a [`Leave`]. It may have been woken for a request in that instant, or be one that
    /// the front counts on: when requests wait, the cell of another is returned, which is to come in its stead. The caller
    /// wakes the futex `WorkerCell::wake` of that cell.
    #[must_use]
    pub fn retire(&self, reason: u32) -> Option<&'static WorkerCell> {
        self.cell.retire(reason);
        let (queue, workers) = (self.segment.queue(), self.segment.workers());
        let other = if queue.length() > 0 { queue.cells.pick_sleeper(workers) } else { None };
        other.map(|other| &workers[usize::from(other)])
    }
}

/// A request that a worker has claimed, and the response that it makes.
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub struct Work {
    segment: Segment,
    slot: u32,
    control: &'static SlotControl,
    response: Outgoing,
}

impl Work {
    /// The request that waited in `slot` under `ticket`.
    ///
    /// # Panics
    /// When `slot` is out of range.
    pub(crate) fn new(segment: Segment, slot: u32, ticket: u64) -> Self {
        let control = &segment.controls()[slot as usize];
        Self { segment, slot, control, response: Outgoing::new(ticket) }
    }

    /// Where it is.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Whether this is the request in `slot` of `segment`.
    pub(crate) fn is_at(&self, segment: &Segment, slot: u32) -> bool {
        self.slot == slot && self.segment.is(segment)
    }

    /// The number of the front thread that waits for the response.
    #[must_use]
    pub fn front(&self) -> usize {
        self.segment.front_number(self.slot)
    }

    /// The worker is at it.
    pub fn enter(&self, post: &Post, now: u64) -> &'static SlotControl {
        post.cell.enter(self.slot, self.control, now);
        self.control
    }

    /// The application is about to be called with it: from then on it goes to no other worker.
    pub fn begin(&self) {
        self.control.begin();
    }

    /// Where the request stands, and the bytes that belong to it; none when what stands there is not what was claimed.
    pub(crate) fn place(&self) -> Option<(*const u8, usize)> {
        self.segment.claimed_request(self.slot, self.response.ticket())
    }

    /// A copy of the request and of a body that stands behind it, for a [`RequestReader`]: read once, and whole. None when
    /// what stands there is not what was claimed, or makes no sense.
    #[must_use]
    pub fn request(&self) -> Option<Vec<u8>> {
        let (start, used) = self.place()?;
        let copy = copy(start, used);
        RequestReader::new(&copy).is_sound().then_some(copy)
    }

    /// The address of an extent with the request's body; none when that is not the body of this request.
    pub(crate) fn extent_address(&self, extent: u32) -> Option<*const u8> {
        let ticket = self.segment.extent_ticket(extent)?;
        let ours = ticket.load(Relaxed) == self.response.ticket();
        ours.then(|| self.segment.extent_address(extent).cast_const())
    }

    /// The first `length` bytes of that.
    #[must_use]
    pub fn extent(&self, extent: u32, length: usize) -> Option<&'static [u8]> {
        let start = self.extent_address(extent).filter(|_| length <= EXTENT)?;
        // SAFETY: the run lies in the extent, which stays mapped; the front does not write it before the slot is finished, and
        // what another worker writes there all the same are bytes, which are passed on as they are.
        Some(unsafe { core::slice::from_raw_parts(start, length) })
    }

    /// Where the next bytes of the response go, and how many there is room for in one run.
    pub(crate) fn room_address(&self) -> (*mut u8, usize) {
        let start = self.response.produced() as usize & (RESPONSE_RING - 1);
        let length = self.response.room_left(self.control).min(RESPONSE_RING - start);
        (self.segment.slot_address(self.slot).wrapping_add(RING_AT + start), length)
    }

    /// Room for the next bytes of the response, as much as lies in one run. [`Work::produce`] counts what was written there.
    #[must_use]
    pub fn room(&mut self) -> &mut [u8] {
        let (start, length) = self.room_address();
        // SAFETY: the run lies in the ring, and the front does not read it before it is counted; nobody else of this process
        // has this work.
        unsafe { core::slice::from_raw_parts_mut(start, length) }
    }

    /// `length` more bytes stand there.
    pub fn produce(&mut self, length: usize) {
        self.response.produce(self.control, length);
    }

    /// Bytes of the response so far, its head's lines among them.
    #[must_use]
    pub fn produced(&self) -> u64 {
        self.response.produced()
    }

    /// The value to sleep on at [`Work::room_word`] until there is room; none when there is, or nobody wants the response.
    #[must_use]
    pub fn wait_for_room(&self) -> Option<u32> {
        self.response.wait_for_room(self.control)
    }

    /// The futex that changes when there is more room.
    #[must_use]
    #[cfg(not(loom))]
    pub fn room_word(&self) -> &'static AtomicU32 {
        &self.control.room
    }

    /// A piece of a body has been made that nobody gets, since the response has none. Look at [`Work::is_abandoned`] behind it.
    pub fn drop_piece(&mut self, now: u64) {
        self.response.drop_piece(self.control, now);
    }

    /// Whether nobody wants the response any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.control.abandoned.load(Acquire) != 0
    }

    /// Sets status, flags and lengths of the response, whose lines must have been produced. The head may be sent once told.
    pub fn set_head(&mut self, head: Answer) {
        self.response.set_head(self.control, head);
    }

    /// Adds flags to the response.
    pub fn add_flags(&mut self, flags: u32) {
        self.response.add_flags(self.control, flags);
    }

    /// Says that `length` more bytes of the body are out, by the connection that the front has lent.
    pub fn sent(&mut self, length: u64) {
        self.response.sent(self.control, length);
    }

    /// The ticket under which it was claimed.
    #[must_use]
    pub fn ticket(&self) -> u64 {
        self.response.ticket()
    }

    /// Tells the front the variables that its access log wants, as `value` knows them. What is too long is cut.
    pub fn report<'v>(&self, mut value: impl FnMut(&[u8]) -> Option<&'v [u8]>) {
        let names = self.segment.asked_for();
        let Some(most) = REPORT_AREA.checked_div(names.len()) else { return };
        let mut area = Vec::with_capacity(REPORT_AREA);
        let mut used = 0;
        for name in &names {
            let found = value(name).map(|value| &value[..value.len().min(most - size_of::<u16>())]);
            let length = found.map_or(REPORT_NONE, |value| value.len() as u16);
            area.extend_from_slice(&length.to_ne_bytes());
            area.extend_from_slice(found.unwrap_or_default());
            used = if found.is_some() { area.len() } else { used };
        }
        area.truncate(used);
        let start = self.segment.report_address(self.slot);
        // SAFETY: the area is this worker's until it finishes the slot, and the values have been cut so that they fit.
        unsafe { core::ptr::copy_nonoverlapping(area.as_ptr(), start, area.len()) };
        self.reported(area.len() as u32);
    }

    /// So many bytes stand in the report area.
    pub(crate) fn reported(&self, length: u32) {
        self.control.report.store(length, Release);
    }

    /// Tells the front thread that there is news. True when its eventfd must be written.
    #[must_use]
    pub fn tell(&self) -> bool {
        self.segment.front_of(self.slot).tell(self.slot)
    }

    /// Ends the worker's part and tells the front. True as with [`Work::tell`]. The worker's cell says so only then: one that
    /// has begun a request, and not ended it, must be known by its cell, too, when it dies.
    #[must_use]
    pub fn finish(&mut self, post: &Post, now: u64) -> bool {
        self.control.finished_at.store(now, Release);
        self.response.close(self.control);
        let claim = Claim { slot: self.slot, ticket: self.response.ticket() };
        let told = self.segment.queue().finish(claim, post.worker) && self.tell();
        post.cell.finished();
        told
    }
}

impl Segment {
    /// The names of the variables that workers are to report, as they stand in the header.
    fn asked_for(&self) -> Vec<Vec<u8>> {
        let words = self.header().report_names.iter().map(|word| word.load(Relaxed).to_ne_bytes());
        let bytes: Vec<u8> = words.flatten().collect();
        let (mut names, mut rest) = (Vec::new(), &bytes[..]);
        while let Some((&length @ 1.., behind)) = rest.split_first() {
            let Some((name, next)) = behind.split_at_checked(length.into()) else { break };
            if names.len() == REPORT_MOST {
                break;
            }
            names.push(name.to_vec());
            rest = next;
        }
        names
    }
}
