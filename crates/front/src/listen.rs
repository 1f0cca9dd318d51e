//! Listening sockets: binds them, takes them over, and knows what a request says about its listener.
//!
//! The binary binds before privileges are dropped and hands the listeners to the first front thread, which accepts for all.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::unix::AsyncFd;

use crate::address::{Address, ListenOptions, Serves};

/// What to do where a name or an address is not this machine's.
const NO_HOST: &str = "; name an address or a name of this machine, or leave the host out for every address";

/// A listener that could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The system refused.
    #[error("cannot listen on {0}: {1}{2}")]
    System(String, std::io::Error, &'static str),
    /// The host name has no address.
    #[error("cannot listen on {0}: the host name has no address{NO_HOST}")]
    NoAddress(String),
    /// Something that is no socket is in the way.
    #[error("cannot listen on {0}: a file that is no socket is in the way; remove it or choose another path")]
    InTheWay(String),
}

impl ListenError {
    /// The address is not this machine's.
    fn is_elsewhere(&self) -> bool {
        let lacks = |error| {
            [Some(Errno::ADDRNOTAVAIL), Some(Errno::AFNOSUPPORT)].contains(&Errno::from_io_error(error))
        };
        matches!(self, Self::System(_, error, _) if lacks(error))
    }

    /// Somebody else has it.
    fn is_taken(&self) -> bool {
        matches!(self, Self::System(_, error, _) if error.kind() == std::io::ErrorKind::AddrInUse)
    }
}

/// What requests say about the listener that they came through (RFC 3875 4.1.14, 4.1.15). Connections keep it; the
/// socket is not in it, so that it can be closed before they are.
#[derive(Debug)]
pub(crate) struct Origin {
    /// SERVER_NAME: the host listened on, or the machine's name when that is any.
    pub(crate) name: String,
    /// SERVER_PORT.
    pub(crate) port: String,
    /// A Unix socket's path, or its name behind an `@`.
    pub(crate) path: Option<PathBuf>,
    /// What is answered.
    pub(crate) serves: Serves,
    /// TLS is spoken.
    pub(crate) tls: bool,
    /// Nothing is answered but that the same is there by TLS, at this port.
    pub(crate) redirect: Option<u16>,
    /// A connection begins with a PROXY header.
    pub(crate) proxy_protocol: bool,
}

impl Origin {
    /// Of an ordinary listener on TCP.
    pub(crate) fn of(name: String, port: String) -> Self {
        Self {
            name,
            port,
            path: None,
            serves: Serves::Requests,
            tls: false,
            redirect: None,
            proxy_protocol: false,
        }
    }
}

/// A bound socket.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) origin: Arc<Origin>,
    /// Device and inode of a Unix socket's file, since another server may take the path.
    file: Option<(u64, u64)>,
    /// Works on this machine: `http://127.0.0.1:5000`, `unix:/run/app.sock` or `unix:@app`.
    pub url: String,
    /// What the URL does not tell: that it is one of many addresses.
    reach: Option<String>,
    /// See [`Listener::see_out`]; of all handles.
    sees_out: Arc<AtomicBool>,
}

impl Listener {
    /// Binds and listens: once, but for a name that has several addresses on each of them.
    ///
    /// # Errors
    /// When the address does not resolve or the system refuses it; the message names both.
    pub fn bind(address: &Address, options: &ListenOptions) -> Result<Vec<Self>, ListenError> {
        Self::bind_beside(&HashSet::new(), address, options)
    }

