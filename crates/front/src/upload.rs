//! A request body on its way: in memory up to 64 KiB, beyond that in an extent or a file, as `slots/body.rs` has room; and
//! how quickly it has to come.

use std::io;

use howdah_sys::shortage::what_to_raise;
use howdah_wire::INLINE_BODY;

use crate::app::Pool;
use crate::config::GRACE;
use crate::fault::Fault;
use crate::repeated::Repeated;
use crate::request_record::Body;
use crate::slots::{BodyFile, Extent, Spool};

/// Bytes to write to a file at once.
const PIECE: usize = 128 << 10;

/// What has come faster counts for so many nanoseconds at most: a client that is gone without a word, as they go when a
/// phone loses its network, would otherwise have bought days for a body of which a few megabytes have come.
const CREDIT: u64 = 60_000_000_000;

/// How quickly a body comes (`--min-body-rate`): each byte buys the client some time.
#[derive(Debug, Default)]
pub(crate) struct BodyPace {
    /// Bytes that have been counted.
    received: u64,
    /// Until when they have paid, in nanoseconds that the thread has served (`Clock::served`), as all times here.
    paid: u64,
}

impl BodyPace {
    /// The first byte is waited for.
    pub(crate) fn new(now: u64) -> Self {
        Self { received: 0, paid: now + GRACE }
    }

    /// So many bytes have come until `now`. Says by when the body has to go on; 0, which is no deadline, for a rate of 0.
    pub(crate) fn until(&mut self, received: u64, now: u64, rate: u64) -> u64 {
        let more = received.saturating_sub(std::mem::replace(&mut self.received, received));
        let Some(worth) = more.saturating_mul(1_000_000_000).checked_div(rate) else { return 0 };
        self.paid = self.paid.saturating_add(worth).min(now + CREDIT);
        self.paid
    }

    /// Bytes that have been counted.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// It was not read for so many nanoseconds, since something else was to be done first: that time is not the client's.
    pub(crate) fn pardon(&mut self, time: u64) {
        self.paid += time;
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) pool: &'static Pool,
    /// Length, when the head tells it.
    length: Option<u64>,
    /// All of it, or what is yet to be written to its file.
    memory: Vec<u8>,
    place: Place,
    pub(crate) received: u64,
}

/// Where a body is kept.
#[derive(Debug)]
enum Place {
    Memory,
    Extent(Extent),
    /// None before anything was written.
    File(Option<BodyFile>),
}

impl Upload {
    pub(crate) fn new(pool: &'static Pool, length: Option<u64>) -> Self {
        Self { pool, length, memory: Vec::new(), place: Place::Memory, received: 0 }
    }

    /// More of it has come. What belongs into a file is held until [`Upload::settle`].
    pub(crate) fn append(&mut self, data: &[u8]) {
        self.received += data.len() as u64;
        let large = self.length.unwrap_or(0).max(self.received) > INLINE_BODY as u64;
        if large && matches!(self.place, Place::Memory) && !data.is_empty() {
            self.leave_memory();
        }
        if let Place::Extent(extent) = &mut self.place {
            if extent.append(data) {
                return;
            }
            self.memory = extent.bytes().to_vec();
            self.place = Place::File(None);
        }
        self.memory.extend_from_slice(data);
    }

    fn leave_memory(&mut self) {
        self.place = match self.pool.extent_for_body(self.length) {
            Some(mut extent) => {
                extent.append(&std::mem::take(&mut self.memory));
                Place::Extent(extent)
            }
            None => Place::File(None),
        };
    }

    /// Has what belongs into a file written there, if that is much, or all that `remains`.
    pub(crate) async fn settle(&mut self, remains: bool) -> Result<(), Fault> {
        let enough = if remains { 1 } else { PIECE };
        let Place::File(file) = &mut self.place else { return Ok(()) };
        if self.memory.len() < enough {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.memory);
        let written = match file {
            Some(file) => file.append(bytes).await,
            None => self.pool.file_for_body(bytes).await.map(|made| *file = Some(made)),
        };
        written.map_err(|error| no_spool(&error))
    }

    /// Memory in its place for the bytes that come next, where it has some; [`Upload::fill`] says how many have come.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if let Place::Extent(extent) = &mut self.place { extent.room() } else { None }
    }

    /// So many bytes have been written to [`Upload::room`].
    pub(crate) fn fill(&mut self, bytes: usize) {
        self.received += bytes as u64;
        if let Place::Extent(extent) = &mut self.place {
            extent.fill(bytes);
        }
    }

    /// All of it, once, when it is settled.
    pub(crate) fn body(&mut self) -> Body<'_> {
        match std::mem::replace(&mut self.place, Place::Memory) {
            Place::Memory | Place::File(None) => Body::Inline(&self.memory),
            Place::Extent(extent) => Body::Spooled(Spool::Extent(extent), self.received),
            Place::File(Some(file)) => Body::Spooled(Spool::File(file), self.received),
        }
    }
}

/// Tells why a body could not be kept. A full disk is told once for all that want to write to it.
fn no_spool(error: &io::Error) -> Fault {
    static TOLD: Repeated = Repeated::new();
    if let Some(again) = TOLD.pass() {
        let way_out = way_out(error);
        tracing::error!("cannot store a request body: {error}; refused the request (503); {way_out}{again}");
    }
    Fault::NoSpool
}

/// Not all that a file may lack is room.
fn way_out(error: &io::Error) -> &'static str {
    what_to_raise(error).unwrap_or("see --spool-dir")
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn who_cannot_keep_a_body_says_what_is_lacking() {
        for (errno, named) in
            [(Errno::NOSPC, "--spool-dir"), (Errno::MFILE, "ulimit -n"), (Errno::NOMEM, "memory")]
        {
            let way_out = way_out(&errno.into());
            assert!(way_out.contains(named), "{errno}: {way_out}");
        }
    }

    #[test]
    fn each_byte_of_a_body_buys_time_but_none_buys_more_than_a_minute() {
        // At a hundred bytes a second: the second, how many bytes there are then, and by which second more have to come.
        let start = 1000;
        let mut pace = BodyPace::new(start * SECOND);
        for (at, received, until) in [
            (0, 0, 60),
            (1, 100, 61),
            (9, 1000, 69),
            (20, 2000, 79),
            (21, 5_000_000, 81),
            (22, 5_000_000, 81),
            (80, 5_000_100, 82),
            (81, u64::MAX, 141),
        ] {
            let due = pace.until(received, (start + at) * SECOND, 100);
            assert_eq!(due, (start + until) * SECOND, "{received} bytes in {at} s");
        }
        pace.pardon(100 * SECOND);
        assert_eq!(
            pace.until(u64::MAX, (start + 190) * SECOND, 100),
            (start + 241) * SECOND,
            "it was our time"
        );
        assert_eq!(pace.until(0, 0, 0), 0, "any rate will do");
    }
}
