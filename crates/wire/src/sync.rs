//! Atomics, exchanged for the model's when loom checks the protocol.

#[cfg(loom)]
pub(crate) use crate::model::{AtomicU32, AtomicU64, Ordering};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
