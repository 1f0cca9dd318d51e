//! The mapped segment: its shape, and safe access to each part.
//!
//! The front creates it, every worker attaches to it. The memory is shared with other processes, so plain bytes are
//! only read after an acquire of the counter or state word that publishes them, and every offset that a worker wrote
//! is checked before the front follows it.

use core::mem::size_of;

use crate::layout::*;
use crate::queue::{FIRST_TICKET, Queue, State};
use crate::request::{RequestReader, STRINGS_AT};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Relaxed, SeqCst};

/// Where in a slot its response ring begins.
pub(crate) const RING_AT: usize = REQUEST_AREA + REPORT_AREA;

/// How large the segment is to be.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Front threads, 1 to [`MAX_FRONTS`].
    pub fronts: usize,
    /// Worker cells, 1 to [`MAX_WORKERS`].
    pub workers: usize,
    /// Slots, 1 to [`MAX_SLOTS`]; shared out evenly among front threads.
    pub slots: usize,
}

/// A mapping that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// A number is zero or above its maximum.
    OutOfRange,
    /// The memory does not start with [`MAGIC`]: front and worker are of different versions.
    WrongMagic,
    /// The mapping is smaller than the segment.
    TooSmall,
}

impl core::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "front threads, workers or slots out of range",
            Self::WrongMagic => {
                "not a segment of this version of Howdah; front and Perl modules differ, install both anew"
            }
            Self::TooSmall => "the mapping is smaller than the segment",
        })
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// Bytes to map. Pages are only used once touched.
    #[must_use]
    pub fn total(&self) -> usize {
        self.header().total as usize
    }

    fn valid(&self) -> bool {
        (1..=MAX_FRONTS).contains(&self.fronts)
            && (1..=MAX_WORKERS).contains(&self.workers)
            && (1..=MAX_SLOTS).contains(&self.slots)
    }

    fn header(&self) -> Offsets {
        let ring = (self.slots * 4 + 64).next_power_of_two();
        let fronts_at = size_of::<Header>().next_multiple_of(4096);
        let workers_at = (fronts_at + self.fronts * size_of::<FrontCell>()).next_multiple_of(4096);
        let ring_at = (workers_at + self.workers * size_of::<WorkerCell>()).next_multiple_of(4096);
        let controls_at = (ring_at + ring * size_of::<AtomicU64>()).next_multiple_of(4096);
        let slots_at = (controls_at + self.slots * size_of::<SlotControl>()).next_multiple_of(4096);
        let extents_at = (slots_at + self.slots * SLOT_STRIDE).next_multiple_of(4096);
        let total = (extents_at + self.fronts * EXTENTS_PER_FRONT * EXTENT) as u64;
        Offsets { ring, fronts_at, workers_at, ring_at, controls_at, slots_at, extents_at, total }
    }
}

struct Offsets {
    ring: usize,
    fronts_at: usize,
    workers_at: usize,
    ring_at: usize,
    controls_at: usize,
    slots_at: usize,
    extents_at: usize,
    total: u64,
}

/// A mapped segment. Copies refer to the same memory, which stays mapped for the life of the process.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub struct Segment {
    base: *mut u8,
}

// SAFETY: the pointer is only used to reach atomics and bytes whose ownership the protocol hands from one side to the other.
unsafe impl Send for Segment {}
// SAFETY: as above; shared access goes through atomics.
unsafe impl Sync for Segment {}

