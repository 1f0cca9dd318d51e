//! Bytes of a response that its client has not taken and that are too many for memory: a file without a name.
//!
//! A disk may be slow or hang, so all that may touch it, down to the closing of the file, is done by threads of tokio's
//! blocking pool, a few at a time. The connection's task starts one job to write and one to send, hears from
//! [`ResponseSpool::poll`] how they went, and looks after its client and its worker meanwhile. `queue` calls this.

use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use howdah_accesslog::with_way_in;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use crate::capacity::Permit;
use crate::config::Config;
use crate::outflow::holding::Holding;
use crate::transport::Transport;

/// Bytes to read in one job, where the kernel cannot send them by itself; and where no memory is left for so many.
const AHEAD: u64 = 256 << 10;
const LEAST: u64 = 16 << 10;
/// Bytes to send in one job.
const TURN: u64 = 1 << 20;
/// A write takes milliseconds; one that takes so many nanoseconds is in trouble.
const LATE: u64 = 3_000_000_000;
/// A file that has so many bytes gets no more: those behind go to another one. The place of what was sent goes back to
/// the disk with a whole file. A hole in one would not do: the kernel may still have the pages on their way, and a large
/// page of which only a part goes is filled with zeros there.
const PART: u64 = 64 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct ResponseSpool {
    /// In the order in which they are sent. Only the last one is written to.
    parts: VecDeque<Part>,
    /// The client's socket, for the threads that send, and its place; none where they only read, because what is sent must be sealed.
    socket: Option<Arc<(OwnedFd, Permit)>>,
    /// What they have read, and how much of it is sent.
    ahead: (Vec<u8>, usize),
    /// Bytes of memory that we have of the server's stock for that.
    held: u64,
    /// What we have of the server's stock.
    taken: u64,
    /// The descriptor of a part that is about to be.
    coming: Option<Permit>,
    writing: Writing,
    sending: Option<Job<io::Result<Done>>>,
    holding: &'static Holding,
}

#[derive(Debug)]
struct Part {
    file: Arc<File>,
    written: u64,
    sent: u64,
    _permit: Option<Permit>,
}

#[derive(Debug)]
enum Writing {
    No,
    /// Until it is our turn nothing is taken out of memory.
    Waits(Job<OwnedSemaphorePermit>),
    Turn(OwnedSemaphorePermit),
    /// Since when, in monotonic nanoseconds.
    Busy(JoinHandle<Written>, u64),
}

/// A job that waits for its turn. Nobody begins it once this is dropped: on a disk that hangs, the turn may never come.
#[derive(Debug)]
struct Job<T>(JoinHandle<T>);

impl<T> Job<T> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Bytes that were not sent before `from`, and what has become of them.
#[derive(Debug)]
struct Written {
    /// Where they are, when it is not the last part.
    new: Option<Arc<File>>,
    bytes: Vec<u8>,
    from: usize,
    outcome: io::Result<()>,
}

/// What the client has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) bytes: u64,
    /// The client takes no more.
    pub(crate) blocked: bool,
}

/// What a thread has done of sending.
#[derive(Debug)]
enum Done {
    Sent(Taken),
    Read(Vec<u8>),
}

/// What [`ResponseSpool::poll`] has to tell.
#[derive(Debug)]
pub(crate) enum Progress {
    /// It is our turn to write.
    Turn,
    /// What was to be written is in the file.
    Written,
    /// It is not: here it is again, to be sent from this byte on.
    Refused(Vec<u8>, usize, io::Error),
    /// So much is out.
    Sent(Taken),
    /// There is something for [`ResponseSpool::send`].
    Read,
    /// The client is gone, or the file cannot be read.
    Broken(io::Error),
}

impl ResponseSpool {
    /// For the client at the other end of `transport`. There is no file before there is something to write.
    pub(crate) fn new(transport: &Transport, holding: &'static Holding) -> io::Result<Self> {
        let permit = transport.is_plain().then(|| holding.permit()).transpose()?;
        let socket = permit.map(|permit| transport.duplicate().map(|socket| Arc::new((socket, permit))));
        Ok(Self {
            parts: VecDeque::new(),
            socket: socket.transpose()?,
            ahead: (Vec::new(), 0),
            held: 0,
            taken: 0,
            coming: None,
            writing: Writing::No,
            sending: None,
            holding,
        })
    }

    /// True while it has something for the client.
    pub(crate) fn holds(&self) -> bool {
        self.next().is_some() || matches!(self.writing, Writing::Busy(..))
    }

