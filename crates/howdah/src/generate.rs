//! Man page and shell completions, made from the declarations in `options`. `make install` and
//! `make man` call these through `howdah man` and `howdah completions SHELL`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap_complete::Shell;

use crate::options;

/// Prints howdah(1).
pub(crate) fn man() -> anyhow::Result<ExitCode> {
    // Each option names its variable here, where there is room for it; the serve command would only
    // repeat them all.
    let command = options::command().mut_args(|arg| arg.hide_env(false).hide_env_values(true));
    let mut page = Vec::new();
    clap_mangen::Man::new(command).section("1").manual("Howdah").render(&mut page)?;
    print(&page)
}

/// Prints a completion script for one shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut options::command(), "howdah", &mut script);
    print(&script)
}

/// A reader that has seen enough (`howdah man | head`) is no failure.
fn print(text: &[u8]) -> anyhow::Result<ExitCode> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
