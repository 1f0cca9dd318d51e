//! Accepts connections and gives each its task.
//!
//! There may be as many as `capacity` has permits for. When there is none and somebody waits at the door, a connection
//! that rests has to go (`idle`); when none rests, the loop pauses until a place is free, and meanwhile connections are
//! closed behind the response that they get. Who waits, waits in the kernel, in the order in which they came.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_proxied::Trust;
use howdah_sys::shortage::{TABLE_FULL, WithWayOut, with_way_out};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::address::Serves;
use crate::capacity::{Capacity, Kind, Permit};
use crate::doors::Doors;
use crate::gate::{Gate, Place};
use crate::h1;
use crate::introduction;
use crate::listen::{Listener, Origin};
use crate::repeated::Repeated;
use crate::request::Client;
use crate::room::Room;
use crate::server::{Presence, Server};
use crate::sharing::{Guest, Knock};
use crate::transport::{Socket, Transport};

/// Connections to accept before those at hand have their turn.
const TURN: usize = 64;
/// Such turns at the end: more than the kernel keeps by default, and an end where clients never cease.
const TURNS_AT_LAST: usize = 64;
/// How long those wait at the end that have connected already, when there is no room for them.
const WAIT_AT_LAST: Duration = Duration::from_secs(3);
/// How long the first bytes of those are waited for whom the kernel has not handed over for want of them.
const ON_THE_WAY: Duration = Duration::from_millis(200);
/// The longest pause before another look.
const REST: Duration = Duration::from_millis(100);

