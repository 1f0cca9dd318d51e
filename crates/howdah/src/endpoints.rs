//! Where a server is found, which must outlive its process when that is replaced: listening sockets, the control socket,
//! the pid file. A fresh server makes them, or gets its sockets from systemd or Server::Starter; one that replaces an older
//! process of the same server (see `upgrade`) takes them over.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::{Context, bail};
use howdah_front::{Address, Front, ListenOptions, Listener};
use howdah_sys::activation::inherited_listeners;
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;

use crate::control::socket::ControlSocket;
use crate::handover::Handover;
use crate::options::Serve;
use crate::options::tls::Tls;
use crate::pidfile::PidFile;

/// See the module. Dropping it removes the files, unless they are another process's by then.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// In the order of the options, the listeners of each together.
    listeners: Vec<Vec<Listener>>,
    /// Those for the server's own pages alone.
    pages: Vec<Vec<Listener>>,
    /// None when another server has it.
    pub(crate) control: Option<ControlSocket>,
    pid_file: Option<PidFile>,
    /// This server has made the files of Unix sockets.
    pub(crate) ours: bool,
    /// It is this process that has to remove files.
    owned: bool,
    /// From the process before this one, which still listens on them.
    inherited: bool,
    /// Files of Unix sockets that this process has made anew. They go with it if it fails before it serves: they lead to
    /// nobody else.
    anew: Vec<PathBuf>,
}

impl Endpoints {
    /// For a fresh server, or from the process before this one.
    ///
    /// # Errors
    /// When an address, the pid file or a control socket that was asked for cannot be had.
    pub(crate) fn obtain(options: &Serve, handover: Option<&mut Handover>) -> anyhow::Result<Self> {
        match handover {
            Some(handover) => Self::inherit(options, handover),
            None => Self::make(options),
        }
    }

    fn make(options: &Serve) -> anyhow::Result<Self> {
        let inherited = inherited_listeners()?;
        let ours = inherited.is_empty();
        let mut listeners = if ours {
            Listener::bind_all(&options.listeners())?
        } else {
            let adopt = |socket| {
                let how = adopted(options, &socket);
                Listener::adopt(socket, &how).map(|listener| vec![listener])
            };
            inherited.into_iter().map(adopt).collect::<Result<_, _>>()?
        };
        listeners.extend(Listener::bind_all(&options.redirects(tls_port(&listeners)))?);
        if options.tls.is_on() && !is_tls_spoken(options, &listeners) {
            serve_without(&options.tls)?;
        }
        if listeners.iter().flatten().any(Listener::redirects)
            && !listeners.iter().flatten().any(Listener::speaks_tls)
        {
            tracing::warn!(
                "--redirect-to-https sends clients to port 443, and no listener for requests speaks TLS: have another program do so \
                 there, or listen on an address of TCP"
            );
        }
        // Server::Starter lets the next generation start while this one serves.
        let relieves = is_under_starter();
        let pages = pages(options, relieves)?;
        let pid_file =
            options.process.pid.as_deref().map(|path| PidFile::create(path, relieves)).transpose()?;
        let control = ControlSocket::open(&options.instance, relieves)?;
        Ok(Self {
            listeners,
            pages,
            control,
            pid_file,
            ours,
            owned: true,
            inherited: false,
            anew: Vec::new(),
        })
    }

    /// The files stay the older process's until that makes way.
    fn inherit(options: &Serve, handover: &mut Handover) -> anyhow::Result<Self> {
        let mut sockets = std::mem::take(&mut handover.listeners);
        let others = sockets.len().saturating_sub(options.pages().len());
        let mut anew = Vec::new();
        let pages = inherit(sockets.split_off(others), options.pages(), &mut anew)?;
        let main = sockets.len().saturating_sub(options.redirects(0).len());
        let redirects = sockets.split_off(main);
        let mut listeners = match handover.ours {
            true => inherit(sockets, options.listeners(), &mut anew)?,
            false => sockets
                .into_iter()
                .flatten()
                .map(|socket| {
                    let how = adopted(options, &socket);
                    Listener::inherit(socket, &how).map(|listener| vec![listener])
                })
                .collect::<Result<_, _>>()?,
        };
        listeners.extend(inherit(redirects, options.redirects(tls_port(&listeners)), &mut anew)?);
        let control = handover
            .control
            .take()
            .map(|socket| ControlSocket::adopt(socket, &options.instance))
            .transpose()?;
        Ok(Self {
            listeners,
            pages,
            control,
            pid_file: None,
            ours: handover.ours,
            owned: false,
            inherited: true,
            anew,
        })
    }

