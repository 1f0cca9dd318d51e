//! Where a request body too large for a slot is kept until its request is over.
//!
//! Up to 1 MiB it goes into an extent, memory shared with the workers that is used again and again; there are few, so
//! what bodies take stays bounded however many come. Larger ones, and all when no extent is free, go to a temporary
//! file without a name, whose descriptor the worker gets: nothing is left behind whatever happens. One of unknown length
//! begins in an extent, and moves to a file when it outgrows that.

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
        if length.is_none_or(|length| length <= EXTENT as u64)
            && let Some(index) = self.free.borrow_mut().pop()
        {
            return Ok(Spool::Extent(Extent { extents: self, index, length: 0 }));
        }
        self.file()
    }

    fn file(&self) -> io::Result<Spool> {
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
            Self::Extent(extent) => {
                if extent.append(data) {
                    return Ok(());
                }
                let mut file = extent.extents.file()?;
                file.append(extent.bytes())?;
                file.append(data)?;
                *self = file;
                Ok(())
            }
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
    /// False when it has no room for `data`, none of which it takes then.
    fn append(&mut self, data: &[u8]) -> bool {
        let end = self.length + data.len();
        let Some(room) = self.extents.segment.get().extent(self.index).get_mut(self.length..end) else {
            return false;
        };
        room.copy_from_slice(data);
        self.length = end;
        true
    }

    /// What it has of its body.
    fn bytes(&self) -> &[u8] {
        &self.extents.segment.get().extent(self.index)[..self.length]
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.extents.free.borrow_mut().push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use howdah_wire::Shape;

    use super::*;
    use crate::clock::Clock;

    fn extents() -> &'static Extents {
        let (_, segment) = howdah_sys::create_segment(Shape { fronts: 1, workers: 1, slots: 4 }).unwrap();
        let room = crate::sample::room(crate::sample::forever(Clock::new()));
        Box::leak(Box::new(Extents::new(segment, 0, std::env::temp_dir(), room)))
    }

    #[test]
    fn a_body_of_moderate_or_unknown_length_goes_into_an_extent_while_there_is_one() {
        let extents = extents();
        let count = extents.free.borrow().len();
        for length in [Some(EXTENT as u64), None] {
            let kept: Vec<_> = (0..count).map(|_| extents.place(length).unwrap()).collect();
            assert!(kept.iter().all(|spool| spool.extent().is_some() && spool.file().is_none()));
            for other in [Some(1), None] {
                assert!(extents.place(other).unwrap().file().is_some(), "none is left");
            }
            drop(kept);
            assert_eq!(extents.free.borrow().len(), count, "each is given back");
        }
        assert!(extents.place(Some(EXTENT as u64 + 1)).unwrap().file().is_some());
    }

    #[test]
    fn a_body_that_outgrows_its_extent_goes_on_in_a_file_and_leaves_the_next_extent_alone() {
        let extents = extents();
        let count = extents.free.borrow().len();
        let mut spool = extents.place(None).unwrap();
        let mut next = extents.place(None).unwrap();
        next.append(&[4]).unwrap();
        spool.append(&vec![1; EXTENT - 1]).unwrap();
        assert!(spool.extent().is_some());
        spool.append(&[2; 2]).unwrap();
        spool.append(&[3]).unwrap();
        let Spool::File { file, .. } = &mut spool else { panic!("it has no room there") };
        let mut whole = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut whole).unwrap();
        assert_eq!((whole.len(), &whole[EXTENT - 2..]), (EXTENT + 2, &[1, 2, 2, 3][..]));
        assert!(whole[..EXTENT - 1].iter().all(|byte| *byte == 1));
        assert_eq!(extents.segment.get().extent(next.extent().unwrap())[0], 4);
        assert_eq!(extents.free.borrow().len(), count - 1, "its extent is given back at once");
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
        let mut file = extents.place(Some(EXTENT as u64 + 1)).unwrap();
        assert!(file.room().is_none(), "a file is written by itself");
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