/// What a turn has come to.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// No further connection waits.
    Empty,
    /// There may be more.
    More,
    /// Somebody waits, and there is no room.
    Full,
    /// The system accepts none: it has no descriptor or no memory, or forbids it.
    Refused(Errno),
    /// As many clients are at the gate as may be.
    Shaking(&'static Gate),
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
        let serves = listener.origin.serves;
        let _open = self.doors.open(serves);
        if serves == Serves::Requests {
            self.server.sharing.open();
        }
        let Some(watched) = self.watch(&listener).await else { return };
        let mut told = false;
        loop {
            let changed = self.doors.changed.notified();
            if self.doors.is_closing(serves) {
                self.accept_the_last(&listener, &watched).await;
                // Whoever comes between the last look and the last close is cut off.
                drop(watched);
                self.accept_some(&listener).await;
                return;
            }
            tokio::select! {
                ready = watched.readable() => match ready {
                    Ok(mut guard) => match self.accept_some(&listener).await {
                        Turn::Empty => {
                            // Another process that has the socket has shut it, which epoll never ceases to tell.
                            let is_shut = guard.ready().is_read_closed();
                            guard.clear_ready();
                            if is_shut && !listener.is_leaving() && !std::mem::replace(&mut told, true) {
                                tracing::error!(
                                    "another process has shut the socket of {}: nobody can connect there any more; start anew",
                                    listener.url
                                );
                            }
                            if is_shut {
                                tokio::time::sleep(REST).await;
                            }
                        }
                        Turn::More => {}
                        turn => self.pause(serves, turn).await,
                    },
                    Err(error) => return tracing::error!("cannot wait for {}: {error}", listener.url),
                },
                () = changed => {}
            }
        }
    }

    /// Has the event loop tell of connections. As long as the kernel refuses that, they are looked for now and then. None at the end.
    async fn watch(self, listener: &Listener) -> Option<AsyncFd<Arc<OwnedFd>>> {
        let mut told = false;
        loop {
            let changed = self.doors.changed.notified();
            let error = match listener.watch() {
                Ok(watched) => return Some(watched),
                Err(error) => error,
            };
            self.accept_some(listener).await;
            if self.doors.is_closing(listener.origin.serves) {
                return None;
            }
            if !std::mem::replace(&mut told, true) {
                let error = with_way_out(&error);
                tracing::error!(
                    "cannot watch {}, which is tried again; who connects there waits for up to {REST:?}: {error}",
                    listener.url
                );
            }
            tokio::select! {
                () = tokio::time::sleep(REST) => {}
                () = changed => {}
            }
        }
    }

    /// Takes those that the kernel has for us already, or will have in a moment: it would cut them off when the socket is
    /// closed.
    async fn accept_the_last(self, listener: &Listener, watched: &AsyncFd<Arc<OwnedFd>>) {
        let (begun, mut turns) = (Instant::now(), 0);
        while turns < TURNS_AT_LAST {
            match self.accept_some(listener).await {
                Turn::Empty => {
                    let left = ON_THE_WAY.saturating_sub(begun.elapsed());
                    if !listener.sees_out() || left.is_zero() {
                        return;
                    }
                    if let Ok(Ok(mut guard)) = tokio::time::timeout(left, watched.readable()).await
                        && !has_somebody(listener)
                    {
                        guard.clear_ready();
                    }
                }
                Turn::More => turns += 1,
                // Whoever leaves makes room for one of them.
                turn if begun.elapsed() < WAIT_AT_LAST => self.pause(listener.origin.serves, turn).await,
                _ => return,
            }
        }
    }

    async fn accept_some(self, listener: &Listener) -> Turn {
        for _ in 0..TURN {
            if let Some(gate) = self.gate_of(&listener.origin).filter(|gate| gate.is_full()) {
                return if has_somebody(listener) { Turn::Shaking(gate) } else { Turn::Empty };
            }
            let Some(permit) = self.room.capacity.enter(listener.origin.serves.into()) else {
                if !has_somebody(listener) {
                    return Turn::Empty;
                }
                if !self.room.dismiss(listener.origin.serves) {
                    return Turn::Full;
                }
                // The one that has to go ends its task.
                tokio::task::yield_now().await;
                continue;
            };
            match rustix::net::acceptfrom_with(&listener.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
            {
                Ok((socket, address)) => {
                    let guest = Guest { socket, address, origin: Arc::clone(&listener.origin), permit };
                    if let Some(guest) = self.hand_on(guest) {
                        self.start(guest);
                    }
                }
                // The latter on TCP when another process has shut the socket.
                Err(Errno::AGAIN | Errno::INVAL) => return Turn::Empty,
                // The connection was gone before it was accepted.
                Err(Errno::CONNABORTED) => {}
                Err(error) => {
                    if is_shortage(error) {
                        self.room.dismiss(listener.origin.serves);
                        self.server.sharing.ask_for_room();
                    }
                    return Turn::Refused(error);
                }
            }
        }
        tokio::task::yield_now().await;
        Turn::More
    }

    /// Until there may be room: a client's place, or the system's means.
    async fn pause(self, serves: Serves, turn: Turn) {
        if let Turn::Shaking(gate) = turn {
            return gate.wait(REST).await;
        }
        let (capacity, kind) = (self.room.capacity, Kind::from(serves));
        tell(capacity, kind, turn);
        let freed = capacity.freed();
        let _crowd = (kind == Kind::Connection).then(|| capacity.crowd());
        match turn {
            // Room has been made since.
            Turn::Full if capacity.has_room(kind) => {}
            Turn::Full => {
                if kind == Kind::Connection {
                    self.server.sharing.ask_for_room();
                }
                drop(tokio::time::timeout(REST, freed).await);
            }
            _ => tokio::time::sleep(REST).await,
        }
    }

    /// Another thread may have it, unless this one is about to end: whoever comes then is waited for here.
    fn hand_on(self, guest: Guest) -> Option<Guest> {
        if self.doors.is_closing(Serves::Requests) { Some(guest) } else { self.server.sharing.hand_on(guest) }
    }

    /// Lets those in whom the first thread has accepted for this one.
    pub(crate) async fn welcome(self, mut knocks: UnboundedReceiver<Knock>) {
        while let Some(knock) = knocks.recv().await {
            match knock {
                Knock::Guest(guest) => match self.gate_of(&guest.origin).filter(|gate| gate.is_full()) {
                    Some(gate) => drop(tokio::task::spawn_local(self.let_in_later(gate, guest))),
                    None => self.let_in(guest),
                },
                Knock::Moved(moved) => {
                    self.server.sharing.arrived(self.server.number);
                    tokio::task::spawn_local(h1::resume(self.server, moved));
                }
                Knock::Room => drop(self.room.dismiss(Serves::Requests)),
                Knock::Closed => self.doors.changed.notify_waiters(),
            }
        }
    }

    async fn let_in_later(self, gate: &'static Gate, guest: Guest) {
        while gate.is_full() {
            gate.wait(REST).await;
        }
        self.let_in(guest);
    }

    fn let_in(self, guest: Guest) {
        self.server.sharing.arrived(self.server.number);
        self.start(guest);
    }

    fn start(self, Guest { socket, address, origin, permit }: Guest) {
        let peer = address.and_then(|address| SocketAddr::try_from(address).ok());
        let gate = self.gate_of(&origin).map(|gate| (gate, gate.place()));
        let client = client(origin, peer, &self.server.config.trusted_proxies);
        let socket = Socket::Fresh(socket);
        if client.origin.proxy_protocol {
            if introduction::admits(self.server, &client) {
                tokio::task::spawn_local(self.introduce(gate, socket, client, permit));
            }
        } else if let Some((gate, place)) = gate {
            tokio::task::spawn_local(self.greet(gate, place, socket, client, permit));
        } else {
            let presence = Presence::new(self.server, permit, client.origin.serves);
            tokio::task::spawn_local(h1::serve(self.server, Transport::Plain(socket), client, presence));
        }
    }

    /// Of those who are to have a handshake. It counts as a connection, and whoever waits for the last one waits for it, from when its
    /// timer starts: the two are compared.
    async fn greet(
        self,
        gate: &'static Gate,
        place: Place<'static>,
        socket: Socket,
        client: Client,
        permit: Permit,
    ) {
        let presence = Presence::new(self.server, permit, client.origin.serves);
        gate.pass(self.server, socket, client, presence, place).await;
    }

    /// Of those who come through a proxy that says who they are, one by one. Whoever is heard is about to have a handshake.
    async fn introduce(
        self,
        gate: Option<(&'static Gate, Place<'static>)>,
        socket: Socket,
        client: Client,
        permit: Permit,
    ) {
        let (mut socket, mut client) = (socket, client);
        let presence = Presence::new(self.server, permit, client.origin.serves);
        let heard = introduction::hear(self.server, &mut socket, &mut client);
        let heard = match &gate {
            Some((gate, _)) => gate.hear_before(heard).await,
            None => heard.await,
        };
        if !heard {
            return;
        }
        match gate {
            Some((gate, place)) => gate.pass(self.server, socket, client, presence, place).await,
            None => h1::serve(self.server, Transport::Plain(socket), client, presence).await,
        }
    }

    fn gate_of(self, origin: &Origin) -> Option<&'static Gate> {
        self.gate.filter(|_| origin.tls)
    }
}

