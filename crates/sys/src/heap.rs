//! The memory that this process has for itself.

use std::io;

/// Has the C library keep up to a MiB of freed memory at the end of its heap. A response of 100 KB, freed when it is out and
/// wanted again for the next one, would otherwise go back to the kernel each time, and come from there page by page. Called
/// once, by a process that is about to serve.
pub fn keep_freed() {
    #[cfg(target_env = "gnu")]
    {
        // Larger pieces have mappings of their own. The library moves that bound by itself only while it is told of none.
        let terms = [(libc::M_TRIM_THRESHOLD, 1 << 20), (libc::M_MMAP_THRESHOLD, 512 << 10)];
        for (what, bytes) in terms {
            // SAFETY: two numbers, of which the library takes what it understands, under its own lock.
            unsafe { libc::mallopt(what, bytes) };
        }
    }
}

/// Has the calling thread's stack reach `bytes` further down, as addresses alone. A stack that grows when memory has been given away to
/// the last byte (vm.overcommit_memory=2, `ulimit -v`) finds none, upon which the kernel ends the process without a word.
///
/// # Errors
/// ENOMEM when there is none now.
pub fn have_stack(bytes: usize) -> io::Result<()> {
    let here = 0u8;
    let below = (&raw const here).addr().saturating_sub(bytes);
    // It is the kernel that writes there, which grows a stack as it does for us, but tells where it cannot.
    // SAFETY: nothing is kept below the stack pointer, by as much as the calls from here take; nobody reads the byte.
    let written = unsafe { libc::syscall(libc::SYS_getrandom, below, 1_usize, libc::GRND_NONBLOCK) };
    let failed = written < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
    if failed { Err(io::Error::from_raw_os_error(libc::ENOMEM)) } else { Ok(()) }
}

/// Gives freed memory back to the kernel that lies between what is in use, if the C library has at least so many bytes of it. After a
/// peak a few small things that stay may hold hundreds of MB. Takes some 0.1 ms for each MB, in which no other
/// thread has memory from the same part of the heap.
pub fn give_back(least: usize) {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes nothing, gives plain numbers; the library has a lock of its own.
        let freed = unsafe { libc::mallinfo() }.fordblks.cast_unsigned() as usize;
        if freed >= least {
            // SAFETY: the same; what is in use stays where it is.
            unsafe { libc::malloc_trim(1 << 20) };
        }
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Pages that the kernel has had to find for this thread.
    fn faults() -> i64 {
        // SAFETY: a plain C structure of numbers, for which zeros are valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: it is ours to write.
        assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) }, 0);
        usage.ru_minflt
    }

    #[test]
    fn a_stack_reaches_down_as_far_as_there_is_memory() {
        have_stack(256 << 10).unwrap();
        assert_eq!(have_stack(usize::MAX).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn memory_that_is_freed_and_wanted_again_is_not_faulted_in_again() {
        keep_freed();
        let take = || drop(black_box([(); 3].map(|()| vec![1_u8; 200 << 10])));
        take();
        let before = faults();
        (0..100).for_each(|_| take());
        let more = faults() - before;
        assert!(more < 1000, "{more} of 15,000");
    }

    #[test]
    fn memory_between_what_is_in_use_is_given_back() {
        let resident = || crate::usage::memory_of(rustix::process::getpid()).unwrap().private;
        keep_freed();
        let pieces: Vec<_> = (0..4000).map(|_| (vec![1_u8; 32 << 10], Box::new([1_u8; 100]))).collect();
        let kept: Vec<_> = black_box(pieces).into_iter().map(|(_, kept)| kept).collect();
        let held = resident();
        give_back(1 << 40);
        assert!(held - resident().min(held) < 32 << 20, "not so much was freed");
        give_back(64 << 20);
        assert!(held - resident().min(held) > 64 << 20, "{held}, then {}", resident());
        drop(black_box(kept));
    }
}
