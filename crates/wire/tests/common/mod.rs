//! Memory as a mapping gives it, for segments that live as long as the test's process.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

use howdah_wire::{Segment, Shape};

const PAGE: usize = 4096;

/// Zeroed memory, aligned to a page, there until the end.
pub(crate) fn memory(length: usize) -> *mut u8 {
    // Aligned by hand: memory that is asked for with an alignment is cleared at once, and segments are large.
    let layout = std::alloc::Layout::from_size_align(length + PAGE, 16).unwrap();
    // SAFETY: not of size zero.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    start.wrapping_add(start.align_offset(PAGE))
}

/// A new segment.
pub(crate) fn segment(shape: Shape) -> Segment {
    // SAFETY: zeroed, page-aligned, never freed.
    unsafe { Segment::create(memory(shape.total()), shape.total(), shape) }.unwrap()
}