    /// The process before us makes way, unless we fail: then it goes on with all of this.
    pub(crate) fn take(&mut self, options: &Serve) -> anyhow::Result<()> {
        self.pid_file = options.process.pid.as_deref().map(|path| PidFile::create(path, true)).transpose()?;
        Ok(())
    }

    /// It has made way.
    pub(crate) fn keep_for_good(&mut self) {
        self.own(true);
    }

    /// Listeners for requests, in the order of the options.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().flatten()
    }

    /// Those for the server's own pages alone.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &Listener> {
        self.pages.iter().flatten()
    }

    /// Listeners that can be opened before there is a worker: at a handover none, since the older process still answers.
    pub(crate) fn early(&self) -> anyhow::Result<Vec<Listener>> {
        share(self.pages().filter(|_| !self.inherited))
    }

    /// The control socket, where nobody else answers there.
    pub(crate) fn early_control(&self) -> Option<&ControlSocket> {
        self.control.as_ref().filter(|_| !self.inherited)
    }

    /// Connections are accepted from now on, by the first front thread for all.
    pub(crate) fn open(&self, fronts: &[Front]) -> anyhow::Result<()> {
        let pages = self.pages().filter(|_| self.inherited);
        if let Some(front) = fronts.first() {
            front.accept(share(self.listeners().chain(pages))?);
        }
        Ok(())
    }

    /// Copies of the listening sockets; those of one name together.
    pub(crate) fn sockets(&self) -> io::Result<Vec<Vec<OwnedFd>>> {
        let groups = self.listeners.iter().chain(&self.pages);
        groups.map(|group| group.iter().map(|listener| listener.socket().try_clone()).collect()).collect()
    }

    /// The files of Unix sockets, which are removed in the end.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let sockets = self.all().filter_map(Listener::path).map(Into::into);
        let control = self.control.as_ref().map(|socket| socket.path().to_owned());
        sockets.chain(control)
    }

    /// The process that was to have all of this failed, perhaps after it had written the pid file.
    pub(crate) fn keep(&self) {
        if let Some(Err(error)) = self.pid_file.as_ref().map(PidFile::write) {
            tracing::error!("{error:#}");
        }
    }

    /// Nobody can connect any more.
    pub(crate) fn close(&mut self) {
        self.close_to_requests();
        let pages = std::mem::take(&mut self.pages);
        self.remove(&pages);
    }

    /// The same, but for those who look at the server's own pages. Where no other process has the sockets, whoever has connected
    /// is still let in.
    pub(crate) fn close_to_requests(&mut self) {
        if self.ours && self.owned {
            self.listeners().for_each(Listener::see_out);
        }
        let listeners = std::mem::take(&mut self.listeners);
        self.remove(&listeners);
    }

    fn remove(&self, listeners: &[Vec<Listener>]) {
        let goes = |listener: &&Listener| {
            self.ours && self.owned
                || listener.path().is_some_and(|path| self.anew.iter().any(|made| made == path))
        };
        listeners.iter().flatten().filter(goes).for_each(Listener::unlink);
    }

    /// Another process has all of this now.
    pub(crate) fn hand_over(&mut self) {
        self.own(false);
    }

    fn all(&self) -> impl Iterator<Item = &Listener> {
        self.listeners().chain(self.pages())
    }

    fn own(&mut self, owned: bool) {
        self.owned = owned;
        self.anew.clear();
        if let Some(control) = &mut self.control {
            control.own(owned);
        }
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.close();
    }
}

