//! What a connection has for its client and the client has not taken yet: it lies in `output`, beyond the bounds of
//! memory in a `response_spool`, and is sent in order as the client takes it.
//!
//! A client that takes everything at once costs nothing here. One that has to be waited for has a moment in which its
//! response stays where it is, because most are only busy, and longer when bytes arrive at it fast. After that it is
//! *behind*: what the worker makes for it is taken out of the worker's way. `pace` says how slow it may be.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use howdah_wire::RESPONSE_RING;

use crate::conn::Conn;
use crate::pace::Terms;
use crate::registry::Rest;
use crate::response_spool::{Progress, ResponseSpool};
use crate::socket::Peer;
use crate::stream::poll_mail;
use crate::thread::here;

/// While files refuse what a worker has, they are asked again after so long.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// A response goes on with this much memory, whatever the bounds say.
const LEAST_BUFFER: usize = 4096;
/// Bytes that are worth a write behind others in the file.
const PIECE: usize = 64 * 1024;
/// Output that is out is forgotten beyond so many bytes.
const FORGET: usize = 64 * 1024;
/// A disk that has failed is left alone for so long, and one that is full by our own bound.
const DISK_RESTS: Duration = Duration::from_secs(1);
const FULL_RESTS: Duration = Duration::from_millis(100);
/// The log hears of either this often.
const TELL: u64 = 60_000_000_000;

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Woken {
    /// There is something to do.
    Go,
    /// The client has been waited for so long that it is behind.
    Behind,
    /// It is too slow.
    Stalled,
    /// The worker is lost, or the client.
    Lost,
    /// It is time to look at the client's pace.
    Due,
}

impl Conn {
    /// Sends all that is held. False when the client is gone or too slow.
    pub(crate) async fn flush(&mut self) -> bool {
        loop {
            if self.send_held().is_err() {
                return false;
            }
            if !self.holds() {
                return true;
            }
            self.relieve(false);
            match self.wait_for_client(false, false).await {
                Woken::Go | Woken::Behind => {}
                Woken::Stalled | Woken::Lost | Woken::Due => return false,
            }
        }
    }

    /// True while there is something that the client has not taken.
    pub(crate) fn holds(&self) -> bool {
        self.sent < self.output.len() || self.spool.as_ref().is_some_and(|spool| spool.holds())
    }

