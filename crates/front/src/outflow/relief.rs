//! Takes what a worker makes out of its way when its client is behind: into memory up to `--response-buffer`, beyond that
//! into a file, within the bounds that all responses share. Where there is no room the worker waits.

use std::io;

use howdah_wire::RESPONSE_RING;

use crate::outflow::holding::Trouble;
use crate::outflow::queue::Outflow;
use crate::outflow::response_spool::{ResponseSpool, Taken};

/// A response goes on with this much memory, whatever the bounds say.
const LEAST_BUFFER: usize = 4096;
/// Bytes that are worth a write behind others in the file.
const PIECE: usize = 64 * 1024;

impl Outflow {
    /// How many of `available` bytes of a worker there is room for.
    pub(crate) fn room(&mut self, available: usize) -> usize {
        let held = self.in_memory();
        if self.holding.may_spool()
            && let Some(spool) = &mut self.spool
        {
            let ready = spool.is_ready();
            return if ready { RESPONSE_RING.saturating_sub(held).min(available) } else { 0 };
        }
        let buffer = self.holding.config.response_buffer.max(LEAST_BUFFER);
        let room = buffer.saturating_sub(held).min(available);
        if self.hold(held + room) {
            return room;
        }
        LEAST_BUFFER.saturating_sub(held).min(available)
    }

    /// When the client is behind: sees that what is held is within its bounds, by way of a file. `more` says that the
    /// worker has more than there was room for.
    pub(crate) fn relieve(&mut self, more: bool) {
        let held = self.in_memory();
        let wanted = self.is_behind() && self.holding.may_spool() && (more || self.is_much(held));
        match &mut self.spool {
            None if !wanted || held == 0 => {}
            Some(spool) if !wanted => spool.stand_back(),
            // What there is more is taken when it is its turn.
            Some(_) if held == 0 => {}
            None => match ResponseSpool::new(&self.transport, self.holding) {
                Ok(spool) => {
                    self.spool = Some(Box::new(spool));
                    self.write_spool();
                }
                Err(error) => self.holding.rest_files(&Trouble::Fails(error)),
            },
            Some(_) => self.write_spool(),
        }
    }

    /// True when so many bytes had better be in a file.
    fn is_much(&mut self, held: usize) -> bool {
        if self.spool.as_ref().is_some_and(|spool| spool.holds()) {
            return held >= PIECE;
        }
        held > self.holding.config.response_buffer || !self.hold(held)
    }

    fn write_spool(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        if !spool.is_ready() {
            return;
        }
        match spool.write(&mut self.output, self.done) {
            Ok(true) => self.done = 0,
            Ok(false) => self.holding.rest_files(&Trouble::Full),
            Err(error) => {
                spool.stand_back();
                self.holding.rest_files(&Trouble::Fails(error));
            }
        }
    }

    /// Sends what is held in a file. False while there is something left of that.
    pub(super) fn send_spooled(&mut self) -> io::Result<bool> {
        let Some(spool) = self.spool.as_mut().filter(|spool| spool.holds()) else { return Ok(true) };
        if self.reader.is_stuck() {
            return Ok(false);
        }
        let sent = spool.send(&mut self.transport)?;
        let (holds, is_through) = (spool.holds(), spool.is_through());
        if sent != Taken::default() {
            self.reader.tried(sent.blocked);
            self.count(sent.bytes as usize);
        }
        if is_through {
            self.spool = None;
        }
        Ok(!holds)
    }

    /// Sees that `bytes` of memory are ours. False when there are not so many left for all.
    pub(super) fn hold(&mut self, bytes: usize) -> bool {
        let more = (bytes as u64).saturating_sub(self.held);
        let granted = more == 0 || self.holding.stock.memory.take(more);
        self.held += if granted { more } else { 0 };
        granted
    }

