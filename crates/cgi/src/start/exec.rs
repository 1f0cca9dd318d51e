//! A script is executed, without a copy of this process's memory (posix_spawn).

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use howdah_sys::Pid;
use howdah_sys::process::watch_end_or_kill;

use super::launch::{Launch, Mode, Running};

/// Starts it.
///
/// # Errors
/// As [`Command::spawn`]: NotFound also when the program on its `#!` line is not there.
pub(super) fn execute(launch: Launch) -> io::Result<Running> {
    let Launch { script, arguments, environment, stdin, stdout, stderr } = launch;
    let mut command = Command::new(&script.filename);
    command.args(arguments.iter().map(|word| word_of(word))).env_clear();
    for variable in &environment {
        let bytes = variable.as_bytes();
        if let Some(at) = bytes.iter().position(|&byte| byte == b'=') {
            command.env(OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..]));
        }
    }
    command.current_dir(&script.directory).process_group(0).stdin(stdin).stdout(stdout).stderr(stderr);
    let pid = Pid::from_child(&command.spawn()?);
    Ok(Running { pid, pidfd: watch_end_or_kill(pid)?, mode: Mode::Exec })
}

fn word_of(word: &CStr) -> &OsStr {
    OsStr::from_bytes(word.to_bytes())
}
