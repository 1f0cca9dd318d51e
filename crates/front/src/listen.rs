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
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn bind(address: &Address) -> Result<Listener, ListenError> {
        Listener::bind(address, &ListenOptions::default()).map(|mut all| all.remove(0))
    }

    #[test]
    fn an_address_of_a_name_that_the_machine_cannot_have_is_left_out() {
        for (errno, left_out) in
            [(Errno::ADDRNOTAVAIL, true), (Errno::AFNOSUPPORT, true), (Errno::ADDRINUSE, false)]
        {
            let error = ListenError::System("[::1]:80".to_owned(), errno.into(), "");
            assert_eq!(error.is_elsewhere(), left_out, "{error}");
        }
    }

    #[test]
    fn who_gets_no_listener_hears_of_the_way_out() {
        for (errno, way_out) in [
            (Errno::ADDRINUSE, "choose another port"),
            (Errno::ACCESS, "need root or CAP_NET_BIND_SERVICE"),
            (Errno::AFNOSUPPORT, "listen on one of IPv4"),
        ] {
            let hint = hint(&errno.into());
            assert!(hint.contains(way_out), "{hint}");
        }
    }

    #[test]
    fn a_name_is_listened_on_at_each_of_its_addresses_that_are_here() {
        let bind = |found: &[&str]| {
            let found = found.iter().map(|text| text.parse().unwrap());
            let others = ["127.0.0.9:80".parse().unwrap()].into();
            Listener::bind_name(&Address::Host("shop.example".into(), 0), found, &others, 5)
        };
        let all = bind(&["127.0.0.1:0", "203.0.113.1:0", "127.0.0.1:0", "127.0.0.2:0"]).unwrap();
        let port = &all[0].origin.port;
        let shown: Vec<_> = all.iter().map(|listener| listener.url.clone()).collect();
        assert_eq!(shown, ["127.0.0.1", "127.0.0.2"].map(|ip| format!("http://{ip}:{port}")));
        for (found, words) in [
            (&["203.0.113.1:0", "203.0.113.2:0"][..], "cannot listen on 203.0.113.1:0: "),
            (&[], "cannot listen on shop.example:0: the host name has no address"),
            (&["127.0.0.3:0", &format!("127.0.0.1:{port}")], "-"),
            (&["203.0.113.1:80", "127.0.0.9:80"], "-"),
        ] {
            let told = bind(found).err().map_or("-".to_owned(), |error| error.to_string());
            assert!(told.starts_with(words), "{found:?}: {told}");
        }
        let taken =
            bind(&[&format!("127.0.0.3:{port}"), &format!("127.0.0.2:{port}")]).unwrap_err().to_string();
        assert!(taken.contains(": Address already in use"), "{taken}");
    }

    #[test]
    fn an_address_that_a_name_has_is_listened_on_as_is_said_of_it() {
        let free = |ip: &str| bind(&format!("{ip}:0").parse().unwrap()).unwrap().origin.port.clone();
        let port = free("127.0.0.1");
        let pages = ListenOptions { serves: Serves::Pages, ..ListenOptions::default() };
        let (name, itself) =
            (Address::Host("localhost".into(), port.parse().unwrap()), format!("127.0.0.1:{port}"));
        let by_name = || (name.clone(), ListenOptions::default());
        let by_itself = || (itself.parse().unwrap(), pages.clone());
        for (order, at) in [([by_name(), by_itself()], 1), ([by_itself(), by_name()], 0)] {
            let all = Listener::bind_all(&order).unwrap();
            let url = format!("http://{itself}");
            let of = |listeners: &[Listener]| listeners.iter().filter(|it| it.url == url).count();
            assert_eq!((of(&all[at]), of(&all[1 - at])), (1, 0));
            assert_eq!(all[at][0].origin.serves, Serves::Pages);
        }
    }

    #[test]
    fn of_two_names_with_one_address_the_first_has_it() {
        let port = bind(&"127.0.0.1:0".parse().unwrap()).unwrap().origin.port.parse().unwrap();
        // One that no list of hosts need have.
        let names =
            ["localhost", "0x7f.1"].map(|name| (Address::Host(name.into(), port), ListenOptions::default()));
        let all = Listener::bind_all(&names).unwrap();
        assert!(!all[0].is_empty() && all[1].is_empty());
    }

    #[test]
    fn every_address_is_not_half_of_them_where_another_server_has_the_others() {
        let Ok(one) = bind(&"[::1]:0".parse().unwrap()) else { return };
        let told = bind(&Address::Any(one.origin.port.parse().unwrap())).unwrap_err().to_string();
        assert!(told.contains("[::]:") && told.contains("another server has it"), "{told}");
    }

    #[test]
    fn a_wildcard_is_shown_by_a_url_that_works_and_by_what_it_stands_for() {
        for (text, url, reach) in [
            ("127.0.0.1:0", "http://127.0.0.1:PORT", ""),
            ("0.0.0.0:0", "http://127.0.0.1:PORT", " (every IPv4 address, 0.0.0.0:PORT)"),
            ("[::]:0", "http://127.0.0.1:PORT", " (every address, [::]:PORT)"),
            (":0", "http://127.0.0.1:PORT", " (every address, [::]:PORT)"),
            ("[::1]:0", "http://[::1]:PORT", ""),
        ] {
            // A machine without IPv6 has less to show.
            let Ok(listener) = bind(&text.parse().unwrap()) else { continue };
            let named = |text: &str| text.replace("PORT", &listener.origin.port);
            assert_eq!(listener.url, named(url), "{text}");
            let shown = listener.share().unwrap().shown();
            let without_v6 = shown.contains("every IPv4 address") && text == ":0";
            assert!(without_v6 || shown == named(&format!("{url}{reach}")), "{text}: {shown}");
        }
    }

    #[test]
    fn an_adopted_socket_of_ipv6_alone_is_not_shown_by_an_address_of_ipv4() {
        let Ok(socket) = Socket::new(Domain::IPV6, Type::STREAM, None) else { return };
        socket.set_only_v6(true).unwrap();
        let any: SocketAddr = (Ipv6Addr::UNSPECIFIED, 0).into();
        if socket.bind(&any.into()).is_err() {
            return;
        }
        let listener = Listener::adopt(socket.into(), &ListenOptions::default()).unwrap();
        let port = &listener.origin.port;
        assert_eq!(listener.shown(), format!("http://[::1]:{port} (every IPv6 address, [::]:{port})"));
    }

    #[test]
    fn the_kernel_asks_clients_that_say_nothing_whether_they_are_there() {
        let asks_after = |listener: &Listener| {
            let address = SockRef::from(&listener.socket).local_addr().unwrap();
            let client = Socket::from(std::net::TcpStream::connect(address.as_socket().unwrap()).unwrap());
            client.send(b"GET").unwrap();
            let accepted = loop {
                if let Ok(accepted) = rustix::net::accept(&listener.socket) {
                    break Socket::from(accepted);
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            accepted.keepalive().unwrap().then(|| accepted.tcp_keepalive_time().unwrap().as_secs())
        };
        let asks = |socket: Socket| {
            SockRef::from(&socket).bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            socket.listen(8).unwrap();
            asks_after(&Listener::adopt(socket.into(), &ListenOptions::default()).unwrap())
        };
        assert_eq!(asks_after(&bind(&"127.0.0.1:0".parse().unwrap()).unwrap()), Some(120));
        let others = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        assert_eq!(asks(others()), Some(120));
        let socket = others();
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(600))).unwrap();
        assert_eq!(asks(socket), Some(600), "as others have it");
    }

    #[test]
    fn an_abstract_socket_has_no_file_whoever_bound_it() {
        let name = format!("howdah-test-{}", std::process::id());
        let address = Address::Abstract(name.clone());
        let listener = bind(&address).unwrap();
        let adopted =
            Listener::inherit(listener.socket().try_clone().unwrap(), &ListenOptions::default()).unwrap();
        for listener in [&listener, &adopted] {
            assert_eq!((listener.shown(), listener.path()), (address.to_string(), None));
        }
        let taken = bind(&address).unwrap_err().to_string();
        assert!(taken.contains(&format!("unix:@{name}")) && taken.contains("choose another name"), "{taken}");
        let long = bind(&Address::Abstract("x".repeat(108)));
        assert!(long.unwrap_err().to_string().contains("shorter"));
    }

    #[test]
    fn whoever_has_connected_is_handed_over_at_the_end() {
        let listener = bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let accept = |listener: &Listener| rustix::net::accept(&listener.socket).is_ok();
        let accepts = |listener: &Listener| {
            let end = std::time::Instant::now() + Duration::from_millis(500);
            while !accept(listener) {
                if std::time::Instant::now() > end {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            true
        };
        let address = ("127.0.0.1", listener.origin.port.parse().unwrap());
        let mut early = std::net::TcpStream::connect(address).unwrap();
        assert!(!accept(&listener), "it has said nothing");
        let share = listener.share().unwrap();
        share.see_out();
        assert!(listener.sees_out());
        std::io::Write::write_all(&mut early, b"G").unwrap();
        assert!(accepts(&listener), "the one that had connected");
        let _late = std::net::TcpStream::connect(address).unwrap();
        assert!(accepts(&listener), "one that connects now, whatever it says");

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.sock");
        let listener = bind(&Address::Unix(path.clone())).unwrap();
        let _early = UnixStream::connect(&path).unwrap();
        listener.see_out();
        assert!(UnixStream::connect(&path).is_err(), "nobody else");
        assert!(accepts(&listener) && !listener.sees_out());
    }

    #[test]
    fn a_socket_file_that_another_server_has_made_since_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.sock");
        let bind = || bind(&Address::Unix(path.clone())).unwrap();
        let old = bind();
        // Something stands in between, so that the file system does not use the inode again.
        std::fs::rename(&path, directory.path().join("moved")).unwrap();
        let new = bind();
        old.share().unwrap().unlink();
        assert!(path.exists(), "the newer server's");
        assert!(!old.is_lost() && !new.is_lost(), "somebody answers there");
        new.unlink();
        assert!(!path.exists() && new.is_lost(), "its own");
    }

    #[test]
    fn each_listener_has_options_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        for (name, options) in [
            ("a", ListenOptions { mode: Some(0o600), ..ListenOptions::default() }),
            (
                "b",
                ListenOptions {
                    mode: Some(0o666),
                    serves: Serves::Pages,
                    backlog: 1,
                    ..ListenOptions::default()
                },
            ),
        ] {
            let path = directory.path().join(name);
            let bound = Listener::bind(&Address::Unix(path.clone()), &options).unwrap().remove(0);
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!((Some(mode), bound.origin.serves), (options.mode, options.serves), "{name}");
        }
    }

    #[test]
    fn the_kernel_holds_as_many_connections_as_the_backlog_says_and_one() {
        let name = format!("howdah-backlog-{}", std::process::id());
        let connect = || {
            let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).unwrap();
            socket.connect(&SockAddr::unix(format!("\0{name}")).unwrap()).map(|()| socket)
        };
        let options = |backlog| ListenOptions { backlog, ..ListenOptions::default() };
        let bound = Listener::bind(&Address::Abstract(name.clone()), &options(2)).unwrap().remove(0);
        let first: Vec<_> = (0..5).map_while(|_| connect().ok()).collect();
        assert_eq!(first.len(), 3);
        Listener::inherit(bound.socket().try_clone().unwrap(), &ListenOptions::default()).unwrap();
        assert!(connect().is_err(), "whoever inherits it leaves it as it is");
        Listener::adopt(bound.socket().try_clone().unwrap(), &options(3)).unwrap();
        assert!(connect().is_ok(), "whoever adopts it says how many");
    }

    #[test]
    fn a_unix_socket_of_a_server_that_was_killed_makes_room_and_one_that_is_used_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.sock");
        let address = Address::Unix(path.clone());
        let first = bind(&address).unwrap();
        let taken = bind(&address).unwrap_err().to_string();
        assert!(
            taken.ends_with("; another server answers there, stop that or choose another path"),
            "{taken}"
        );
        drop(first);
        let second = bind(&address).unwrap();
        assert_eq!(
            (second.path(), second.shown()),
            (Some(path.as_path()), format!("unix:{}", path.display()))
        );
    }

    #[test]
    fn what_is_in_the_way_and_what_is_missing_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        let why = |address| bind(&address).unwrap_err().to_string();
        assert!(why(Address::Unix(file.clone())).contains("a file that is no socket is in the way"));
        assert_eq!(std::fs::read(&file).unwrap(), b"mine");
        let long = why(Address::Unix(directory.path().join("x".repeat(108))));
        assert!(long.ends_with(" (108 bytes), choose a shorter one"), "{long}");
        let nowhere = why(Address::Unix(directory.path().join("no/app.sock")));
        assert!(nowhere.ends_with("; its directory does not exist"), "{nowhere}");
        let listener = bind(&Address::Host("127.0.0.1".to_owned(), 0)).unwrap();
        let port = listener.origin.port.parse().unwrap();
        let taken = why(Address::Host("127.0.0.1".to_owned(), port));
        assert!(taken.ends_with("; another server has it, stop that or choose another port"), "{taken}");
        for host in ["a b", "192.0.2.1"] {
            let elsewhere = why(Address::Host(host.to_owned(), 0));
            assert!(elsewhere.ends_with(NO_HOST), "{elsewhere}");
        }
    }

    #[test]
    fn requests_hear_of_their_listener() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.sock");
        let host = bind(&Address::Host("127.0.0.1".to_owned(), 0)).unwrap();
        let any = bind(&Address::Any(0)).unwrap();
        let machine = rustix::system::uname().nodename().to_str().unwrap().to_owned();
        let unix = bind(&Address::Unix(path.clone())).unwrap();
        for (listener, name, port, path) in [
            (&host, "127.0.0.1".to_owned(), host.origin.port.as_str(), None),
            (&any, machine, any.origin.port.as_str(), None),
            (&unix, "localhost".to_owned(), "80", Some(path)),
        ] {
            let origin = &listener.origin;
            assert_eq!((&origin.name, origin.port.as_str(), &origin.path), (&name, port, &path));
            assert!(!origin.port.is_empty() && origin.port != "0" && origin.serves == Serves::Requests);
            let handle = || listener.socket().try_clone().unwrap();
            let adopted = Listener::adopt(handle(), &ListenOptions::default()).unwrap();
            assert_eq!(
                (&adopted.origin.name, &adopted.url, adopted.path()),
                (&name, &listener.url, path.as_deref())
            );
            let pages = ListenOptions { serves: Serves::Pages, ..ListenOptions::default() };
            let local = Listener::inherit(handle(), &pages).unwrap();
            let kept = (&local.origin.name, local.origin.port.as_str(), &local.origin.path);
            assert_eq!((kept, local.origin.serves), ((&name, port, &path), Serves::Pages));
        }
    }

    #[test]
    fn what_is_no_listening_socket_is_not_adopted() {
        let file = tempfile::tempfile().unwrap();
        let why = Listener::adopt(file.into(), &ListenOptions::default()).unwrap_err().to_string();
        assert!(why.starts_with("cannot listen on an inherited socket: "), "{why}");
    }

    #[test]
    fn shared_handles_lead_to_the_same_queue_of_connections() {
        let listener = bind(&Address::Host("127.0.0.1".to_owned(), 0)).unwrap();
        let shared = listener.share().unwrap();
        let local = |listener: &Listener| SockRef::from(&listener.socket).local_addr().unwrap().as_socket();
        assert_eq!((local(&shared), &shared.url), (local(&listener), &listener.url));
        assert!(shared.path().is_none());
        shared.unlink();
    }
}
