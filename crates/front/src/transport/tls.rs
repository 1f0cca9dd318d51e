//! A connection with TLS over its socket. What the client says is read into a buffer that all connections of the thread share, and
//! opened into the reader's; what it is told is sealed into another such buffer, and sent at once.
//!
//! Nobody above has to know that what is sealed cannot be sealed again. When the kernel does not take all of it, the rest is
//! kept here, and the last byte is *owed*: it is said not to be written until the rest is out. So whoever writes waits, as
//! for any socket, brings that byte once more, and what is said to be written has left for the client.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::task::{Context, Poll, ready};

use howdah_tls::{Facts, OVERHEAD, Session};

use crate::others::come_back_behind;
use crate::transport::socket::{Peer, Socket, length};

/// Bytes to seal for one send: four records of the largest size.
const MOST: usize = 64 * 1024;
/// What a client hears first is sealed in records of this size at most: it can read none before it has all of it, and of one of 16 KiB
/// a part comes a round trip later, where the kernel begins with ten segments (RFC 6928).
const SMALL: usize = 4 * 1024;
/// Bytes in small records, each time that the client has said something.
const FIRST: usize = 3 * SMALL;
/// Bytes that one read may bring while the session begins.
const GREETING: usize = 16 * 1024;
/// Bytes of records that one read may bring later.
const INTAKE: usize = 64 * 1024;
/// A larger buffer for the beginning of a record is not kept.
const KEEP: usize = 1024;
/// Reads that may bring nothing for those above (the beginning of a record, new keys, empty records) before others have their
/// turn. A client can send such records without end, and opening them takes longer than sending them.
const BARREN: usize = 2;
/// Records to open before others have their turn. Each takes 0.4 microseconds, however little it says: those above, who count what a
/// client says, would let it have a million of them in a turn.
const RECORDS: usize = 256;
/// What the protocol has to say goes out with what it is followed by, when it is not longer than this.
const PREFACE: usize = 8 * 1024;

/// Buffers that all connections of a thread share, each used between two waits.
#[derive(Debug)]
pub(crate) struct Works {
    /// What was read.
    read: RefCell<Box<[u8]>>,
    /// What was sealed.
    sealed: RefCell<Box<[u8]>>,
}

