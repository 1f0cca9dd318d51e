//! The memory behind the shared segment.
//!
//! The binary calls [`create_segment`] once at start; the descriptor goes to the zygote, which maps it before it
//! forks. The memfd is sealed against growing and shrinking, so that no process can make another fault on it.

use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use howdah_wire::{Segment, Shape};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A disk that fails under a program comes as the same signal.
const NO_PAGE: &str = "howdah: the kernel has not given a page (signal BUS): there is no memory left for what is shared with workers (look at \
                       vm.overcommit_memory), or the disk fails that the program lies on\n";

/// A memfd of `length` zeroed bytes, close-on-exec, whose size can never change.
///
/// # Errors
/// The kernel's: ENOSYS without memfd, ENOSPC or ENOMEM when there is no memory for it.
pub fn memfd(name: &CStr, length: u64) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, length)?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(fd)
}

/// Whether `fd` is memory that neither grows nor shrinks nor changes any more, so that reading it neither waits nor
/// surprises. Who asks did not make it.
pub fn is_sealed(fd: impl AsFd) -> bool {
    let wanted = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(wanted))
}

/// Maps `length` bytes of `fd`, shared with every other process that maps it, until this process ends. Pages take no
/// memory before they are touched.
///
/// # Errors
/// The kernel's: ENOMEM when the address space is used up or `ulimit -v` is too low.
pub fn map_shared(fd: impl AsFd, length: usize) -> io::Result<*mut u8> {
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses an address that nothing else uses, and no part of it is ever unmapped.
    let base = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags, fd, 0)?
    };
    Ok(base.cast())
}

/// Has this process say why before it ends by SIGBUS. That comes of a page that nobody has touched yet and for which there is no memory:
/// with vm.overcommit_memory=2 the kernel counts a segment page by page, when they are wanted.
///
/// # Errors
/// None that is known.
pub fn tell_missing_page() -> io::Result<()> {
    extern "C" fn tell(signal: libc::c_int) {
        // SAFETY: the words are so long, and both calls may be made at any moment.
        unsafe { libc::write(libc::STDERR_FILENO, NO_PAGE.as_ptr().cast(), NO_PAGE.len()) };
        // SAFETY: as above. It comes when this has returned, and means an end by then.
        unsafe { libc::raise(signal) };
    }
    // SAFETY: a plain C structure, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = tell as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
    // SAFETY: the action is whole, and its handler may run at any moment.
    let set = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Creates, maps and lays out the segment that the front shares with its workers.
///
/// # Errors
/// InvalidInput when `shape` is out of range, otherwise as [`memfd`] and [`map_shared`].
pub fn create_segment(shape: Shape) -> io::Result<(OwnedFd, Segment)> {
    let fd = memfd(c"howdah", shape.total() as u64)?;
    let segment = lay_out(&fd, shape)?;
    Ok((fd, segment))
}

/// What `fd` has, which nobody else maps yet, stays mapped.
fn lay_out(fd: &OwnedFd, shape: Shape) -> io::Result<Segment> {
    let out_of_range = |error: howdah_wire::ShapeError| io::Error::new(io::ErrorKind::InvalidInput, error);
    let base = map_shared(fd, shape.total())?;
    // SAFETY: freshly mapped, so zeroed and page-aligned; map_shared never unmaps, and nobody has written to it.
    let segment = unsafe { Segment::create(base, shape.total(), shape) };
    segment.map_err(out_of_range)
}

/// Maps a segment that a front has created, for a process with workers in it.
///
/// # Errors
/// InvalidData when it is none of this version; otherwise as [`map_shared`].
pub fn attach_segment(fd: impl AsFd) -> io::Result<Segment> {
    let length = usize::try_from(rustix::fs::fstat(&fd)?.st_size).map_err(io::Error::other)?;
    let base = map_shared(fd, length)?;
    // SAFETY: mapped, page-aligned, and never unmapped.
    let segment = unsafe { Segment::attach(base, length) };
    segment.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A segment to take the place of `old`: as large, with workers that report the same. With so many copies of its descriptor, which are
/// had before it is mapped: what is mapped stays so, and whoever is refused one tries again, perhaps for hours.
///
/// # Errors
/// As [`create_segment`]. Nothing is left of it then.
pub fn renew_segment(old: &Segment, copies: usize) -> io::Result<(OwnedFd, Vec<OwnedFd>, Segment)> {
    let shape = old.shape();
    let fd = memfd(c"howdah", shape.total() as u64)?;
    let copies = (0..copies).map(|_| fd.try_clone()).collect::<io::Result<_>>()?;
    let segment = lay_out(&fd, shape)?;
    segment.ask_as(old);
    Ok((fd, copies, segment))
}

/// A segment that nobody uses any more, once this is dropped. Its addresses stay mapped, and read as zeros: whoever still
/// has a reference finds nothing, and nothing else. Its memory is given back but for the header, which a zygote that starts
/// just now may have been given to attach to.
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub struct Retired {
    segment: Segment,
}

impl Retired {
    /// Will be one.
    #[must_use]
    pub fn new(segment: Segment) -> Self {
        segment.restore_header();
        Self { segment }
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        let segment = self.segment;
        // It takes a millisecond for every few megabytes, which is too long for a front thread. Refused, the memory is lost.
        let discard = move || drop(discard(segment.all_but_header()));
        let _ = std::thread::Builder::new().name("retire".into()).spawn(discard);
    }
}

/// Gives the memory of a part of a shared mapping back to the system, as far as it is whole pages, which read as zeros
/// afterwards. A slot begins and ends at pages of 4 KiB, but not at those of 16 or 64 KiB, which some machines have.
///
/// # Errors
/// The kernel's: EINVAL when the mapping is private.
pub fn discard(area: &mut [u8]) -> io::Result<()> {
    let whole = pages_within(area.as_ptr().addr(), area.len(), rustix::param::page_size());
    let Some(pages) = area.get_mut(whole) else { return Ok(()) };
    // SAFETY: the mapping stays; its bytes become zeros, which are bytes, and the caller has them for itself.
    unsafe { rustix::mm::madvise(pages.as_mut_ptr().cast(), pages.len(), Advice::LinuxRemove)? };
    Ok(())
}

/// Which bytes of `length` at that address are whole pages. What lies in the others may be somebody else's: the kernel counts a
/// part of a page at the end as all of it.
fn pages_within(address: usize, length: usize, page: usize) -> Range<usize> {
    let start = address.next_multiple_of(page) - address;
    let end = (address + length) / page * page;
    start..end.saturating_sub(address).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_are_given_back() {
        const K: usize = 1024;
        for (address, length, page, pages) in [
            (8 * K, 736 * K, 4 * K, 0..736 * K),
            (8 * K, 736 * K, 16 * K, 8 * K..728 * K),
            (8 * K, 736 * K, 64 * K, 56 * K..696 * K),
            (64 * K, 64 * K, 64 * K, 0..64 * K),
            (64 * K, 64 * K - 1, 64 * K, 0..0),
            (64 * K + 1, 64 * K, 64 * K, 64 * K - 1..64 * K - 1),
            (1, 2, 4 * K, 4 * K - 1..4 * K - 1),
        ] {
            assert_eq!(pages_within(address, length, page), pages, "{address} {length} {page}");
        }
    }
}
