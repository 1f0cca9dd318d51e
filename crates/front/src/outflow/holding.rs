//! What the connections of a thread share when their clients read slowly: bounds, turns at the disk, and whether files take
//! anything at all.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::capacity::Permit;
use crate::clock::Clock;
use crate::config::Config;
use crate::outflow::pace::Terms;
use crate::outflow::stock::Stock;
use crate::room::Room;

/// Jobs that a front thread gives to the disk at once: so many threads, and so many buffers, a disk that hangs may hold.
pub(crate) const JOBS: usize = 16;
/// A disk that has failed is left alone for so long, and one that is full by our own bound.
const DISK_RESTS: Duration = Duration::from_secs(1);
const FULL_RESTS: Duration = Duration::from_millis(100);
/// The log hears of either this often.
const TELL: u64 = 60_000_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: &'static Clock,
    /// What responses hold for slow clients, on all threads.
    pub(crate) stock: Arc<Stock>,
    /// Turns at the disk.
    pub(crate) disk: Arc<Semaphore>,
    room: &'static Room,
    /// Until when no response goes to a file, in nanoseconds that the thread has served.
    files_rest_until: Cell<u64>,
}

/// Why files take no more.
#[derive(Debug)]
pub(crate) enum Trouble {
    Full,
    Fails(io::Error),
    Hangs,
}

impl Holding {
    pub(crate) fn new(
        config: Arc<Config>,
        clock: &'static Clock,
        stock: Arc<Stock>,
        room: &'static Room,
    ) -> Self {
        let disk = Arc::new(Semaphore::new(JOBS));
        Self { config, clock, stock, disk, room, files_rest_until: Cell::new(0) }
    }

    /// How quickly clients must read.
    pub(crate) fn terms(&self) -> Terms {
        Terms::of(&self.config)
    }

    /// A descriptor for a file, or for another handle to a socket.
    pub(crate) fn permit(&self) -> io::Result<Permit> {
        self.room.permit_for_file().ok_or_else(|| rustix::io::Errno::MFILE.into())
    }

    /// Whether responses may go to files now.
    pub(crate) fn may_spool(&self) -> bool {
        self.config.response_spool > 0 && self.files_rest_until.get() <= self.clock.served()
    }

    /// Files take no more for a while. The log hears of it, though not each time.
    pub(crate) fn rest_files(&self, trouble: &Trouble) {
        let now = self.clock.now();
        self.files_rest_until.set(self.clock.after(trouble.span()));
        let (told, last) = (trouble.told(), trouble.told().load(Relaxed));
        let due = last == 0 || now >= last.saturating_add(TELL);
        if due && told.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
            trouble.tell(&self.stock);
        }
    }
}

impl Trouble {
    fn span(&self) -> Duration {
        match self {
            Self::Full => FULL_RESTS,
            Self::Fails(_) | Self::Hangs => DISK_RESTS,
        }
    }

    /// When the log was last told of it, by any thread; 0 for never.
    fn told(&self) -> &'static AtomicU64 {
        static TOLD: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
        match self {
            Self::Full => &TOLD[0],
            Self::Fails(_) => &TOLD[1],
            Self::Hangs => &TOLD[2],
        }
    }

    fn tell(&self, stock: &Stock) {
        match self {
            Self::Full => tracing::warn!(
                "slow readers have filled --response-spool ({} bytes): workers wait for them; see --min-send-rate",
                stock.spool_limit()
            ),
            Self::Fails(error) => tracing::error!(
                "cannot write a response to a file: {error}; meanwhile workers wait for slow readers; see --spool-dir"
            ),
            Self::Hangs => tracing::error!(
                "a response has been written to a file for seconds, the disk seems to hang; meanwhile workers wait \
                 for slow readers; see --spool-dir"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn files_rest_after_trouble_and_only_for_a_while() {
        let fails = || Trouble::Fails(io::Error::other("no"));
        for (trouble, after) in [(Trouble::Full, 150), (fails(), 1500), (Trouble::Hangs, 1500)] {
            let holding = sample::holding(Config::default());
            assert!(holding.may_spool());
            holding.rest_files(&trouble);
            assert!(!holding.may_spool(), "{trouble:?}");
            holding.clock.advance(Duration::from_millis(after));
            assert!(holding.may_spool(), "{trouble:?} is over after {after} ms");
        }
    }

    #[test]
    fn without_a_spool_nothing_goes_to_files() {
        assert!(!sample::holding(Config { response_spool: 0, ..Config::default() }).may_spool());
    }
}
