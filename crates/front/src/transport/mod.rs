//! What carries the bytes of a connection: read, write, and what has become of the peer. Everything above sees a
//! [`Transport`] and not which it is.

#[cfg(test)]
pub(crate) mod scripted;
mod stream;
mod tls;
mod socket;
mod share;

use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

pub(crate) use share::Share;
pub(crate) use socket::{Peer, Socket};
pub(crate) use stream::{Stream, Tally};
pub(crate) use tls::{Tls, Works};

/// See the module.
#[derive(Debug)]
pub(crate) enum Transport {
    /// The client's own bytes, on a descriptor.
    Plain(Socket),
    /// Those that TLS makes of them.
    Tls(Box<Tls>),
    /// Those of a stream among others of its connection.
    Stream(Stream),
    /// For tests: bytes by a script.
    #[cfg(test)]
    Scripted(scripted::Scripted),
}

/// Hands a call on to what is there.
macro_rules! each {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self {
            Self::Plain($inner) => $call,
            Self::Tls($inner) => $call,
            Self::Stream($inner) => $call,
            #[cfg(test)]
            Self::Scripted($inner) => $call,
        }
    };
}

impl Transport {
    /// Reads what is there.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        each!(self, inner => inner.try_read(buffer))
    }

    /// Reads, or waits until it can.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, inner => inner.poll_read(context, buffer))
    }

    /// Whether a first read is worth a try before anybody waits.
    pub(crate) fn is_fresh(&self) -> bool {
        if let Self::Plain(socket) = self { socket.is_fresh() } else { false }
    }

    /// Whether the kernel can send files by itself, and another thread write beside us.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Writes what is taken now.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, inner => inner.try_write(bytes))
    }

    /// Writes several runs as one.
    pub(crate) fn try_write_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        each!(self, inner => inner.try_write_vectored(runs))
    }

    /// Writes the last that there is to say, as one. When all of it is taken, our side may be ended with it: a client gets
    /// both in one segment.
    pub(crate) fn try_write_last(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write_last(runs),
            Self::Tls(tls) => tls.try_write_last(runs),
            Self::Stream(stream) => stream.try_write_vectored(runs),
            #[cfg(test)]
            Self::Scripted(script) => script.try_write_last(runs),
        }
    }

    /// Waits until a write that would have blocked may be tried again. `stale` says that nothing but this has been
    /// polled since: what was said until then is outdated, what is said from then on is not.
    pub(crate) fn poll_writable(
        &mut self,
        context: &mut Context<'_>,
        stale: &mut bool,
    ) -> Poll<io::Result<()>> {
        each!(self, inner => inner.poll_writable(context, stale))
    }

    /// Forgets that it was called writable, before somebody else writes.
    pub(crate) fn forget_writable(&mut self) -> io::Result<()> {
        each!(self, inner => inner.forget_writable())
    }

    /// Its descriptor, where bytes that are written to it reach the client as they are: for sending files, and to be lent
    /// to an application.
    pub(crate) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        let Self::Plain(socket) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        socket.descriptor()
    }

    /// Writes what is taken now, ahead of what is written to the descriptor.
    pub(crate) fn try_write_ahead(&self, bytes: &[u8]) -> io::Result<usize> {
        let Self::Plain(socket) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        socket.try_write_ahead(bytes)
    }

    /// A descriptor for another thread.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.descriptor()?.try_clone_to_owned()
    }

    /// Sends part of a file.
    pub(crate) fn try_send_file(&self, file: BorrowedFd<'_>, from: u64, length: usize) -> io::Result<usize> {
        let Self::Plain(socket) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        socket.try_send_file(file, from, length)
    }

    /// Makes sure that sending a file, which has no flag for it, does not block.
    pub(crate) fn never_block(&self) {
        if let Self::Plain(socket) = self {
            socket.never_block();
        }
    }

    /// Bytes that have been written and have not arrived at the client.
    pub(crate) fn outstanding(&self) -> u64 {
        each!(self, inner => inner.outstanding())
    }

    /// Bytes that count as having arrived beside those of the response: its share of what went to others where they used up what the
    /// client takes of all together.
    pub(crate) fn share(&self) -> u64 {
        if let Self::Stream(stream) = self { stream.share() } else { 0 }
    }

    /// Whether all that has come from the client was read, as far as can be told.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Self::Plain(socket) if socket.is_read())
    }

    /// Whether something has come from the client behind what was read. It is a stream's connection that knows what else there is.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Plain(socket) => !socket.is_read(),
            Self::Tls(tls) => tls.has_more(),
            Self::Stream(_) => false,
            #[cfg(test)]
            Self::Scripted(script) => script.has_more(),
        }
    }

    /// Acknowledges what the client has sent, at once. One that says what it has in pieces may hold the next back until then
    /// (RFC 9293 3.7.4), for which a kernel that has nothing to send waits for 40 ms.
    pub(crate) fn acknowledge(&self) {
        match self {
            Self::Plain(socket) => socket.acknowledge(),
            Self::Tls(tls) => tls.acknowledge(),
            Self::Stream(_) => {}
            #[cfg(test)]
            Self::Scripted(_) => {}
        }
    }

    /// Has the kernel take no more than about so many bytes that it cannot send yet.
    pub(crate) fn limit_unsent(&self, bytes: u32) {
        match self {
            Self::Plain(socket) => socket.limit_unsent(bytes),
            Self::Tls(tls) => tls.limit_unsent(bytes),
            Self::Stream(_) => {}
            #[cfg(test)]
            Self::Scripted(_) => {}
        }
    }

    /// What has become of the client.
    pub(crate) fn peer(&self) -> Peer {
        each!(self, inner => inner.peer())
    }

    /// Whether the client has ended its side of the connection, be it a stream that carries this.
    pub(crate) fn has_said_all(&self) -> bool {
        if let Self::Stream(stream) = self { stream.has_said_all() } else { self.peer() == Peer::Silent }
    }

    /// Has the connection reset when it is closed: what the client has not taken is forgotten.
    pub(crate) fn reset(&self) {
        each!(self, inner => inner.reset());
    }

    /// All of a response is out that has told its length. Where that is told by an end as well, the client waits for it.
    pub(crate) fn tell_end(&self) {
        if let Self::Stream(stream) = self {
            stream.tell_end();
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn shut_write(&self) {
        each!(self, inner => inner.shut_write());
    }

    /// Says that nothing more will be sent, once all that was is out.
    pub(crate) fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Self::Tls(tls) = self {
            ready!(tls.poll_end(context))?;
        }
        self.shut_write();
        Poll::Ready(Ok(()))
    }

    /// Whether the client has yet to say that it will send no more, and does so by bytes: when the connection is closed before
    /// they come, they have it reset.
    pub(crate) fn awaits_end(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.awaits_end())
    }

    /// Says that this was all, where the end of the connection alone does not.
    pub(crate) fn end(&self) {
        if let Self::Tls(tls) = self {
            tls.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_connection_is_fresh_until_somebody_has_had_to_wait_for_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_client, socket) = UnixStream::pair().unwrap();
            socket.set_nonblocking(true).unwrap();
            let mut transport = Transport::Plain(Socket::Fresh(socket.into()));
            assert!(transport.is_fresh());
            let read = transport.poll_read(&mut Context::from_waker(std::task::Waker::noop()), &mut [0; 1]);
            assert!(read.is_pending() && !transport.is_fresh());
        });
    }

    #[test]
    fn what_has_come_and_was_not_read_is_known_of_a_plain_transport() {
        let (mut client, socket) = UnixStream::pair().unwrap();
        let transport = Transport::Plain(Socket::Fresh(socket.into()));
        assert!(transport.is_read());
        client.write_all(b"GET").unwrap();
        assert!(!transport.is_read());
        assert_eq!(transport.try_read(&mut [0; 4]).unwrap(), 3);
        assert!(transport.is_read());
        assert!(!Transport::Plain(Socket::Gone).is_read());
    }

    #[test]
    fn a_plain_transport_can_send_files_and_be_lent() {
        let (client, socket) = UnixStream::pair().unwrap();
        let mut transport = Transport::Plain(Socket::Fresh(socket.into()));
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"0123456789", 0).unwrap();
        let file = std::os::fd::AsFd::as_fd(&file);
        assert_eq!(transport.try_send_file(file, 3, 4).unwrap(), 4);
        assert_eq!(transport.try_write_vectored(&[IoSlice::new(b"a"), IoSlice::new(b"b")]).unwrap(), 2);
        let lent = UnixStream::from(transport.duplicate().unwrap());
        drop(transport);
        Write::write_all(&mut &lent, b"!").unwrap();
        let mut read = [0; 16];
        let length = io::Read::read(&mut &client, &mut read).unwrap();
        assert_eq!(&read[..length], b"3456ab!");
        transport = Transport::Plain(Socket::Gone);
        assert_eq!((transport.peer(), transport.outstanding()), (Peer::Gone, 0));
        assert!(transport.descriptor().is_err() && transport.forget_writable().is_err());
    }
}