    /// Binds and listens on all of these. An address is listened on once: one that is given by itself as is said there, and one
    /// that several names have as is said of the first. Each has a list of its own, which may be empty for a name.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn bind_all(all: &[(Address, ListenOptions)]) -> Result<Vec<Vec<Self>>, ListenError> {
        let given = all.iter().filter_map(|(address, _)| address.literal());
        let mut others: HashSet<_> = given.filter(|address| address.port() != 0).collect();
        let bind = |(address, options): &(_, _)| {
            let bound = Self::bind_beside(&others, address, options)?;
            others.extend(bound.iter().filter_map(Self::local_address));
            Ok(bound)
        };
        all.iter().map(bind).collect()
    }

    /// Leaves out the `others` that a name has.
    fn bind_beside(
        others: &HashSet<SocketAddr>,
        address: &Address,
        options: &ListenOptions,
    ) -> Result<Vec<Self>, ListenError> {
        let backlog = options.backlog.into();
        let bound = match address {
            Address::Unix(path) => vec![Self::bind_unix(path, backlog, options.mode)?],
            Address::Abstract(name) => vec![Self::bind_abstract(name, backlog)?],
            Address::Any(port) => {
                let any6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                let any4 = SocketAddr::from(([0, 0, 0, 0], *port));
                let bound = Self::bind_tcp(any6, backlog);
                // A kernel without IPv6 still has the other half.
                let half = |error: ListenError| match error.is_taken() {
                    true => Err(error),
                    false => Self::bind_tcp(any4, backlog),
                };
                vec![bound.or_else(half)?]
            }
            Address::Host(host, port) => match address.literal() {
                Some(address) => vec![Self::bind_tcp(address, backlog)?],
                None => {
                    let found = (host.as_str(), *port)
                        .to_socket_addrs()
                        .map_err(|error| ListenError::System(address.to_string(), error, NO_HOST))?;
                    Self::bind_name(address, found, others, backlog)?
                }
            },
        };
        Ok(bound.into_iter().map(|listener| listener.with(options)).collect())
    }

    /// Takes over a socket that somebody else has bound, who may have made it listen with another backlog.
    ///
    /// # Errors
    /// When the descriptor is no stream socket with a local address.
    pub fn adopt(socket: OwnedFd, options: &ListenOptions) -> Result<Self, ListenError> {
        SockRef::from(&socket).listen(options.backlog.into()).map_err(not_ours)?;
        Self::inherit(socket, options)
    }

    /// Takes over a socket that listens already as it should.
    ///
    /// # Errors
    /// As [`Listener::adopt`].
    pub fn inherit(socket: OwnedFd, options: &ListenOptions) -> Result<Self, ListenError> {
        let socket = Socket::from(socket);
        socket.set_nonblocking(true).map_err(not_ours)?;
        let local = socket.local_addr().map_err(not_ours)?;
        let adopted = match local.as_pathname() {
            Some(path) => Self::unix(socket.into(), path),
            None => match local.as_socket() {
                Some(address) => Self::tcp(socket.into(), address),
                // A name may be of any bytes, of which the kernel chooses some by itself.
                None => Self::named(
                    socket.into(),
                    &local.as_abstract_namespace().unwrap_or_default().escape_ascii().to_string(),
                ),
            },
        };
        Ok(adopted.with(options))
    }

    fn with(mut self, options: &ListenOptions) -> Self {
        let ListenOptions { serves, tls, redirect, proxy_protocol, .. } = *options;
        let Origin { name, port, path, .. } = &*self.origin;
        let (name, mut port, path) = (name.clone(), port.clone(), path.clone());
        if tls {
            self.url = self.url.replacen("http:", "https:", 1);
            if path.is_some() {
                // Where such a proxy most likely listens.
                "443".clone_into(&mut port);
            }
        }
        let origin = Origin { name, port, path, serves, tls, redirect, proxy_protocol };
        Self { origin: Arc::new(origin), ..self }
    }

    /// Another handle to the same socket, for another front thread.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn share(&self) -> std::io::Result<Self> {
        let (origin, url, reach) = (Arc::clone(&self.origin), self.url.clone(), self.reach.clone());
        let sees_out = Arc::clone(&self.sees_out);
        Ok(Self { socket: self.socket.try_clone()?, origin, file: self.file, url, reach, sees_out })
    }

    /// It is about to be closed, and the kernel cuts off whom it has not handed over by then. So it hands over whoever has
    /// connected, on TCP before their first bytes; on a Unix socket nobody else can. Not for a socket on which another
    /// process is to go on.
    pub fn see_out(&self) {
        // Before a front thread can find the socket shut.
        self.sees_out.store(true, Ordering::Relaxed);
        let socket = SockRef::from(&self.socket);
        let done = match self.origin.path {
            None => howdah_sys::defer_accept(&self.socket, 0),
            Some(_) => socket.shutdown(std::net::Shutdown::Read),
        };
        if let Err(error) = done {
            self.sees_out.store(false, Ordering::Relaxed);
            tracing::debug!("{} is closed at once: {error}", self.url);
        }
    }

    /// Whether this process is about to close it, and may have shut it.
    pub(crate) fn is_leaving(&self) -> bool {
        self.sees_out.load(Ordering::Relaxed)
    }

    /// Whether the kernel may yet hand over somebody who has connected before.
    pub(crate) fn sees_out(&self) -> bool {
        self.is_leaving() && self.origin.path.is_none()
    }

    /// Whether TLS is spoken there.
    #[must_use]
    pub fn speaks_tls(&self) -> bool {
        self.origin.tls
    }

    /// The port, where TLS is spoken on TCP.
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        let Origin { tls, path, port, .. } = &*self.origin;
        if *tls && path.is_none() { port.parse().ok() } else { None }
    }

    /// Whether it only sends clients elsewhere.
    #[must_use]
    pub fn redirects(&self) -> bool {
        self.origin.redirect.is_some()
    }

    /// For people: the URL, and what is really listened on where that is more.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.reach {
            Some(reach) => format!("{} ({reach})", self.url),
            None => self.url.clone(),
        }
    }

    /// The socket, to hand on to another process.
    #[must_use]
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn local_address(&self) -> Option<SocketAddr> {
        SockRef::from(&self.socket).local_addr().ok()?.as_socket()
    }

    /// The file of a Unix socket.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.file.and(self.origin.path.as_deref())
    }

    /// Whether nobody can connect to a Unix socket any more, since its file is gone.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let address = SockRef::from(&self.socket).local_addr();
        address.is_ok_and(|address| address.as_pathname().is_some_and(|path| identity(path).is_none()))
    }

    /// Puts it into the event loop. The duplicate shares its queue of connections.
    pub(crate) fn watch(&self) -> std::io::Result<AsyncFd<Arc<OwnedFd>>> {
        howdah_sys::watch_readable(self.socket.try_clone()?)
    }

    /// Removes the file of a Unix socket, unless it is another server's by now.
    pub fn unlink(&self) {
        if let Some(path) = self.path()
            && identity(path) == self.file
        {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Each address of a name, but for those of others. One that is not this machine's, as that of IPv6 where it is switched
    /// off, is left out if there is another.
    fn bind_name(
        name: &Address,
        found: impl Iterator<Item = SocketAddr>,
        others: &HashSet<SocketAddr>,
        backlog: i32,
    ) -> Result<Vec<Self>, ListenError> {
        // A list of hosts may have one twice.
        let mut seen = HashSet::new();
        let (shared, own): (Vec<_>, Vec<_>) =
            found.filter(|address| seen.insert(*address)).partition(|address| others.contains(address));
        let (mut bound, mut elsewhere): (Vec<Self>, _) = (Vec::new(), None);
        for mut address in own {
            // The port that the kernel has chosen for the first is that of all.
            if let Some(port) = bound.first().and_then(|first| first.origin.port.parse().ok()) {
                address.set_port(port);
            }
            match Self::bind_tcp(address, backlog) {
                Ok(listener) => bound.push(listener),
                Err(error) if error.is_elsewhere() => elsewhere = elsewhere.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match (bound.is_empty() && shared.is_empty(), elsewhere) {
            (true, Some(error)) => Err(error),
            (true, None) => Err(ListenError::NoAddress(name.to_string())),
            (false, _) => Ok(bound),
        }
    }

    fn bind_tcp(address: SocketAddr, backlog: i32) -> Result<Self, ListenError> {
        let failed = |error: std::io::Error| {
            let hint = hint(&error);
            ListenError::System(address.to_string(), error, hint)
        };
        let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)
            .map_err(failed)?;
        socket.set_reuse_address(true).map_err(failed)?;
        if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            socket.set_only_v6(false).map_err(failed)?;
        }
        socket.bind(&address.into()).map_err(failed)?;
        socket.listen(backlog).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(address);
        Ok(Self::tcp(socket.into(), local))
    }

    fn tcp(socket: OwnedFd, address: SocketAddr) -> Self {
        // Wake on the first bytes, not on the handshake; where the kernel refuses, nothing is lost.
        let _ = howdah_sys::defer_accept(&socket, 1);
        // Connections have these from their listener, which saves system calls for each. What is written in pieces, a stream or
        // frames, waits for no acknowledgement.
        let _ = SockRef::from(&socket).set_tcp_nodelay(true);
        ask_silent_clients(&socket);
        let port = address.port();
        let wildcard = wildcard(&socket, address.ip());
        let name = if wildcard.is_some() { host_name() } else { address.ip().to_string() };
        let near = wildcard.map_or(address, |(loopback, _)| SocketAddr::new(loopback, port));
        let reach = wildcard.map(|(_, every)| format!("{every}, {address}"));
        let origin = Arc::new(Origin::of(name, port.to_string()));
        Self { socket, origin, file: None, url: format!("http://{near}"), reach, sees_out: Arc::default() }
    }

    fn bind_unix(path: &Path, backlog: i32, mode: Option<u32>) -> Result<Self, ListenError> {
        let shown = path.display().to_string();
        let failed = |error: std::io::Error| {
            let hint = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "; another server answers there, stop that or choose another path"
                }
                std::io::ErrorKind::NotFound => "; its directory does not exist",
                std::io::ErrorKind::InvalidInput => " (108 bytes), choose a shorter one",
                _ => "",
            };
            ListenError::System(shown.clone(), error, hint)
        };
        remove_stale_socket(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None).map_err(failed)?;
        socket.bind(&SockAddr::unix(path).map_err(failed)?).map_err(failed)?;
        if let Some(mode) = mode {
            howdah_sys::set_socket_mode(path, mode)
                .map_err(|error| ListenError::System(shown.clone(), error, ""))?;
        }
        socket.listen(backlog).map_err(failed)?;
        Ok(Self::unix(socket.into(), path))
    }

    /// The kernel keeps the name for as long as somebody listens, so nothing is left behind, nor has it permissions.
    fn bind_abstract(name: &str, backlog: i32) -> Result<Self, ListenError> {
        let failed = |error: std::io::Error| {
            let taken = error.kind() == std::io::ErrorKind::AddrInUse;
            let hint = if taken { "; another server has it, stop that or choose another name" } else { "" };
            ListenError::System(format!("unix:@{name}"), error, hint)
        };
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None).map_err(failed)?;
        socket.bind(&SockAddr::unix(format!("\0{name}")).map_err(failed)?).map_err(failed)?;
        socket.listen(backlog).map_err(failed)?;
        Ok(Self::named(socket.into(), name))
    }

    fn unix(socket: OwnedFd, path: &Path) -> Self {
        Self::local(socket, path.to_owned(), identity(path))
    }

    /// Without a file; one that happens to have this name is somebody else's.
    fn named(socket: OwnedFd, name: &str) -> Self {
        Self::local(socket, format!("@{name}").into(), None)
    }

    fn local(socket: OwnedFd, path: PathBuf, file: Option<(u64, u64)>) -> Self {
        let url = format!("unix:{}", path.display());
        // PSGI wants a port that is not empty; the proxy in front of a Unix socket most likely listens on 80.
        let (name, port) = ("localhost".to_owned(), "80".to_owned());
        let origin = Origin { path: Some(path), ..Origin::of(name, port) };
        Self { socket, origin: Arc::new(origin), file, url, reach: None, sees_out: Arc::default() }
    }
}

