//! Forks processes of Perl scripts: each script has a perl that has compiled it and stopped there, its *zygote*, started
//! when the script is first asked for. The worker's threads call [`Forks::start`]; what the zygote does is told in
//! docs/cgi-zygote.md.
//!
//! ```text
//! table     the zygotes by script: found, bounded in number, sent away when idle
//! entry     one script: its zygote, and what is known of a version that has none
//! compiling what happens until its script is compiled
//! zygote    one process: asked for forks, ended
//! command   the perl, its switches and its environment
//! modules   where Howdah's files for it are
//! files     whether what it has compiled is still what lies on the disk
//! message   what passes on the socket
//! terms     limits, outcomes and faults
//! ```

mod table;
mod entry;
mod compiling;
mod zygote;
mod command;
mod modules;
mod files;
mod message;
mod terms;

use std::sync::Arc;

use super::launch::Launch;
use crate::place::Script;
pub use modules::Modules;
use table::Table;
pub use terms::{Fault, Limits, Log, Outcome};

/// The zygotes of a host's scripts.
pub struct Forks {
    table: Arc<Table>,
}

impl std::fmt::Debug for Forks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forks").finish_non_exhaustive()
    }
}

impl Forks {
    /// For scripts whose zygotes have these modules.
    #[must_use]
    pub fn new(modules: Modules, limits: Limits, log: Log) -> Self {
        let table = Arc::new(Table::new(modules, limits, log));
        table::sweep_in_background(&table);
        Self { table }
    }

    /// Has the zygote of `launch`'s script fork, and waits for it until `given_up` says that nobody wants it any more.
    ///
    /// # Errors
    /// [`Fault`] says why there is no process; the descriptors of the launch are closed.
    pub fn start(&self, launch: Launch, given_up: &dyn Fn() -> bool) -> Result<Outcome, Fault> {
        self.table.start(launch, given_up)
    }

    /// Whether the script will be executed and not forked, as far as that is known already.
    #[must_use]
    pub fn executes(&self, script: &Script) -> bool {
        self.table.executes(script)
    }

    /// How many zygotes there are.
    #[must_use]
    pub fn zygotes(&self) -> usize {
        self.table.living()
    }
}
