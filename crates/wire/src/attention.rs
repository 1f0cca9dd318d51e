//! How a worker tells a front thread that a slot has news, and when it must wake it.
//!
//! News is a bit for the slot, so it can be told twice but not lost, and a worker that dies between its news and the
//! bit is made up for when its death is noticed. The thread says that it sleeps before it looks a last time; a worker
//! tells its news before it looks whether the thread sleeps. One of the two always sees the other.

use crate::layout::FrontCell;
use crate::sync::Ordering::SeqCst;

/// Attention words behind one summary bit.
const WORDS_PER_BIT: usize = crate::layout::ATTENTION_WORDS / 64;

impl FrontCell {
    /// News for `slot`. True when the caller must write to the front thread's eventfd.
    #[must_use]
    pub fn tell(&self, slot: u32) -> bool {
        let word = slot as usize / 64;
        self.attention[word].fetch_or(1 << (slot % 64), SeqCst);
        self.summary.fetch_or(1 << (word / WORDS_PER_BIT), SeqCst);
        self.sleeping.load(SeqCst) == 1 && self.sleeping.compare_exchange(1, 0, SeqCst, SeqCst).is_ok()
    }

    /// True when there is news.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.summary.load(SeqCst) != 0
    }

    /// Takes all news, slot by slot.
    pub fn take_news(&self, mut each: impl FnMut(u32)) {
        let mut summary = self.summary.swap(0, SeqCst);
        while summary != 0 {
            let first = summary.trailing_zeros() as usize * WORDS_PER_BIT;
            summary &= summary - 1;
            for word in first..first + WORDS_PER_BIT {
                let mut bits = if self.attention[word].load(SeqCst) == 0 {
                    0
                } else {
                    self.attention[word].swap(0, SeqCst)
                };
                while bits != 0 {
                    each((word * 64) as u32 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }

    /// The thread is about to sleep. False when there is news, and it must not.
    #[must_use]
    pub fn try_sleep(&self) -> bool {
        self.sleeping.store(1, SeqCst);
        if self.has_news() {
            self.sleeping.store(0, SeqCst);
            return false;
        }
        true
    }

    /// The thread is awake.
    pub fn wake_up(&self) {
        self.sleeping.store(0, SeqCst);
    }
}