    /// Gives back what [`Outflow::hold`] was granted.
    pub(super) fn release_memory(&mut self) {
        let held = std::mem::take(&mut self.held);
        if held > 0 {
            self.holding.stock.memory.give(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::address::Serves;
    use crate::config::Config;
    use crate::outflow::holding::JOBS;
    use crate::outflow::wait::Woken;
    use crate::sample;
    use crate::sample::world::run;
    use crate::timers::Timers;
    use crate::transport::{Socket, Transport};

    const BUFFER: usize = 64 * 1024;

    fn config() -> Config {
        Config { response_buffer: BUFFER, ..Config::default() }
    }

    fn outflow(config: Config) -> (Outflow, UnixStream) {
        let (client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let transport = Transport::Plain(Socket::Fresh(socket.into()));
        (Outflow::new(transport, sample::holding(config)), client)
    }

    #[test]
    fn there_is_room_up_to_the_buffer_and_for_a_little_in_any_case() {
        // Whether the client is behind, bytes held, what others have of the memory, and how many of 100,000 find room.
        let all = 64 * BUFFER as u64;
        for (behind, held, others, room) in [
            (false, 0, 0, BUFFER),
            (false, 1000, all, LEAST_BUFFER - 1000),
            (false, 2 * BUFFER, 0, 0),
            (true, 0, 0, BUFFER),
            (true, 0, all - BUFFER as u64, BUFFER),
            (true, 0, all - 1, LEAST_BUFFER),
            (true, 1000, all, LEAST_BUFFER - 1000),
            (true, LEAST_BUFFER, all, 0),
        ] {
            let (mut out, _client) = outflow(Config { response_spool: 0, ..config() });
            out.put(|bytes| bytes.resize(held, b'x'));
            out.reader.behind = behind;
            assert!(out.holding.stock.memory.take(others));
            assert_eq!(out.room(100_000), room, "{behind} {held} {others}");
        }
    }

    #[test]
    fn memory_is_given_back_with_the_connection() {
        let (mut out, _client) = outflow(config());
        let stock = Arc::clone(&out.holding.stock);
        assert!(out.hold(1000) && out.hold(500), "what is held is counted once");
        assert!(!stock.memory.take(64 * BUFFER as u64 - 999));
        drop(out);
        assert!(stock.memory.take(64 * BUFFER as u64));
    }

    /// Writes until the client takes no more, and has it behind.
    fn fill(out: &mut Outflow) {
        let piece = vec![b'x'; BUFFER];
        while !out.holds() {
            out.write_all(&[&piece]).unwrap();
        }
        out.send_held().unwrap();
        out.reader.behind = true;
    }

    #[test]
    fn what_a_client_that_is_behind_does_not_take_goes_to_a_file_when_it_is_much() {
        // Bytes held besides, whether the worker has more, and whether there is a file.
        for (behind, more, files) in [(true, true, true), (true, false, false), (false, true, false)] {
            run(async {
                let (mut out, _client) = outflow(config());
                fill(&mut out);
                out.reader.behind = behind;
                out.relieve(more);
                assert_eq!(out.spool.is_some(), files, "{behind} {more}");
            });
        }
        run(async {
            let (mut out, _client) = outflow(config());
            fill(&mut out);
            out.put(|bytes| bytes.extend_from_slice(&[b'x'; BUFFER]));
            out.relieve(false);
            assert!(out.spool.is_some(), "more than the buffer");
        });
    }

    #[test]
    fn all_that_went_by_way_of_a_file_arrives_in_order() {
        run(async {
            let (mut out, mut client) = outflow(config());
            fill(&mut out);
            let mut expected = out.sent().bytes + out.in_memory() as u64;
            let timer = sample::forever(Timers::new(out.holding.clock)).start(Serves::Requests);
            for _ in 0..20 {
                out.relieve(true);
                if out.room(1) > 0 {
                    out.put(|bytes| bytes.extend_from_slice(&[b'y'; 10_000]));
                    expected += 10_000;
                }
                let wait = out.wait(&timer, true, |_, _| std::task::Poll::Pending);
                let _ = tokio::time::timeout(Duration::from_millis(20), wait).await;
            }
            assert!(out.holding.stock.spooled() > 0, "some lies in a file");
            let reader = std::thread::spawn(move || {
                let mut all = Vec::new();
                client.read_to_end(&mut all).map(|_| all)
            });
            let end = Instant::now() + Duration::from_secs(20);
            while out.holds() && Instant::now() < end {
                out.send_held().unwrap();
                out.relieve(false);
                let wait = out.wait(&timer, true, |_, _| std::task::Poll::Pending);
                let woken = tokio::time::timeout(Duration::from_millis(20), wait).await;
                assert!(!matches!(woken, Ok(Woken::Lost | Woken::Stalled)), "{woken:?}");
            }
            let stock = Arc::clone(&out.holding.stock);
            assert_eq!(out.sent().bytes, expected);
            drop(out);
            let all = reader.join().unwrap().unwrap();
            assert_eq!(all.len() as u64, expected);
            assert!(all.is_sorted(), "in order");
            assert_eq!(stock.spooled(), 0, "and the files are given back");
        });
    }

    #[test]
    fn a_worker_that_has_more_keeps_its_place_among_those_who_wait_for_the_disk() {
        run(async {
            let (mut out, _client) = outflow(config());
            fill(&mut out);
            out.relieve(true);
            let timer = sample::forever(Timers::new(out.holding.clock)).start(Serves::Requests);
            while out.in_memory() > 0 || out.holding.disk.available_permits() < JOBS {
                assert_eq!(out.wait(&timer, false, |_, _| std::task::Poll::Pending).await, Woken::Go);
            }
            let turns: Vec<_> =
                std::iter::from_fn(|| Arc::clone(&out.holding.disk).try_acquire_owned().ok()).collect();
            for _ in 0..3 {
                assert_eq!(out.room(100), 0);
                out.relieve(true);
                tokio::task::yield_now().await;
            }
            drop(turns);
            // Who has lost it is told nothing, and asks again after a while.
            assert_eq!(out.wait(&timer, true, |_, _| std::task::Poll::Pending).await, Woken::Go);
            assert_eq!(out.room(100), 100);
        });
    }

    #[test]
    fn where_files_are_full_the_worker_waits() {
        run(async {
            let (mut out, _client) = outflow(Config { response_spool: 1000, ..config() });
            fill(&mut out);
            out.relieve(true);
            assert!(!out.holding.may_spool(), "no more is asked of them for a while");
            assert!(out.in_memory() > 0);
        });
    }
}
