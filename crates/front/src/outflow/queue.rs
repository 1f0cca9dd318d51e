//! What a connection has for its client and the client has not taken yet: it lies in memory, beyond the bounds of that in
//! a `response_spool`, and is sent in order as the client takes it.
//!
//! A client that takes everything at once costs nothing here. One that has to be waited for has a moment in which its
//! response stays where it is, because most are only busy, and longer when bytes arrive at it fast. After that it is
//! *behind*: what the worker makes for it is taken out of the worker's way (`relief`). `pace` says how slow it may be.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use howdah_sys::shortage::may_pass_later;

use crate::capacity::Permit;
use crate::outflow::holding::{Holding, Trouble};
use crate::outflow::pace::{Pulse, Terms};
use crate::outflow::postponed::{self, Postponed};
use crate::outflow::reader::Reader;
use crate::outflow::response_spool::{Progress, ResponseSpool, Taken};
use crate::repeated::Repeated;
use crate::timers::{Rest, Timer};
use crate::transport::{Peer, Socket, Transport};

/// While files refuse what a worker has, they are asked again after so long.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Output that is out is forgotten beyond so many bytes.
const FORGET: usize = 64 * 1024;
/// A buffer above this size is not kept between responses.
const KEEP_CAPACITY: usize = 4 * 1024;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What has gone out of one response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    /// What is not body of these and of what is held: the heads, and the framing of chunks. 0 before the body begins.
    framing: u64,
    /// Bytes of the body that had gone out before the last framing.
    body: u64,
    /// When the first of them did, in monotonic nanoseconds.
    pub(crate) first_byte: Option<u64>,
    /// The client was cut off because it read too slowly.
    pub(crate) too_slow: bool,
    /// It broke off because the system refused what it takes to send it.
    pub(crate) lacks: bool,
}

impl Sent {
    /// Bytes of the body. Where several chunks are held their framing counts as sent, so these are rather too few than too many.
    pub(crate) fn body(&self) -> u64 {
        if self.framing == 0 { 0 } else { self.bytes.saturating_sub(self.framing).max(self.body) }
    }
}

/// What there was for the client before a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    held: usize,
    /// Of that, bytes of responses that count as sent.
    postponed: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Outflow {
    pub(crate) transport: Transport,
    pub(super) holding: &'static Holding,
    /// To be sent; `done` bytes of it are.
    pub(super) output: Vec<u8>,
    pub(super) done: usize,
    /// What is to be sent before that: more than memory is for.
    pub(super) spool: Option<Box<ResponseSpool>>,
    /// How the client takes it.
    pub(super) reader: Reader,
    /// Whether it takes note of what it was sent, while nothing waits for it.
    pulse: Pulse,
    /// Bytes of memory that we have of the server's stock.
    pub(super) held: u64,
    sent: Sent,
    /// Of what is held, responses that wait for the next one.
    postponed: Option<Box<Postponed>>,
}

impl Outflow {
    pub(crate) fn new(transport: Transport, holding: &'static Holding) -> Self {
        Self {
            transport,
            holding,
            output: Vec::new(),
            done: 0,
            spool: None,
            reader: Reader::default(),
            pulse: Pulse::default(),
            held: 0,
            sent: Sent::default(),
            postponed: None,
        }
    }

    /// What has gone out since [`Outflow::renew`].
    pub(crate) fn sent(&self) -> Sent {
        self.sent
    }

    /// Another response is to come, to a client that has taken all of the last.
    pub(crate) fn renew(&mut self) {
        self.sent = Sent::default();
        (self.reader, self.pulse) = (Reader::default(), Pulse::default());
        self.release_memory();
        if self.output.capacity() > KEEP_CAPACITY && self.output.is_empty() {
            self.output = Vec::new();
        }
    }

    /// This was all. Says so where the end of the connection alone does not.
    pub(crate) fn end(&mut self) {
        // Nobody waits for a client here.
        let _ = self.send_held();
        self.transport.end();
    }