impl Segment {
    /// Lays out a new segment in zeroed memory.
    ///
    /// # Errors
    /// When `shape` is out of range or `length` is less than its total.
    ///
    /// # Safety
    /// `base` must point to `length` zeroed bytes, page-aligned, mapped until the process ends.
    pub unsafe fn create(base: *mut u8, length: usize, shape: Shape) -> Result<Self, ShapeError> {
        if !shape.valid() {
            return Err(ShapeError::OutOfRange);
        }
        let offsets = shape.header();
        if (length as u64) < offsets.total {
            return Err(ShapeError::TooSmall);
        }
        #[expect(clippy::cast_ptr_alignment, reason = "the caller promises a page-aligned base")]
        let start = base.cast::<Header>();
        // SAFETY: the memory is ours alone until create returns, zeroed, and large enough; all-zero is a valid Header.
        let header = unsafe { &mut *start };
        header.total = offsets.total;
        header.fronts = shape.fronts as u32;
        header.workers = shape.workers as u32;
        header.slots = shape.slots as u32;
        header.ring = offsets.ring as u32;
        header.fronts_at = offsets.fronts_at as u64;
        header.workers_at = offsets.workers_at as u64;
        header.ring_at = offsets.ring_at as u64;
        header.controls_at = offsets.controls_at as u64;
        header.slots_at = offsets.slots_at as u64;
        header.extents_at = offsets.extents_at as u64;
        header.queue.head.value.store(FIRST_TICKET, Relaxed);
        header.queue.tail.value.store(FIRST_TICKET, Relaxed);
        header.magic = MAGIC;
        let segment = Self { base };
        for (slot, control) in segment.controls().iter().enumerate() {
            control.front.store((slot * shape.fronts / shape.slots) as u32, Relaxed);
        }
        Ok(segment)
    }

    /// Attaches to a segment that a front created.
    ///
    /// # Errors
    /// When the memory is no segment of this version or is cut short.
    ///
    /// # Safety
    /// `base` must point to `length` readable and writable bytes, page-aligned, mapped until the process ends.
    pub unsafe fn attach(base: *mut u8, length: usize) -> Result<Self, ShapeError> {
        if length < size_of::<Header>() {
            return Err(ShapeError::TooSmall);
        }
        let segment = Self { base };
        if segment.header().magic != MAGIC {
            return Err(ShapeError::WrongMagic);
        }
        if segment.header().total > length as u64 {
            return Err(ShapeError::TooSmall);
        }
        Ok(segment)
    }

