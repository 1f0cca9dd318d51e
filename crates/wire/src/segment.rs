//! The mapped segment: its shape, and safe access to each part.
//!
//! The front creates it, every worker attaches to it. The memory is shared with other processes, any of which may write
//! anywhere in it. So the geometry, and what else must be true, is kept in memory of this process ([`Own`]) and not read
//! again; plain bytes are only read after an acquire of the counter or state word that publishes them; and every number
//! that another process wrote is bounded before it is followed.

use core::mem::size_of;
use std::sync::OnceLock;

use crate::layout::*;
use crate::queue::{FIRST_TICKET, Queue, Tickets};
use crate::shape::{Offsets, Shape, ShapeError};
use crate::sync::Ordering::Relaxed;

/// What this process knows by itself of a segment. It is never given back: there are as many as segments.
struct Own {
    shape: Shape,
    offsets: Offsets,
    tickets: Tickets,
    names: OnceLock<Box<[u64]>>,
}

impl Own {
    fn new(shape: Shape) -> &'static Self {
        let tickets = Tickets::new();
        Box::leak(Box::new(Self { shape, offsets: shape.offsets(), tickets, names: OnceLock::new() }))
    }
}

/// A mapped segment. Copies refer to the same memory, which stays mapped for the life of the process.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub struct Segment {
    base: *mut u8,
    own: &'static Own,
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
        if !shape.is_valid() {
            return Err(ShapeError::OutOfRange);
        }
        if length < shape.total() {
            return Err(ShapeError::TooSmall);
        }
        let segment = Self { base, own: Own::new(shape) };
        let header = segment.header();
        header.queue.head.value.store(FIRST_TICKET, Relaxed);
        header.queue.tail.value.store(FIRST_TICKET, Relaxed);
        header.describe(shape);
        Ok(segment)
    }

    /// Attaches to a segment that a front created.
    ///
    /// # Errors
    /// When the memory is no segment of this version, is cut short or damaged.
    ///
    /// # Safety
    /// `base` must point to `length` readable and writable bytes, page-aligned, mapped until the process ends.
    pub unsafe fn attach(base: *mut u8, length: usize) -> Result<Self, ShapeError> {
        if length < size_of::<Header>() {
            return Err(ShapeError::TooSmall);
        }
        #[expect(clippy::cast_ptr_alignment, reason = "the caller promises a page-aligned base")]
        let start = base.cast::<Header>();
        // SAFETY: a Header fits, stays mapped, and is made of atomics.
        let shape = unsafe { &*start }.shape()?;
        if length < shape.total() {
            return Err(ShapeError::TooSmall);
        }
        Ok(Self { base, own: Own::new(shape) })
    }

    /// Whether the header, which new processes go by, still says what was written there.
    #[must_use]
    pub fn has_its_header(&self) -> bool {
        let header = self.header();
        let names = self.own.names.get().into_iter().flat_map(|names| header.report_names.iter().zip(names));
        header.describes(self.own.shape, &self.own.offsets)
            && names.into_iter().all(|(word, value)| word.load(Relaxed) == *value)
    }

    /// Whether this is another handle on the same segment.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.base == other.base
    }

    /// How large it is.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.own.shape
    }

    /// The start of the segment.
    pub(crate) fn header(&self) -> &'static Header {
        #[expect(clippy::cast_ptr_alignment, reason = "the base is page-aligned")]
        let start = self.base.cast::<Header>();
        // SAFETY: create and attach checked that a Header is there; it stays mapped, and is made of atomics.
        unsafe { &*start }
    }

    /// Where its parts lie.
    pub(crate) fn offsets(&self) -> &'static Offsets {
        &self.own.offsets
    }

    /// The names of what workers report, as they stand in the header, see `report`.
    pub(crate) fn names(&self) -> &'static OnceLock<Box<[u64]>> {
        &self.own.names
    }

    /// Address of byte `at`.
    pub(crate) fn address(&self, at: usize) -> *mut u8 {
        self.base.wrapping_add(at)
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> Queue<'static> {
        let Own { shape, offsets, tickets, .. } = self.own;
        Queue {
            cells: &self.header().queue,
            ring: self.part(offsets.ring_at, offsets.ring),
            controls: self.part(offsets.controls_at, shape.slots),
            tickets,
        }
    }

    /// Slot controls.
    #[must_use]
    pub fn controls(&self) -> &'static [SlotControl] {
        self.part(self.own.offsets.controls_at, self.own.shape.slots)
    }

    /// Worker cells.
    #[must_use]
    pub fn workers(&self) -> &'static [WorkerCell] {
        self.part(self.own.offsets.workers_at, self.own.shape.workers)
    }

    /// The route cells of a worker; none for one that is not there.
    #[must_use]
    pub fn routes(&self, worker: u16) -> &'static [RouteCell] {
        let all = self.part(self.own.offsets.routes_at, self.own.shape.workers * ROUTES);
        all.chunks_exact(ROUTES).nth(usize::from(worker)).unwrap_or_default()
    }

    /// Front cells.
    #[must_use]
    pub fn fronts(&self) -> &'static [FrontCell] {
        self.part(self.own.offsets.fronts_at, self.own.shape.fronts)
    }

    /// Number of the front thread that `slot` belongs to. Slots are shared out evenly.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn front_number(&self, slot: u32) -> usize {
        let Shape { fronts, slots, .. } = self.own.shape;
        assert!((slot as usize) < slots, "slot {slot} is out of range");
        // Mostly there is one, and a division is not for nothing.
        if fronts == 1 { 0 } else { slot as usize * fronts / slots }
    }

    /// The slots of a front thread.
    #[must_use]
    pub fn slots_of(&self, front: u32) -> core::ops::Range<u32> {
        let Shape { fronts, slots, .. } = self.own.shape;
        let first = |front: usize| (front * slots).div_ceil(fronts) as u32;
        first(front as usize)..first(front as usize + 1)
    }

    /// The front thread that `slot` belongs to.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn front_of(&self, slot: u32) -> &'static FrontCell {
        &self.fronts()[self.front_number(slot)]
    }

    /// Writes the header anew: a zygote that has yet to attach finds a segment, although it is to use another one.
    pub fn restore_header(&self) {
        self.header().describe(self.own.shape);
        self.ask_as(self);
    }

    /// All but the header, of a segment that nobody uses any more.
    #[expect(clippy::mut_from_ref, reason = "it is only given back to the system")]
    #[must_use]
    pub fn all_but_header(&self) -> &mut [u8] {
        let start = self.own.offsets.fronts_at;
        // SAFETY: mapped, and all of it bytes.
        unsafe { core::slice::from_raw_parts_mut(self.address(start), self.own.offsets.total - start) }
    }

    fn part<T>(&self, at: usize, count: usize) -> &'static [T] {
        let start = self.base.wrapping_add(at).cast::<T>();
        // SAFETY: offsets and counts come from the shape, for this T, aligned to a page, and within the mapping; every T
        // here is made of atomics, for which any bytes are valid.
        unsafe { core::slice::from_raw_parts(start, count) }
    }
}
