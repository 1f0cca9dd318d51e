//! Memory of another process, read without a word to it: process_vm_readv(2).
//!
//! What is read may change meanwhile, so the reader copies it once and judges the copy. A front that is confined may not
//! do this; commands that look at workers are processes of their own.

use std::io::{self, IoSliceMut};

use crate::process::Pid;

/// Most pieces of one read (the kernel's IOV_MAX).
pub const MOST_PIECES: usize = 1024;

/// Where a piece lies there, and the room for it here.
pub type Piece<'a> = (u64, &'a mut [u8]);

/// Fills the pieces in order, with one call, and returns how many are whole: the rest lies where nothing is mapped.
///
/// # Errors
/// PermissionDenied where the kernel does not let us look, NotFound (ESRCH) when the process is gone, InvalidInput for
/// more than [`MOST_PIECES`].
pub fn read(pid: Pid, pieces: &mut [Piece<'_>]) -> io::Result<usize> {
    let there: Vec<libc::iovec> = pieces.iter().map(remote).collect();
    let lengths: Vec<usize> = pieces.iter().map(|(_, room)| room.len()).collect();
    let mut here: Vec<IoSliceMut<'_>> = pieces.iter_mut().map(|(_, room)| IoSliceMut::new(room)).collect();
    let count = libc::c_ulong::try_from(there.len()).map_err(io::Error::other)?;
    // SAFETY: IoSliceMut has the layout of an iovec; ours are valid for writing as long as the call lasts. Addresses of
    // the other process are only compared with its own mappings.
    let read = unsafe {
        libc::process_vm_readv(pid.as_raw_pid(), here.as_mut_ptr().cast(), count, there.as_ptr(), count, 0)
    };
    match usize::try_from(read) {
        Ok(read) => Ok(whole(&lengths, read)),
        Err(_) => match io::Error::last_os_error() {
            // Not even the first byte.
            error if error.raw_os_error() == Some(libc::EFAULT) => Ok(0),
            error => Err(error),
        },
    }
}

/// A pointer that means nothing here.
fn remote((address, room): &Piece<'_>) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut(*address as usize), iov_len: room.len() }
}

fn whole(lengths: &[usize], read: usize) -> usize {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    ends.take_while(|&end| end <= read).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_in_order_until_one_is_not_there() {
        let (first, second) = (*b"first", *b"second");
        let address = |bytes: &[u8]| bytes.as_ptr() as u64;
        let (mut a, mut b, mut c, mut d) = ([0; 5], [0; 6], [0; 4], [0; 5]);
        let mut pieces: [Piece<'_>; 4] =
            [(address(&first), &mut a), (address(&second), &mut b), (8, &mut c), (address(&first), &mut d)];
        assert_eq!(read(rustix::process::getpid(), &mut pieces).unwrap(), 2);
        assert_eq!((a, b), (first, second));
    }

    #[test]
    fn nothing_is_read_where_nothing_is() {
        let mut room = [0; 8];
        assert_eq!(read(rustix::process::getpid(), &mut [(8, &mut room)]).unwrap(), 0);
    }
}
