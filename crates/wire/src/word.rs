//! A word that another process has written, as what it stands for. What is none of that is for the reader to judge.

use crate::layout::{Leave, MessageKind, WorkerPhase};
use crate::script::ScriptReport;
use crate::zygote::{ZygoteOrder, ZygoteReport};

/// `$type::read`, which knows each of the type's values: one that is left out here does not compile.
macro_rules! read {
    ($($type:ident: $($value:ident)+;)+) => {$(
        impl $type {
            /// What `word` stands for; none when that is nothing.
            #[must_use]
            pub fn read(word: u32) -> Option<Self> {
                [$(Self::$value),+].into_iter().find(|&value| value as u32 == word)
            }
        }

        const _: fn($type) = |value| match value {
            $($type::$value)|+ => {}
        };
    )+};
}

read! {
    WorkerPhase: Absent Starting Idle Busy Leaving;
    Leave: Unsaid Drained Quota Harakiri Signal Exit Orphan Exec;
    MessageKind: Body Socket File Interim Answer Loan;
    ZygoteOrder: Attach Segment Spawn Stop Signal;
    ZygoteReport: Ready Failed Spawned Exited Log;
    ScriptReport: Loaded Ready Failed Unfit Forked Refused;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_for_the_value_whose_number_it_is_or_for_nothing() {
        for word in 0..10 {
            assert_eq!(WorkerPhase::read(word).map(|phase| phase as u32), (word < 5).then_some(word));
            assert_eq!(Leave::read(word).map(|leave| leave as u32), (word < 8).then_some(word));
            let kinds = 1..7;
            assert_eq!(
                MessageKind::read(word).map(|kind| kind as u32),
                kinds.contains(&word).then_some(word)
            );
        }
        assert_eq!(ZygoteReport::read(u32::MAX), None);
    }
}
