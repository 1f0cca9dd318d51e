//! How `howdah top` looks at a server.

use clap::Args;

use super::instance::Instance;
use super::values::Time;

/// How to look.
#[derive(Debug, Clone, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) instance: Instance,

    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1")]
    pub(crate) interval: Time,

    /// Print one look as plain text, for pipes and scripts
    #[arg(long)]
    pub(crate) once: bool,
}
