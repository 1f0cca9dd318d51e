//! The memory of one slot (request, report, response) and of one extent, in the terms of who may use it when.
//!
//! Plain bytes are only read after an acquire of the counter or state word that publishes them. Who wrote them may be
//! anybody, so numbers among them are bounded before they are followed.

use core::mem::offset_of;

use crate::layout::*;
use crate::queue::State;
use crate::request::{RequestReader, STRINGS_AT};
use crate::response::Outgoing;
use crate::segment::Segment;
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicU32, AtomicU64};

/// Where in a slot its response ring begins.
pub(crate) const RING_AT: usize = REQUEST_AREA + REPORT_AREA;
/// What a processor fetches at a time.
const CACHE_LINE: usize = 64;

impl Segment {
    /// Says where the next request in `slot` will stand: near the response ring, with [`NEAR_REQUEST`] bytes of room, or
    /// at the start of the request area. The front holds the slot.
    ///
    /// # Panics
    /// When `slot` is out of range.
    pub fn place_request(&self, slot: u32, near: bool) {
        self.controls()[slot as usize].request_at.store(request_offset(near) as u32, Relaxed);
    }

    /// Where the request in `slot` stands in its area, as everybody can see. Any process may have written the word.
    fn request_at(&self, slot: u32) -> usize {
        let at = self.controls()[slot as usize].request_at.load(Relaxed) as usize;
        if at == REQUEST_AREA - NEAR_REQUEST { at } else { 0 }
    }