/// Has the kernel ask clients that say nothing for two minutes whether they are there (RFC 9293 3.8.4), and give up those that
/// do not answer for one more: a client that has lost its network cannot say that it leaves, and its WebSocket would keep a
/// worker for ever. A socket that was made by others, by systemd say, may have it with times of their own.
fn ask_silent_clients(socket: &OwnedFd) {
    let socket = SockRef::from(socket);
    if !socket.keepalive().unwrap_or(false) {
        let (idle, between) = (Duration::from_secs(120), Duration::from_secs(15));
        let _ = socket
            .set_tcp_keepalive(&TcpKeepalive::new().with_time(idle).with_interval(between).with_retries(4));
    }
}

/// An address of this machine that is among those of a wildcard, and which those are.
fn wildcard(socket: &OwnedFd, ip: IpAddr) -> Option<(IpAddr, &'static str)> {
    let only_v6 = || SockRef::from(socket).only_v6().unwrap_or(false);
    match ip {
        _ if !ip.is_unspecified() => None,
        IpAddr::V4(_) => Some((Ipv4Addr::LOCALHOST.into(), "every IPv4 address")),
        IpAddr::V6(_) if only_v6() => Some((Ipv6Addr::LOCALHOST.into(), "every IPv6 address")),
        IpAddr::V6(_) => Some((Ipv4Addr::LOCALHOST.into(), "every address")),
    }
}

fn not_ours(error: std::io::Error) -> ListenError {
    ListenError::System("an inherited socket".to_owned(), error, "")
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// A socket file that nobody answers on is left from a server that was killed.
fn remove_stale_socket(path: &Path) -> Result<(), ListenError> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(ListenError::InTheWay(path.display().to_string()));
    }
    if howdah_sys::is_listened_on(path).is_ok_and(|answers| !answers) {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The way out where the system gives no listener.
fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "; another server has it, stop that or choose another port",
        std::io::ErrorKind::PermissionDenied => "; ports below 1024 need root or CAP_NET_BIND_SERVICE",
        std::io::ErrorKind::AddrNotAvailable => NO_HOST,
        _ if Errno::from_io_error(error) == Some(Errno::AFNOSUPPORT) => {
            "; this machine has no such addresses (IPv6 is switched off, say: listen on one of IPv4), or the unit refuses them \
             (systemd's RestrictAddressFamilies=)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests;
