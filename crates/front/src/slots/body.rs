//! Where a request body too large for a slot is kept until its request is over.
//!
//! Up to 1 MiB it goes into an extent, memory shared with the workers that is used again and again; there are few, so
//! what bodies take stays bounded however many come. Larger ones, and all when no extent is free, go to a temporary
//! file without a name, whose descriptor the worker gets: nothing is left behind whatever happens.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use howdah_wire::{EXTENT, Segment};

use crate::capacity::Permit;
use crate::room::Room;

/// The extents of a front thread in the segment of one application, and what comes in their place.
pub(crate) struct Extents {
    segment: Cell<Segment>,
    /// Number of the thread.
    index: u32,
    /// At hand.
    free: RefCell<Vec<u32>>,
    directory: PathBuf,
    room: &'static Room,
}

impl Extents {
    /// `directory` is for the files.
    pub(crate) fn new(segment: Segment, index: u32, directory: PathBuf, room: &'static Room) -> Self {
        let free = RefCell::new(segment.extents_of(index).rev().collect());
        Self { segment: Cell::new(segment), index, free, directory, room }
    }

    /// Goes on with another segment, where what bodies have is as it was.
    pub(crate) fn replace(&self, segment: Segment) {
        let old = self.segment.replace(segment);
        for extent in segment.extents_of(self.index) {
            if !self.free.borrow().contains(&extent) {
                segment.extent(extent).copy_from_slice(old.extent(extent));
            }
        }
    }

    /// A place for a body of `length` bytes, if that is known.
    pub(crate) fn place(&'static self, length: Option<u64>) -> io::Result<Spool> {
        if length.is_some_and(|length| length <= EXTENT as u64)
            && let Some(index) = self.free.borrow_mut().pop()
        {
            return Ok(Spool::Extent(Extent { extents: self, index, length: 0 }));
        }
        let Some(permit) = self.room.permit_for_file() else {
            return Err(io::Error::other("no descriptor is left for its file"));
        };
        Ok(Spool::File { file: tempfile::tempfile_in(&self.directory)?, _permit: permit })
    }
}

impl fmt::Debug for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extents").field("free", &self.free).finish_non_exhaustive()
    }
}

/// A body, or what has come of it.
#[derive(Debug)]
pub(crate) enum Spool {
    /// In shared memory.
    Extent(Extent),
    /// In a file.
    File { file: File, _permit: Permit },
}

impl Spool {
    pub(crate) fn append(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Extent(extent) => extent.append(data),
            Self::File { file, .. } => file.write_all(data),
        }
    }

    /// Memory for the next bytes of a body that is in memory; [`Spool::fill`] says how many have come.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Extent(extent) => {
                extent.extents.segment.get().extent(extent.index).get_mut(extent.length..)
            }
            Self::File { .. } => None,
        }
    }

    /// So many bytes have been written to [`Spool::room`].
    pub(crate) fn fill(&mut self, bytes: usize) {
        if let Self::Extent(extent) = self {
            extent.length = (extent.length + bytes).min(EXTENT);
        }
    }

    /// The descriptor of a body in a file.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Extent(_) => None,
            Self::File { file, .. } => Some(file.as_fd()),
        }
    }

    /// The number of its extent.
    pub(crate) fn extent(&self) -> Option<u32> {
        match self {
            Self::Extent(extent) => Some(extent.index),
            Self::File { .. } => None,
        }
    }
}

/// An extent that is ours until it is dropped.
#[derive(Debug)]
pub(crate) struct Extent {
    extents: &'static Extents,
    index: u32,
    length: usize,
}

impl Extent {
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        let end = self.length + data.len();
        let room = self.extents.segment.get().extent(self.index).get_mut(self.length..end);
        room.ok_or(io::ErrorKind::FileTooLarge)?.copy_from_slice(data);
        self.length = end;
        Ok(())
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.extents.free.borrow_mut().push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use howdah_wire::Shape;

    use super::*;
    use crate::clock::Clock;

    fn extents() -> &'static Extents {
        let (_, segment) = howdah_sys::create_segment(Shape { fronts: 1, workers: 1, slots: 4 }).unwrap();
        let room = crate::sample::room(crate::sample::forever(Clock::new()));
        Box::leak(Box::new(Extents::new(segment, 0, std::env::temp_dir(), room)))
    }

    #[test]
    fn a_body_of_known_and_moderate_length_goes_into_an_extent_while_there_is_one() {
        let extents = extents();
        let count = extents.free.borrow().len();
        let kept: Vec<_> = (0..count).map(|_| extents.place(Some(EXTENT as u64)).unwrap()).collect();
        assert!(kept.iter().all(|spool| spool.extent().is_some() && spool.file().is_none()));
        assert!(extents.place(Some(1)).unwrap().file().is_some(), "none is left");
        drop(kept);
        assert_eq!(extents.free.borrow().len(), count, "each is given back");
        for length in [None, Some(EXTENT as u64 + 1)] {
            assert!(extents.place(length).unwrap().file().is_some(), "{length:?}");
        }
    }

    #[test]
    fn a_body_that_outgrows_its_extent_is_refused_and_leaves_the_next_one_alone() {
        let extents = extents();
        let mut spool = extents.place(Some(EXTENT as u64)).unwrap();
        spool.append(&vec![1; EXTENT - 1]).unwrap();
        assert!(spool.append(&[2; 2]).is_err());
        spool.append(&[3]).unwrap();
        let bytes = extents.segment.get().extent(spool.extent().unwrap());
        assert_eq!((bytes[0], bytes[EXTENT - 2], bytes[EXTENT - 1]), (1, 1, 3));
    }

    #[test]
    fn a_body_may_be_written_to_its_extent_directly() {
        let extents = extents();
        let mut spool = extents.place(Some(EXTENT as u64)).unwrap();
        spool.append(b"ab").unwrap();
        let room = spool.room().unwrap();
        assert_eq!(room.len(), EXTENT - 2);
        room[..2].copy_from_slice(b"cd");
        spool.fill(2);
        spool.append(b"e").unwrap();
        assert_eq!(&extents.segment.get().extent(spool.extent().unwrap())[..5], b"abcde");
        spool.fill(EXTENT);
        assert!(spool.room().unwrap().is_empty(), "never more than there is");
        assert!(extents.place(None).unwrap().room().is_none(), "a file is written by itself");
    }

    #[test]
    fn bodies_on_their_way_move_to_another_segment() {
        let extents = extents();
        let mut spool = extents.place(Some(8)).unwrap();
        spool.append(b"half").unwrap();
        let (_, other) = howdah_sys::create_segment(Shape { fronts: 1, workers: 1, slots: 4 }).unwrap();
        extents.replace(other);
        spool.append(b"full").unwrap();
        assert_eq!(&other.extent(spool.extent().unwrap())[..8], b"halffull");
    }
}
