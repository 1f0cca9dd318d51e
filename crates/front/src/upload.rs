//! A request body on its way: in memory up to 64 KiB, beyond that in an extent or a file, as `slots/body.rs` has room.

use std::io;

use howdah_wire::INLINE_BODY;

use crate::app::Pool;
use crate::fault::Fault;
use crate::repeated::Repeated;
use crate::request_record::Body;
use crate::slots::Spool;

/// Bytes to write to a file at once.
const PIECE: usize = 128 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) pool: &'static Pool,
    /// Length, when the head tells it.
    length: Option<u64>,
    /// All of it, or what is yet to be written to its file.
    memory: Vec<u8>,
    spool: Option<Spool>,
    /// It has outgrown what memory is for.
    for_file: bool,
    pub(crate) received: u64,
}

impl Upload {
    pub(crate) fn new(pool: &'static Pool, length: Option<u64>) -> Self {
        Self { pool, length, memory: Vec::new(), spool: None, for_file: false, received: 0 }
    }

    /// More of it has come. What belongs into a file is held until [`Upload::settle`].
    pub(crate) fn append(&mut self, data: &[u8]) {
        self.received += data.len() as u64;
        let large = self.length.unwrap_or(0).max(self.received) > INLINE_BODY as u64;
        if large && !self.for_file && self.spool.is_none() && !data.is_empty() {
            self.leave_memory();
        }
        if let Some(Spool::Extent(extent)) = &mut self.spool {
            if extent.append(data) {
                return;
            }
            self.memory = extent.bytes().to_vec();
            (self.spool, self.for_file) = (None, true);
        }
        self.memory.extend_from_slice(data);
    }

    fn leave_memory(&mut self) {
        match self.pool.extent_for_body(self.length) {
            Some(mut extent) => {
                extent.append(&std::mem::take(&mut self.memory));
                self.spool = Some(Spool::Extent(extent));
            }
            None => self.for_file = true,
        }
    }

    /// Has what belongs into a file written there, if that is much, or all that `remains`.
    pub(crate) async fn settle(&mut self, remains: bool) -> Result<(), Fault> {
        let enough = if remains { 1 } else { PIECE };
        if !self.for_file || self.memory.len() < enough {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.memory);
        let written = match &self.spool {
            Some(Spool::File(file)) => file.append(bytes).await,
            _ => self.pool.file_for_body(bytes).await.map(|file| self.spool = Some(Spool::File(file))),
        };
        written.map_err(|error| no_spool(&error))
    }

    /// Memory in its place for the bytes that come next, where it has some; [`Upload::fill`] says how many have come.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if let Some(Spool::Extent(extent)) = &mut self.spool { extent.room() } else { None }
    }

    /// So many bytes have been written to [`Upload::room`].
    pub(crate) fn fill(&mut self, bytes: usize) {
        self.received += bytes as u64;
        if let Some(Spool::Extent(extent)) = &mut self.spool {
            extent.fill(bytes);
        }
    }

    /// All of it, once, when it is settled.
    pub(crate) fn body(&mut self) -> Body<'_> {
        match self.spool.take() {
            None => Body::Inline(&self.memory),
            Some(spool) => Body::Spooled(spool, self.received),
        }
    }
}

/// Tells why a body could not be kept. A full disk is told once for all that want to write to it.
fn no_spool(error: &io::Error) -> Fault {
    static TOLD: Repeated = Repeated::new();
    if let Some(again) = TOLD.pass() {
        tracing::error!(
            "cannot store a request body: {error}; refused the request (503); see --spool-dir{again}"
        );
    }
    Fault::NoSpool
}
