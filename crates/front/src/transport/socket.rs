//! A client's connection, TCP or Unix, as a non-blocking descriptor.
//!
//! A connection that is read, answered and closed without ever having to wait is never registered with epoll: the
//! descriptor joins the event loop when a wait first needs it.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_sys::shortage::{may_pass_later, with_way_out};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::repeated::Repeated;

/// See the module.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Not known to epoll.
    Fresh(OwnedFd),
    /// Registered.
    Watched(AsyncFd<OwnedFd>),
    /// Between the two, or lost because registration failed.
    Gone,
}

impl Socket {
    /// Reads what is there.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self.descriptor()?, buffer)
    }

    /// Copies what is there, and leaves it to be read.
    pub(crate) fn try_peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.descriptor()?, buffer, RecvFlags::DONTWAIT | RecvFlags::PEEK)?.0)
    }

    /// Waits until more has come than there was at the last look.
    pub(crate) fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A descriptor that has just joined is told of what it has already: a look too many, once.
        let mut guard = ready!(self.watched()?.poll_read_ready(context))?;
        guard.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// Reads, or waits until it can.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.watched()?.poll_read_ready(context))?;
            match receive(guard.get_inner().as_fd(), buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Ok(length) => {
                    if length < buffer.len() {
                        // The kernel has no more now; epoll will say when it does.
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(length));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Writes what the kernel takes now.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        send(self.descriptor()?, &[IoSlice::new(bytes)], NOW)
    }

    /// Writes what the kernel takes now, and has it wait for what somebody else is about to write behind it.
    pub(crate) fn try_write_ahead(&self, bytes: &[u8]) -> io::Result<usize> {
        send(self.descriptor()?, &[IoSlice::new(bytes)], NOW | SendFlags::MORE)
    }

    /// Writes several runs as one.
    pub(crate) fn try_write_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        send(self.descriptor()?, runs, NOW)
    }

    /// Writes the last that there is to say. When the kernel takes all of it our side is ended, by the same segment.
    pub(crate) fn try_write_last(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        let sent = send(self.descriptor()?, runs, NOW | SendFlags::MORE)?;
        // Otherwise the rest follows, which pushes what waits.
        if sent == length(runs) {
            self.shut_write();
        }
        Ok(sent)
    }

    /// Sends part of a file.
    pub(crate) fn try_send_file(
        &self,
        file: BorrowedFd<'_>,
        mut from: u64,
        length: usize,
    ) -> io::Result<usize> {
        Ok(rustix::fs::sendfile(self.descriptor()?, file, Some(&mut from), length)?)
    }

    /// Waits until a write that would have blocked may be tried again. `stale` says that nothing but this has been
    /// polled since: what epoll has said until then is outdated, what it says from then on is not.
    pub(crate) fn poll_writable(
        &mut self,
        context: &mut Context<'_>,
        stale: &mut bool,
    ) -> Poll<io::Result<()>> {
        let socket = self.watched()?;
        loop {
            let Poll::Ready(guard) = socket.poll_write_ready(context) else {
                *stale = false;
                return Poll::Pending;
            };
            let mut guard = guard?;
            if !std::mem::take(stale) {
                return Poll::Ready(Ok(()));
            }
            guard.clear_ready();
        }
    }

    /// Forgets that epoll has called the socket writable, before somebody else writes.
    pub(crate) fn forget_writable(&mut self) -> io::Result<()> {
        match self.watched()?.try_io(Interest::WRITABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into())) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Bytes that have been written and have not arrived at the client.
    pub(crate) fn outstanding(&self) -> u64 {
        self.descriptor().and_then(howdah_sys::outstanding).unwrap_or(0)
    }

    /// Whether all that has come from the client was read.
    pub(crate) fn is_read(&self) -> bool {
        self.descriptor().is_ok_and(|fd| rustix::io::ioctl_fionread(fd) == Ok(0))
    }

    /// Acknowledges what the client has sent, at once: it may hold back more until then (Nagle's algorithm, RFC 9293
    /// 3.7.4), and the kernel waits for 40 ms whether we say something that could carry it.
    pub(crate) fn acknowledge(&self) {
        if let Ok(fd) = self.descriptor() {
            let _ = rustix::net::sockopt::set_tcp_quickack(fd, true);
        }
    }

    /// Has the kernel take no more than about so many bytes that it cannot send yet: whatever is said later waits for these.
    pub(crate) fn limit_unsent(&self, bytes: u32) {
        if let Ok(fd) = self.descriptor() {
            let _ = SockRef::from(&fd).set_tcp_notsent_lowat(bytes);
        }
    }

    /// Has the connection reset when it is closed: what the client has not taken is forgotten.
    pub(crate) fn reset(&self) {
        if let Ok(fd) = self.descriptor() {
            let _ = rustix::net::sockopt::set_socket_linger(fd, Some(Duration::ZERO));
        }
    }

    /// What has become of the client, as far as can be told without reading. To look at its next byte would not do:
    /// what it has sent before hides its end, and its end hides that the connection was reset later.
    pub(crate) fn peer(&self) -> Peer {
        let Ok(fd) = self.descriptor() else { return Peer::Gone };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)];
        if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err() {
            return Peer::There;
        }
        let seen = fds[0].revents();
        if seen.intersects(PollFlags::HUP | PollFlags::ERR) {
            Peer::Gone
        } else if seen.contains(PollFlags::RDHUP) {
            Peer::Silent
        } else {
            Peer::There
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn shut_write(&self) {
        if let Ok(fd) = self.descriptor() {
            let _ = rustix::net::shutdown(fd, Shutdown::Write);
        }
    }

    /// Makes sure that `sendfile`, which has no flag for it, does not block.
    pub(crate) fn never_block(&self) {
        if let Ok(fd) = self.descriptor() {
            let _ = rustix::io::ioctl_fionbio(fd, true);
        }
    }

    /// The first read is tried at once: with deferred accept the request is there.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh(_))
    }

    pub(crate) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        match self {
            Self::Fresh(fd) => Ok(fd.as_fd()),
            Self::Watched(fd) => Ok(fd.get_ref().as_fd()),
            Self::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// The descriptor, which epoll knows no more.
    pub(crate) fn leave(self) -> Option<OwnedFd> {
        match self {
            Self::Fresh(fd) => Some(fd),
            Self::Watched(fd) => Some(fd.into_inner()),
            Self::Gone => None,
        }
    }

    fn watched(&mut self) -> io::Result<&mut AsyncFd<OwnedFd>> {
        if let Self::Fresh(_) = self
            && let Self::Fresh(fd) = std::mem::replace(self, Self::Gone)
        {
            *self = Self::Watched(howdah_sys::watch(fd).inspect_err(tell_unwatched)?);
        }
        match self {
            Self::Watched(fd) => Ok(fd),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// Such a connection is lost, and its client hears no more than that: so the log says why.
fn tell_unwatched(error: &io::Error) {
    static TOLD: Repeated = Repeated::new();
    if let Some(again) = TOLD.pass() {
        tracing::error!("cannot watch a connection, and closed it: {error}{again}");
    }
}

/// See [`Socket::peer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Nothing speaks against it.
    There,
    /// It has ended its side: it is gone, or it only waits for the response.
    Silent,
    /// The connection is broken.
    Gone,
}

/// Bytes in all of them.
pub(super) fn length(runs: &[IoSlice<'_>]) -> usize {
    runs.iter().map(|run| run.len()).sum()
}

/// Without waiting, and without a signal where the client is gone.
const NOW: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

fn send(fd: BorrowedFd<'_>, runs: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    let sent = match runs {
        [one] => rustix::net::send(fd, one, flags),
        _ => rustix::net::sendmsg(fd, runs, &mut rustix::net::SendAncillaryBuffer::default(), flags),
    };
    sent.map_err(io::Error::from).inspect_err(|error| tell_short("write to", error))
}

fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let received = rustix::net::recv(fd, buffer, RecvFlags::DONTWAIT).map_err(io::Error::from);
    Ok(received.inspect_err(|error| tell_short("read from", error))?.0)
}

/// A connection that ends because the system is short of memory has done nothing wrong, and its client hears no more than that it ends.
fn tell_short(what: &str, error: &io::Error) {
    static TOLD: Repeated = Repeated::new();
    if may_pass_later(error)
        && let Some(again) = TOLD.pass()
    {
        tracing::error!("cannot {what} a connection, and closed it: {}{again}", with_way_out(error));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::sample::heard::heard;

    fn tcp() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// What it comes to be: loopback may take its time.
    fn eventually(server: impl Into<OwnedFd>, wanted: Peer) -> Peer {
        let socket = Socket::Fresh(server.into());
        for _ in 0..500 {
            if socket.peer() == wanted {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        socket.peer()
    }

    fn close(client: TcpStream, reset: bool) {
        let client = socket2::Socket::from(client);
        if reset {
            client.set_linger(Some(Duration::ZERO)).unwrap();
        }
    }

    #[test]
    fn a_client_that_only_ends_its_side_is_silent_whatever_it_has_sent() {
        for sent in ["", "GET /"] {
            let (mut client, server) = tcp();
            client.write_all(sent.as_bytes()).unwrap();
            assert_eq!(eventually(server.try_clone().unwrap(), Peer::There), Peer::There, "{sent}");
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(eventually(server, Peer::Silent), Peer::Silent, "{sent}");
        }
        let (client, server) = UnixStream::pair().unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(eventually(server, Peer::Silent), Peer::Silent);
    }

    #[test]
    fn a_broken_connection_is_gone_whatever_came_before() {
        for sent in ["", "GET /"] {
            let (mut client, server) = tcp();
            client.write_all(sent.as_bytes()).unwrap();
            close(client, true);
            assert_eq!(eventually(server, Peer::Gone), Peer::Gone, "{sent}");
        }
        let (client, server) = UnixStream::pair().unwrap();
        drop(client);
        assert_eq!(eventually(server, Peer::Gone), Peer::Gone);
    }

    #[test]
    fn a_client_that_has_closed_is_gone_once_it_is_written_to() {
        let (client, mut server) = tcp();
        close(client, false);
        assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
        server.write_all(b"data: x").unwrap();
        assert_eq!(eventually(server, Peer::Gone), Peer::Gone);
    }

    /// As epoll refuses any connection beyond its bound, it refuses a directory always.
    #[test]
    fn a_connection_that_cannot_be_watched_is_told_of_and_lost() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let mut socket = Socket::Fresh(std::fs::File::open("/").unwrap().into());
        let lines = heard(|| {
            runtime.block_on(async {
                let mut context = Context::from_waker(std::task::Waker::noop());
                assert!(matches!(socket.poll_more(&mut context), Poll::Ready(Err(_))));
            });
        });
        assert!(
            lines.iter().any(|line| line.contains("cannot watch a connection, and closed it: ")),
            "{lines:?}"
        );
        assert!(matches!(socket, Socket::Gone));
    }

    #[test]
    fn the_last_bytes_arrive_with_the_end_and_those_that_are_not_taken_without_it() {
        for runs in [&[b"all".as_slice()][..], &[b"a", b"", b"ll"]] {
            let (mut client, server) = tcp();
            let (socket, mut heard) = (Socket::Fresh(server.into()), String::new());
            let runs: Vec<_> = runs.iter().map(|run| IoSlice::new(run)).collect();
            assert_eq!(socket.try_write_last(&runs).unwrap(), 3);
            client.read_to_string(&mut heard).unwrap();
            assert_eq!(heard, "all", "and the end, though the descriptor is still open");
        }

        let (mut client, server) = tcp();
        let socket = Socket::Fresh(server.into());
        let many = vec![b'x'; 64 << 20];
        let mut sent = socket.try_write_last(&[IoSlice::new(&many)]).unwrap();
        assert!(sent < many.len());
        let reader = std::thread::spawn(move || {
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).unwrap();
            heard.len()
        });
        while sent < many.len() {
            sent += socket.try_write(&many[sent..]).unwrap_or(0);
            std::thread::sleep(Duration::from_micros(100));
        }
        drop(socket);
        assert_eq!(
            reader.join().unwrap(),
            many.len(),
            "what was not the last after all is followed by the rest"
        );
    }
}