    /// Gives up what carries the bytes.
    pub(crate) fn take_transport(&mut self) -> Transport {
        std::mem::replace(&mut self.transport, Transport::Plain(Socket::Gone))
    }

    /// Has `put` append something to what is to be sent.
    pub(crate) fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.output);
    }

    /// A body begins, `head` bytes behind what there has been until now.
    pub(crate) fn begin_body(&mut self, head: usize) {
        let all = self.in_memory().saturating_sub(self.postponed()) + head;
        (self.sent.framing, self.sent.body) = (self.sent.bytes + all as u64, 0);
    }

    /// So much of what was put is not body.
    pub(crate) fn frame(&mut self, bytes: usize) {
        self.sent.body = self.sent.body();
        self.sent.framing += bytes as u64;
    }

    /// What is held goes out with the next response, and counts as sent.
    pub(crate) fn postpone(&mut self) {
        let held = self.in_memory();
        let now = self.holding.clock.now();
        let postponed = self.postponed.get_or_insert_with(|| Box::new(Postponed::new(now)));
        let more = held - std::mem::replace(&mut postponed.bytes, held);
        self.note(more);
    }

    /// Whether a response of `length` bytes may wait with those that do.
    pub(crate) fn may_postpone(&self, length: usize) -> bool {
        let is_late = |postponed: &Postponed| postponed.is_late(self.holding.clock.now());
        self.in_memory() + length <= postponed::MOST && !self.postponed.as_deref().is_some_and(is_late)
    }

    /// Sends responses that have waited for the next one for long enough.
    pub(crate) fn poll_postponed(&mut self, context: &mut Context<'_>) {
        while let Some(postponed) = &mut self.postponed
            && postponed.poll_late(context).is_ready()
        {
            let Self { transport, reader, .. } = self;
            if reader.blocked && transport.poll_writable(context, &mut reader.stale).is_pending() {
                return;
            }
            reader.blocked = false;
            if self.send_held().is_err() {
                // The next write fails as well.
                return;
            }
        }
    }

    /// Writes `runs` as one with what is held before them, and holds what the client does not take of that and of the first. Gives how
    /// many bytes of those behind it are out.
    pub(crate) fn write_all(&mut self, runs: &[&[u8]]) -> io::Result<usize> {
        let tried = as_one(&self.output[self.done..], runs, |runs| self.transport.try_write_vectored(runs));
        self.hold_first(runs, tried)
    }

    /// As [`Outflow::write_all`], where nothing follows: our side may be ended with it.
    pub(crate) fn write_last(&mut self, runs: &[&[u8]]) -> io::Result<usize> {
        let tried = as_one(&self.output[self.done..], runs, |runs| self.transport.try_write_last(runs));
        self.hold_first(runs, tried)
    }

    fn hold_first(&mut self, runs: &[&[u8]], tried: io::Result<usize>) -> io::Result<usize> {
        let written = match tried {
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            written => written.inspect_err(|error| self.breaks(error))?,
        };
        self.count(written);
        let of_runs = written.saturating_sub(self.in_memory());
        self.done += written - of_runs;
        if self.in_memory() == 0 {
            self.caught_up();
        }
        let first = runs.first().copied().unwrap_or_default();
        self.output.extend_from_slice(&first[of_runs.min(first.len())..]);
        Ok(of_runs.saturating_sub(first.len()))
    }

    /// Writes what is held and then `first` and `second`. Gives how many bytes of these are out; none when the client takes
    /// no more now.
    pub(crate) fn write_through(&mut self, first: &[u8], second: &[u8]) -> io::Result<Option<usize>> {
        let held = &self.output[self.done..];
        let before = held.len();
        let runs = [held, first, second].map(IoSlice::new);
        let written = match self.transport.try_write_vectored(&runs) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.reader.tried(true);
                return Ok(None);
            }
            written => written.inspect_err(|error| self.breaks(error))?,
        };
        self.wrote(written);
        if written < before {
            return Ok(Some(0));
        }
        self.caught_up();
        Ok(Some(written - before))
    }

    /// Sends all that is held. False when the client is gone or too slow.
    pub(crate) async fn flush(&mut self, timer: &Timer) -> bool {
        loop {
            if self.send_held().is_err() {
                return false;
            }
            if !self.holds() {
                return true;
            }
            self.relieve(false);
            // Few clients are waited for, and every connection has room in memory for what is not in a box.
            match Box::pin(self.wait(timer, false, |_, _| Poll::Pending)).await {
                Woken::Go | Woken::Behind => {}
                Woken::Stalled | Woken::Lost | Woken::Due => return false,
            }
        }
    }

    /// Bytes held in memory.
    pub(crate) fn in_memory(&self) -> usize {
        self.output.len() - self.done
    }

    /// True while there is something that the client has not taken.
    pub(crate) fn holds(&self) -> bool {
        self.in_memory() > 0 || self.spool.as_ref().is_some_and(|spool| spool.holds())
    }

    /// True when the client has to be waited for, or the spool.
    pub(crate) fn is_held_up(&self) -> bool {
        self.holds() || self.reader.blocked || self.spool.is_some()
    }

    /// True when a write would be in vain.
    pub(crate) fn is_stuck(&self) -> bool {
        self.reader.is_stuck()
    }

    /// True when bytes may go past what is held: nothing of it is in a file, and the client keeps up.
    pub(crate) fn is_clear(&self) -> bool {
        !self.reader.behind && self.spool.is_none()
    }

    /// True while the worker is to be kept clear of the client.
    pub(crate) fn is_behind(&self) -> bool {
        self.reader.behind
    }

    /// Sends what is held, until there is no more or the client takes no more.
    pub(crate) fn send_held(&mut self) -> io::Result<()> {
        if !self.send_spooled()? {
            return Ok(());
        }
        while self.in_memory() > 0 && !self.reader.is_stuck() {
            match self.transport.try_write(&self.output[self.done..]) {
                Ok(written) => self.wrote(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.reader.tried(true);
                    return Ok(());
                }
                Err(error) => {
                    self.breaks(&error);
                    return Err(error);
                }
            }
        }
        if self.in_memory() == 0 {
            self.caught_up();
        }
        Ok(())
    }

    /// A write has failed for good.
    fn breaks(&mut self, error: &io::Error) {
        self.sent.lacks |= may_pass_later(error);
    }

    /// Another response is to come, of which [`Outflow::take_back`] may have to take back what there is.
    pub(crate) fn mark(&self) -> Mark {
        Mark { held: self.in_memory(), postponed: self.postponed() }
    }

    /// Bytes of responses that wait for the next one.
    fn postponed(&self) -> usize {
        self.postponed.as_ref().map_or(0, |postponed| postponed.bytes)
    }

    /// Whether it is too late to take anything of the response back. A thread may be sending what is in a file.
    pub(crate) fn has_begun(&self) -> bool {
        self.sent.first_byte.is_some() || self.spool.is_some()
    }

    /// Forgets what is held of the response: something else is to be sent in its place, behind what there was `before`. False
    /// when it is too late.
    pub(crate) fn take_back(&mut self, before: Mark) -> bool {
        let may = !self.has_begun();
        if may {
            let out = before.postponed.saturating_sub(self.postponed());
            self.output.truncate(self.done + before.held.saturating_sub(out));
            self.reader = Reader::default();
            self.release_memory();
        }
        may
    }

    /// Sends what is held, ahead of what somebody else is to write at once. False when there is something left of it.
    pub(crate) fn send_ahead(&mut self) -> bool {
        if self.spool.is_some() || self.reader.blocked {
            return false;
        }
        match self.transport.try_write_ahead(&self.output[self.done..]) {
            Ok(written) => self.wrote(written),
            Err(error) => self.reader.tried(error.kind() == ErrorKind::WouldBlock),
        }
        let all = self.in_memory() == 0;
        if all {
            self.caught_up();
        }
        all
    }

    /// Sends part of a file that is in memory.
    pub(crate) fn try_send_file(
        &mut self,
        file: BorrowedFd<'_>,
        from: u64,
        length: usize,
    ) -> io::Result<Taken> {
        match self.transport.try_send_file(file, from, length) {
            Ok(sent) => {
                self.count(sent);
                Ok(Taken { bytes: sent as u64, blocked: false })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.reader.tried(true);
                Ok(Taken { bytes: 0, blocked: true })
            }
            Err(error) => Err(error),
        }
    }

    /// The plain connection for a thread that is to write to it, which [`Outflow::sent_by_another`] tells of.
    pub(crate) fn duplicate(&mut self) -> io::Result<(OwnedFd, Permit)> {
        let permit = self.holding.permit()?;
        let socket = self.transport.duplicate()?;
        // What epoll says from here on is news: the other thread finds out what was true before.
        self.transport.forget_writable()?;
        Ok((socket, permit))
    }

    /// Another thread has sent so much.
    pub(crate) fn sent_by_another(&mut self, taken: Taken) {
        self.count(taken.bytes as usize);
        // All that epoll said before was forgotten before the first byte.
        (self.reader.blocked, self.reader.stale) = (taken.blocked, false);
    }

    /// Some more of the output is out.
    fn wrote(&mut self, bytes: usize) {
        self.reader.tried(false);
        self.done += bytes;
        self.count(bytes);
    }

    /// So many bytes have gone out. Those of responses that waited were counted before.
    pub(crate) fn count(&mut self, bytes: usize) {
        let Some(postponed) = &mut self.postponed else { return self.note(bytes) };
        let before = bytes.min(postponed.bytes);
        postponed.bytes -= before;
        if postponed.bytes == 0 {
            self.postponed = None;
        }
        if bytes > before {
            self.note(bytes - before);
        }
    }

    fn note(&mut self, bytes: usize) {
        self.sent.bytes += bytes as u64;
        if self.sent.first_byte.is_none() {
            self.sent.first_byte = Some(self.holding.clock.now());
        }
    }

    /// The client has taken everything that was held.
    fn caught_up(&mut self) {
        self.output.clear();
        self.done = 0;
        self.release_memory();
        if self.reader.behind {
            self.reader.behind = false;
            self.spool = None;
        }
    }

    /// Makes room in front of the output, so that a client that is always a little late does not fill the memory.
    pub(crate) fn forget_sent(&mut self) {
        if self.done > FORGET && self.done > self.output.len() / 2 {
            self.output.drain(..self.done);
            self.done = 0;
        }
    }

    /// Waits until the client takes more, or the spool has got further, or `news` says that there is something else.
    /// `starving` says that the worker has something for which there is no room.
    pub(crate) async fn wait(
        &mut self,
        timer: &Timer,
        starving: bool,
        mut news: impl FnMut(&Transport, &Context<'_>) -> Poll<Woken>,
    ) -> Woken {
        let (terms, clock) = (self.holding.terms(), self.holding.clock);
        let mut due = self.reader.pace.wait(clock.served(), terms);
        let mut since = clock.now();
        loop {
            timer.set(Rest::No, due);
            let patience = self.patience(starving);
            let client = poll_fn(|context| {
                if let Poll::Ready(woken) = news(&self.transport, context) {
                    return Poll::Ready(woken);
                }
                self.poll_client(timer, context)
            });
            let woken = match patience {
                Some(patience) => tokio::time::timeout(patience, client).await.unwrap_or(Woken::Behind),
                None => client.await,
            };
            let now = clock.now();
            self.reader.waited += now.saturating_sub(std::mem::replace(&mut since, now));
            match woken {
                Woken::Due => {
                    if let Some(end) = self.look(terms) {
                        return end;
                    }
                    due = self.reader.pace.wait(clock.served(), terms);
                }
                Woken::Behind if !self.falls_behind(now) => {}
                woken => return woken,
            }
        }
    }

    /// The client keeps up, and waits for the worker.
    pub(crate) fn wait_for_nobody(&mut self) {
        self.reader.pace.rest();
    }

    /// Whether the client, which waits for the worker as far as can be seen, is gone without a word: of what it was sent nothing arrives.
    /// It is cut off then. A stream's is its connection's to find out.
    pub(crate) fn is_deaf(&mut self) -> bool {
        let (terms, now) = (self.holding.terms(), self.holding.clock.served());
        if matches!(self.transport, Transport::Stream(_)) || !self.pulse.is_due(now, terms) {
            return false;
        }
        let (arrived, all) = self.arrived();
        let deaf = !self.pulse.look(now, arrived, all, terms);
        if deaf {
            self.cut_off();
        }
        deaf
    }

    /// After how long to look whether the client is behind, or to ask again where there was no room.
    fn patience(&self, starving: bool) -> Option<Duration> {
        match self.reader.behind {
            false => Some(self.reader.patience(self.holding.clock.now())),
            true => starving.then_some(ASK_AGAIN),
        }
    }

    fn falls_behind(&mut self, now: u64) -> bool {
        if !self.reader.behind {
            let (arrived, _) = self.arrived();
            self.reader.behind = self.reader.falls_behind(now, arrived);
        }
        self.reader.behind
    }

    /// How many bytes of the response have arrived at the client, and whether none are on their way. The first bytes
    /// may be behind those of an earlier response.
    fn arrived(&self) -> (i64, bool) {
        let on_its_way = self.transport.outstanding();
        (self.sent.bytes.cast_signed().saturating_sub_unsigned(on_its_way), on_its_way == 0)
    }

    fn poll_client(&mut self, timer: &Timer, context: &mut Context<'_>) -> Poll<Woken> {
        if timer.poll_expired(context) {
            return Poll::Ready(Woken::Due);
        }
        if let Some(spool) = &mut self.spool
            && let Poll::Ready(progress) = spool.poll(context)
        {
            return Poll::Ready(self.spool_got_on(progress));
        }
        if !self.reader.blocked {
            return Poll::Pending;
        }
        self.transport.poll_writable(context, &mut self.reader.stale).map(|ready| {
            self.reader.blocked = false;
            if ready.is_ok() { Woken::Go } else { Woken::Lost }
        })
    }

    fn spool_got_on(&mut self, progress: Progress) -> Woken {
        match progress {
            Progress::Turn | Progress::Read => {}
            Progress::Written => self.release_memory(),
            Progress::Refused(mut bytes, from, error) => {
                bytes.extend_from_slice(&self.output[self.done..]);
                (self.output, self.done) = (bytes, from);
                self.holding.rest_files(&Trouble::Fails(error));
            }
            Progress::Sent(taken) => self.sent_by_another(taken),
            Progress::Broken(error) => {
                self.tell_unsent(&error);
                return Woken::Lost;
            }
        }
        if self.spool.as_ref().is_some_and(|spool| spool.is_through()) {
            self.spool = None;
        }
        Woken::Go
    }

    /// What lies in a file cannot be sent. Where the client has left, that is why.
    fn tell_unsent(&mut self, error: &io::Error) {
        static TOLD: Repeated = Repeated::new();
        if self.transport.peer() == Peer::Gone {
            return;
        }
        self.sent.lacks = true;
        if let Some(again) = TOLD.pass() {
            tracing::error!(
                "cannot send a response that its client takes slowly from its file, and broke it off: {error}; see --spool-dir{again}"
            );
        }
    }

    /// Looks at a client that is waited for. One that is too slow is cut off, and the kernel forgets at once what it has
    /// for it. One that has left is noticed by its next write, but a disk that hangs can keep that from coming.
    fn look(&mut self, terms: Terms) -> Option<Woken> {
        let clock = self.holding.clock;
        if self.spool.as_ref().is_some_and(|spool| spool.is_late(clock.now())) {
            self.holding.rest_files(&Trouble::Hangs);
        }
        if self.transport.peer() == Peer::Gone {
            return Some(Woken::Lost);
        }
        let (arrived, all) = self.arrived();
        let arrived = arrived.saturating_add_unsigned(self.transport.share());
        if self.reader.pace.look(clock.served(), arrived, all, terms) {
            return None;
        }
        self.cut_off();
        Some(Woken::Stalled)
    }

    /// The client reads too slowly.
    pub(crate) fn cut_off(&mut self) {
        self.sent.too_slow = true;
        self.transport.reset();
    }
}

