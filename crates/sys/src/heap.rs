//! The memory that this process has for itself.

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
    fn memory_that_is_freed_and_wanted_again_is_not_faulted_in_again() {
        keep_freed();
        let take = || drop(black_box([(); 3].map(|()| vec![1_u8; 200 << 10])));
        take();
        let before = faults();
        (0..100).for_each(|_| take());
        let more = faults() - before;
        assert!(more < 1000, "{more} of 15,000");
    }
}