fn client(origin: Arc<Origin>, peer: Option<SocketAddr>, trust: &Trust) -> Client {
    // A client that came by IPv4 to a dual-stack socket is shown by its IPv4 address.
    let address = peer.map(|peer| peer.ip().to_canonical());
    Client {
        address: address.map_or_else(Box::default, |address| address.to_string().into_boxed_str()),
        port: peer.map_or_else(Box::default, |peer| peer.port().to_string().into_boxed_str()),
        secure: false,
        server_port: None,
        trusted: origin.serves == Serves::Requests && trust.holds(address),
        origin,
        tls: None,
        introduced: None,
    }
}

/// Whether a connection waits to be accepted.
fn has_somebody(listener: &Listener) -> bool {
    let mut ready = [PollFd::new(&listener.socket, PollFlags::IN)];
    // Where the look fails, accepting fails too, and says why. A listener that somebody has shut hangs up, and that is nobody.
    poll(&mut ready, Some(&Timespec::default())).is_err() || ready[0].revents().contains(PollFlags::IN)
}

/// Whether that may be over when a connection has made room.
fn is_shortage(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)
}

fn tell(capacity: &Capacity, kind: Kind, turn: Turn) {
    static FULL: Repeated = Repeated::new();
    static REFUSED: Repeated = Repeated::new();
    match turn {
        Turn::Full if FULL.pass().is_some() => {
            tracing::warn!("new connections wait: {}", capacity.reason(kind));
        }
        Turn::Refused(error) if REFUSED.pass().is_some() => {
            let (reason, hint) = (io::Error::from(error), way_out(error));
            tracing::error!("new connections wait, for none can be accepted: {}", WithWayOut(&reason, hint));
        }
        _ => {}
    }
}

