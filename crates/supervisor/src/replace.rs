//! A segment in which something stands that cannot be true is replaced, together with all workers that use it.
//!
//! Which of them has written over it is not known, and any may do it again. So they are killed, all at once; when the front
//! has settled what each of them has left, zygotes and front threads are given a new segment, and workers are forked
//! anew. Zygotes keep the application that they have loaded: nothing in the segment is theirs.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_sys::shortage::with_way_out;
use howdah_sys::{Retired, Signal, renew_segment};
use howdah_wire::Segment;

use crate::crew::Crew;
use crate::damage::Damage;
use crate::event::Event;
use crate::state::State;

/// Until the next try when the system refuses a new segment.
const AGAIN: Duration = Duration::from_secs(1);

impl State {
    /// Through the handle, by a front thread's word. The others may say it of the same segment.
    pub(crate) fn request_replacement(&mut self, damaged: &Segment, what: &'static str) {
        if !damaged.is(&self.shared.segment) || self.damage.is_under_way() || self.shutdown.is_some() {
            return;
        }
        tracing::error!(
            "a worker has written over shared memory: {what}. It is replaced together with all workers: requests that wait go on waiting, those that run are answered 502. A fault in an XS module or a C library is the likely cause"
        );
        let now = Instant::now();
        self.counts.replacements += 1;
        self.damage = Damage { under_way: Some(now), last: Some((now, what)) };
        for (_, _, worker) in self.crew.workers_mut() {
            // One whose fork is not reported yet is killed as soon as it is.
            if !worker.signal(Signal::KILL) {
                worker.limit(Duration::ZERO);
            }
        }
    }

    /// When no worker is left. Returns when to try again.
    pub(crate) fn replace_segment(&mut self, now: Instant) -> Option<Instant> {
        let due = self.damage.under_way.filter(|_| self.crew.is_empty())?;
        if due > now {
            return Some(due);
        }
        let again = match self.renew() {
            Ok(()) => None,
            Err(error) => {
                tracing::error!(
                    "no new shared memory, which is tried again in a second: {}",
                    with_way_out(&error)
                );
                Some(now + AGAIN)
            }
        };
        self.damage.under_way = again;
        again
    }

    fn renew(&mut self) -> io::Result<()> {
        let (memfd, copies, segment) = renew_segment(&self.shared.segment, self.generations.len())?;
        for (generation, copy) in self.generations.iter().zip(copies) {
            generation.zygote.attach_anew(copy);
        }
        let old = std::mem::replace(&mut self.shared.segment, segment);
        self.shared.memfd = memfd;
        self.crew = Crew::new(segment);
        self.segments.send_replace(segment);
        let _ = self.events.send(Event::Replaced { segment, old: Arc::new(Retired::new(old)) });
        tracing::info!("shared memory is replaced; workers are forked anew");
        Ok(())
    }
}
