//! The client's end of a control socket: a line goes there, and one comes back.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, socket_with,
};

use crate::protocol::{ControlAnswer, ControlRequest};
use crate::shortage::with_limit;

/// Time for room in the queue of a server that accepts nobody: the kernel would have us wait for ever.
const ROOM: Duration = Duration::from_secs(10);
/// Characters that are shown of an answer that is none.
const SHOWN: usize = 200;

/// Asks, and reads the answer.
///
/// # Errors
/// As [`hear`].
pub(crate) fn ask(
    server: &mut BufReader<UnixStream>,
    path: &Path,
    request: &ControlRequest,
) -> anyhow::Result<ControlAnswer> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    // A server that refuses us may have hung up already, but not without a word.
    let _ = server.get_mut().write_all(&line);
    hear(server, path)
}

/// The same, for what a server that is well answers in that time. The connection's reads have no limit afterwards.
///
/// # Errors
/// As [`ask`], and when no answer comes in time: with the process that is to be looked at, if it is the one that made the
/// socket.
pub(crate) fn ask_within(
    patience: Duration,
    server: &mut BufReader<UnixStream>,
    path: &Path,
    request: &ControlRequest,
) -> anyhow::Result<ControlAnswer> {
    server.get_ref().set_read_timeout(Some(patience))?;
    let answer = ask(server, path, request);
    server.get_ref().set_read_timeout(None)?;
    answer.map_err(|error| match process(server.get_ref()) {
        Some(process) if error.is::<Silent>() && matches!(request, ControlRequest::Stop { .. }) => anyhow!(
            "{error:#} (see process {process}); it stops when it goes on (kill -CONT {process}), and at once by kill -9 \
             {process}"
        ),
        Some(process) => anyhow!("{error:#} (see process {process})"),
        None => error,
    })
}

/// No answer came in time; what was asked for may be done later.
#[derive(Debug)]
pub(super) struct Silent(PathBuf);

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.display();
        write!(f, "the server at {path} does not answer; it may have been stopped (SIGSTOP), or hang")
    }
}

impl std::error::Error for Silent {}

/// The one that made the socket; none when that is over.
pub(super) fn process(server: &UnixStream) -> Option<i32> {
    let process = socket_peercred(server).ok()?.pid.as_raw_nonzero().get();
    Path::new(&format!("/proc/{process}")).exists().then_some(process)
}

/// Connects to a control socket.
///
/// # Errors
/// When nobody answers there, or not to us: with the way out.
pub(crate) fn connect(path: &Path) -> anyhow::Result<BufReader<UnixStream>> {
    let shown = path.display();
    open(path, ROOM).map(BufReader::new).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => anyhow!(Silent(path.to_owned())),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            anyhow!(
                "no server answers at {shown}: name one by --name, or its control socket by --control; howdah status lists \
                 those that run"
            )
        }
        io::ErrorKind::PermissionDenied => {
            anyhow!(
                "the control socket {shown} is not yours: ask as root, or as the user whose server it is"
            )
        }
        _ => anyhow!("cannot use the control socket {shown}: {}", with_limit(&error)),
    })
}

/// A connection to whoever listens there.
///
/// # Errors
/// Of the system; WouldBlock when there is no room for it in that time.
pub(super) fn open(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    connect_to(&socket, &SocketAddrUnix::new(path)?)?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

/// Reads an answer.
///
/// # Errors
/// When none comes, or none that we understand.
pub(super) fn hear(server: &mut impl BufRead, path: &Path) -> anyhow::Result<ControlAnswer> {
    let mut line = String::new();
    let read = server.read_line(&mut line);
    if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        bail!(Silent(path.to_owned()));
    }
    if read.is_err() || line.is_empty() {
        bail!("the server at {} ended before it answered; its log may tell why", path.display());
    }
    serde_json::from_str(&line).with_context(|| {
        let start: String = line.trim_end().chars().take(SHOWN).collect();
        format!("cannot understand the server, which may be of another version: {start}")
    })
}
