//! Howdah as a process of the system.

use std::os::fd::RawFd;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use howdah_sys::privileges::Identity;

use super::values::Time;

/// Background, files and identity.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Process")]
pub(crate) struct Process {
    /// Go to the background once the server is ready
    #[arg(short = 'D', long)]
    pub(crate) daemonize: bool,

    /// File for the process id
    #[arg(long, value_name = "FILE", alias = "pid-file")]
    pub(crate) pid: Option<PathBuf>,

    /// User to run the application as, by name or id
    ///
    /// Needs root. The listeners are bound before. An id that the list of users does not have needs --group as well.
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,

    /// Group to run the application as [default: the user's]
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,

    /// Time that an upgrade may take; 0 for any
    ///
    /// A new process that does not serve by then, because the application hangs while it is loaded, is ended, and the
    /// old one goes on. While this server stands still, as by `docker pause`, a second of it passes at most.
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "3m")]
    pub(crate) upgrade_timeout: Time,

    /// Let workers run END blocks and destructors when they leave
    ///
    /// Without it they leave at once, after the hook worker_exit: that copies no memory shared with others
    /// only to throw it away.
    #[arg(long, hide_short_help = true)]
    pub(crate) full_destruct: bool,

    /// Keep the requests out of the titles of workers
    ///
    /// Without it `ps` shows what each worker does, or did last: howdah: worker [NAME] (req=42) W 127.0.0.1 example.org
    /// GET /cart HTTP/1.1. Whoever may list processes on this machine sees it, too.
    #[arg(long, hide_short_help = true, alias = "disable-proctitle")]
    pub(crate) no_proctitle: bool,

    /// Leave the front all its rights
    ///
    /// Once it serves, the front drops the capabilities that it does not need and has the kernel refuse it other
    /// programs, connections to others, and files other than its logs and sockets (Landlock, seccomp). Neither
    /// zygote nor workers are confined.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_confine: bool,

    /// Control socket of a zygote that plackup has already forked; for Plack::Handler::Howdah alone.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) zygote_fd: Option<RawFd>,

    /// The process of that; for Plack::Handler::Howdah alone.
    #[arg(long, value_name = "PID", hide = true, requires = "zygote_fd")]
    pub(crate) zygote_pid: Option<i32>,

    /// Where plackup waits for a server in the background to be ready; for Plack::Handler::Howdah alone.
    #[arg(long, value_name = "FD", hide = true, requires = "zygote_fd")]
    pub(crate) launcher_fd: Option<RawFd>,
}

impl Process {
    /// Whose the application is to be, if not ours. It asks the system, which may ask others, so it is no matter of the command line.
    /// Call it while there is one thread.
    ///
    /// # Errors
    /// A sentence that says which there is not, or that we may not change to it.
    pub(crate) fn identity(&self) -> anyhow::Result<Option<Identity>> {
        let group = Identity::find(None, self.group.as_deref()).map_err(|why| anyhow!("--group: {why}"))?;
        let option = if self.user.is_some() { "--user" } else { "--group" };
        let told = |why| anyhow!("{option}: {why}");
        let found = match &self.user {
            Some(user) => Identity::find(Some(user), self.group.as_deref()).map_err(told)?,
            None => group,
        };
        found.as_ref().map_or(Ok(()), Identity::try_out).map_err(told)?;
        Ok(found)
    }
}