    /// What is to be sent next.
    fn next(&self) -> Option<&Part> {
        self.parts.front().filter(|part| part.sent < part.written)
    }

    /// True when it has had its time: nothing is left in it, and nobody wants to put anything into it.
    pub(crate) fn is_through(&self) -> bool {
        !self.holds() && matches!(self.writing, Writing::No)
    }

    /// True when the disk has been busy with one write for too long.
    pub(crate) fn is_late(&self, now: u64) -> bool {
        matches!(self.writing, Writing::Busy(_, since) if now > since + LATE)
    }

    /// Whether it can take bytes now. When it is not its turn, [`Progress::Turn`] will tell.
    pub(crate) fn is_ready(&mut self) -> bool {
        if let Writing::No = self.writing {
            let disk = Arc::clone(&self.holding.disk);
            self.writing = match Arc::clone(&disk).try_acquire_owned() {
                Ok(turn) => Writing::Turn(turn),
                Err(_) => Writing::Waits(Job(tokio::spawn(turn(disk)))),
            };
        }
        matches!(self.writing, Writing::Turn(_))
    }

    /// Lets others have a turn that was not used.
    pub(crate) fn stand_back(&mut self) {
        if let Writing::Turn(_) | Writing::Waits(_) = self.writing {
            self.writing = Writing::No;
        }
    }

    /// Begins to write `bytes` from `from` on. False when the stock of all responses does not allow it, and nothing
    /// was taken. It must be ready.
    ///
    /// # Errors
    /// When no descriptor is left for another file; then nothing was taken either.
    pub(crate) fn write(&mut self, bytes: &mut Vec<u8>, from: usize) -> io::Result<bool> {
        let length = (bytes.len() - from) as u64;
        let last = self.parts.back().filter(|part| part.written < PART);
        let last = last.map(|part| (Arc::clone(&part.file), part.written));
        if last.is_none() && self.coming.is_none() {
            self.coming = Some(self.holding.permit()?);
        }
        let turn = match std::mem::replace(&mut self.writing, Writing::No) {
            Writing::Turn(turn) => turn,
            other => {
                self.writing = other;
                return Ok(false);
            }
        };
        if !self.holding.stock.files.take(length) {
            return Ok(false);
        }
        self.taken += length;
        let (bytes, config) = (std::mem::take(bytes), Arc::clone(&self.holding.config));
        self.writing = Writing::Busy(
            spawn_blocking(move || {
                let _turn = turn;
                write(&config, last, bytes, from)
            }),
            self.holding.clock.now(),
        );
        Ok(true)
    }

    /// Begins to send, when there is something and nothing is being sent; what was read ahead is sent here. Gives what
    /// has gone out by that.
    pub(crate) fn send(&mut self, transport: &mut Transport) -> io::Result<Taken> {
        let sent = self.send_ahead(transport)?;
        let busy = self.sending.is_some() || sent.blocked;
        let Some(part) = self.next().filter(|_| !busy) else { return Ok(sent) };
        let (file, mut range) = (Arc::clone(&part.file), part.sent..part.written);
        let client = self.socket.clone();
        if client.is_some() {
            // What epoll says from here on is news: the other thread finds out what was true before.
            transport.forget_writable()?;
        } else {
            range.end = range.start + self.hold_ahead(range.end - range.start);
        }
        let turn = turn(Arc::clone(&self.holding.disk));
        self.sending = Some(Job(tokio::spawn(async move {
            let turn = turn.await;
            spawn_blocking(move || {
                let _turn = turn;
                match client {
                    Some(client) => send_of_file(&file, &client.0, range).map(Done::Sent),
                    None => read(&file, range).map(Done::Read),
                }
            })
            .await?
        })));
        Ok(sent)
    }

    /// How many of so many bytes are to be read. The memory counts with what responses hold: there may be many of which the clients take
    /// a little at a time.
    fn hold_ahead(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(AHEAD);
        if !self.holding.stock.memory.take(bytes) {
            return bytes.min(LEAST);
        }
        self.held += bytes;
        bytes
    }

    fn release_ahead(&mut self) {
        self.holding.stock.memory.give(std::mem::take(&mut self.held));
    }