impl Default for Works {
    fn default() -> Self {
        let room = PREFACE + MOST + (FIRST / SMALL + MOST / 16_384 + 2) * OVERHEAD;
        Self { read: RefCell::new(vec![0; INTAKE].into()), sealed: RefCell::new(vec![0; room].into()) }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tls {
    socket: Socket,
    state: RefCell<State>,
    works: &'static Works,
}

#[derive(Debug)]
struct State {
    session: Session,
    /// The beginning of a record.
    rest: Vec<u8>,
    /// What the client said behind its part of the handshake.
    early: Vec<u8>,
    /// Records that were opened since others had their turn.
    opened: usize,
    /// Bytes that were sealed since the client last said something.
    told: usize,
    /// The last byte that was sealed counts as not written.
    owed: bool,
    /// Our side is ended.
    ended: bool,
}

impl Tls {
    /// With a session that has not begun.
    pub(crate) fn new(socket: Socket, session: Session, works: &'static Works) -> Self {
        let (rest, early) = (Vec::new(), Vec::new());
        let state = State { session, rest, early, opened: 0, told: 0, owed: false, ended: false };
        Self { socket, state: RefCell::new(state), works }
    }

    /// What is left where there will be no TLS.
    pub(crate) fn into_socket(self) -> Socket {
        self.socket
    }

    pub(crate) fn facts(&self) -> Facts {
        self.state.borrow().session.facts()
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.state.borrow().session.is_resumed()
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.state.borrow().session.is_handshaking()
    }

    /// Waits for more of the client's part of the handshake. Gives the first byte that it has sent and that was not
    /// understood yet.
    pub(crate) fn poll_greeting(&mut self, context: &mut Context<'_>) -> Poll<io::Result<u8>> {
        let State { rest, .. } = self.state.get_mut();
        let at = rest.len();
        rest.resize(at + GREETING, 0);
        let read = if self.socket.is_fresh() {
            self.socket.try_read(&mut rest[at..])
        } else {
            Err(ErrorKind::WouldBlock.into())
        };
        let read = match read {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.socket.poll_read(context, &mut rest[at..])
            }
            read => Poll::Ready(read),
        };
        rest.truncate(at + if let Poll::Ready(Ok(length)) = read { length } else { 0 });
        match ready!(read)? {
            0 => Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
            _ => Poll::Ready(Ok(rest[0])),
        }
    }

    /// Understands what there is of the client's part of the handshake, which may take a while: here signatures are made.
    pub(crate) fn shake(&mut self) -> io::Result<()> {
        let State { session, rest, early, .. } = self.state.get_mut();
        let opened =
            session.open(rest, early).map_err(|broken| io::Error::new(ErrorKind::InvalidData, broken))?;
        rest.drain(..opened.used);
        if rest.is_empty() {
            *rest = Vec::new(); // there may be many who say nothing for long now
        }
        if rest.len() > 4 * GREETING {
            return Err(io::Error::new(ErrorKind::InvalidData, "a record without end"));
        }
        Ok(())
    }

    /// Whether there is something of the protocol's to be sent.
    pub(crate) fn has_to_say(&self) -> bool {
        !self.state.borrow().session.pending.is_empty()
    }

    /// Sends what the protocol has to say, and waits until all of it is out.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stale = true;
        loop {
            match self.state.get_mut().flush(&self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(self.socket.poll_writable(context, &mut stale))?;
            stale = true;
        }
    }

    /// The client waits for no word of the protocol: what there is may go with the first response.
    pub(crate) fn may_wait(&self) -> bool {
        self.state.borrow().session.is_tls13()
    }

    /// Acknowledges what the client has sent: a part of a request, or its last word of the handshake, of which nothing else tells it
    /// that it has arrived, since what there is to say goes with the first response.
    pub(crate) fn acknowledge(&self) {
        if self.state.borrow().early.is_empty() {
            self.socket.acknowledge();
        }
    }

    /// In the place of a handshake.
    pub(crate) fn say_plainly(&self, words: &[u8]) {
        let _ = self.socket.try_write(words);
        self.socket.shut_write();
    }

    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        for _ in 0..BARREN {
            let state = &mut *self.state.borrow_mut();
            if let Some(done) = state.at_hand(buffer) {
                return done;
            }
            let read = &mut **self.works.read.borrow_mut();
            let length = self.socket.try_read(state.room(read, buffer))?;
            if let Some(done) = state.open(&self.socket, read, buffer, length)? {
                return Ok(done);
            }
        }
        Err(ErrorKind::WouldBlock.into())
    }

    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let state = self.state.get_mut();
        for _ in 0..BARREN {
            if let Some(done) = state.at_hand(buffer) {
                return Poll::Ready(done);
            }
            if state.opened >= RECORDS {
                break;
            }
            let read = &mut **self.works.read.borrow_mut();
            let length = ready!(self.socket.poll_read(context, state.room(read, buffer)))?;
            if let Some(done) = state.open(&self.socket, read, buffer, length)? {
                return Poll::Ready(Ok(done));
            }
        }
        state.opened = 0;
        come_back_behind(context);
        Poll::Pending
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    pub(crate) fn try_write_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write(runs, Socket::try_write)
    }

    /// Writes the last that there is to say. When all of it is out, our end of the protocol follows in the same segment.
    pub(crate) fn try_write_last(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = self.write(runs, Socket::try_write_ahead)?;
        if written == length(runs) {
            self.end();
        }
        Ok(written)
    }

    fn write(
        &self,
        runs: &[IoSlice<'_>],
        try_write: impl Fn(&Socket, &[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let state = &mut *self.state.borrow_mut();
        if state.owed || state.session.pending.len() > PREFACE / 2 {
            state.flush(&self.socket)?;
        }
        let out = &mut **self.works.sealed.borrow_mut();
        let (taken, sealed) = state.seal(runs, out)?;
        let sealed = &out[sealed];
        let sent = match sealed.is_empty() {
            true => 0,
            false => match try_write(&self.socket, sealed) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                sent => sent?,
            },
        };
        state.settle(taken, &sealed[sent..])
    }

    pub(crate) fn poll_writable(
        &mut self,
        context: &mut Context<'_>,
        stale: &mut bool,
    ) -> Poll<io::Result<()>> {
        self.socket.poll_writable(context, stale)
    }

    pub(crate) fn forget_writable(&mut self) -> io::Result<()> {
        self.socket.forget_writable()
    }

    pub(crate) fn outstanding(&self) -> u64 {
        self.socket.outstanding() + self.state.borrow().session.pending.len() as u64
    }

    pub(crate) fn limit_unsent(&self, bytes: u32) {
        self.socket.limit_unsent(bytes);
    }

    pub(crate) fn peer(&self) -> Peer {
        match self.socket.peer() {
            Peer::There if self.state.borrow().session.is_closed() => Peer::Silent,
            peer => peer,
        }
    }

    /// Whether something has come that those above have not read, which may be the protocol's own.
    pub(crate) fn has_more(&self) -> bool {
        let State { early, rest, .. } = &*self.state.borrow();
        !early.is_empty() || !rest.is_empty() || !self.socket.is_read()
    }

    /// Whether the client has yet to say its end of the protocol, as far as has been read.
    pub(crate) fn awaits_end(&self) -> bool {
        !self.state.borrow().session.is_closed()
    }

    pub(crate) fn reset(&self) {
        // An end by the protocol would say that all was sent.
        self.state.borrow_mut().ended = true;
        self.socket.reset();
    }

    pub(crate) fn shut_write(&self) {
        self.end();
        if self.state.borrow().session.pending.is_empty() {
            self.socket.shut_write();
        }
    }

    /// Says that nothing more will be sent, as far as the kernel takes that now.
    pub(crate) fn end(&self) {
        let state = &mut *self.state.borrow_mut();
        if state.close() {
            let _ = state.flush(&self.socket);
        }
    }

    /// Says that nothing more will be sent, and waits until that is out.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.get_mut().close();
        self.poll_flush(context)
    }
}

