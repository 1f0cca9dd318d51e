//! The C library's memory, of which a process says what to raise where there is none left: Rust ends whoever gets none, and says no more
//! than how much that was. The program has it for its own.

use std::alloc::{GlobalAlloc, Layout, System};

const WORDS: &str = "howdah: the system gives no more memory, and nothing goes on without: raise ulimit -v and -d, or look at \
                     vm.overcommit_memory\n";

/// See the module.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: all of it is done by the system's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller has promised the same.
        told(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller has promised the same.
        told(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller has promised the same.
        told(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller has promised the same.
        unsafe { System.dealloc(memory, layout) };
    }
}

fn told(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        tell();
    }
    memory
}

/// On standard error, which is the error log, and without memory.
#[cold]
fn tell() {
    // SAFETY: the words are so long.
    unsafe { libc::write(libc::STDERR_FILENO, WORDS.as_ptr().cast(), WORDS.len()) };
}
