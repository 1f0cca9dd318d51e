//! What the binary tells the supervisor at start.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use howdah_sys::launcher::Job;
use howdah_wire::{MAX_WORKERS, Roster, Segment};

use crate::message::Secret;

use crate::family::Family;

/// Options of the supervisor.
#[derive(Clone, Debug)]
pub struct Config {
    /// Workers to keep running, 1 to [`most_workers`] of the cells.
    pub workers: usize,
    /// Requests after which a worker is replaced, give or take 10 %; 0 for never.
    pub max_requests: u64,
    /// Age at which a worker is replaced, give or take 10 %; none for never.
    pub max_lifetime: Option<Duration>,
    /// Private memory (USS) in bytes above which a worker is replaced; none for never. Looked at every few seconds.
    pub max_memory: Option<u64>,
    /// Requests of one worker after which it leaves the next zygote behind, for the first time, the second and so on.
    pub reforks: Vec<u64>,
    /// Time for requests to end on reload and on a graceful stop; then their workers are killed. Zero for no limit.
    pub graceful_timeout: Duration,
    /// The zygote has the application, and not each worker loads it.
    pub preload: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: 4,
            max_requests: 0,
            max_lifetime: None,
            max_memory: None,
            reforks: Vec::new(),
            graceful_timeout: Duration::from_secs(30),
            preload: true,
        }
    }
}

impl Config {
    /// Time that draining workers have; none for ever.
    pub(crate) fn grace(&self) -> Option<Duration> {
        (!self.graceful_timeout.is_zero()).then_some(self.graceful_timeout)
    }
}

/// Where zygotes come from.
#[derive(Debug)]
pub enum Source {
    /// The supervisor starts them, so a reload loads the application anew.
    Start {
        /// The perl that runs it, for messages.
        perl: PathBuf,
        /// Starts a process by a [`recipe`](crate::recipe).
        job: Job,
        /// Starts the zygote of a guest ([`Handle::guest`](crate::Handle::guest)).
        guest: Job,
    },
    /// As `Start`, but each is a host: a program whose workers are threads, which run processes of others.
    Host {
        /// Starts it.
        job: Job,
    },
    /// plackup forked the only one, with the application loaded. A reload replaces the workers alone.
    Adopted {
        /// Our end of its control socket.
        control: OwnedFd,
    },
}

impl Source {
    /// Zygotes that are started write there from perl's first word on: a warning of a locale that is not installed must
    /// not wait for whoever reads our own standard error.
    pub(crate) fn with_errors(self, errors: Option<&Errors>) -> io::Result<Self> {
        match (self, errors) {
            (Self::Start { perl, job, guest }, Some(errors)) => Ok(Self::Start {
                perl,
                job: job.with_errors(errors.pipe.try_clone()?),
                guest: guest.with_errors(errors.pipe.try_clone()?),
            }),
            (Self::Host { job }, Some(errors)) => {
                Ok(Self::Host { job: job.with_errors(errors.pipe.try_clone()?) })
            }
            (source, _) => Ok(source),
        }
    }
}

/// What front and workers share, and the zygote must get.
#[expect(missing_debug_implementations, reason = "shared memory has no useful rendering")]
pub struct Shared {
    /// The mapped segment, until a damaged one is replaced.
    pub segment: Segment,
    /// Its descriptor.
    pub memfd: OwnedFd,
    /// Eventfd of each front thread, in order.
    pub eventfds: Vec<OwnedFd>,
    /// Who the workers are, for front threads to see.
    pub roster: Roster,
    /// The titles of workers tell the request that they run.
    pub titles: bool,
    /// What becomes the standard error of zygotes and workers; none to leave it as ours.
    pub errors: Option<Errors>,
    /// The processes that all supervisors know.
    pub family: Family,
}

/// The pipe for what Perl has to say.
pub struct Errors {
    /// Its end to write to.
    pub pipe: OwnedFd,
    /// By it the reader knows what Perl itself writes: letters known to nobody else.
    pub secret: Secret,
}

impl Errors {
    /// For another supervisor.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { pipe: self.pipe.try_clone()?, secret: self.secret })
    }
}

impl std::fmt::Debug for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Errors").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}

/// Worker cells that a segment needs for `workers`: two generations side by side, and room to add workers later.
#[must_use]
pub fn cells_for(workers: usize) -> usize {
    workers.saturating_mul(4).clamp(64, MAX_WORKERS)
}

/// Workers that `cells` can hold while a reload doubles them and others are on their way out.
#[must_use]
pub fn most_workers(cells: usize) -> usize {
    (cells / 2).max(1)
}
