//! The limit of open files: raised as far as the system lets us, and what of it is kept from clients, so that a server
//! with as many connections as there may be can still be asked, can start workers, reload, and be replaced.
//!
//! `serve` raises it first, and has the front divide it (`howdah_front::Capacity`) when the first client may come.

use anyhow::bail;
use howdah_front::{Capacity, PAGE_CONNECTIONS};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::endpoints::Endpoints;
use crate::options::Serve;

/// Taken to be open where there is no /proc to count.
const OPEN: usize = 64;
/// A server with one worker has a few more open when it is ready, beside its listeners and what is the worker's.
const FEWEST: u64 = 25;
/// For a listener: itself, the copy of the first front thread, and what that watches.
const LISTENER: usize = 3;
/// For a zygote: its control socket, its process, what a launcher is sent for it, and what it is sent itself; one leaves
/// while the next one comes.
const ZYGOTE: usize = 16;
/// For the process that replaces this one, beside the listeners.
const SUCCESSOR: usize = 6;
/// For those who ask over the control socket.
const ASKED: usize = 8;
/// For logs being opened anew, and looks into /proc.
const LOGS: usize = 6;
/// A front thread has a few open for itself.
const THREAD: usize = 8;

/// A connection is a descriptor: as many as the system allows us, not the few of the soft limit.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("cannot raise the limit of open files (ulimit -n): {error}");
    }
}

fn limit_now() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// # Errors
/// The limit is so low that the workers could not all be started, which would be tried for ever, or that nobody could be accepted
/// at some of the listeners.
pub(crate) fn suffice(options: &Serve) -> anyhow::Result<()> {
    let limit = limit_now();
    let pools = options.pools();
    let workers =
        pools.iter().filter(|pool| pool.cgi.is_none()).map(|pool| u64::from(pool.workers.fewest())).sum();
    let workers = for_workers(workers, u64::from(options.workers.front_threads));
    let listeners = (LISTENER * (options.listeners().len() + options.pages().len())) as u64;
    let least = FEWEST + workers + listeners;
    if limit < least {
        bail!(
            "the limit of open files is {limit}, and a start takes more than {least}, {workers} of them for workers and {listeners} \
             for listeners: raise it to {} or more (ulimit -n, systemd's LimitNOFILE=), or have fewer of these",
            Needs::of(options).enough()
        );
    }
    Ok(())
}

/// What is open for them, at the very least, when the last of them is forked.
fn for_workers(workers: u64, threads: u64) -> u64 {
    2 * workers * threads
}

/// Bounds what clients may have from now on. Everything that is not theirs must be open, but for the listeners' copies.
pub(crate) fn divide(capacity: &Capacity, options: &Serve, endpoints: &Endpoints) {
    let needs = Needs {
        listeners: endpoints.listeners().count(),
        pages: endpoints.pages().count(),
        ..Needs::of(options)
    };
    // All but the listeners themselves.
    let (open, reserve) = (open_now() + needs.all_listeners() * (LISTENER - 1), needs.reserve());
    let measured = Capacity::enough(open, reserve, needs.asked);
    let enough = Needs::of(options).enough().max(measured);
    capacity.settle(open, reserve, enough);
}

/// What a server has that takes descriptors.
#[derive(Clone, Copy, Debug)]
struct Needs {
    workers: usize,
    zygotes: usize,
    threads: usize,
    listeners: usize,
    pages: usize,
    /// `--max-connections`.
    asked: Option<usize>,
}

impl Needs {
    /// By its options alone.
    fn of(options: &Serve) -> Self {
        let pools = options.pools();
        Self {
            workers: pools.iter().map(|pool| pool.workers.count() as usize).sum(),
            zygotes: pools.len(),
            threads: options.workers.front_threads as usize,
            listeners: options.listeners().len(),
            pages: options.pages().len(),
            asked: options.limits.max_connections.map(|most| most as usize),
        }
    }

    fn all_listeners(self) -> usize {
        self.listeners + self.pages
    }

    fn reserve(self) -> usize {
        let pages = if self.pages == 0 { 0 } else { PAGE_CONNECTIONS };
        reserve(self.workers, self.zygotes, self.threads, self.all_listeners()) + pages
    }

    /// A limit by which nobody is advised to raise it. It is the same before the start and when that is over, so that whoever follows
    /// the advice does so once; what a start has open at a time is therefore not counted, but bounded.
    fn enough(self) -> usize {
        let Self { workers, zygotes, threads, .. } = self;
        // A name may have two addresses.
        let listeners = 2 * LISTENER * self.all_listeners();
        let open = FEWEST as usize + THREAD * threads + for_processes(workers, zygotes, threads) + listeners;
        Capacity::enough(open, self.reserve(), self.asked)
    }
}

/// What a reload needs, which has twice the workers for a while, and everything else at the same time.
fn reserve(workers: usize, zygotes: usize, threads: usize, listeners: usize) -> usize {
    for_processes(workers, zygotes, threads) + SUCCESSOR + listeners + ASKED + LOGS
}

/// What may be open for them at a time.
fn for_processes(workers: usize, zygotes: usize, threads: usize) -> usize {
    // The ends of its channels, ours and, until they are sent, its own; its process.
    let worker = 2 * threads + 1;
    workers * worker + zygotes * (ZYGOTE + 2 * threads)
}

fn open_now() -> usize {
    // The directory itself is one of them, for the moment.
    match std::fs::read_dir("/proc/self/fd") {
        Ok(entries) => entries.count().saturating_sub(1),
        // None is left to count the others by.
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => limit_now() as usize,
        Err(_) => OPEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_grows_with_workers_zygotes_threads_and_listeners() {
        for ((workers, zygotes, threads, listeners), want) in [
            ((4, 1, 1, 1), 51),
            ((8, 1, 1, 1), 63),
            ((8, 2, 1, 1), 81),
            ((4, 1, 2, 1), 61),
            ((4, 1, 1, 3), 53),
        ] {
            let reserved = reserve(workers, zygotes, threads, listeners);
            assert_eq!(reserved, want, "{workers} {zygotes} {threads} {listeners}");
        }
    }

    #[test]
    fn a_start_that_would_fit_is_not_refused() {
        // Limits by which servers have been seen to start, and no lower ones.
        for ((workers, threads), fits) in [((1, 1), 35), ((4, 1), 39), ((10, 1), 51), ((4, 3), 64)] {
            let least = FEWEST + for_workers(workers, threads) + LISTENER as u64;
            assert!(least < fits && fits - least < 16, "{workers} {threads}: {least}");
        }
    }

    #[test]
    fn open_descriptors_are_counted() {
        let before = open_now();
        let held: Vec<_> = (0..5).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        assert!(open_now() >= before + held.len() - 2, "other tests run beside this one");
    }
}
