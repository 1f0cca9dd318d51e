//! `howdah top` in a program that was built without its feature `top`, and so without what draws in a terminal.

use std::process::ExitCode;

use anyhow::bail;

use crate::options::top::Top;

/// Says so.
pub(crate) fn run(_: &Top) -> anyhow::Result<ExitCode> {
    bail!(
        "this howdah was built without howdah top: build it with --features top; howdah status tells how a server is"
    )
}
