//! The atomics that `tests/loom/` puts under the protocol (built with `--cfg loom` only).
//!
//! Loom reads a SeqCst access as a mere acquire or release, but knows SeqCst fences. The protocol's proofs ("one of
//! the two sees the other") rest on the single order of SeqCst accesses, so each gets the fence that a compiler for a
//! weakly ordered machine would give it: behind a store, before a load, around an exchange.
//!
//! Each access is also a step at which a thread may be killed: see [`mortal`].

use core::cell::Cell;
pub use loom::sync::atomic::Ordering;
use loom::sync::atomic::fence;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

loom::thread_local! {
    static STEPS_LEFT: Cell<Option<usize>> = Cell::new(None);
}

/// What unwinds a killed thread.
struct Killed;

/// Runs `life`, but kills it as SIGKILL would before its access number `steps`: none when it was killed.
pub fn mortal<R>(steps: usize, life: impl FnOnce() -> R) -> Option<R> {
    STEPS_LEFT.with(|left| left.set(Some(steps)));
    let end = catch_unwind(AssertUnwindSafe(life));
    STEPS_LEFT.with(|left| left.set(None));
    match end {
        Ok(result) => Some(result),
        Err(cause) if cause.is::<Killed>() => None,
        Err(cause) => resume_unwind(cause),
    }
}

fn step() {
    STEPS_LEFT.with(|left| match left.get() {
        Some(0) => resume_unwind(Box::new(Killed)),
        Some(steps) => left.set(Some(steps - 1)),
        None => {}
    });
}

fn exchange<R>(order: Ordering, access: impl FnOnce(Ordering) -> R) -> R {
    step();
    if order != SeqCst {
        return access(order);
    }
    fence(SeqCst);
    let old = access(AcqRel);
    fence(SeqCst);
    old
}

macro_rules! atomic {
    ($name:ident, $number:ty) => {
        /// An atomic number that loom watches.
        #[derive(Debug)]
        pub struct $name(loom::sync::atomic::$name);

        impl $name {
            /// Starts as `value`.
            pub fn new(value: $number) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            /// As core's.
            pub fn load(&self, order: Ordering) -> $number {
                step();
                if order == Relaxed {
                    return self.0.load(Relaxed);
                }
                fence(SeqCst);
                self.0.load(Acquire)
            }

            /// As core's.
            pub fn store(&self, value: $number, order: Ordering) {
                step();
                if order == Relaxed {
                    return self.0.store(value, Relaxed);
                }
                self.0.store(value, Release);
                fence(SeqCst);
            }

            /// As core's.
            pub fn swap(&self, value: $number, order: Ordering) -> $number {
                exchange(order, |order| self.0.swap(value, order))
            }

            /// As core's.
            pub fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                exchange(order, |order| self.0.fetch_add(value, order))
            }

            /// As core's.
            pub fn fetch_or(&self, value: $number, order: Ordering) -> $number {
                exchange(order, |order| self.0.fetch_or(value, order))
            }

            /// As core's.
            pub fn fetch_and(&self, value: $number, order: Ordering) -> $number {
                exchange(order, |order| self.0.fetch_and(value, order))
            }

            /// As core's; `failure` is taken to be as strong as a load of `success`.
            ///
            /// # Errors
            /// The value found, when it is not `current`.
            pub fn compare_exchange(
                &self,
                current: $number,
                new: $number,
                success: Ordering,
                _failure: Ordering,
            ) -> Result<$number, $number> {
                exchange(success, |order| self.0.compare_exchange(current, new, order, Acquire))
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
