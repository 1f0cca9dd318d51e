//! Takes what a worker makes out of its way when its client is behind: into memory up to `--response-buffer`, beyond that
//! into a file, within the bounds that all responses share. Where there is no room the worker waits.

use howdah_wire::RESPONSE_RING;

use crate::outflow::holding::Trouble;
use crate::outflow::queue::Outflow;
use crate::outflow::response_spool::ResponseSpool;

/// A response goes on with this much memory, whatever the bounds say.
const LEAST_BUFFER: usize = 4096;
/// Bytes that are worth a write behind others in the file.
const PIECE: usize = 64 * 1024;

impl Outflow {
    /// How many of `available` bytes of a worker there is room for.
    pub(crate) fn room(&mut self, available: usize) -> usize {
        let held = self.in_memory();
        if self.holding.may_spool()
            && let Some(spool) = &mut self.spool
        {
            let ready = spool.is_ready();
            return if ready { RESPONSE_RING.saturating_sub(held).min(available) } else { 0 };
        }
        let buffer = self.holding.config.response_buffer.max(LEAST_BUFFER);
        let room = buffer.saturating_sub(held).min(available);
        if !self.is_behind() || self.hold(held + room) {
            return room;
        }
        LEAST_BUFFER.saturating_sub(held).min(available)
    }

    /// When the client is behind: sees that what is held is within its bounds, by way of a file. `more` says that the
    /// worker has more than there was room for.
    pub(crate) fn relieve(&mut self, more: bool) {
        let held = self.in_memory();
        let wanted = self.is_behind() && held > 0 && self.holding.may_spool() && (more || self.is_much(held));
        match &mut self.spool {
            None if !wanted => {}
            Some(spool) if !wanted => spool.stand_back(),
            None => match ResponseSpool::new(&self.transport, self.holding) {
                Ok(spool) => {
                    self.spool = Some(Box::new(spool));
                    self.write_spool();
                }
                Err(error) => self.holding.rest_files(&Trouble::Fails(error)),
            },
            Some(_) => self.write_spool(),
        }
    }

    /// True when so many bytes had better be in a file.
    fn is_much(&mut self, held: usize) -> bool {
        if self.spool.as_ref().is_some_and(|spool| spool.holds()) {
            return held >= PIECE;
        }
        held > self.holding.config.response_buffer || !self.hold(held)
    }

    fn write_spool(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        if !spool.is_ready() {
            return;
        }
        match spool.write(&mut self.output, self.done) {
            Ok(true) => self.done = 0,
            Ok(false) => self.holding.rest_files(&Trouble::Full),
            Err(error) => {
                spool.stand_back();
                self.holding.rest_files(&Trouble::Fails(error));
            }
        }
    }

    /// Sees that `bytes` of memory are ours. False when there are not so many left for all.
    fn hold(&mut self, bytes: usize) -> bool {
        let more = (bytes as u64).saturating_sub(self.held);
        let granted = more == 0 || self.holding.stock.memory.take(more);
        self.held += if granted { more } else { 0 };
        granted
    }

    /// Gives back what [`Outflow::hold`] was granted.
    pub(super) fn release_memory(&mut self) {
        let held = std::mem::take(&mut self.held);
        if held > 0 {
            self.holding.stock.memory.give(held);
        }
    }
}
