//! The PROXY protocol: on listeners that want it, a connection begins with a header by which a proxy says whose it is.
//!
//! It is taken once, before TLS and before the first request, and only from those that `--trusted-proxy` names; anybody
//! else is let go at once. The header is looked at while it still lies in the kernel, and when it is whole, exactly its
//! bytes are taken. So what comes behind it is read by `gate` and `h1` as on any connection, and neither knows of it.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use howdah_metrics::Failure;
use howdah_proxied::{Header, LONGEST, Malformed, parse};

use crate::repeated::Repeated;
use crate::request::{Client, Introduced};
use crate::server::Server;
use crate::timers::{Rest, Timer};
use crate::transport::{Peer, Socket};

/// Why a connection is let go.
#[derive(Debug)]
enum Unheard {
    /// Its bytes are no header.
    Malformed(Malformed),
    /// The header, or its end, has not come in time.
    Late,
    /// It is gone, or has to make room.
    Left,
}

impl From<io::Error> for Unheard {
    fn from(_: io::Error) -> Self {
        Self::Left
    }
}

/// Whether somebody may introduce clients to us. Else the log says so.
pub(crate) fn admits(server: &Server, client: &Client) -> bool {
    static REFUSED: Repeated = Repeated::new();
    if client.trusted {
        return true;
    }
    server.records.failure(Failure::BadRequest);
    if let Some(again) = REFUSED.pass() {
        let who = if client.address.is_empty() { "unix" } else { &client.address };
        tracing::warn!(
            "closed a connection from {who} to a listener with proxy-protocol: --trusted-proxy does not name it{again}"
        );
    }
    false
}

/// Hears who the client is. False where the connection is to be closed.
pub(crate) async fn hear(server: &'static Server, socket: &mut Socket, client: &mut Client) -> bool {
    let serves = client.origin.serves;
    let timer = server.timers.start(serves);
    timer.set(Rest::New, server.clock.after(server.config.header_timeout));
    match poll_fn(|context| poll_header(server, &timer, socket, context)).await {
        Ok(header) => {
            introduce(&header, client, &server.config.trusted_proxies);
            true
        }
        Err(why) => {
            why.tell(server, client);
            false
        }
    }
}

impl Unheard {
    fn tell(&self, server: &Server, proxy: &Client) {
        static MALFORMED: Repeated = Repeated::new();
        let peer = &*proxy.address;
        match self {
            Self::Malformed(why) => {
                server.records.failure(Failure::BadRequest);
                if let Some(again) = MALFORMED.pass() {
                    tracing::warn!(peer, "closed the connection of a proxy: {why}{again}");
                }
            }
            Self::Late => {
                server.records.failure(Failure::ReadTimeout);
                tracing::debug!(peer, "closed the connection of a proxy: its PROXY header took too long");
            }
            Self::Left => {}
        }
    }
}

fn poll_header(
    server: &Server,
    timer: &Timer,
    socket: &mut Socket,
    context: &mut Context<'_>,
) -> Poll<Result<Header, Unheard>> {
    let expired = timer.poll_expired(context);
    match poll_whole(socket, context) {
        Poll::Pending if timer.is_unwanted() || server.doors.is_over(timer) => {
            Poll::Ready(Err(Unheard::Left))
        }
        Poll::Pending if expired => Poll::Ready(Err(Unheard::Late)),
        heard => heard,
    }
}

/// Takes the header once all of it is there.
fn poll_whole(socket: &mut Socket, context: &mut Context<'_>) -> Poll<Result<Header, Unheard>> {
    loop {
        match look(socket) {
            Ok(Some(header)) => return Poll::Ready(take(socket, header)),
            Ok(None) => {}
            Err(why) => return Poll::Ready(Err(why)),
        }
        ready!(socket.poll_more(context))?;
    }
}

/// The header as far as it has come; none while it is not whole.
fn look(socket: &Socket) -> Result<Option<Header>, Unheard> {
    let mut input = [0; LONGEST];
    // Whether there is more to come is asked first: what has come before the end is then seen below.
    let ends = socket.peer() != Peer::There;
    let header = match socket.try_peek(&mut input) {
        Ok(length) => parse(&input[..length]).map_err(Unheard::Malformed)?,
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => return Err(error.into()),
    };
    if header.is_none() && ends { Err(Unheard::Left) } else { Ok(header) }
}

fn take(socket: &Socket, header: Header) -> Result<Header, Unheard> {
    let mut said = [0; LONGEST];
    match socket.try_read(&mut said[..header.length]) {
        Ok(length) if length == header.length => Ok(header),
        _ => Err(Unheard::Left),
    }
}

