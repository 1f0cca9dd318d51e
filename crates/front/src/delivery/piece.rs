//! A piece of a file, read without making anybody wait: at once when the kernel has it in memory, else by a thread.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::{ReadWriteFlags, pread, preadv2};

/// Up to `length` bytes from `offset` on; none at the end of the file.
pub(crate) async fn read(file: &Arc<OwnedFd>, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    if let Ok(read) = preadv2(file, &mut [IoSliceMut::new(&mut bytes)], offset, ReadWriteFlags::NOWAIT) {
        bytes.truncate(read);
        return Ok(bytes);
    }
    // It is on the disk alone, or lies on a file system that cannot tell.
    let file = Arc::clone(file);
    tokio::task::spawn_blocking(move || {
        let read = pread(&file, &mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    })
    .await?
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};

    use super::*;
    use crate::sample::world::run;

    #[test]
    fn a_file_is_read_piece_by_piece_to_its_end() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; 1000]).unwrap();
        let file = Arc::new(OwnedFd::from(file));
        run(async {
            for (offset, length, found) in [(0, 600, 600), (600, 600, 400), (1000, 600, 0)] {
                assert_eq!(read(&file, offset, length).await.unwrap().len(), found, "from {offset}");
            }
            let (pipe, end) = pipe().unwrap();
            drop(end);
            assert!(read(&Arc::new(pipe.into()), 0, 1).await.is_err(), "it has no place to read from");
        });
    }
}
