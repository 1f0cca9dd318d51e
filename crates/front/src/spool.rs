//! Where a request body too large for a slot is kept until its request is over.
//!
//! Up to 1 MiB it goes into an extent, memory shared with the workers that is used again and again; there are few, so
//! what bodies take stays bounded however many come. Larger ones, and all when no extent is free, go to a temporary
//! file without a name, whose descriptor the worker gets: nothing is left behind whatever happens.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use howdah_wire::EXTENT;

use crate::capacity::{Permit, permit_for_file};
use crate::thread::here;

/// A body, or what has come of it.
#[derive(Debug)]
pub(crate) enum Spool {
    /// In shared memory.
    Extent(Extent),
    /// In a file.
    File { file: File, _permit: Permit },
}

impl Spool {
    /// A place for a body of `length` bytes, if that is known.
    pub(crate) fn create(length: Option<u64>) -> io::Result<Self> {
        let thread = here();
        if length.is_some_and(|length| length <= EXTENT as u64)
            && let Some(index) = thread.extents.borrow_mut().pop()
        {
            return Ok(Self::Extent(Extent { index, length: 0 }));
        }
        let Some(permit) = permit_for_file() else {
            return Err(io::Error::other("no descriptor is left for its file"));
        };
        let directory = thread.config.spool_dir.clone().unwrap_or_else(std::env::temp_dir);
        Ok(Self::File { file: tempfile::tempfile_in(directory)?, _permit: permit })
    }

    pub(crate) fn append(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Extent(extent) => extent.append(data),
            Self::File { file, .. } => file.write_all(data),
        }
    }

    /// The descriptor of a body in a file.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Extent(_) => None,
            Self::File { file, .. } => Some(file.as_fd()),
        }
    }
}

/// An extent that is ours until it is dropped.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) index: u32,
    length: usize,
}

impl Extent {
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        let end = self.length + data.len();
        let room = here().segment().extent(self.index).get_mut(self.length..end);
        room.ok_or(io::ErrorKind::FileTooLarge)?.copy_from_slice(data);
        self.length = end;
        Ok(())
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        here().extents.borrow_mut().push(self.index);
    }
}