    fn send_ahead(&mut self, transport: &Transport) -> io::Result<Taken> {
        let mut sent = Taken::default();
        let (bytes, from) = &mut self.ahead;
        while *from < bytes.len() && !sent.blocked {
            match transport.try_write(&bytes[*from..]) {
                Ok(written) => {
                    *from += written;
                    sent.bytes += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sent.blocked = true,
                Err(error) => return Err(error),
            }
        }
        // Else nothing was read, or is about to be.
        if *from > 0 && *from == bytes.len() {
            self.ahead = (Vec::new(), 0);
            self.release_ahead();
        }
        self.count(sent.bytes);
        Ok(sent)
    }

    /// How the jobs go.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Progress> {
        if let Some(sending) = &mut self.sending
            && let Poll::Ready(outcome) = sending.poll(context)
        {
            self.sending = None;
            return Poll::Ready(match outcome {
                Ok(Ok(Done::Sent(taken))) => {
                    self.count(taken.bytes);
                    Progress::Sent(taken)
                }
                Ok(Ok(Done::Read(bytes))) => {
                    self.ahead = (bytes, 0);
                    Progress::Read
                }
                Ok(Err(error)) => Progress::Broken(error),
                Err(error) => Progress::Broken(error.into()),
            });
        }
        match &mut self.writing {
            Writing::Waits(turn) => turn.poll(context).map(|turn| {
                self.writing = turn.map_or(Writing::No, Writing::Turn);
                Progress::Turn
            }),
            Writing::Busy(job, _) => Pin::new(job).poll(context).map(|outcome| {
                self.writing = Writing::No;
                outcome.map_or_else(|error| Progress::Broken(error.into()), |written| self.written(written))
            }),
            Writing::No | Writing::Turn(_) => Poll::Pending,
        }
    }

    fn count(&mut self, bytes: u64) {
        if let Some(part) = self.parts.front_mut() {
            part.sent += bytes;
        }
        self.shed();
    }

    /// Lets go of parts that are sent, but not of the last, which may just be written to.
    fn shed(&mut self) {
        while self.parts.len() > 1
            && self.next().is_none()
            && let Some(part) = self.parts.pop_front()
        {
            self.give(part.written);
            close(part, &self.holding.disk);
        }
    }

    fn written(&mut self, written: Written) -> Progress {
        let length = (written.bytes.len() - written.from) as u64;
        let permit = self.coming.take();
        let new = written.new.map(|file| Part { file, written: 0, sent: 0, _permit: permit });
        self.parts.extend(new);
        match (written.outcome, self.parts.back_mut()) {
            (Ok(()), Some(part)) => {
                part.written += length;
                self.shed();
                Progress::Written
            }
            (Ok(()), None) => Progress::Broken(io::ErrorKind::NotFound.into()),
            (Err(error), _) => {
                self.give(length);
                Progress::Refused(written.bytes, written.from, error)
            }
        }
    }

    fn give(&mut self, bytes: u64) {
        self.taken -= bytes;
        self.holding.stock.files.give(bytes);
    }
}

impl Drop for ResponseSpool {
    fn drop(&mut self) {
        self.give(self.taken);
        self.release_ahead();
        if self.sending.is_some()
            && let Some(socket) = &self.socket
        {
            // The other thread has the connection, too, which would stay open for as long as the disk takes.
            let _ = rustix::net::shutdown(&socket.0, rustix::net::Shutdown::Both);
        }
        self.parts.drain(..).for_each(|part| close(part, &self.holding.disk));
    }
}

/// Closes a part's file, which frees its place and takes time. Until then its descriptor counts.
fn close(part: Part, disk: &Arc<Semaphore>) {
    let Ok(runtime) = Handle::try_current() else { return };
    let turn = turn(Arc::clone(disk));
    runtime.spawn(async move {
        let _turn = turn.await;
        let _ = spawn_blocking(move || drop(part)).await;
    });
}

#[expect(clippy::expect_used, reason = "nobody closes the semaphore")]
async fn turn(disk: Arc<Semaphore>) -> OwnedSemaphorePermit {
    disk.acquire_owned().await.expect("a semaphore that is never closed")
}

/// On a thread of its own: writes to the last part, or into a new one.
fn write(config: &Config, last: Option<(Arc<File>, u64)>, bytes: Vec<u8>, from: usize) -> Written {
    let (file, at, new) = match last
        .map_or_else(|| create(config).map(|new| (new, 0, true)), |(file, at)| Ok((file, at, false)))
    {
        Ok(place) => place,
        Err(error) => return Written { new: None, bytes, from, outcome: Err(error) },
    };
    let outcome = file.write_all_at(&bytes[from..], at);
    if outcome.is_err() {
        // What was written of it only fills the disk; whether that could be undone changes nothing.
        let _ = file.set_len(at);
    }
    Written { new: new.then_some(file), bytes, from, outcome }
}

fn create(config: &Config) -> io::Result<Arc<File>> {
    let directory = config.spool_dir.clone().unwrap_or_else(std::env::temp_dir);
    tempfile::tempfile_in(&directory).map(Arc::new).map_err(|error| with_way_in(&directory, error))
}

