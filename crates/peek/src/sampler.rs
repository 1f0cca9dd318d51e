//! `howdah profile`: looks at workers again and again, and sums up.
//!
//! Whoever calls this keeps the time and says which workers there are; they may change from one look to the next.

use std::io;
use std::time::{Duration, Instant};

use crate::route::{lies_at, route};
use crate::stack::Aim;
use crate::tally::Tally;
use crate::worker::{Doing, Glimpse, Worker};

/// A look stands for no more than this, however late it comes.
const LONGEST: Duration = Duration::from_secs(1);

/// What counts.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only requests at this path and below.
    pub route: Option<String>,
    /// Only time in which a processor is used, or would be if one were free.
    pub cpu: bool,
}

/// How the looks went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// All.
    pub all: u64,
    /// At workers that had nothing to do.
    pub idle: u64,
    /// That counted.
    pub counted: u64,
    /// Of those, the ones during which the stack changed: the innermost frame may be a neighbour's.
    pub inexact: u64,
    /// That saw nothing, since it changed too quickly.
    pub blind: u64,
}

/// One that is looked at.
#[derive(Debug)]
struct Subject {
    pid: u32,
    worker: Worker,
    last: Instant,
}

/// Looks and sums.
#[derive(Debug)]
pub struct Sampler {
    filter: Filter,
    subjects: Vec<Subject>,
    /// The sums.
    pub tally: Tally,
    /// How it went.
    pub looks: Looks,
    /// Different workers so far.
    pub workers: usize,
}

impl Sampler {
    /// Nobody is looked at yet.
    pub fn new(filter: Filter) -> Self {
        Self { filter, subjects: Vec::new(), tally: Tally::default(), looks: Looks::default(), workers: 0 }
    }

    /// From now on these are the workers. Returns those that cannot be looked at, and why.
    pub fn attend(&mut self, pids: &[u32]) -> Vec<(u32, io::Error)> {
        self.subjects.retain(|subject| pids.contains(&subject.pid));
        let mut refused = Vec::new();
        for &pid in pids {
            if self.subjects.iter().any(|subject| subject.pid == pid) {
                continue;
            }
            match Worker::open(pid) {
                Ok(worker) => {
                    self.subjects.push(Subject { pid, worker, last: Instant::now() });
                    self.workers += 1;
                }
                Err(error) => refused.push((pid, error)),
            }
        }
        refused
    }

    /// Looks at each of them once.
    pub fn look(&mut self) {
        let Self { filter, subjects, tally, looks, .. } = self;
        subjects.retain_mut(|subject| {
            let Ok(glimpse) = subject.worker.look(Aim::AnyMoment) else { return false };
            let now = Instant::now();
            let time = now.duration_since(subject.last).min(LONGEST);
            subject.last = now;
            looks.all += 1;
            match glimpse {
                None => looks.blind += 1,
                Some(glimpse) if glimpse.doing == Doing::Idle => looks.idle += 1,
                Some(glimpse) if filter.fits(&glimpse) => {
                    looks.counted += 1;
                    looks.inexact += u64::from(!glimpse.exact);
                    count(tally, &glimpse, time);
                }
                Some(_) => {}
            }
            true
        });
    }
}

impl Filter {
    fn fits(&self, glimpse: &Glimpse) -> bool {
        if self.cpu && !matches!(glimpse.doing, Doing::Runs(_)) {
            return false;
        }
        let path = glimpse.request.as_ref().map(|request| request.path.as_str());
        self.route.as_deref().is_none_or(|given| path.is_some_and(|path| lies_at(path, given)))
    }
}

fn count(tally: &mut Tally, glimpse: &Glimpse, time: Duration) {
    let path = glimpse.request.as_ref().map(|request| route(&request.path));
    // Cleanup handlers, destructors.
    let route = path.as_deref().unwrap_or("(after the response)");
    tally.add(route, &glimpse.frames, &glimpse.doing, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}
