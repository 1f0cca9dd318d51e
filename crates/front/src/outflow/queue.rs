//! What a connection has for its client and the client has not taken yet: it lies in memory, beyond the bounds of that in
//! a `response_spool`, and is sent in order as the client takes it.
//!
//! Nothing here waits: what the client does not take now is held, and `wait` waits until it takes more.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::Context;

use howdah_sys::shortage::may_pass_later;

use crate::capacity::Permit;
use crate::outflow::holding::Holding;
use crate::outflow::pace::Pulse;
use crate::outflow::postponed::{self, Postponed};
use crate::outflow::reader::Reader;
use crate::outflow::response_spool::{ResponseSpool, Taken};
use crate::transport::{Socket, Transport};

/// Output that is out is forgotten beyond so many bytes.
const FORGET: usize = 64 * 1024;
/// A buffer above this size is not kept between responses.
const KEEP_CAPACITY: usize = 4 * 1024;

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
    pub(super) pulse: Pulse,
    /// Bytes of memory that we have of the server's stock.
    pub(super) held: u64,
    pub(super) sent: Sent,
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
    use crate::config::Config;
    use crate::sample;
    use crate::sample::world::run;
    use crate::transport::scripted::Scripted;

    /// What is on its way to a client.
    struct Scene {
        out: Outflow,
        script: Scripted,
    }

    fn scene() -> Scene {
        let script = Scripted::new([]);
        let out = Outflow::new(Transport::Scripted(script.clone()), sample::holding(Config::default()));
        Scene { out, script }
    }

    impl Scene {
        /// Sends what is held to a client that takes all of it.
        fn send(&mut self) {
            self.script.take(usize::MAX);
            self.out.send_held().unwrap();
            assert!(!self.out.holds());
        }
    }

    #[test]
    fn what_the_client_does_not_take_is_held_and_sent_in_order() {
        // How many bytes it takes at once, how many of the first run are held, and how many of the others are out.
        for (takes, held, out) in [(usize::MAX, 0, 4), (0, 2, 0), (1, 1, 0), (2, 0, 0), (5, 0, 3), (6, 0, 4)]
        {
            let mut scene = scene();
            scene.script.take(takes);
            assert_eq!(scene.out.write_all(&[b"ab", b"cd", b"ef"]).unwrap(), out, "{takes}");
            assert_eq!((scene.out.in_memory(), scene.out.holds()), (held, held > 0), "{takes}");
            assert_eq!(scene.out.sent().bytes, (2 - held + out) as u64);
            scene.out.put(|held| held.extend_from_slice(&b"cdefgh"[out..]));
            scene.send();
            assert_eq!(scene.script.output(), b"abcdefgh", "{takes}");
            assert_eq!(scene.out.sent().bytes, 8);
        }
    }

    #[test]
    fn our_side_ends_with_the_last_bytes_where_the_client_takes_them_all_at_once() {
        for takes in [usize::MAX, 6, 5, 1, 0] {
            for runs in [&[b"abcdef".as_slice()][..], &[b"ab", b"", b"cdef"]] {
                let mut scene = scene();
                scene.script.take(takes);
                let out = scene.out.write_last(runs).unwrap();
                assert_eq!(scene.script.was_shut(), takes >= 6, "{takes}");
                scene.out.put(|held| held.extend_from_slice(&runs[1..].concat()[out..]));
                scene.send();
                assert_eq!((scene.script.output(), scene.out.sent().bytes), (b"abcdef".to_vec(), 6));
            }
        }
    }

    #[test]
    fn a_response_that_waits_goes_out_ahead_of_the_next_and_each_is_counted_once() {
        // What waits has a timer.
        run(async {
            for takes in (0..=8).chain([usize::MAX]) {
                for (runs, first) in [(&[b"abcdef".as_slice()][..], 6), (&[b"ab", b"cd", b"ef"], 2)] {
                    let mut scene = scene();
                    let Scene { out, script } = &mut scene;
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
                    scene.send();
                    assert_eq!((scene.out.sent().bytes, scene.out.sent().body()), (6, 4), "{takes}");
                    assert_eq!(scene.script.output(), b"xyabcdef", "{takes}");
                }
            }
        });
    }

    #[test]
    fn bytes_go_through_behind_what_is_held() {
        let mut scene = scene();
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
        let mut scene = scene();
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
        let mut scene = scene();
        scene.out.put(|out| out.extend_from_slice(&[b'x'; 100 * 1024]));
        for (done, forgotten) in [(FORGET, false), (FORGET + 1, true)] {
            scene.out.done = done;
            let held = scene.out.in_memory();
            scene.out.forget_sent();
            assert_eq!((scene.out.done == 0, scene.out.in_memory()), (forgotten, held), "{done}");
        }
    }
}
