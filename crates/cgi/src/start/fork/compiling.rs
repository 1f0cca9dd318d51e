//! What happens until a script is compiled: perl is started, and either stops behind the script's last line and says so,
//! or ends, or takes too long. What it writes to standard error meanwhile is kept: the reason, or warnings.

use std::fs::File;
use std::io::{self, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use howdah_sys::{Patience, Signal, recv_with_fds, socketpair_seqpacket};
use howdah_wire::SCRIPT_PACKET;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::PidfdFlags;

use super::message::{self, Report};
use super::zygote::Process;

/// Of what perl says while it compiles, so much is kept.
const MOST_TEXT: usize = 64 * 1024;

/// So long it may take to say where it stands.
const QUESTION: Duration = Duration::from_millis(500);

/// What has become of a perl.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) end: End,
    /// What it has written to standard error.
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) enum End {
    /// It waits for launches, and has loaded these files.
    Ready(Process, OwnedFd, Vec<PathBuf>),
    /// The script does not compile; these files were loaded.
    Failed(Vec<PathBuf>),
    /// The script is to be executed, for this reason.
    Unfit(String),
    /// It was given up.
    Slow,
}

struct Compiling {
    process: Process,
    pidfd: OwnedFd,
    socket: OwnedFd,
    // No more comes from there.
    silent: bool,
    // Its other end is the zygote's, which is killed when this one is closed before the script is compiled.
    _life: PipeWriter,
    errors: File,
    text: Vec<u8>,
    loaded: bool,
    failed: Option<Vec<PathBuf>>,
}

/// Starts `command` and waits for what becomes of it, for `limit` at most.
///
/// # Errors
/// It cannot be started.
pub(super) fn compile(command: Command, limit: Duration) -> io::Result<Compiled> {
    let mut patience = Patience::new(limit);
    let mut compiling = Compiling::start(command)?;
    let end = loop {
        if let Some(end) = compiling.step(&mut patience)? {
            break end;
        }
    };
    compiling.hear();
    let text = String::from_utf8_lossy(&compiling.text).trim_end().to_owned();
    let Compiling { process, socket, .. } = compiling;
    let end = match end {
        Step::Ready(files) => End::Ready(process, socket, files),
        Step::Failed(files) => End::Failed(files),
        Step::Unfit(reason) => End::Unfit(reason),
        Step::Slow => End::Slow,
    };
    Ok(Compiled { end, text })
}

enum Step {
    Ready(Vec<PathBuf>),
    Failed(Vec<PathBuf>),
    Unfit(String),
    Slow,
}

impl Compiling {
    fn start(mut command: Command) -> io::Result<Self> {
        let (socket, theirs) = socketpair_seqpacket()?;
        // As far as the kernel allows.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SCRIPT_PACKET);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&theirs, SCRIPT_PACKET);
        let (errors, theirs_for_errors) = io::pipe()?;
        rustix::io::ioctl_fionbio(&errors, true)?;
        let (until_our_end, life) = io::pipe()?;
        command
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(until_our_end))
            .stderr(Stdio::from(theirs_for_errors));
        let process = Process::new(command.spawn()?);
        let pidfd = rustix::process::pidfd_open(process.pid(), PidfdFlags::empty())?;
        let errors = File::from(OwnedFd::from(errors));
        Ok(Self {
            process,
            pidfd,
            socket,
            silent: false,
            _life: life,
            errors,
            text: Vec::new(),
            loaded: false,
            failed: None,
        })
    }

    /// Waits for news; the end, when there is one.
    fn step(&mut self, patience: &mut Patience) -> io::Result<Option<Step>> {
        let (news, ended) = self.wait(patience.look())?;
        self.hear();
        if !news && !ended {
            return Ok(patience.look().is_zero().then(|| self.slow()));
        }
        while let Some(report) = self.report() {
            match report {
                Report::Loaded => self.loaded = true,
                Report::Ready(files) => return Ok(Some(Step::Ready(files))),
                Report::Failed(files) => self.failed = Some(files),
                Report::Unfit(reason) => return Ok(Some(Step::Unfit(reason))),
                Report::Forked(_) | Report::Refused(_) => {}
            }
        }
        Ok(ended.then(|| self.ended()))
    }

    fn ended(&mut self) -> Step {
        if !self.loaded {
            return Step::Unfit("this perl does not load Howdah::CGI::Fork".into());
        }
        Step::Failed(self.failed.take().unwrap_or_default())
    }

    /// It is asked where it stands: it says so on standard error, and ends.
    fn slow(&mut self) -> Step {
        let _ = rustix::process::kill_process(self.process.pid(), Signal::USR2);
        let _ = self.wait(QUESTION);
        self.hear();
        Step::Slow
    }

    /// Whether there is a packet, and whether the process has ended.
    fn wait(&self, time: Duration) -> io::Result<(bool, bool)> {
        let wanted = if self.silent { PollFlags::empty() } else { PollFlags::IN };
        let mut ready = [
            PollFd::from_borrowed_fd(self.pidfd.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.errors.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.socket.as_fd(), wanted),
        ];
        // A closed socket or pipe stays ready: the process's end is all that is left to wait for.
        let watched = if self.silent { &mut ready[..1] } else { &mut ready[..] };
        let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(watched, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok((!self.silent && !ready[2].revents().is_empty(), !ready[0].revents().is_empty()))
    }

    fn report(&mut self) -> Option<Report> {
        // Room for any: one that comes after a look at what there is would be cut, and lost.
        let mut packet = vec![0; SCRIPT_PACKET];
        match recv_with_fds(&self.socket, &mut packet) {
            Ok((0, _)) => {
                self.silent = true;
                None
            }
            Ok((length, _)) => message::report(&packet[..length]),
            Err(_) => None,
        }
    }

    /// Reads what there is on standard error.
    fn hear(&mut self) {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = self.errors.read(&mut piece) {
            let room = MOST_TEXT.saturating_sub(self.text.len());
            self.text.extend_from_slice(&piece[..length.min(room)]);
        }
    }
}
