//! Accepts connections and gives each its task.
//!
//! There may be as many as `capacity` has permits for. When there is none and somebody waits at the door, a connection
//! that rests has to go (`idle`); when none rests, the loop pauses until a place is free, and meanwhile connections are
//! closed behind the response that they get. Who waits, waits in the kernel, in the order in which they came.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use howdah_proxied::Trust;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags};

use crate::capacity::{Capacity, Kind, Permit};
use crate::doors::Doors;
use crate::gate::Gate;
use crate::h1;
use crate::introduction;
use crate::listen::Listener;
use crate::repeated::Repeated;
use crate::request::Client;
use crate::room::Room;
use crate::server::Server;
use crate::transport::{Socket, Transport};

/// Connections to accept before those at hand have their turn.
const TURN: usize = 64;
/// Such turns at the end: more than the kernel keeps by default, and an end where clients never cease.
const TURNS_AT_LAST: usize = 64;
/// Pauses at the end, when there is no room for those that have connected already.
const PAUSES_AT_LAST: usize = 10;
/// The longest pause before another look.
const REST: Duration = Duration::from_millis(100);

/// What a turn has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No further connection waits.
    Empty,
    /// There may be more.
    More,
    /// Somebody waits, and there is no room.
    Full,
    /// The system has no descriptor or no memory.
    Refused,
    /// As many clients are at the gate as may be.
    Shaking,
}

/// What accept loops need of their thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrance {
    pub(crate) doors: &'static Doors,
    pub(crate) room: &'static Room,
    pub(crate) server: &'static Server,
    /// For TLS.
    pub(crate) gate: Option<&'static Gate>,
}

impl Entrance {
    /// Accepts until the thread closes its listeners; then takes those who have connected already, and no more.
    pub(crate) async fn accept(self, listener: Listener) {
        let for_pages = listener.origin.pages_only;
        let _open = self.doors.open(for_pages);
        let watched = match listener.watch() {
            Ok(watched) => watched,
            Err(error) => return tracing::error!("cannot watch {}: {error}", listener.url),
        };
        loop {
            let changed = self.doors.changed.notified();
            if self.doors.is_closing(for_pages) {
                return self.accept_the_last(&listener).await;
            }
            tokio::select! {
                ready = watched.readable() => match ready {
                    Ok(mut guard) => match self.accept_some(&listener).await {
                        Turn::Empty => guard.clear_ready(),
                        Turn::More => {}
                        turn => self.pause(kind_of(&listener), turn).await,
                    },
                    Err(error) => return tracing::error!("cannot wait for {}: {error}", listener.url),
                },
                () = changed => {}
            }
        }
    }

    /// Takes those that the kernel has for us already: it would cut them off when the socket is closed.
    async fn accept_the_last(self, listener: &Listener) {
        let mut pauses = 0;
        for _ in 0..TURNS_AT_LAST {
            match self.accept_some(listener).await {
                Turn::Empty => return,
                Turn::More => {}
                _ if pauses == PAUSES_AT_LAST => return,
                turn => {
                    pauses += 1;
                    self.pause(kind_of(listener), turn).await;
                }
            }
        }
    }

    async fn accept_some(self, listener: &Listener) -> Turn {
        for _ in 0..TURN {
            if self.gate_of(listener).is_some_and(Gate::is_full) {
                return if has_somebody(listener) { Turn::Shaking } else { Turn::Empty };
            }
            let Some(permit) = self.room.capacity.enter(kind_of(listener)) else {
                if !has_somebody(listener) {
                    return Turn::Empty;
                }
                if !self.room.dismiss(listener.origin.pages_only) {
                    return Turn::Full;
                }
                // The one that has to go ends its task.
                tokio::task::yield_now().await;
                continue;
            };
            match rustix::net::acceptfrom_with(&listener.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
            {
                Ok((socket, address)) => self.start(listener, socket, address, permit),
                Err(Errno::AGAIN) => return Turn::Empty,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    self.room.dismiss(listener.origin.pages_only);
                    return Turn::Refused;
                }
                // The connection was gone before it was accepted.
                Err(error) => tracing::debug!("accept: {}", io::Error::from(error)),
            }
        }
        tokio::task::yield_now().await;
        Turn::More
    }

    /// Until there may be room: a client's place, or the system's means.
    async fn pause(self, kind: Kind, turn: Turn) {
        if turn == Turn::Shaking {
            let freed = self.gate.map(|gate| gate.freed.notified());
            return drop(
                tokio::time::timeout(REST, async {
                    if let Some(freed) = freed {
                        freed.await;
                    }
                })
                .await,
            );
        }
        let capacity = self.room.capacity;
        tell(capacity, kind, turn);
        let freed = capacity.freed();
        let _crowd = (kind == Kind::Connection).then(|| capacity.crowd());
        match turn {
            // Room has been made since.
            Turn::Full if capacity.has_room(kind) => {}
            Turn::Full => drop(tokio::time::timeout(REST, freed).await),
            _ => tokio::time::sleep(REST).await,
        }
    }

