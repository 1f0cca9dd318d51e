//! What all HTTP/1 connections of a front thread share.

use std::cell::RefCell;
use std::sync::Arc;

use howdah_http1::FieldStore;

use crate::clock::Clock;
use crate::config::Config;
use crate::doors::Doors;
use crate::outflow::Holding;
use crate::record::Records;
use crate::route::Router;
use crate::timers::Timers;

/// Bytes that one read may bring.
pub(crate) const READ_SIZE: usize = 64 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: &'static Clock,
    pub(crate) timers: &'static Timers,
    pub(crate) doors: &'static Doors,
    pub(crate) records: &'static Records,
    pub(crate) holding: &'static Holding,
    pub(crate) router: Router,
    pub(crate) scratch: RefCell<Scratch>,
}

/// Buffers that are only used between two awaits.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Where reads go.
    pub(crate) input: Box<[u8]>,
    /// Field positions of the head being looked at.
    pub(crate) fields: FieldStore,
    /// The response being built.
    pub(crate) output: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            input: vec![0; READ_SIZE].into_boxed_slice(),
            fields: FieldStore::new(),
            output: Vec::with_capacity(READ_SIZE),
        }
    }
}