/// Makes a file in `directory` as bodies and responses have them, and lets go of it.
///
/// # Errors
/// The system's.
pub fn try_spool(directory: &Path) -> io::Result<()> {
    tempfile::tempfile_in(directory).map(drop)
}

/// On a thread of its own: reads what is to be sealed and sent.
fn read(file: &File, range: std::ops::Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

/// On a thread of its own: sends what the client takes.
pub(crate) fn send_of_file(
    file: impl AsFd,
    client: &OwnedFd,
    range: std::ops::Range<u64>,
) -> io::Result<Taken> {
    let (mut at, end) = (range.start, range.end.min(range.start + TURN));
    let mut blocked = false;
    while at < end && !blocked {
        let left = (end - at) as usize;
        match rustix::fs::sendfile(client, &file, Some(&mut at), left) {
            // What went out counts, and the next one finds the same.
            Ok(0) if at > range.start => break,
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => blocked = true,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Taken { bytes: at - range.start, blocked })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::outflow::holding::JOBS;
    use crate::sample;
    use crate::sample::world::run;
    use crate::transport::Socket;
    use crate::transport::scripted::Scripted;

    fn client() -> (UnixStream, Transport) {
        let (client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        (client, Transport::Plain(Socket::Fresh(socket.into())))
    }

    /// What the spool has to tell next.
    async fn progress(spool: &mut ResponseSpool) -> Progress {
        tokio::time::timeout(Duration::from_secs(20), poll_fn(|context| spool.poll(context))).await.unwrap()
    }

    #[test]
    fn bytes_go_into_a_file_and_from_there_to_the_client() {
        run(async {
            let (mut client, mut transport) = client();
            let holding = sample::holding(Config::default());
            let mut spool = ResponseSpool::new(&transport, holding).unwrap();
            assert!(spool.is_ready() && !spool.holds());
            let mut bytes = b"sent already, and not".to_vec();
            assert!(spool.write(&mut bytes, 14).unwrap() && bytes.is_empty());
            assert_eq!((spool.holds(), holding.stock.spooled()), (true, 7));
            assert!(matches!(progress(&mut spool).await, Progress::Written));
            spool.send(&mut transport).unwrap();
            assert!(matches!(progress(&mut spool).await, Progress::Sent(Taken { bytes: 7, blocked: false })));
            assert!(!spool.holds() && spool.is_through());
            let mut received = [0; 7];
            client.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"and not");
            drop(spool);
            assert_eq!(holding.stock.spooled(), 0);
        });
    }

    #[test]
    fn what_cannot_be_written_comes_back_whole() {
        run(async {
            let (_client, transport) = client();
            let spool_dir = Some(PathBuf::from("/nonexistent/for/responses"));
            let holding = sample::holding(Config { spool_dir, ..Config::default() });
            let mut spool = ResponseSpool::new(&transport, holding).unwrap();
            assert!(spool.is_ready() && spool.write(&mut b"xbytes".to_vec(), 1).unwrap());
            let Progress::Refused(bytes, from, error) = progress(&mut spool).await else { panic!("written") };
            assert_eq!((&bytes[from..], error.kind()), (&b"bytes"[..], io::ErrorKind::NotFound));
            assert_eq!(holding.stock.spooled(), 0);
        });
    }

    #[test]
    fn beyond_the_bound_nothing_is_taken() {
        run(async {
            let (_client, transport) = client();
            let holding = sample::holding(Config { response_spool: 5, ..Config::default() });
            let mut spool = ResponseSpool::new(&transport, holding).unwrap();
            let mut bytes = b"too much".to_vec();
            assert!(spool.is_ready() && !spool.write(&mut bytes, 0).unwrap());
            assert_eq!((bytes.as_slice(), holding.stock.spooled()), (&b"too much"[..], 0));
        });
    }

    #[test]
    fn only_so_many_write_at_once_and_the_others_are_told_of_their_turn() {
        run(async {
            let (_client, transport) = client();
            let holding = sample::holding(Config::default());
            let turns: Vec<_> =
                std::iter::from_fn(|| Arc::clone(&holding.disk).try_acquire_owned().ok()).collect();
            let mut spool = ResponseSpool::new(&transport, holding).unwrap();
            assert!(!spool.is_ready());
            assert!(!spool.write(&mut b"x".to_vec(), 0).unwrap(), "it is not its turn");
            drop(turns);
            assert!(matches!(progress(&mut spool).await, Progress::Turn));
            assert!(spool.is_ready());
            spool.stand_back();
            assert!(spool.is_through());
        });
    }

    #[test]
    fn what_is_read_ahead_counts_as_memory_and_is_little_where_that_is_short() {
        run(async {
            // Memory of which the first one leaves little.
            let holding = sample::holding(Config { response_buffer: 5000, ..Config::default() });
            let all = 64 * 5000;
            let mut spools = Vec::new();
            for expected in [AHEAD, LEAST, LEAST] {
                let script = Scripted::new([]);
                script.take(0);
                let mut transport = Transport::Scripted(script.clone());
                let mut spool = ResponseSpool::new(&transport, holding).unwrap();
                assert!(spool.is_ready() && spool.write(&mut vec![b'x'; 300_000], 0).unwrap());
                assert!(matches!(progress(&mut spool).await, Progress::Written));
                spool.send(&mut transport).unwrap();
                assert!(matches!(progress(&mut spool).await, Progress::Read));
                assert_eq!(spool.ahead.0.len() as u64, expected);
                assert!(!holding.stock.memory.take(all - AHEAD + 1));
                assert!(spool.send(&mut transport).unwrap().blocked);
                spools.push((spool, script, transport));
            }
            let (mut spool, script, mut transport) = spools.swap_remove(0);
            script.take(AHEAD as usize);
            assert_eq!(spool.send(&mut transport).unwrap().bytes, AHEAD);
            assert!(matches!(progress(&mut spool).await, Progress::Read));
            assert_eq!(spool.ahead.0.len() as u64, 300_000 - AHEAD, "the rest");
            drop((spool, spools));
            assert!(holding.stock.memory.take(all), "all is given back");
        });
    }

    #[test]
    fn who_needs_no_turn_any_more_waits_for_none() {
        run(async {
            let (_client, transport) = client();
            let holding = sample::holding(Config::default());
            let mut spool = ResponseSpool::new(&transport, holding).unwrap();
            for gone in [false, true] {
                let turns: Vec<_> =
                    std::iter::from_fn(|| Arc::clone(&holding.disk).try_acquire_owned().ok()).collect();
                assert!(!spool.is_ready());
                tokio::task::yield_now().await;
                if gone {
                    spool = ResponseSpool::new(&transport, holding).unwrap();
                } else {
                    spool.stand_back();
                }
                tokio::task::yield_now().await;
                drop(turns);
                assert_eq!(holding.disk.available_permits(), JOBS, "{gone}");
            }
        });
    }

    #[test]
    fn a_client_that_is_gone_before_its_turn_leaves_no_descriptor() {
        run(async {
            let (_client, mut transport) = client();
            let holding = sample::holding(Config::default());
            let mut spool = ResponseSpool::new(&transport, holding).unwrap();
            assert!(spool.is_ready() && spool.write(&mut b"x".to_vec(), 0).unwrap());
            assert!(matches!(progress(&mut spool).await, Progress::Written));
            let turns: Vec<_> =
                std::iter::from_fn(|| Arc::clone(&holding.disk).try_acquire_owned().ok()).collect();
            assert_eq!(turns.len(), JOBS);
            spool.send(&mut transport).unwrap();
            tokio::task::yield_now().await;
            let socket = Arc::downgrade(spool.socket.as_ref().unwrap());
            drop((spool, transport));
            tokio::task::yield_now().await;
            assert!(socket.upgrade().is_none(), "its socket is closed");
        });
    }

    #[test]
    fn a_client_that_is_gone_is_noticed() {
        run(async {
            let (client, mut transport) = client();
            let mut spool = ResponseSpool::new(&transport, sample::holding(Config::default())).unwrap();
            assert!(spool.is_ready() && spool.write(&mut b"x".to_vec(), 0).unwrap());
            assert!(matches!(progress(&mut spool).await, Progress::Written));
            drop(client);
            spool.send(&mut transport).unwrap();
            assert!(matches!(progress(&mut spool).await, Progress::Broken(_)));
        });
    }

    #[test]
    fn a_write_that_takes_for_ever_is_late() {
        run(async {
            let (_client, transport) = client();
            let holding = sample::holding(Config::default());
            let mut spool = ResponseSpool::new(&transport, holding).unwrap();
            assert!(!spool.is_late(u64::MAX), "nothing is being written");
            assert!(spool.is_ready() && spool.write(&mut b"x".to_vec(), 0).unwrap());
            let now = holding.clock.now();
            assert!(!spool.is_late(now + LATE) && spool.is_late(now + LATE + 1));
        });
    }
}
