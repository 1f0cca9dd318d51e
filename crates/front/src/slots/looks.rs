//! Whether it still pays to look for the answer to a single request for a moment before the thread sleeps: docs/decisions/07-short-spins.md.

/// After so many looks in vain the thread looks only every so many times: the requests take longer, or the worker has to
/// wait for a processor that others have.
const VAIN: u32 = 4;
const AGAIN: u32 = 64;

/// What looks for answers have come to.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    vain: u32,
    passed: u32,
}

impl Looks {
    /// Whether one more is likely to find something, or it is time to try again.
    pub(super) fn pay(&mut self) -> bool {
        if self.vain < VAIN {
            return true;
        }
        self.passed = (self.passed + 1) % AGAIN;
        self.passed == 0
    }

    pub(crate) fn note(&mut self, found: bool) {
        self.vain = if found { 0 } else { self.vain.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_looks_in_vain_there_are_few_until_one_finds_something() {
        let mut looks = Looks::default();
        // Answers that are waited for, whether a look finds them, and how many looks there are.
        for (answers, found, expected) in [
            (100, true, 100),
            (3, false, 3),
            (1, true, 1),
            (VAIN + 2 * AGAIN, false, VAIN + 2),
            (AGAIN, true, 1),
            (9, true, 9),
        ] {
            let looked = (0..answers).filter(|_| {
                let pays = looks.pay();
                if pays {
                    looks.note(found);
                }
                pays
            });
            assert_eq!(looked.count() as u32, expected, "{answers} {found}");
        }
    }
}
