//! How `howdah where` looks into the workers of a server.

use clap::Args;

use super::instance::Instance;

/// Which workers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Whose {
    #[command(flatten)]
    pub(crate) instance: Instance,

    /// Those of the application that is mounted at this path [default: all]
    #[arg(long, value_name = "PATH")]
    pub(crate) pool: Option<String>,

    /// The one that has this number in `howdah status` [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) worker: Option<u32>,
}

/// What to print.
#[derive(Debug, Clone, Args)]
pub(crate) struct Where {
    #[command(flatten)]
    pub(crate) whose: Whose,

    /// As one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
