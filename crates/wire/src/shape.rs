//! How large a segment is, where its parts lie, and how the header tells it to those who attach.

use core::mem::size_of;

use crate::layout::*;
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicU32, AtomicU64};

/// How large the segment is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The header contradicts itself: somebody has written over it.
    Damaged,
}

impl core::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "front threads, workers or slots out of range",
            Self::WrongMagic => {
                "not a segment of this version of Howdah; front and Perl modules differ, install both anew"
            }
            Self::TooSmall => "the mapping is smaller than the segment",
            Self::Damaged => "the segment's header is damaged",
        })
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// Bytes to map. Pages are only used once touched.
    #[must_use]
    pub fn total(&self) -> usize {
        self.offsets().total
    }

    pub(crate) fn is_valid(&self) -> bool {
        (1..=MAX_FRONTS).contains(&self.fronts)
            && (1..=MAX_WORKERS).contains(&self.workers)
            && (1..=MAX_SLOTS).contains(&self.slots)
    }

    /// Where the parts lie.
    #[must_use]
    pub fn offsets(&self) -> Offsets {
        let ring = (self.slots * 4 + 64).next_power_of_two();
        let fronts_at = size_of::<Header>().next_multiple_of(4096);
        let workers_at = (fronts_at + self.fronts * size_of::<FrontCell>()).next_multiple_of(4096);
        let routes_at = (workers_at + self.workers * size_of::<WorkerCell>()).next_multiple_of(4096);
        let ring_at = (routes_at + self.workers * ROUTES * size_of::<RouteCell>()).next_multiple_of(4096);
        let controls_at = (ring_at + ring * size_of::<AtomicU64>()).next_multiple_of(4096);
        let near = REQUEST_AREA - NEAR_REQUEST;
        let controls_end = controls_at + self.slots * size_of::<SlotControl>();
        let slots_at = (controls_end + near).next_multiple_of(NEIGHBOURS) - near;
        let extents_at = (slots_at + self.slots * SLOT_STRIDE).next_multiple_of(4096);
        let total = extents_at + self.fronts * EXTENTS_PER_FRONT * EXTENT;
        Offsets { ring, fronts_at, workers_at, routes_at, ring_at, controls_at, slots_at, extents_at, total }
    }
}

/// Offsets of a segment's parts from its start, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// Entries of the ring.
    pub ring: usize,
    /// Front cells.
    pub fronts_at: usize,
    /// Worker cells.
    pub workers_at: usize,
    /// Route cells.
    pub routes_at: usize,
    /// Queue ring.
    pub ring_at: usize,
    /// Slot controls.
    pub controls_at: usize,
    /// Slots.
    pub slots_at: usize,
    /// Extents.
    pub extents_at: usize,
    /// The end of all.
    pub total: usize,
}

impl Header {
    /// Tells the geometry; the magic number comes last.
    pub(crate) fn describe(&self, shape: Shape) {
        for (half, value) in self.halves().into_iter().zip(shape.halves()) {
            half.store(value, Relaxed);
        }
        for (word, value) in self.words().into_iter().zip(shape.offsets().words()) {
            word.store(value, Relaxed);
        }
        self.magic.store(MAGIC, SeqCst);
    }

    /// Whether what it tells is this shape.
    pub(crate) fn describes(&self, shape: Shape, offsets: &Offsets) -> bool {
        let halves = self.halves().into_iter().zip(shape.halves());
        let words = self.words().into_iter().zip(offsets.words());
        self.magic.load(Relaxed) == MAGIC
            && halves.into_iter().all(|(half, value)| half.load(Relaxed) == value)
            && words.into_iter().all(|(word, value)| word.load(Relaxed) == value)
    }

    /// The shape that it tells, if that is one.
    pub(crate) fn shape(&self) -> Result<Shape, ShapeError> {
        if self.magic.load(SeqCst) != MAGIC {
            return Err(ShapeError::WrongMagic);
        }
        let count = |half: &AtomicU32| half.load(Relaxed) as usize;
        let shape =
            Shape { fronts: count(&self.fronts), workers: count(&self.workers), slots: count(&self.slots) };
        let sound = shape.is_valid() && self.describes(shape, &shape.offsets());
        sound.then_some(shape).ok_or(ShapeError::Damaged)
    }

    fn words(&self) -> [&AtomicU64; 8] {
        let Self {
            total, fronts_at, workers_at, routes_at, ring_at, controls_at, slots_at, extents_at, ..
        } = self;
        [total, fronts_at, workers_at, routes_at, ring_at, controls_at, slots_at, extents_at]
    }

    fn halves(&self) -> [&AtomicU32; 4] {
        [&self.fronts, &self.workers, &self.slots, &self.ring]
    }
}

impl Offsets {
    fn words(&self) -> [u64; 8] {
        let Self {
            total, fronts_at, workers_at, routes_at, ring_at, controls_at, slots_at, extents_at, ..
        } = *self;
        [total, fronts_at, workers_at, routes_at, ring_at, controls_at, slots_at, extents_at]
            .map(|offset| offset as u64)
    }
}

impl Shape {
    fn halves(&self) -> [u32; 4] {
        [self.fronts, self.workers, self.slots, self.offsets().ring].map(|count| count as u32)
    }
}
