//! Serving: ties the front and the supervisor together.

use std::process::ExitCode;

use crate::options::Serve;

/// Serves the application until a signal ends it.
#[expect(clippy::needless_pass_by_value, reason = "the server keeps its options for its whole life")]
pub(crate) fn run(options: Serve) -> anyhow::Result<ExitCode> {
    anyhow::bail!("cannot serve {:?} yet", options.app.name())
}