impl State {
    /// True when our side was not ended before.
    fn close(&mut self) -> bool {
        let closes = !std::mem::replace(&mut self.ended, true);
        if closes {
            self.session.close();
        }
        closes
    }

    /// What needs no look at the socket.
    fn at_hand(&mut self, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        if !self.early.is_empty() {
            let length = self.early.len().min(buffer.len());
            buffer[..length].copy_from_slice(&self.early[..length]);
            self.early.drain(..length);
            if self.early.is_empty() {
                self.early = Vec::new();
            }
            return Some(Ok(length));
        }
        if self.rest.len() >= most(buffer) {
            return Some(Err(io::Error::new(ErrorKind::InvalidData, "a record without end")));
        }
        self.session.is_closed().then_some(Ok(0))
    }

    /// Where in `read` to read to, behind the rest.
    fn room<'a>(&self, read: &'a mut [u8], buffer: &[u8]) -> &'a mut [u8] {
        read[..most(buffer)].get_mut(self.rest.len()..).unwrap_or_default()
    }

    /// Opens what was read behind the rest into `buffer`. None when it says nothing for those above.
    fn open(
        &mut self,
        socket: &Socket,
        read: &mut [u8],
        buffer: &mut [u8],
        length: usize,
    ) -> io::Result<Option<usize>> {
        if length == 0 {
            // Somebody has cut the connection: without its end by the protocol, what has come may not be all.
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let end = self.rest.len() + length;
        read[..self.rest.len()].copy_from_slice(&self.rest);
        let (room, mut left) = (buffer.len(), buffer);
        let opened = self.session.open(&mut read[..end], &mut left).map_err(|broken| {
            // The alert. What else the protocol has to say goes with the next response.
            let _ = self.flush(socket);
            io::Error::new(ErrorKind::InvalidData, broken)
        })?;
        let said = room - left.len();
        self.opened += opened.records;
        if said > 0 {
            self.told = 0;
        }
        self.rest.clear();
        if opened.used < end {
            self.rest.extend_from_slice(&read[opened.used..end]);
        } else if self.rest.capacity() > KEEP {
            self.rest = Vec::new();
        }
        if said == 0 {
            // Who asks the protocol alone, for new keys of TLS 1.2 say, may go on only when it has answered. What does not go out
            // now goes with the next response.
            let _ = self.flush(socket);
        }
        Ok((said > 0 || self.session.is_closed()).then_some(said))
    }

    fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        let pending = &mut self.session.pending;
        while !pending.is_empty() {
            let sent = socket.try_write(pending)?;
            pending.drain(..sent);
        }
        *pending = Vec::new();
        Ok(())
    }

    /// Seals what follows the owed byte, as much of it as goes into one send. Gives how many of the bytes are through with
    /// that, and where in `out` lies what is to be sent.
    fn seal(&mut self, runs: &[IoSlice<'_>], out: &mut [u8]) -> io::Result<(usize, Range<usize>)> {
        let owed = usize::from(self.owed);
        let (mut skip, mut taken, mut end) = (owed, owed, PREFACE);
        for run in runs {
            let known = skip.min(run.len());
            skip -= known;
            let mut run = &run[known..run.len().min(known + MOST + owed - taken)];
            while !run.is_empty() {
                let (now, later) = run.split_at(run.len().min(self.portion()));
                end += self.session.seal(now, &mut out[end..]).map_err(io::Error::other)?;
                self.told += now.len();
                taken += now.len();
                run = later;
            }
        }
        // What the protocol has to say goes first.
        let pending = std::mem::take(&mut self.session.pending);
        let start = PREFACE.checked_sub(pending.len()).ok_or(ErrorKind::InvalidData)?;
        out[start..PREFACE].copy_from_slice(&pending);
        Ok((taken, start..end))
    }

    /// Bytes to seal at once.
    fn portion(&self) -> usize {
        if self.told < FIRST { SMALL } else { MOST }
    }

    /// Keeps what is not out. Gives the bytes that count as written.
    fn settle(&mut self, taken: usize, left: &[u8]) -> io::Result<usize> {
        self.owed = !left.is_empty() && taken > 0;
        self.session.pending.extend_from_slice(left);
        match taken - usize::from(self.owed) {
            0 if taken > 0 => Err(ErrorKind::WouldBlock.into()),
            written => Ok(written),
        }
    }
}