impl Drop for Outflow {
    fn drop(&mut self) {
        self.release_memory();
    }
}

/// Has `write` write `held` and as many runs as there are at a time.
fn as_one(
    held: &[u8],
    runs: &[&[u8]],
    write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>,
) -> io::Result<usize> {
    match *runs {
        [one] if held.is_empty() => write(&[IoSlice::new(one)]),
        [one] => write(&[held, one].map(IoSlice::new)),
        [one, two, three] if held.is_empty() => write(&[one, two, three].map(IoSlice::new)),
        [one, two, three] => write(&[held, one, two, three].map(IoSlice::new)),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Serves;
    use crate::config::Config;
    use crate::sample;
    use crate::sample::world::run;
    use crate::timers::Timers;
    use crate::transport::scripted::Scripted;

    /// What is on its way to a client.
    struct Scene {
        out: Outflow,
        script: Scripted,
        timers: &'static Timers,
        timer: Timer,
    }

    fn scene(config: Config) -> Scene {
        let (holding, script) = (sample::holding(config), Scripted::new([]));
        let timers = sample::forever(Timers::new(holding.clock));
        let out = Outflow::new(Transport::Scripted(script.clone()), holding);
        Scene { out, script, timers, timer: timers.start(Serves::Requests) }
    }

    impl Scene {
        /// Lets time pass in small steps while the client is waited for, until that ends.
        async fn wait(&mut self, seconds: u64) -> Option<Woken> {
            let Self { out, timer, timers, .. } = self;
            let (clock, timers) = (out.holding.clock, *timers);
            let time = async {
                for _ in 0..10 * seconds {
                    clock.advance(Duration::from_millis(100));
                    timers.sweep();
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                woken = out.wait(timer, false, |_, _| Poll::Pending) => Some(woken),
                () = time => None,
            }
        }
    }

    #[test]
    fn what_the_client_does_not_take_is_held_and_sent_in_order() {
        run(async {
            // How many bytes it takes at once, how many of the first run are held, and how many of the others are out.
            for (takes, held, out) in
                [(usize::MAX, 0, 4), (0, 2, 0), (1, 1, 0), (2, 0, 0), (5, 0, 3), (6, 0, 4)]
            {
                let mut scene = scene(Config::default());
                scene.script.take(takes);
                assert_eq!(scene.out.write_all(&[b"ab", b"cd", b"ef"]).unwrap(), out, "{takes}");
                assert_eq!((scene.out.in_memory(), scene.out.holds()), (held, held > 0), "{takes}");
                assert_eq!(scene.out.sent().bytes, (2 - held + out) as u64);
                scene.out.put(|held| held.extend_from_slice(&b"cdefgh"[out..]));
                scene.script.take(usize::MAX);
                assert!(scene.out.flush(&scene.timer).await);
                assert_eq!(scene.script.output(), b"abcdefgh", "{takes}");
                assert_eq!((scene.out.sent().bytes, scene.out.holds()), (8, false));
            }
        });
    }

    #[test]
    fn our_side_ends_with_the_last_bytes_where_the_client_takes_them_all_at_once() {
        run(async {
            for takes in [usize::MAX, 6, 5, 1, 0] {
                for runs in [&[b"abcdef".as_slice()][..], &[b"ab", b"", b"cdef"]] {
                    let mut scene = scene(Config::default());
                    scene.script.take(takes);
                    let out = scene.out.write_last(runs).unwrap();
                    assert_eq!(scene.script.was_shut(), takes >= 6, "{takes}");
                    scene.out.put(|held| held.extend_from_slice(&runs[1..].concat()[out..]));
                    scene.script.take(usize::MAX);
                    assert!(scene.out.flush(&scene.timer).await);
                    assert_eq!((scene.script.output(), scene.out.sent().bytes), (b"abcdef".to_vec(), 6));
                }
            }
        });
    }

    #[test]
    fn a_response_that_waits_goes_out_ahead_of_the_next_and_each_is_counted_once() {
        run(async {
            for takes in (0..=8).chain([usize::MAX]) {
                for (runs, first) in [(&[b"abcdef".as_slice()][..], 6), (&[b"ab", b"cd", b"ef"], 2)] {
                    let mut scene = scene(Config::default());
                    let Scene { out, script, timer, .. } = &mut scene;
                    out.put(|out| out.push(b'x'));
                    out.begin_body(0);
                    out.put(|out| out.push(b'y'));
                    out.postpone();
                    assert_eq!((out.sent().bytes, out.sent().body(), script.writes()), (2, 1, 0));
                    out.renew();
                    script.take(takes);
                    out.begin_body(2);
                    let behind = out.write_last(runs).unwrap();
                    assert_eq!((script.writes(), script.was_shut()), (1, takes >= 8), "{takes}");
                    assert_eq!(behind, takes.clamp(2 + first, 8) - 2 - first, "{takes}");
                    out.put(|out| out.extend_from_slice(&b"abcdef"[first + behind..]));
                    assert_eq!(out.sent().bytes, takes.clamp(2, 8) as u64 - 2, "{takes}");
                    script.take(usize::MAX);
                    assert!(out.flush(timer).await);
                    assert_eq!((out.sent().bytes, out.sent().body()), (6, 4), "{takes}");
                    assert_eq!(script.output(), b"xyabcdef", "{takes}");
                }
            }
        });
    }

    #[test]
    fn bytes_go_through_behind_what_is_held() {
        let mut scene = scene(Config::default());
        scene.out.put(|out| out.extend_from_slice(b"held"));
        // What the client takes, and what is out of the bytes behind.
        for (takes, through, held) in
            [(2, Some(0), 2), (0, None, 2), (3, Some(1), 0), (0, None, 0), (9, Some(4), 0)]
        {
            scene.script.take(takes);
            scene.out.reader.tried(false);
            assert_eq!(scene.out.write_through(b"12", b"34").unwrap(), through, "{takes}");
            assert_eq!(scene.out.in_memory(), held, "{takes}");
        }
        assert_eq!(scene.script.output(), b"held11234");
    }

    #[test]
    fn another_response_begins_at_nothing() {
        let mut scene = scene(Config::default());
        scene.out.write_all(&[b"one"]).unwrap();
        assert!(scene.out.sent().first_byte.is_some());
        scene.out.output.reserve(2 * KEEP_CAPACITY);
        assert!(scene.out.hold(1000));
        scene.out.renew();
        assert!(scene.out.sent().first_byte.is_none() && scene.out.sent().bytes == 0);
        assert!(scene.out.output.capacity() <= KEEP_CAPACITY);
        assert_eq!(scene.out.held, 0);
    }

    #[test]
    fn memory_in_front_of_what_is_held_is_used_again() {
        let mut scene = scene(Config::default());
        scene.out.put(|out| out.extend_from_slice(&[b'x'; 100 * 1024]));
        for (done, forgotten) in [(FORGET, false), (FORGET + 1, true)] {
            scene.out.done = done;
            let held = scene.out.in_memory();
            scene.out.forget_sent();
            assert_eq!((scene.out.done == 0, scene.out.in_memory()), (forgotten, held), "{done}");
        }
    }

    #[test]
    fn a_client_that_is_too_slow_is_cut_off_and_one_that_leaves_is_noticed() {
        // Timeout and rate, what becomes of the client, and how the wait ends within so many seconds.
        let cases = [
            (10, 0, Peer::There, 9, None),
            (10, 0, Peer::There, 11, Some(Woken::Stalled)),
            (60, 1, Peer::There, 59, None),
            (60, 1, Peer::There, 61, Some(Woken::Stalled)),
            (60, 0, Peer::Gone, 6, Some(Woken::Lost)),
            (0, 0, Peer::There, 100, None),
        ];
        for (timeout, min_send_rate, peer, seconds, end) in cases {
            run(async {
                let write_timeout = Duration::from_secs(timeout);
                let mut scene = scene(Config { write_timeout, min_send_rate, ..Config::default() });
                scene.script.take(0);
                scene.out.write_all(&[b"held"]).unwrap();
                scene.out.send_held().unwrap();
                assert!(scene.out.is_held_up() && !scene.out.is_behind());
                scene.out.reader.behind = true;
                scene.script.become_of(peer);
                assert_eq!(scene.wait(seconds).await, end, "{timeout} {min_send_rate} {peer:?}");
                assert_eq!(scene.out.sent().too_slow, end == Some(Woken::Stalled));
                assert_eq!(scene.script.was_reset(), end == Some(Woken::Stalled));
            });
        }
    }

    #[test]
    fn a_client_is_not_too_slow_where_the_thread_is_held_up() {
        run(async {
            let config =
                Config { write_timeout: Duration::from_secs(10), min_send_rate: 256, ..Config::default() };
            let mut scene = scene(config);
            scene.script.take(0);
            scene.out.write_all(&[b"held"]).unwrap();
            scene.out.send_held().unwrap();
            scene.out.reader.behind = true;
            assert_eq!(scene.wait(5).await, None);
            scene.out.holding.clock.hold_up(Duration::from_secs(3600));
            assert_eq!(scene.wait(4).await, None, "it has the rest of its time");
            assert_eq!(scene.wait(2).await, Some(Woken::Stalled));
        });
    }

    #[test]
    fn a_client_that_takes_more_is_served_and_has_kept_up_when_it_has_all() {
        run(async {
            let mut scene = scene(Config::default());
            scene.script.take(0);
            scene.out.put(|out| out.extend_from_slice(b"held"));
            scene.out.send_held().unwrap();
            assert!(scene.out.hold(4));
            scene.out.reader.behind = true;
            assert_eq!(scene.wait(1).await, None);
            assert!(scene.out.is_stuck() && !scene.out.is_clear());
            scene.script.take(usize::MAX);
            assert_eq!(scene.wait(1).await, Some(Woken::Go));
            scene.out.send_held().unwrap();
            assert!(scene.out.is_clear() && !scene.out.is_behind() && !scene.out.is_held_up());
            assert_eq!(scene.out.held, 0, "and the memory is another's");
        });
    }

    #[test]
    fn news_goes_before_the_client() {
        run(async {
            let mut scene = scene(Config::default());
            scene.script.take(0);
            scene.out.write_all(&[b"held"]).unwrap();
            let woken = scene.out.wait(&scene.timer, false, |_, _| Poll::Ready(Woken::Lost)).await;
            assert_eq!(woken, Woken::Lost);
        });
    }

    #[test]
    fn a_client_that_is_gone_ends_the_flush() {
        run(async {
            let mut scene = scene(Config::default());
            scene.out.put(|out| out.extend_from_slice(b"held"));
            scene.script.become_of(Peer::Gone);
            assert!(!scene.out.flush(&scene.timer).await);
        });
    }
}