fn way_out(error: Errno) -> Option<&'static str> {
    Some(match error {
        Errno::MFILE => "raise the limit of open files (ulimit -n, systemd's LimitNOFILE=)",
        Errno::NFILE => TABLE_FULL,
        Errno::NOMEM | Errno::NOBUFS => "give the machine, or the cgroup (memory.max), memory",
        Errno::ACCESS | Errno::PERM => "a policy of the system, as of SELinux or AppArmor, forbids it",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use howdah_wire::Shape;

    use super::*;
    use crate::address::ListenOptions;
    use crate::config::Config;
    use crate::sample::forever;
    use crate::sample::heard::heard;
    use crate::sample::world::{Terms, World, run};
    use crate::sharing::Sharing;

    fn listener(serves: Serves) -> Listener {
        let options = ListenOptions { serves, ..ListenOptions::default() };
        Listener::bind(&"127.0.0.1:0".parse().unwrap(), &options).unwrap().remove(0)
    }

    #[test]
    fn a_client_is_shown_by_the_address_that_it_has_for_people() {
        for (peer, address, port) in [
            (Some("10.0.0.1:7"), "10.0.0.1", "7"),
            (Some("[::ffff:10.0.0.1]:7"), "10.0.0.1", "7"),
            (Some("[::1]:65535"), "::1", "65535"),
            (None, "", ""),
        ] {
            let client = client(
                listener(Serves::Requests).origin,
                peer.map(|peer| peer.parse().unwrap()),
                &Trust::default(),
            );
            assert_eq!((&*client.address, &*client.port), (address, port));
        }
    }

    #[test]
    fn somebody_waits_once_a_client_has_connected() {
        let listener = listener(Serves::Requests);
        assert!(!has_somebody(&listener));
        let address = rustix::net::getsockname(&listener.socket).unwrap();
        let mut client = std::net::TcpStream::connect(SocketAddr::try_from(address).unwrap()).unwrap();
        // Without a byte the kernel would keep it to itself for a second.
        io::Write::write_all(&mut client, b"G").unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        while !has_somebody(&listener) {
            assert!(Instant::now() < end, "nobody has come");
        }
    }

    #[test]
    fn nobody_waits_at_a_listener_that_was_shut() {
        let listener = listener(Serves::Requests);
        rustix::net::shutdown(&listener.socket, rustix::net::Shutdown::Both).unwrap();
        assert!(!has_somebody(&listener));
    }

    #[test]
    fn what_keeps_the_system_from_accepting_is_waited_out() {
        run(async {
            let world = World::new(Config::default());
            let mut listener = listener(Serves::Requests);
            listener.socket = io::pipe().unwrap().0.into();
            let turn = world.thread.entrance.accept_some(&listener).await;
            assert!(matches!(turn, Turn::Refused(Errno::NOTSOCK)), "{turn:?}");
        });
    }

    #[test]
    fn a_listener_that_the_kernel_does_not_watch_is_tried_again_until_the_end() {
        let said = heard(|| {
            run(async {
                let world = World::new(Config::default());
                let mut listener = listener(Serves::Requests);
                // No file can be watched.
                listener.socket = std::fs::File::open("/proc/self/exe").unwrap().into();
                let mut accepting = Box::pin(world.thread.entrance.accept(listener));
                let begun = tokio::time::timeout(3 * REST, accepting.as_mut()).await;
                assert!(begun.is_err(), "it goes on");
                world.thread.entrance.doors.close(Serves::Requests);
                accepting.await;
            });
        });
        let told: Vec<_> = said.iter().filter(|line| line.contains("cannot watch")).collect();
        assert!(told.len() == 1 && told[0].contains("tried again"), "{said:?}");
    }

    /// A connection that the first thread has accepted for another one, and its client.
    fn guest(world: &World, text: &[u8]) -> (Guest, std::os::unix::net::UnixStream) {
        let (mut client, socket) = std::os::unix::net::UnixStream::pair().unwrap();
        io::Write::write_all(&mut client, text).unwrap();
        client.set_nonblocking(true).unwrap();
        let permit = world.capacity.enter(Kind::Connection).unwrap();
        let guest =
            Guest { socket: socket.into(), address: None, origin: listener(Serves::Requests).origin, permit };
        (guest, client)
    }

    #[test]
    fn a_guest_is_served_where_it_is_let_in() {
        run(async {
            let sharing: &Sharing = forever(Sharing::new(2, true));
            let (_first, knocks) = (sharing.sit_down(0), sharing.sit_down(1));
            let world = World::with(Config::default(), Terms::default(), |setup| {
                let shape = Shape { fronts: 2, workers: 4, slots: 16 };
                setup.pools[0].segment = howdah_sys::create_segment(shape).unwrap().1;
                (setup.sharing, setup.index) = (sharing, 1);
            });
            let entrance = world.thread.entrance;
            tokio::task::spawn_local(entrance.welcome(knocks));
            let mut clients = Vec::new();
            for _ in 0..20 {
                let (guest, client) = guest(&world, b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
                // Those that the first thread keeps are let in as its own.
                sharing.hand_on(guest).into_iter().for_each(|guest| entrance.start(guest));
                world.run(true).await;
                clients.push(client);
            }
            for client in &mut clients {
                let mut received = [0; 15];
                io::Read::read_exact(client, &mut received).unwrap();
                assert_eq!(&received, b"HTTP/1.1 200 OK");
            }
            sharing.open();
            sharing.close();
            assert!(sharing.expects_guests(1), "they are still there");
            drop(clients);
            let end = Instant::now() + Duration::from_secs(10);
            while sharing.expects_guests(1) {
                assert!(Instant::now() < end, "they are not forgotten");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }

    /// What a client has received by now.
    fn received(client: &mut std::os::unix::net::UnixStream) -> String {
        let mut bytes = [0; 4096];
        let length = io::Read::read(client, &mut bytes).unwrap_or_default();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_connection_that_rests_comes_over_as_it_is() {
        let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        // What comes first, how many responses that has before the connection comes over, and whether it does.
        for (first, answered, moves) in [
            (get("/a"), 1, true),
            (get("/a") + &get("/b"), 2, true),
            (get("/a") + "GET /b HT", 1, false),
            ("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_owned(), 1, false),
        ] {
            run(async {
                let sharing: &Sharing = forever(Sharing::new(2, true));
                let mut inboxes = (sharing.sit_down(0), sharing.sit_down(1));
                sharing.open();
                let config = Config { keepalive_requests: 3, ..Config::default() };
                let world = World::with(config, Terms::default(), |setup| setup.sharing = sharing);
                let (entrance, hand_on) = (world.thread.entrance, |text| {
                    let (guest, client) = guest(&world, text);
                    (sharing.hand_on(guest).expect("the first ones stay"), client)
                });
                let (guest, mut client) = hand_on(first.as_bytes());
                let _others: Vec<_> = (0..15).map(|_| hand_on(b"")).collect();
                entrance.start(guest);
                world.run(true).await;
                assert_eq!(received(&mut client).matches("200 OK").count(), answered, "{first}");
                let knock = inboxes.1.try_recv().ok();
                assert_eq!(knock.is_some(), moves, "{first}");
                let Some(Knock::Moved(moved)) = knock else { return };
                assert_eq!(moved.served, answered as u64);
                let open = || world.totals().connections.iter().map(|(_, count)| *count).sum::<u64>();
                assert_eq!((open(), world.totals().accepted), (0, 1), "on its way nobody has it");
                tokio::task::spawn_local(h1::resume(entrance.server, moved));
                world.run(true).await;
                assert_eq!((open(), world.totals().accepted), (1, 1));
                for left in (0..3 - answered).rev() {
                    io::Write::write_all(&mut client, get("/c").as_bytes()).unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    world.run(true).await;
                    let response = received(&mut client);
                    assert!(response.ends_with("\r\n\r\n/c"), "{response}");
                    assert_eq!(response.contains("Connection: close"), left == 0, "requests are counted on");
                }
            });
        }
    }

    #[test]
    fn a_thread_that_closes_hands_nobody_on() {
        run(async {
            let sharing: &Sharing = forever(Sharing::new(2, true));
            let mut inboxes = (sharing.sit_down(0), sharing.sit_down(1));
            let world = World::with(Config::default(), Terms::default(), |setup| setup.sharing = sharing);
            let entrance = world.thread.entrance;
            let handed_on = || (0..20).filter(|_| entrance.hand_on(guest(&world, b"").0).is_none()).count();
            let guests: Vec<_> = (0..16).filter_map(|_| entrance.hand_on(guest(&world, b"").0)).collect();
            assert_eq!((guests.len(), handed_on()), (16, 1));
            drop(inboxes.1.try_recv());
            entrance.doors.close(Serves::Requests);
            assert_eq!(handed_on(), 0);
        });
    }
}
