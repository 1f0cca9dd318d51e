//! A request body on its way: in memory up to 64 KiB, beyond that in an extent or a file, as `slots/body.rs` has room.

use std::io;

use howdah_wire::INLINE_BODY;

use crate::app::Pool;
use crate::fault::Fault;
use crate::repeated::Repeated;
use crate::request_record::Body;
use crate::slots::Spool;

/// See the module.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) pool: &'static Pool,
    /// Length, when the head tells it.
    length: Option<u64>,
    memory: Vec<u8>,
    spool: Option<Spool>,
    pub(crate) received: u64,
}

impl Upload {
    pub(crate) fn new(pool: &'static Pool, length: Option<u64>) -> Self {
        Self { pool, length, memory: Vec::new(), spool: None, received: 0 }
    }

    /// More of it has come.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.store(data).map_err(|error| no_spool(&error))
    }

    fn store(&mut self, data: &[u8]) -> io::Result<()> {
        self.received += data.len() as u64;
        let too_long = self.length.is_some_and(|length| length > INLINE_BODY as u64)
            || self.memory.len() + data.len() > INLINE_BODY;
        if self.spool.is_none() && too_long {
            let mut spool = self.pool.place_for_body(self.length)?;
            spool.append(&std::mem::take(&mut self.memory))?;
            self.spool = Some(spool);
        }
        match &mut self.spool {
            Some(spool) => spool.append(data),
            None => {
                self.memory.extend_from_slice(data);
                Ok(())
            }
        }
    }

    /// Memory in its place for the bytes that come next, where it has some; [`Upload::fill`] says how many have come.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        self.spool.as_mut()?.room()
    }

    /// So many bytes have been written to [`Upload::room`].
    pub(crate) fn fill(&mut self, bytes: usize) {
        self.received += bytes as u64;
        if let Some(spool) = &mut self.spool {
            spool.fill(bytes);
        }
    }

    /// All of it, once.
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