/// From now on the client is the one that the proxy has named; where it has named none, it is the proxy.
fn introduce(header: &Header, client: &mut Client, trust: &howdah_proxied::Trust) {
    let Some((source, destination)) = header.ends else { return };
    let address = source.ip().to_canonical();
    let introduced = Introduced {
        peer: std::mem::replace(&mut client.address, address.to_string().into()),
        server: shown(destination),
    };
    client.port = source.port().to_string().into();
    client.server_port = Some(destination.port());
    client.secure = header.secure;
    // It may be a proxy in turn, which tells of its clients by fields.
    client.trusted = trust.holds(Some(address));
    client.introduced = Some(Arc::new(introduced));
}

fn shown(end: SocketAddr) -> Box<str> {
    end.ip().to_canonical().to_string().into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use howdah_proxied::Trust;

    use super::*;
    use crate::config::Config;
    use crate::sample;
    use crate::sample::world::{World, run};

    const LINE: &str = "PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n";

    fn pair() -> (UnixStream, Socket) {
        let (proxy, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        (proxy, Socket::Fresh(socket.into()))
    }

    #[test]
    fn a_header_is_taken_whole_and_nothing_behind_it() {
        for pieces in
            [vec![LINE, "GET"], vec!["PRO", "XY TCP4 192.0.2.1 198.51.100.1 4711 44", "3\r\n", "GET"]]
        {
            run(async {
                let (mut proxy, mut socket) = pair();
                let mut heard = None;
                for piece in pieces {
                    assert!(heard.is_none() || piece == "GET");
                    proxy.write_all(piece.as_bytes()).unwrap();
                    if heard.is_none() {
                        let hears = poll_fn(|context| poll_whole(&mut socket, context));
                        heard = tokio::time::timeout(Duration::from_millis(50), hears).await.ok();
                    }
                }
                assert_eq!(heard.unwrap().unwrap().length, LINE.len());
                let mut rest = [0; 16];
                assert_eq!((socket.try_read(&mut rest).unwrap(), &rest[..3]), (3, &b"GET"[..]));
            });
        }
    }

    #[test]
    fn who_ends_in_the_middle_is_let_go_and_who_says_all_is_heard() {
        for (said, heard) in
            [("", "Err(Left)"), ("PROXY TC", "Err(Left)"), ("GET / HTTP", "Err(Malformed"), (LINE, "Ok(")]
        {
            run(async {
                let (mut proxy, mut socket) = pair();
                proxy.write_all(said.as_bytes()).unwrap();
                drop(proxy);
                let hears = poll_fn(|context| poll_whole(&mut socket, context));
                let outcome = tokio::time::timeout(Duration::from_secs(10), hears).await.unwrap();
                assert!(format!("{outcome:?}").starts_with(heard), "{said}: {outcome:?}");
            });
        }
    }

    #[test]
    fn what_the_proxy_says_counts_from_then_on() {
        let trust = Trust::new(vec!["10.0.0.0/8".parse().unwrap()]);
        for (header, seen) in [
            (
                "PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n",
                "192.0.2.1 4711 198.51.100.1 443 false 10.0.0.1",
            ),
            ("PROXY TCP4 10.0.0.2 198.51.100.1 4711 80\r\n", "10.0.0.2 4711 198.51.100.1 80 true 10.0.0.1"),
            ("PROXY TCP6 2001:db8::1 ::ffff:1.2.3.4 1 2\r\n", "2001:db8::1 1 1.2.3.4 2 false 10.0.0.1"),
            ("PROXY UNKNOWN\r\n", "10.0.0.1 40000 example.org 0 true 10.0.0.1"),
        ] {
            let mut client = sample::client("10.0.0.1");
            client.trusted = true;
            introduce(&parse(header.as_bytes()).unwrap().unwrap(), &mut client, &trust);
            let Client { address, port, server_port, trusted, .. } = &client;
            let server_port = server_port.unwrap_or(0);
            let shown = format!(
                "{address} {port} {} {server_port} {trusted} {}",
                client.server_name(),
                client.peer()
            );
            assert_eq!(shown, seen, "{header}");
        }
    }

    #[test]
    fn a_header_that_does_not_come_is_waited_for_as_long_as_a_head() {
        run(async {
            let world = World::new(Config { header_timeout: Duration::from_secs(5), ..Config::default() });
            let (mut proxy, mut socket) = pair();
            proxy.write_all(b"PROXY ").unwrap();
            let server = world.thread.entrance.server;
            let hears = tokio::task::spawn_local(async move {
                hear(server, &mut socket, &mut sample::client("10.0.0.1")).await
            });
            for (wait, over) in [(0, false), (4_900, false), (200, true)] {
                world.wait(Duration::from_millis(wait));
                world.run(true).await;
                assert_eq!(hears.is_finished(), over, "{wait}");
            }
            assert!(!hears.await.unwrap());
            assert_eq!(proxy.read(&mut [0; 1]).unwrap_or(0), 0, "closed");
        });
    }
}