/// Bytes of records to have at once, so that `buffer` has room for what they say.
fn most(buffer: &[u8]) -> usize {
    buffer.len().min(INTAKE)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::thread::JoinHandle;
    use std::time::Duration;

    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use super::*;
    use crate::sample::world::run;
    use crate::sample::{acceptor, forever};

    type Client = StreamOwned<ClientConnection, UnixStream>;

    /// A connection whose handshake is over, and what `client` makes of its end.
    async fn connect<T: Send + 'static>(
        client: impl FnOnce(Client) -> T + Send + 'static,
    ) -> (Tls, JoinHandle<T>) {
        let (acceptor, certificate) = acceptor();
        let (theirs, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let thread = std::thread::spawn(move || {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let builder = ClientConfig::builder_with_provider(provider);
            let builder = builder.with_safe_default_protocol_versions().unwrap();
            let config = builder.with_root_certificates(roots).with_no_client_auth();
            let name = "example.org".try_into().unwrap();
            let session = ClientConnection::new(Arc::new(config), name).unwrap();
            client(StreamOwned::new(session, theirs))
        });
        let mut tls =
            Tls::new(Socket::Fresh(ours.into()), acceptor.session().unwrap(), forever(Works::default()));
        while tls.is_handshaking() {
            poll_fn(|context| tls.poll_greeting(context)).await.unwrap();
            tls.shake().unwrap();
            poll_fn(|context| tls.poll_flush(context)).await.unwrap();
        }
        (tls, thread)
    }

    async fn read(tls: &mut Tls) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; 65_536];
        let length = poll_fn(|context| tls.poll_read(context, &mut buffer)).await?;
        buffer.truncate(length);
        Ok(buffer)
    }

    #[test]
    fn a_client_that_takes_little_at_a_time_has_every_byte_once_and_the_end() {
        run(async {
            let (mut tls, client) = connect(|mut client| {
                client.write_all(b"go on").unwrap();
                let (mut all, mut some) = (Vec::new(), [0; 30_011]);
                loop {
                    match client.read(&mut some) {
                        Ok(0) => return all,
                        read => all.extend_from_slice(&some[..read.unwrap()]),
                    }
                    std::thread::sleep(Duration::from_micros(300));
                }
            })
            .await;
            assert_eq!(read(&mut tls).await.unwrap(), b"go on");
            let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number * 7 / 5) as u8).collect();
            let (mut at, mut blocked) = (0, 0);
            while at < bytes.len() {
                let (first, second) = bytes[at..].split_at((bytes.len() - at).min(1000));
                match tls.try_write_vectored(&[IoSlice::new(b""), IoSlice::new(first), IoSlice::new(second)])
                {
                    Ok(written) => at += written,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        blocked += 1;
                        let mut stale = true;
                        poll_fn(|context| tls.poll_writable(context, &mut stale)).await.unwrap();
                    }
                }
            }
            assert!(blocked > 0 && tls.state.borrow().session.pending.is_empty(), "what is written is out");
            poll_fn(|context| tls.poll_end(context)).await.unwrap();
            drop(tls);
            assert!(client.join().unwrap() == bytes);
        });
    }

    #[test]
    fn the_last_bytes_are_followed_by_our_end_of_the_protocol_where_all_of_them_are_out() {
        run(async {
            let (tls, client) = connect(|mut client| {
                let mut heard = String::new();
                client.read_to_string(&mut heard).map(|_| heard)
            })
            .await;
            assert_eq!(tls.try_write_last(&[IoSlice::new(b"al"), IoSlice::new(b"l")]).unwrap(), 3);
            assert_eq!(client.join().unwrap().unwrap(), "all", "and the connection is still there");
            assert!(tls.state.borrow().session.pending.is_empty());

            let (mut tls, client) = connect(|mut client| {
                std::thread::sleep(Duration::from_millis(100));
                let mut heard = Vec::new();
                let _ = client.read_to_end(&mut heard);
                heard.len()
            })
            .await;
            let (many, mut sent, mut blocked) = (vec![b'x'; 3 << 20], 0, 0);
            while sent < many.len() {
                match tls.try_write_last(&[IoSlice::new(&many[sent..])]) {
                    Ok(more) => sent += more,
                    Err(_) => {
                        assert!(!tls.state.borrow().ended, "there is more to say");
                        blocked += 1;
                        let mut stale = true;
                        poll_fn(|context| tls.poll_writable(context, &mut stale)).await.unwrap();
                    }
                }
            }
            drop(tls);
            assert_eq!((client.join().unwrap(), blocked > 0), (many.len(), true));
        });
    }

    #[test]
    fn what_a_client_has_asked_for_begins_in_small_records() {
        run(async {
            let (mut tls, client) = connect(|mut client| {
                let mut all = Vec::new();
                for _ in 0..2 {
                    client.write_all(b"tell me").unwrap();
                    let (mut lengths, mut head) = (Vec::new(), [0; 5]);
                    while lengths.iter().sum::<usize>() < 100_000 {
                        client.sock.read_exact(&mut head).unwrap();
                        lengths.push(usize::from(u16::from_be_bytes([head[3], head[4]])));
                        client.sock.read_exact(&mut vec![0; lengths[lengths.len() - 1]]).unwrap();
                    }
                    all.push(lengths);
                }
                all
            })
            .await;
            for _ in 0..2 {
                assert_eq!(read(&mut tls).await.unwrap(), b"tell me");
                let (bytes, mut at) = ([b'x'; 100_000], 0);
                while at < bytes.len() {
                    let (first, second) = bytes[at..].split_at((bytes.len() - at).min(200));
                    at += tls.try_write_vectored(&[IoSlice::new(first), IoSlice::new(second)]).unwrap();
                }
            }
            // Beside its tickets, which are short.
            for lengths in client.join().unwrap() {
                let long: Vec<_> = lengths.into_iter().filter(|length| *length > 2048).collect();
                let small = long.iter().take_while(|length| **length <= SMALL + OVERHEAD).count();
                assert_eq!((small, long.iter().any(|length| *length > 16_384)), (3, true), "{long:?}");
            }
        });
    }

    #[test]
    fn while_a_client_says_nothing_in_many_records_others_have_their_turn() {
        run(async {
            let (mut tls, client) = connect(|mut client| {
                client.read_exact(&mut [0]).unwrap(); // so that nothing comes with the end of the handshake
                for words in [b"some", b"more"] {
                    client.write_all(words).unwrap();
                    for _ in 0..30 {
                        client.conn.refresh_traffic_keys().unwrap();
                    }
                }
                client.write_all(b"last").unwrap();
                client
            })
            .await;
            assert_eq!(tls.try_write(b"!").unwrap(), 1);
            let _client = client.join().unwrap();
            // What a read brings is less than what there is of new keys.
            let (mut buffer, mut words, mut polls) = ([0; 64], Vec::new(), 0);
            while !words.ends_with(b"more") {
                let read = poll_fn(|context| {
                    polls += 1;
                    tls.poll_read(context, &mut buffer)
                });
                let length = read.await.unwrap();
                words.extend_from_slice(&buffer[..length]);
            }
            assert!(words == b"somemore" && polls > 5, "{polls} polls");
            assert_eq!(tls.try_read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(read(&mut tls).await.unwrap(), b"last");
        });
    }

    #[test]
    fn while_a_client_says_little_in_many_records_others_have_their_turn() {
        const WORDS: usize = 2000;
        run(async {
            let (mut tls, client) = connect(|mut client| {
                client.read_exact(&mut [0]).unwrap(); // so that nothing comes with the end of the handshake
                for _ in 0..WORDS {
                    client.conn.writer().write_all(b"x").unwrap();
                }
                client.flush().unwrap();
                client
            })
            .await;
            assert_eq!(tls.try_write(b"!").unwrap(), 1);
            let _client = client.join().unwrap();
            // All of it is there, and a read takes no more than so much.
            let (mut buffer, mut words, mut reads, mut polls) = ([0; 10_000], 0, 0, 0);
            while words < WORDS {
                let read = poll_fn(|context| {
                    polls += 1;
                    tls.poll_read(context, &mut buffer)
                });
                (words, reads) = (words + read.await.unwrap(), reads + 1);
            }
            assert!(words == WORDS && polls >= 2 * reads - 1, "{polls} polls for {reads} reads");
        });
    }

    #[test]
    fn the_end_of_a_client_is_told_apart_from_a_cut() {
        run(async {
            let (mut tls, client) = connect(|mut client| {
                client.write_all(b"last").unwrap();
                client.conn.send_close_notify();
                client.flush().unwrap();
                client
            })
            .await;
            assert_eq!(read(&mut tls).await.unwrap(), b"last");
            assert_eq!((read(&mut tls).await.unwrap(), tls.peer()), (Vec::new(), Peer::Silent));
            assert_eq!(tls.try_write(b"answer").unwrap(), 6);
            let mut heard = [0; 6];
            client.join().unwrap().read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"answer");

            let (mut tls, client) = connect(|mut client| {
                client.write_all(b"cut").unwrap();
                client
            })
            .await;
            drop(client.join().unwrap());
            assert_eq!(read(&mut tls).await.unwrap(), b"cut");
            assert!(read(&mut tls).await.is_err(), "no end in order");
        });
    }
}