    fn start(self, listener: &Listener, socket: OwnedFd, address: Option<SocketAddrAny>, permit: Permit) {
        let peer = address.and_then(|address| SocketAddr::try_from(address).ok());
        let client = client(listener, peer, &self.server.config.trusted_proxies);
        let socket = Socket::Fresh(socket);
        if listener.origin.proxy_protocol {
            if introduction::admits(self.server, &client) {
                tokio::task::spawn_local(self.introduce(self.gate_of(listener), socket, client, permit));
            }
        } else if let Some(gate) = self.gate_of(listener) {
            tokio::task::spawn_local(gate.pass(self.server, socket, client, permit));
        } else {
            tokio::task::spawn_local(h1::serve(self.server, Transport::Plain(socket), client, permit));
        }
    }

    /// Of those who come through a proxy that says who they are, one by one.
    async fn introduce(self, gate: Option<&'static Gate>, socket: Socket, client: Client, permit: Permit) {
        let (mut socket, mut client) = (socket, client);
        // Whoever is heard is about to have a handshake.
        let place = gate.map(Gate::place);
        if !introduction::hear(self.server, &mut socket, &mut client).await {
            return;
        }
        drop(place);
        match gate {
            Some(gate) => gate.pass(self.server, socket, client, permit).await,
            None => h1::serve(self.server, Transport::Plain(socket), client, permit).await,
        }
    }

    fn gate_of(self, listener: &Listener) -> Option<&'static Gate> {
        self.gate.filter(|_| listener.origin.tls)
    }
}

fn client(listener: &Listener, peer: Option<SocketAddr>, trust: &Trust) -> Client {
    // A client that came by IPv4 to a dual-stack socket is shown by its IPv4 address.
    let address = peer.map(|peer| peer.ip().to_canonical());
    Client {
        origin: Arc::clone(&listener.origin),
        address: address.map_or_else(Box::default, |address| address.to_string().into_boxed_str()),
        port: peer.map_or_else(Box::default, |peer| peer.port().to_string().into_boxed_str()),
        secure: false,
        server_port: None,
        trusted: !listener.origin.pages_only && trust.holds(address),
        tls: None,
        introduced: None,
    }
}

fn kind_of(listener: &Listener) -> Kind {
    if listener.origin.pages_only { Kind::Page } else { Kind::Connection }
}

/// Whether a connection waits to be accepted.
fn has_somebody(listener: &Listener) -> bool {
    let mut ready = [PollFd::new(&listener.socket, PollFlags::IN)];
    // Where the look fails, accepting fails too, and says why.
    poll(&mut ready, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

fn tell(capacity: &Capacity, kind: Kind, turn: Turn) {
    static FULL: Repeated = Repeated::new();
    static REFUSED: Repeated = Repeated::new();
    if turn == Turn::Full {
        if FULL.pass().is_some() {
            tracing::warn!("new connections wait: {}", capacity.reason(kind));
        }
    } else if REFUSED.pass().is_some() {
        tracing::error!(
            "out of file descriptors or memory: connections wait; raise the limit of open files (ulimit -n)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::ListenOptions;

    fn listener(pages_only: bool) -> Listener {
        let options = ListenOptions { pages_only, ..ListenOptions::default() };
        Listener::bind(&"127.0.0.1:0".parse().unwrap(), &options).unwrap()
    }

    #[test]
    fn a_client_is_shown_by_the_address_that_it_has_for_people() {
        for (peer, address, port) in [
            (Some("10.0.0.1:7"), "10.0.0.1", "7"),
            (Some("[::ffff:10.0.0.1]:7"), "10.0.0.1", "7"),
            (Some("[::1]:65535"), "::1", "65535"),
            (None, "", ""),
        ] {
            let client = client(&listener(false), peer.map(|peer| peer.parse().unwrap()), &Trust::default());
            assert_eq!((&*client.address, &*client.port), (address, port));
        }
    }

    #[test]
    fn somebody_waits_once_a_client_has_connected() {
        let listener = listener(false);
        assert!(!has_somebody(&listener));
        let address = rustix::net::getsockname(&listener.socket).unwrap();
        let mut client = std::net::TcpStream::connect(SocketAddr::try_from(address).unwrap()).unwrap();
        // Without a byte the kernel would keep it to itself for a second.
        io::Write::write_all(&mut client, b"G").unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while !has_somebody(&listener) {
            assert!(std::time::Instant::now() < end, "nobody has come");
        }
    }

    #[test]
    fn those_who_look_at_the_servers_pages_have_places_of_their_own() {
        assert_eq!(kind_of(&listener(false)), Kind::Connection);
        assert_eq!(kind_of(&listener(true)), Kind::Page);
    }
}
