//! Going to the background, for `--daemonize`.
//!
//! The binary calls [`daemonize`] before it starts any thread. The launcher stays in the foreground until the server
//! is ready, so that a shell or an init script sees an application that does not load as a failed start. Whoever ends it before
//! that, by Ctrl-C or because it takes too long, wants no server.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::Pid;

use crate::channel::socketpair_stream;

/// The background process's side. Dropping it without [`Daemon::ready`] makes the launcher exit with status 1.
#[derive(Debug)]
pub struct Daemon {
    launcher: Arc<OwnedFd>,
}

/// Forks twice and leaves the session of the terminal. Returns in the background process; the launcher exits with
/// status 0 once that is ready, with 1 when it ends before. Working directory and standard error stay as they are, so
/// relative paths and error messages still work; standard input and output are /dev/null at once, because children
/// inherit them and whoever waits for the launcher's output would wait for them.
///
/// # Errors
/// When threads run already (they would be missing in the child), /dev/null cannot be opened, or the kernel refuses to
/// fork.
pub fn daemonize() -> io::Result<Daemon> {
    let (launcher, background) = socketpair_stream()?;
    if fork_alone()?.is_some() {
        drop(launcher);
        exit_like(background);
    }
    drop(background);
    rustix::process::setsid()?;
    if fork_alone()?.is_some() {
        exit(0);
    }
    let null = null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(Daemon { launcher: Arc::new(launcher) })
}

impl Daemon {
    /// For a process that plackup has taken to the background; `launcher` is its side of the socket between the two.
    #[must_use]
    pub fn adopt(launcher: OwnedFd) -> Self {
        Self { launcher: Arc::new(launcher) }
    }

    /// A descriptor that becomes readable when somebody has ended the launcher.
    #[must_use]
    pub fn abandoned(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.launcher)
    }

    /// Tells the launcher to exit with success. Standard error goes to /dev/null unless `keep_stderr` (it is the error
    /// log).
    ///
    /// # Errors
    /// When /dev/null cannot be opened.
    pub fn ready(self, keep_stderr: bool) -> io::Result<()> {
        if !keep_stderr {
            rustix::stdio::dup2_stderr(null()?)?;
        }
        // A launcher that was ended in this very moment is no reason to stop.
        let _ = rustix::io::write(&*self.launcher, b"1");
        Ok(())
    }
}

fn null() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

fn threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

fn exit_like(background: OwnedFd) -> ! {
    let mut answer = Vec::new();
    let ready = File::from(background).read_to_end(&mut answer).is_ok() && !answer.is_empty();
    exit(i32::from(!ready));
}

/// The child, in the parent.
///
/// # Errors
/// When threads run already: they would be missing in the child.
pub(crate) fn fork_alone() -> io::Result<Option<Pid>> {
    if threads()? > 1 {
        return Err(io::Error::other("to fork must come before any thread is started"));
    }
    // SAFETY: this is the only thread, so the child has a consistent copy of everything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Ends a process that is left behind, without running what belongs to the one that goes on (buffers, temporary files).
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(status) }
}
