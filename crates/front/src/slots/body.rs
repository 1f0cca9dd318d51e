//! Where a request body too large for a slot is kept until its request is over.
//!
//! Up to 1 MiB it goes into an extent, memory shared with the workers that is used again and again; there are few, so
//! what bodies take stays bounded however many come. Larger ones, and all when no extent is free, go to a temporary
//! file without a name, whose descriptor the worker gets: nothing is left behind whatever happens. A disk may be slow or hang,
//! so all that may touch it, down to the closing of the file, is done by a thread.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use howdah_accesslog::with_way_in;
use howdah_wire::{EXTENT, Segment};

use crate::capacity::Permit;
use crate::room::Room;
use crate::waiting::Waiting;

/// So many threads may write bodies, of all front threads.
static WRITING: Waiting = Waiting::new(TURNS);
const TURNS: usize = 16;

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

    /// An extent for a body of `length` bytes, if that is known, when it is not too long and there is one.
    pub(crate) fn extent(&'static self, length: Option<u64>) -> Option<Extent> {
        if length.is_some_and(|length| length > EXTENT as u64) {
            return None;
        }
        self.free.borrow_mut().pop().map(|index| Extent { extents: self, index, length: 0 })
    }

    /// A file that begins with these bytes.
    pub(crate) async fn file(&self, bytes: Vec<u8>) -> io::Result<BodyFile> {
        let Some(permit) = self.room.permit_for_file() else {
            return Err(io::Error::other("no descriptor is left for its file"));
        };
        let directory = self.directory.clone();
        let file = WRITING.wait(move || {
            let file = tempfile::tempfile_in(&directory).map_err(|error| with_way_in(&directory, error))?;
            // A script may open it anew, by the name /dev/stdin, and run as another user. Where files have no such rights, it can.
            let _ = file.set_permissions(Permissions::from_mode(0o644));
            (&file).write_all(&bytes)?;
            Ok((file, permit))
        });
        let (file, permit) = file.await?;
        Ok(BodyFile { file: Arc::new(file), _permit: Arc::new(permit) })
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
    File(BodyFile),
}

impl Spool {
    /// The descriptor of a body in a file.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Extent(_) => None,
            Self::File(file) => Some(file.file.as_fd()),
        }
    }

    /// The number of its extent.
    pub(crate) fn extent(&self) -> Option<u32> {
        match self {
            Self::Extent(extent) => Some(extent.index),
            Self::File(_) => None,
        }
    }
}

/// See [`Spool::File`].
#[derive(Debug)]
pub(crate) struct BodyFile {
    file: Arc<File>,
    /// Counts until the file is closed.
    _permit: Arc<Permit>,
}

impl BodyFile {
    /// Writes these behind what there is.
    pub(crate) async fn append(&self, bytes: Vec<u8>) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        WRITING.wait(move || (&*file).write_all(&bytes)).await
    }
}

impl Drop for BodyFile {
    /// To free the place of a large file takes time, too.
    fn drop(&mut self) {
        WRITING.close((Arc::clone(&self.file), Arc::clone(&self._permit)));
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
    pub(crate) fn append(&mut self, data: &[u8]) -> bool {
        let Some(room) = self.room().and_then(|room| room.get_mut(..data.len())) else {
            return false;
        };
        room.copy_from_slice(data);
        self.length += data.len();
        true
    }

    /// Memory for the next bytes; [`Extent::fill`] says how many have come.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        self.extents.segment.get().extent(self.index).get_mut(self.length..)
    }

    /// So many bytes have been written to [`Extent::room`].
    pub(crate) fn fill(&mut self, bytes: usize) {
        self.length = (self.length + bytes).min(EXTENT);
    }

    /// What it has of its body.
    pub(crate) fn bytes(&self) -> &[u8] {
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
    use std::io::Read;
    use std::time::Duration;

    use howdah_wire::Shape;

    use super::*;
    use crate::clock::Clock;
    use crate::sample::world::run;

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
            let kept: Vec<_> = (0..count).map(|_| extents.extent(length).unwrap()).collect();
            assert!([Some(1), None].iter().all(|other| extents.extent(*other).is_none()), "none is left");
            drop(kept);
            assert_eq!(extents.free.borrow().len(), count, "each is given back");
        }
        assert!(extents.extent(Some(EXTENT as u64 + 1)).is_none());
    }

    #[test]
    fn an_extent_takes_no_more_than_it_has_room_for_and_leaves_the_next_one_alone() {
        let extents = extents();
        let (mut extent, mut next) = (extents.extent(None).unwrap(), extents.extent(None).unwrap());
        assert!(next.append(&[4]) && extent.append(b"ab"));
        extent.room().unwrap()[..2].copy_from_slice(b"cd");
        extent.fill(2);
        assert_eq!(extent.bytes(), b"abcd");
        assert!(extent.append(&vec![1; EXTENT - 5]) && !extent.append(&[2; 2]) && extent.append(&[3]));
        assert!(extent.room().unwrap().is_empty() && extent.bytes()[EXTENT - 2..] == [1, 3]);
        extent.fill(EXTENT);
        assert_eq!((extent.bytes().len(), next.bytes()), (EXTENT, &[4][..]), "never more than there is");
    }

    #[test]
    fn a_file_has_what_was_written_in_order() {
        run(async {
            let file = extents().file(b"be".to_vec()).await.unwrap();
            file.append(b"gun".to_vec()).await.unwrap();
            let spool = Spool::File(file);
            assert_eq!((spool.extent(), spool.file().is_some()), (None, true));
            let mut whole = Vec::new();
            let mut file = File::from(spool.file().unwrap().try_clone_to_owned().unwrap());
            io::Seek::rewind(&mut file).unwrap();
            file.read_to_end(&mut whole).unwrap();
            assert_eq!(whole, b"begun");
        });
    }

    #[test]
    fn a_file_is_closed_in_its_turn() {
        run(async {
            // A pipe tells when its end is closed.
            let (pipe, end) = io::pipe().unwrap();
            rustix::io::ioctl_fionbio(&pipe, true).unwrap();
            let is_closed = || (&pipe).read(&mut [0]).is_ok();
            let permit = extents().room.permit_for_file().unwrap();
            let file = File::from(std::os::fd::OwnedFd::from(end));
            let turns = WRITING.take_all(TURNS).await;
            drop(BodyFile { file: Arc::new(file), _permit: Arc::new(permit) });
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!is_closed());
            drop(turns);
            while !is_closed() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }

    #[test]
    fn bodies_on_their_way_move_to_another_segment() {
        let extents = extents();
        let mut extent = extents.extent(Some(8)).unwrap();
        assert!(extent.append(b"half"));
        let (_, other) = howdah_sys::create_segment(Shape { fronts: 1, workers: 1, slots: 4 }).unwrap();
        extents.replace(other);
        assert!(extent.append(b"full"));
        assert_eq!(&other.extent(extent.index)[..8], b"halffull");
    }
}