    /// Sends what is held, until there is no more or the client takes no more.
    pub(crate) fn send_held(&mut self) -> io::Result<()> {
        if let Some(spool) = self.spool.as_mut().filter(|spool| spool.holds()) {
            return if self.reader.is_stuck() { Ok(()) } else { spool.send(&mut self.socket) };
        }
        while self.sent < self.output.len() && !self.reader.is_stuck() {
            match self.socket.try_write(&self.output[self.sent..]) {
                Ok(written) => self.wrote(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.reader.tried(true);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.output.len() {
            self.caught_up();
        }
        Ok(())
    }

    /// Some more of the output is out.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.reader.tried(false);
        self.sent += bytes;
        self.tally.wrote(bytes);
    }

    /// The client has taken everything that was held.
    pub(crate) fn caught_up(&mut self) {
        self.output.clear();
        self.sent = 0;
        if self.reader.behind {
            self.reader.behind = false;
            self.spool = None;
            self.release_memory();
        }
    }

    /// Waits until the client takes more, or the spool has got further; with `news` until there is news of the worker,
    /// too. `starving` says that the worker has something for which there is no room.
    pub(crate) async fn wait_for_client(&mut self, news: bool, starving: bool) -> Woken {
        let (terms, start) = (Terms::of(&here().config), here().clock.now());
        let mut due = self.reader.pace.wait(start, terms);
        let mut since = start;
        loop {
            self.note(Rest::No, due);
            let patience = self.patience(starving);
            let client = poll_fn(|context| self.poll_client(context, news));
            let woken = match patience {
                Some(patience) => tokio::time::timeout(patience, client).await.unwrap_or(Woken::Behind),
                None => client.await,
            };
            let now = here().clock.now();
            self.reader.waited += now.saturating_sub(std::mem::replace(&mut since, now));
            match woken {
                Woken::Due => {
                    if let Some(end) = self.look(terms) {
                        return end;
                    }
                    due = self.reader.pace.wait(now, terms);
                }
                Woken::Behind if !self.is_behind(now) => {}
                woken => return woken,
            }
        }
    }

    /// After how long to look whether the client is behind, or to ask again where there was no room.
    fn patience(&self, starving: bool) -> Option<Duration> {
        match self.reader.behind {
            false => Some(self.reader.patience(here().clock.now())),
            true => starving.then_some(ASK_AGAIN),
        }
    }

    fn is_behind(&mut self, now: u64) -> bool {
        if !self.reader.behind {
            let (arrived, _) = self.arrived();
            self.reader.behind = self.reader.falls_behind(now, arrived);
        }
        self.reader.behind
    }

    /// How many bytes of the response have arrived at the client, and whether none are on their way. The first bytes
    /// may be behind those of an earlier response.
    fn arrived(&self) -> (i64, bool) {
        let on_its_way = self.socket.outstanding();
        (self.tally.sent.cast_signed().saturating_sub_unsigned(on_its_way), on_its_way == 0)
    }

    fn poll_client(&mut self, context: &mut Context<'_>, news: bool) -> Poll<Woken> {
        if news && let Some(woken) = poll_mail(&self.socket, self.key, context) {
            return Poll::Ready(woken);
        }
        {
            let mut registry = here().registry.borrow_mut();
            let entry = registry.get(self.key);
            entry.listen(context);
            if std::mem::take(&mut entry.expired) {
                return Poll::Ready(Woken::Due);
            }
        }
        if let Some(spool) = &mut self.spool
            && let Poll::Ready(progress) = spool.poll(context)
        {
            return Poll::Ready(self.spool_got_on(progress));
        }
        if !self.reader.blocked {
            return Poll::Pending;
        }
        self.socket.poll_writable(context, &mut self.reader.stale).map(|ready| {
            self.reader.blocked = false;
            if ready.is_ok() { Woken::Go } else { Woken::Lost }
        })
    }

    /// Looks at a client that is waited for. One that is too slow is cut off, and the kernel forgets at once what it has
    /// for it. One that has left is noticed by its next write, but a disk that hangs can keep that from coming.
    fn look(&mut self, terms: Terms) -> Option<Woken> {
        let now = here().clock.now();
        if self.spool.as_ref().is_some_and(|spool| spool.is_late(now)) {
            rest_files(DISK_RESTS, &Trouble::Hangs);
        }
        if self.socket.peer() == Peer::Gone {
            return Some(Woken::Lost);
        }
        let (arrived, all) = self.arrived();
        if self.reader.pace.look(now, arrived, all, terms) {
            return None;
        }
        self.tally.too_slow = true;
        self.socket.reset();
        Some(Woken::Stalled)
    }

    /// The client keeps up, and waits for the worker.
    pub(crate) fn wait_for_nobody(&mut self) {
        self.reader.pace.rest();
    }

    /// How many of `available` bytes of a worker there is room for.
    pub(crate) fn room(&mut self, available: usize) -> usize {
        let held = self.output.len() - self.sent;
        if self.may_spool()
            && let Some(spool) = &mut self.spool
        {
            return if spool.is_ready() { RESPONSE_RING.saturating_sub(held).min(available) } else { 0 };
        }
        let room = here().config.response_buffer.max(LEAST_BUFFER).saturating_sub(held).min(available);
        if !self.reader.behind || self.hold(held + room) {
            return room;
        }
        LEAST_BUFFER.saturating_sub(held).min(available)
    }

    /// When the client is behind: sees that what is held is within its bounds, by way of a file. `more` says that the
    /// worker has more than there was room for.
    pub(crate) fn relieve(&mut self, more: bool) {
        let held = self.output.len() - self.sent;
        let wanted = self.reader.behind && held > 0 && self.may_spool() && (more || self.is_much(held));
        match &mut self.spool {
            None if !wanted => {}
            Some(spool) if !wanted => spool.stand_back(),
            None => match ResponseSpool::new(&self.socket) {
                Ok(spool) => {
                    self.spool = Some(Box::new(spool));
                    self.write_spool();
                }
                Err(error) => rest_files(DISK_RESTS, &Trouble::Fails(error)),
            },
            Some(_) => self.write_spool(),
        }
    }

    /// True when so many bytes had better be in a file.
    fn is_much(&mut self, held: usize) -> bool {
        if self.spool.as_ref().is_some_and(|spool| spool.holds()) {
            return held >= PIECE;
        }
        held > here().config.response_buffer || !self.hold(held)
    }

    fn write_spool(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        if !spool.is_ready() {
            return;
        }
        match spool.write(&mut self.output, self.sent) {
            Ok(true) => self.sent = 0,
            Ok(false) => rest_files(FULL_RESTS, &Trouble::Full),
            Err(error) => {
                spool.stand_back();
                rest_files(DISK_RESTS, &Trouble::Fails(error));
            }
        }
    }

    fn may_spool(&self) -> bool {
        let thread = here();
        thread.config.response_spool > 0 && thread.files_rest_until.get() <= thread.clock.now()
    }

    fn spool_got_on(&mut self, progress: Progress) -> Woken {
        match progress {
            Progress::Turn => {}
            Progress::Written => self.release_memory(),
            Progress::Refused(mut bytes, from, error) => {
                bytes.extend_from_slice(&self.output[self.sent..]);
                (self.output, self.sent) = (bytes, from);
                rest_files(DISK_RESTS, &Trouble::Fails(error));
            }
            Progress::Sent(bytes, blocked) => {
                self.tally.wrote(bytes as usize);
                // All that epoll said before was forgotten before the first byte.
                (self.reader.blocked, self.reader.stale) = (blocked, false);
            }
            Progress::Broken => return Woken::Lost,
        }
        if self.spool.as_ref().is_some_and(|spool| spool.is_through()) {
            self.spool = None;
        }
        Woken::Go
    }

    /// Sees that `bytes` of memory are ours. False when there are not so many left for all.
    fn hold(&mut self, bytes: usize) -> bool {
        let more = (bytes as u64).saturating_sub(self.reader.held);
        let granted = more == 0 || here().stock.memory.take(more);
        self.reader.held += if granted { more } else { 0 };
        granted
    }

    fn release_memory(&mut self) {
        here().stock.memory.give(std::mem::take(&mut self.reader.held));
    }

    /// Makes room in front of the output, so that a client that is always a little late does not fill the memory.
    pub(crate) fn forget_sent(&mut self) {
        if self.sent > FORGET && self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }
}

/// Why files take no more.
enum Trouble {
    Full,
    Fails(io::Error),
    Hangs,
}

impl Trouble {
    /// When the log was last told of it, by any thread; 0 for never.
    fn told(&self) -> &'static AtomicU64 {
        static TOLD: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
        match self {
            Self::Full => &TOLD[0],
            Self::Fails(_) => &TOLD[1],
            Self::Hangs => &TOLD[2],
        }
    }

    fn tell(&self) {
        match self {
            Self::Full => tracing::warn!(
                "slow readers have filled --response-spool ({} bytes): workers wait for them; see --min-send-rate",
                here().stock.spool_limit()
            ),
            Self::Fails(error) => tracing::error!(
                "cannot write a response to a file: {error}; meanwhile workers wait for slow readers; see --spool-dir"
            ),
            Self::Hangs => tracing::error!(
                "a response has been written to a file for seconds, the disk seems to hang; meanwhile workers wait \
                 for slow readers; see --spool-dir"
            ),
        }
    }
}

/// Files take no more for a while. The log hears of it, though not each time.
fn rest_files(span: Duration, trouble: &Trouble) {
    let thread = here();
    let now = thread.clock.now();
    thread.files_rest_until.set(thread.clock.after(span));
    let (told, last) = (trouble.told(), trouble.told().load(Relaxed));
    let due = last == 0 || now >= last.saturating_add(TELL);
    if due && told.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
        trouble.tell();
    }
}