    /// The start of the segment.
    #[must_use]
    pub fn header(&self) -> &'static Header {
        #[expect(clippy::cast_ptr_alignment, reason = "the base is page-aligned")]
        let start = self.base.cast::<Header>();
        // SAFETY: create and attach checked that a Header is there; it stays mapped, and its plain fields never change.
        unsafe { &*start }
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> Queue<'static> {
        let header = self.header();
        Queue {
            cells: &header.queue,
            ring: self.part(header.ring_at, header.ring),
            controls: self.part(header.controls_at, header.slots),
        }
    }

    /// Slot controls.
    #[must_use]
    pub fn controls(&self) -> &'static [SlotControl] {
        self.part(self.header().controls_at, self.header().slots)
    }

    /// Worker cells.
    #[must_use]
    pub fn workers(&self) -> &'static [WorkerCell] {
        self.part(self.header().workers_at, self.header().workers)
    }

    /// Front cells.
    #[must_use]
    pub fn fronts(&self) -> &'static [FrontCell] {
        self.part(self.header().fronts_at, self.header().fronts)
    }

    /// The front thread that `slot` belongs to.
    #[must_use]
    pub fn front_of(&self, slot: u32) -> &'static FrontCell {
        let front = self.controls()[slot as usize].front.load(Relaxed) as usize;
        &self.fronts()[front.min(self.fronts().len() - 1)]
    }

    /// Says where the next request in `slot` will stand: near the response ring, with [`NEAR_REQUEST`] bytes of room, or
    /// at the start of the request area. The front holds the slot.
    ///
    /// # Panics
    /// When `slot` is out of range.
    pub fn place_request(&self, slot: u32, near: bool) {
        let at = if near { REQUEST_AREA - NEAR_REQUEST } else { 0 };
        self.controls()[slot as usize].request_at.store(at as u32, Relaxed);
    }

    /// Where the request in `slot` stands in its area. Any process may have written the word.
    fn request_at(&self, slot: u32) -> usize {
        let at = self.controls()[slot as usize].request_at.load(Relaxed) as usize;
        if at == REQUEST_AREA - NEAR_REQUEST { at } else { 0 }
    }

    /// The request in `slot`.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn request_address(&self, slot: u32) -> *mut u8 {
        self.slot_address(slot).wrapping_add(self.request_at(slot))
    }

    /// The request area of a slot that the front holds, from where [`Segment::place_request`] says, for writing.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[expect(clippy::mut_from_ref, reason = "the slot's phase, not the borrow checker, says who may write")]
    #[must_use]
    pub fn request_area(&self, slot: u32) -> &mut [u8] {
        let at = self.request_at(slot);
        let start = self.slot_address(slot).wrapping_add(at);
        // SAFETY: in range; while its phase is Free only the front thread that holds the slot touches this area.
        unsafe { core::slice::from_raw_parts_mut(start, REQUEST_AREA - at) }
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
        // SAFETY: the offset is below the area's size, in the mapping; a byte that changes just now is of no concern to
        // the reader, who discards the copy then, and volatile keeps the compiler from reading it twice.
        let byte = |at| unsafe { start.wrapping_add(at).read_volatile() };
        (0..length.min(REQUEST_AREA - at)).map(byte).collect()
    }

    /// The bytes that a worker has produced in `slot` and the front has not consumed, from `skip` on: the run up to
    /// the ring's end and the run from its start.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn response(&self, slot: u32, skip: usize) -> (&[u8], &[u8]) {
        let control = &self.controls()[slot as usize];
        let length = control.available().saturating_sub(skip);
        let start = (control.consumed.load(Relaxed) as usize).wrapping_add(skip) & (RESPONSE_RING - 1);
        let first = length.min(RESPONSE_RING - start);
        let ring = self.slot_address(slot).wrapping_add(RING_AT);
        // SAFETY: `available` is at most the ring, so this run lies in it; a worker does not write what it has
        // produced until the front has consumed it.
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
    pub fn produce(&self, slot: u32, bytes: &[u8]) -> usize {
        let control = &self.controls()[slot as usize];
        let start = control.produced.load(Relaxed) as usize & (RESPONSE_RING - 1);
        let length = bytes.len().min(control.room_left()).min(RESPONSE_RING - start);
        let free = self.slot_address(slot).wrapping_add(RING_AT + start);
        // SAFETY: in range, and `length` bytes fit before the ring's end; the front reads them once they are counted.
        let room = unsafe { core::slice::from_raw_parts_mut(free, length) };
        room.copy_from_slice(&bytes[..length]);
        control.produce(length);
        length
    }

    /// Address of a slot's request area, for the worker's C side.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn slot_address(&self, slot: u32) -> *mut u8 {
        assert!(slot < self.header().slots, "slot {slot} is out of range");
        self.base.wrapping_add(self.header().slots_at as usize + slot as usize * SLOT_STRIDE)
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
    #[expect(
        clippy::mut_from_ref,
        reason = "whoever holds the extent, not the borrow checker, says who may write"
    )]
    #[must_use]
    pub fn extent(&self, extent: u32) -> &mut [u8] {
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
        let header = self.header();
        assert!(extent < header.fronts * EXTENTS_PER_FRONT as u32, "extent {extent} is out of range");
        self.base.wrapping_add(header.extents_at as usize + extent as usize * EXTENT)
    }

    fn part<T>(&self, at: u64, count: u32) -> &'static [T] {
        let start = self.base.wrapping_add(at as usize).cast::<T>();
        // SAFETY: offsets and counts come from the header that `create` computed for this T, aligned to a page;
        // every T here is made of atomics, for which zeroed memory is valid.
        unsafe { core::slice::from_raw_parts(start, count as usize) }
    }
}
