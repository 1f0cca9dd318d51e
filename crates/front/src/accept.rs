//! Accepts connections and gives each its task.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SocketAddrAny, SocketFlags};

use crate::conn::{Client, Conn};
use crate::listen::Listener;
use crate::socket::Socket;
use crate::thread::here;

/// Connections to accept before those at hand have their turn.
const TURN: usize = 64;
/// Such turns at the end: more than the kernel keeps by default, and an end where clients never cease.
const TURNS_AT_LAST: usize = 64;
/// Rest when the process is out of descriptors or memory.
const REST: Duration = Duration::from_millis(100);

/// Accepts until the thread closes its listeners; then takes those who have connected already, and no more.
pub(crate) async fn accept(listener: Arc<Listener>) {
    let watched = match listener.watch() {
        Ok(watched) => watched,
        Err(error) => return tracing::error!("cannot watch {}: {error}", listener.url),
    };
    loop {
        let changed = here().changed.notified();
        if here().doors(listener.origin.only_local).closing.get() {
            return accept_the_last(&listener).await;
        }
        tokio::select! {
            ready = watched.readable() => match ready {
                Ok(mut guard) => if accept_some(&listener).await { guard.clear_ready() },
                Err(error) => return tracing::error!("cannot wait for {}: {error}", listener.url),
            },
            () = changed => {}
        }
    }
}

/// Takes those that the kernel has for us already: it would cut them off when the socket is closed.
async fn accept_the_last(listener: &Arc<Listener>) {
    for _ in 0..TURNS_AT_LAST {
        if accept_some(listener).await {
            return;
        }
    }
}

/// True when no further connection waits.
async fn accept_some(listener: &Arc<Listener>) -> bool {
    for _ in 0..TURN {
        match rustix::net::acceptfrom_with(&listener.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok((socket, address)) => start(listener, socket, address),
            Err(rustix::io::Errno::AGAIN) => return true,
            Err(
                rustix::io::Errno::MFILE
                | rustix::io::Errno::NFILE
                | rustix::io::Errno::NOMEM
                | rustix::io::Errno::NOBUFS,
            ) => {
                tracing::error!(
                    "out of file descriptors or memory: connections wait; raise the limit of open files (ulimit -n)"
                );
                tokio::time::sleep(REST).await;
                return false;
            }
            // The connection was gone before it was accepted.
            Err(error) => tracing::debug!("accept: {}", io::Error::from(error)),
        }
    }
    tokio::task::yield_now().await;
    false
}

fn start(listener: &Arc<Listener>, socket: OwnedFd, address: Option<SocketAddrAny>) {
    let peer = address.and_then(|address| SocketAddr::try_from(address).ok());
    let client = Client {
        origin: Arc::clone(&listener.origin),
        // A client that came by IPv4 to a dual-stack socket is shown by its IPv4 address.
        address: peer.map_or_else(Box::default, |peer| peer.ip().to_canonical().to_string().into_boxed_str()),
        port: peer.map_or_else(Box::default, |peer| peer.port().to_string().into_boxed_str()),
        secure: false,
    };
    tokio::spawn(Conn::new(Socket::Fresh(socket), client).serve());
}