/// start_server runs us, and replaces us by itself.
pub(crate) fn is_under_starter() -> bool {
    std::env::var_os("SERVER_STARTER_PORT").is_some_and(|value| !value.is_empty())
}

fn share<'a>(listeners: impl Iterator<Item = &'a Listener>) -> anyhow::Result<Vec<Listener>> {
    listeners.map(Listener::share).collect::<io::Result<_>>().context("cannot share the listeners")
}

fn pages(options: &Serve, under_starter: bool) -> anyhow::Result<Vec<Vec<Listener>>> {
    let wanted = options.pages();
    if under_starter && !wanted.is_empty() {
        bail!(
            "--status-listen does not work under start_server, whose next server starts while this one has the address: \
             use --status-path and --status-allow"
        );
    }
    Ok(Listener::bind_all(&wanted)?)
}

/// The older process has bound them as its options, which are ours, say.
fn inherit(
    sockets: Vec<Vec<OwnedFd>>,
    how: Vec<(Address, ListenOptions)>,
    made: &mut Vec<PathBuf>,
) -> anyhow::Result<Vec<Vec<Listener>>> {
    let mut inherit = |socket, address: &_, how: &_| {
        let listener = Listener::inherit(socket, how)?;
        let lost = listener.is_lost();
        Ok(if lost { anew(listener, address, how, made) } else { listener })
    };
    let groups = sockets.into_iter().zip(how);
    groups
        .map(|(group, (address, how))| {
            group.into_iter().map(|socket| inherit(socket, &address, &how)).collect()
        })
        .collect()
}

/// Who has removed a socket's file has left the socket to those who are connected.
fn anew(lost: Listener, address: &Address, how: &ListenOptions, made: &mut Vec<PathBuf>) -> Listener {
    match Listener::bind(address, how).map(|mut all| all.remove(0)) {
        Ok(listener) => {
            tracing::warn!("somebody has removed the socket {address}: it is made anew");
            made.extend(listener.path().map(Into::into));
            listener
        }
        // As before, nobody reaches us there, but elsewhere.
        Err(error) => {
            tracing::error!("somebody has removed the socket {address}, and it cannot be made anew: {error}");
            lost
        }
    }
}

/// How to listen on what another program has bound. With certificates all of it on TCP speaks TLS; what connects by a Unix
/// socket, as a proxy does, expects none.
fn adopted(options: &Serve, socket: &OwnedFd) -> ListenOptions {
    let tls = options.tls.is_on() && socket_domain(socket) != Ok(AddressFamily::UNIX);
    let proxy_protocol = options.proxies.proxy_protocol;
    ListenOptions { backlog: options.listen.backlog, tls, proxy_protocol, ..ListenOptions::default() }
}

/// Whether anybody would see the certificates.
fn is_tls_spoken(options: &Serve, listeners: &[Vec<Listener>]) -> bool {
    listeners.iter().flatten().any(Listener::speaks_tls) || options.pages().iter().any(|(_, how)| how.tls)
}

/// Certificates that nobody sees do no harm, such as those of an environment that several servers have; who asks clients for theirs
/// is not to serve everybody.
fn serve_without(tls: &Tls) -> anyhow::Result<()> {
    if tls.tls_client_ca.is_some() {
        bail!(
            "--tls-client-ca asks nobody: none of the sockets that were handed over speaks TLS, which those on TCP alone do; \
             have one bound there, or leave it out"
        );
    }
    tracing::warn!(
        "nobody sees the certificates: no listener speaks TLS, which those on TCP do, and Unix sockets that are written as tls:PATH"
    );
    Ok(())
}

/// Where clients are sent that come without TLS.
fn tls_port(listeners: &[Vec<Listener>]) -> u16 {
    listeners.iter().flatten().find_map(Listener::tls_port).unwrap_or(443)
}