    /// The request that a worker has claimed under `ticket`: its address, and the bytes that belong to it. None when what
    /// stands there is another one, or nonsense.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn claimed_request(&self, slot: u32, ticket: u64) -> Option<(*const u8, usize)> {
        let at = self.request_at(slot);
        let start = self.slot_address(slot).wrapping_add(at);
        let used = half_at(start.wrapping_add(offset_of!(RequestRecord, used))).load(Relaxed) as usize;
        let ours = word_at(start.wrapping_add(offset_of!(RequestRecord, ticket))).load(Relaxed) == ticket;
        (ours && (STRINGS_AT..=REQUEST_AREA - at).contains(&used)).then_some((start.cast_const(), used))
    }

    /// Writes the ticket under which it is to wait into the request in `slot`, which stands `near` the ring or not.
    ///
    /// # Panics
    /// When `slot` is out of range.
    pub fn stamp(&self, slot: u32, near: bool, ticket: u64) {
        let start = self.slot_address(slot).wrapping_add(request_offset(near));
        word_at(start.wrapping_add(offset_of!(RequestRecord, ticket))).store(ticket, Relaxed);
    }

    /// The request area of a slot that the front holds, from where [`Segment::place_request`] said, for writing.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn request_area(&self, slot: u32, near: bool) -> &'static mut [u8] {
        let start = self.slot_address(slot).wrapping_add(request_offset(near));
        // SAFETY: in range; while its phase is Free only the front thread that holds the slot touches this area.
        unsafe { core::slice::from_raw_parts_mut(start, REQUEST_AREA - request_offset(near)) }
    }

    /// Has the processor fetch the lines of memory that a [`RequestReader`] looks at first, while something else is done: so much
    /// has gone through the caches since the request was written that they are far away.
    ///
    /// # Panics
    /// When `slot` is out of range.
    pub fn prefetch_request(&self, slot: u32, near: bool) {
        let start = self.slot_address(slot).wrapping_add(request_offset(near));
        for part in [0, STRINGS_AT] {
            (part..).step_by(CACHE_LINE).take(3).for_each(|at| prefetch(start.wrapping_add(at)));
        }
    }

    /// Copies a request that stood in the same place of `old`, a segment that no worker uses any more. False when what
    /// stands there is no request with that ticket.
    ///
    /// # Panics
    /// When `slot` is out of range.
    pub fn take_over(&self, old: &Self, slot: u32, near: bool, ticket: u64) -> bool {
        self.place_request(slot, near);
        old.place_request(slot, near);
        let Some((_, used)) = old.claimed_request(slot, ticket) else { return false };
        let from = &old.request_area(slot, near)[..used];
        self.request_area(slot, near)[..used].copy_from_slice(from);
        RequestReader::new(from).is_sound()
    }

    /// A copy of the request that `worker` runs in `slot`, without its body, for a
    /// [`RequestReader`]: what a status page shows while others go on. None when it does not run it, or ended it
    /// meanwhile. Never waits.
    #[must_use]
    pub fn peek_request(&self, slot: u32, worker: u16) -> Option<Vec<u8>> {
        let state = &self.controls().get(slot as usize)?.state;
        let before = state.load(SeqCst);
        let State { phase, owner, .. } = State::unpack(before);
        if phase != Phase::Running || owner != worker {
            return None;
        }
        let mut copy = self.peek(slot, STRINGS_AT);
        copy = self.peek(slot, RequestReader::new(&copy).end().max(STRINGS_AT));
        // The front writes to a slot only after its state has changed, and no state ever returns: tickets rise.
        core::sync::atomic::fence(SeqCst);
        (state.load(SeqCst) == before).then_some(copy)
    }

    /// The first bytes of a request area, whoever writes them meanwhile.
    fn peek(&self, slot: u32, length: usize) -> Vec<u8> {
        let at = self.request_at(slot);
        let start = self.slot_address(slot).wrapping_add(at);
        copy(start, length.min(REQUEST_AREA - at))
    }

    /// `length` bytes of the response in `slot`, from byte `from` of it on: the run up to the ring's end and the run from
    /// its start. At most a ring full.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn response(&self, slot: u32, from: u64, length: usize) -> (&'static [u8], &'static [u8]) {
        let length = length.min(RESPONSE_RING);
        let start = from as usize & (RESPONSE_RING - 1);
        let first = length.min(RESPONSE_RING - start);
        let ring = self.slot_address(slot).wrapping_add(RING_AT);
        // SAFETY: the run lies in the ring; a worker does not write what it has produced until the front has consumed it,
        // and one that does all the same changes bytes that are passed on as they are.
        let head = unsafe { core::slice::from_raw_parts(ring.wrapping_add(start), first) };
        // SAFETY: as above.
        let tail = unsafe { core::slice::from_raw_parts(ring, length - first) };
        (head, tail)
    }

    /// Adds bytes to the response in `slot` as a worker does; gives how many found room.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn produce(&self, slot: u32, response: &mut Outgoing, bytes: &[u8]) -> usize {
        let control = &self.controls()[slot as usize];
        let start = response.produced() as usize & (RESPONSE_RING - 1);
        let length = bytes.len().min(response.room_left(control)).min(RESPONSE_RING - start);
        let free = self.slot_address(slot).wrapping_add(RING_AT + start);
        // SAFETY: in range, and `length` bytes fit before the ring's end; the front reads them once they are counted.
        let room = unsafe { core::slice::from_raw_parts_mut(free, length) };
        room.copy_from_slice(&bytes[..length]);
        response.produce(control, length);
        length
    }

    /// Address of a slot's request area, for the worker's C side.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn slot_address(&self, slot: u32) -> *mut u8 {
        assert!((slot as usize) < self.shape().slots, "slot {slot} is out of range");
        self.address(self.offsets().slots_at + slot as usize * SLOT_STRIDE)
    }

    /// All of a slot's memory, request and response, of a slot that the front holds.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[expect(clippy::mut_from_ref, reason = "the slot's phase, not the borrow checker, says who may write")]
    #[must_use]
    pub fn slot_area(&self, slot: u32) -> &mut [u8] {
        let start = self.slot_address(slot);
        // SAFETY: in range; while its phase is Free only the front thread that holds the slot touches it.
        unsafe { core::slice::from_raw_parts_mut(start, SLOT_STRIDE) }
    }

    /// The extents of a front thread.
    #[must_use]
    pub fn extents_of(&self, front: u32) -> core::ops::Range<u32> {
        let each = EXTENTS_PER_FRONT as u32;
        front * each..(front + 1) * each
    }

    /// An extent that the front holds, for writing.
    ///
    /// # Panics
    /// When `extent` is out of range.
    #[must_use]
    pub fn extent(&self, extent: u32) -> &'static mut [u8] {
        let start = self.extent_address(extent);
        // SAFETY: in range; the front thread that holds the extent alone writes it, before the request is queued.
        unsafe { core::slice::from_raw_parts_mut(start, EXTENT) }
    }

    /// Address of an extent, for the worker's C side.
    ///
    /// # Panics
    /// When `extent` is out of range.
    #[must_use]
    pub fn extent_address(&self, extent: u32) -> *mut u8 {
        let count = self.shape().fronts * EXTENTS_PER_FRONT;
        assert!((extent as usize) < count, "extent {extent} is out of range");
        self.address(self.offsets().extents_at + extent as usize * EXTENT)
    }

    /// The ticket of the request whose body `extent` holds; none when there is no such extent.
    #[must_use]
    pub fn extent_ticket(&self, extent: u32) -> Option<&'static AtomicU64> {
        let front = self.fronts().get(extent as usize / EXTENTS_PER_FRONT)?;
        front.extents.get(extent as usize % EXTENTS_PER_FRONT)
    }
}

/// A word of a record in shared memory.
fn word_at(address: *mut u8) -> &'static AtomicU64 {
    #[expect(clippy::cast_ptr_alignment, reason = "slots and the fields of their records are aligned")]
    let address = address.cast::<AtomicU64>();
    // SAFETY: callers give an aligned address in a slot, which stays mapped; any bytes are valid.
    unsafe { &*address }
}

/// Half a word.
fn half_at(address: *mut u8) -> &'static AtomicU32 {
    #[expect(clippy::cast_ptr_alignment, reason = "slots and the fields of their records are aligned")]
    let address = address.cast::<AtomicU32>();
    // SAFETY: as above.
    unsafe { &*address }
}

/// A hint. Processors that we have no word for fetch what is read when it is read.
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: reads nothing that anybody sees, and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Where in the request area a request stands.
fn request_offset(near: bool) -> usize {
    if near { REQUEST_AREA - NEAR_REQUEST } else { 0 }
}

/// Bytes of shared memory, whoever writes them meanwhile.
pub(crate) fn copy(start: *const u8, length: usize) -> Vec<u8> {
    // SAFETY: callers give a run within a slot; a byte that changes just now is as good as before, and volatile keeps the
    // compiler from reading it twice.
    let byte = |at| unsafe { start.wrapping_add(at).read_volatile() };
    (0..length).map(byte).collect()
}
