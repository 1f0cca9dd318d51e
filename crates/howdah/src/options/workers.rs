//! How many processes and threads do the work, and how long a worker lives.

use std::time::Duration;

use clap::{ArgAction, Args, Command};

use super::values::{Reforks, Size, Time, on_off, whole};

/// Workers, the queue before them, and their end.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Workers")]
pub(crate) struct Workers {
    /// Perl processes for the application [default: 2 per CPU, at least 4]
    ///
    /// Each serves one request at a time. CPUs are those that the cgroup's quota and the CPU affinity
    /// grant, not those of the machine. An application that mostly waits for databases and other
    /// servers wants more; one that only computes wants one per CPU. Also --max-workers, --nproc,
    /// --pre-fork.
    #[arg(long, value_name = "N", aliases = ["max-workers", "nproc", "pre-fork"], value_parser = whole::<u32>(1..=MOST))]
    workers: Option<u32>,

    /// Workers to start with and to shrink to [default: as many as --workers]
    ///
    /// While requests wait longer than 50 ms, workers are added, up to --workers; while some are idle for ten
    /// seconds, half of those leave.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MOST))]
    min_workers: Option<u32>,

    /// Threads that serve connections
    ///
    /// One answers tens of thousands of requests a second; more help only where the front itself keeps
    /// a CPU busy. The first one accepts connections; while it is not busy it has them all, and when it is
    /// they are shared out.
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole::<u32>(1..=THREADS))]
    pub(crate) front_threads: u32,

    /// Share connections out among --front-threads even while one of them is enough
    #[arg(long, hide_short_help = true)]
    pub(crate) spread_connections: bool,

    /// Let front and worker share a processor while requests are quick: on or off
    ///
    /// Where one worker is enough for quick requests, to wake it costs more than to run beside it. Both go apart when requests
    /// take longer, when others need that processor, or when it is busy and another is not, or when a second front thread has
    /// connections.
    #[arg(long, hide_short_help = true, value_name = "ON|OFF", default_value = "on", action = ArgAction::Set,
          value_parser = on_off(), ignore_case = true, hide_possible_values = true)]
    pub(crate) share_cpu: bool,

    /// Requests after which a worker is replaced; 0 for never
    ///
    /// Each worker's number varies by 10 %, so that workers that started together do not leave
    /// together. Also --max-reqs-per-child, --max-requests-per-worker.
    #[arg(long, value_name = "N", default_value = "0", aliases = ["max-reqs-per-child", "max-requests-per-worker"],
          value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) max_requests: u64,

    /// Age at which a worker is replaced; 0 for never
    ///
    /// Varies by 10 % from worker to worker.
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(crate) max_lifetime: Time,

    /// Memory above which a worker is replaced; 0 for never
    ///
    /// Only what the worker has for itself counts, not the pages that it shares with the others. It is looked at
    /// every few seconds. No less than 1m.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = memory)]
    pub(crate) max_memory: Size,

    /// Requests of one worker after which it becomes the zygote; none for never
    ///
    /// What it has loaded, compiled and cached in use is then shared by all workers, which are forked from it anew. A
    /// list such as 50,500,5000 does so again each time that one has served so many since the last. See docs/refork.md
    /// for what an application must let go of.
    #[arg(long, hide_short_help = true, value_name = "N[,N...]")]
    refork: Option<Reforks>,

    /// Requests that may wait for a worker; more get 503
    ///
    /// A request waits from when it is handed over until a worker has claimed it, for a moment also where workers are idle. So
    /// leave room for those that come at once, and for at least as many as there are workers.
    #[arg(long, value_name = "N", default_value = "1024", value_parser = whole::<u32>(1..=QUEUE))]
    pub(crate) max_queue: u32,

    /// Connections that workers may take [default: one less than --workers]
    ///
    /// An application that uses psgix.io, for a WebSocket say, keeps a worker busy for as long as that lasts. Beyond this
    /// number psgix.io dies, and the client gets 503 with Retry-After; so one worker is left for everybody else. 0 for none.
    /// WebSockets that are streams of HTTP/2 count, too, and are offered where this is not 0.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole::<u32>(0..=MOST))]
    max_upgrades: Option<u32>,

    /// Time for running requests to end at a stop or reload; 0 for any
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) graceful_timeout: Time,
}

/// Most workers:
/// every cell of the segment, less those that a reload needs for the next generation.
pub(crate) const MOST: u64 = (howdah_wire::MAX_WORKERS / 2) as u64;
/// CGI scripts that run at a time: most of them wait more than they compute, and each is a process.
const SCRIPTS: u32 = 16;
/// Most threads of the front.
const THREADS: u64 = howdah_wire::MAX_FRONTS as u64;
/// Most waiting requests: half of the slots, so that as many may be running or on their way out.
const QUEUE: u64 = (howdah_wire::MAX_SLOTS / 2) as u64;

/// What no worker stays below: a smaller limit would replace each of them every few seconds.
const LEAST_MEMORY: u64 = 1 << 20;

fn memory(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    match size.0 {
        1..LEAST_MEMORY => {
            Err(format!("{} bytes are less than any worker has: write 1m or more, such as 200m", size.0))
        }
        _ => Ok(size),
    }
}

/// Tells the upper bounds, at the end of the long help.
pub(super) fn bounded(command: Command) -> Command {
    let bounds = [
        ("workers", MOST),
        ("min_workers", MOST),
        ("front_threads", THREADS),
        ("max_queue", QUEUE),
        ("max_upgrades", MOST),
    ];
    bounds.into_iter().fold(command, |command, (id, most)| {
        command.mut_arg(id, |arg| {
            let help =
                arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
            arg.long_help(format!("{help}\n\nAt most {most}."))
        })
    })
}

impl Workers {
    /// The number asked for, or the default for this machine.
    pub(crate) fn count(&self) -> u32 {
        self.workers.unwrap_or_else(|| default_workers(cpus()))
    }

    /// For scripts, each a process for one request, of which `workers` may run at a time.
    pub(super) fn for_scripts(&mut self) {
        (self.workers, self.min_workers) = (Some(SCRIPTS), None);
        (self.max_requests, self.max_lifetime, self.max_memory) = (0, Time(Duration::ZERO), Size(0));
    }

    /// Requests of a worker after which it becomes the zygote, for the first time and for each after that.
    pub(crate) fn reforks(&self) -> Vec<u64> {
        self.refork.clone().unwrap_or_default().0
    }

    /// Nobody becomes the zygote.
    pub(super) fn never_refork(&mut self) {
        self.refork = None;
    }

    /// A number that no worker reaches.
    pub(super) fn unreachable_refork(&self) -> Option<u64> {
        let most = self.max_requests - self.max_requests / 10;
        self.reforks().into_iter().find(|&number| most > 0 && number >= most)
    }

    /// Connections that they may take at once.
    pub(crate) fn most_upgrades(&self) -> u32 {
        self.max_upgrades.unwrap_or_else(|| self.count().saturating_sub(1).max(1))
    }

    /// Whether more are to be kept than may be.
    pub(super) fn fewest_exceeds(&self) -> bool {
        self.min_workers.is_some_and(|fewest| fewest > self.count())
    }

    /// The number to start with; fewer than [`Workers::count`] when the pool is to follow the load.
    pub(crate) fn fewest(&self) -> u32 {
        self.min_workers.unwrap_or_else(|| self.count()).min(self.count())
    }
}

/// CPUs that the scheduler grants us: affinity mask and cgroup quota (v1 and v2) together.
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// A worker that waits for its database leaves its CPU idle, so there are two per CPU; and on a small
/// machine four, since two slow requests must not stop the site.
fn default_workers(cpus: u32) -> u32 {
    cpus.saturating_mul(2).clamp(4, 256)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{MOST, QUEUE, THREADS, Workers, default_workers};

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        workers: Workers,
    }

    #[test]
    fn upgrades_leave_a_worker_for_others_where_there_are_several() {
        for (line, most) in [
            ("--workers 1", 1),
            ("--workers 2", 1),
            ("--workers 8 --min-workers 2", 7),
            ("--workers 8 --max-upgrades 8", 8),
            ("--workers 8 --max-upgrades 0", 0),
        ] {
            let options = Options::parse_from(["howdah"].into_iter().chain(line.split(' ')));
            assert_eq!(options.workers.most_upgrades(), most, "{line}");
        }
    }

    #[test]
    fn a_limit_of_memory_that_no_worker_stays_below_is_refused() {
        for (value, bytes) in [
            ("0", Some(0)),
            ("200", None),
            ("1023k", None),
            ("1048575", None),
            ("1m", Some(1 << 20)),
            ("200m", Some(200 << 20)),
        ] {
            let options = Options::try_parse_from(["howdah", "--max-memory", value]);
            let read = options.map(|options| options.workers.max_memory.0);
            let refused = read.as_ref().is_err_and(|error| error.to_string().contains("such as 200m"));
            assert_eq!((read.ok(), refused), (bytes, bytes.is_none()), "{value}");
        }
    }

    #[test]
    fn help_and_pages_tell_the_upper_bounds() {
        let help = crate::options::command().render_long_help().to_string();
        for (option, most, page) in [
            ("--workers <N>", MOST, include_str!("../../../../docs/processes.md")),
            ("--front-threads <N>", THREADS, include_str!("../../../../docs/tls.md")),
            ("--max-queue <N>", QUEUE, include_str!("../../../../docs/connections.md")),
        ] {
            let of_option = help.split_once(option).map(|(_, rest)| rest).unwrap_or_default();
            let of_option = of_option.split("\n      --").next().unwrap_or_default();
            assert!(of_option.contains(&format!("At most {most}.")), "{option}: {of_option}");
            let name = option.trim_end_matches(" <N>");
            assert!(page.contains(name) && page.contains(&format!("at most {most}")), "{name}");
        }
    }

    #[test]
    fn default_is_two_per_cpu_and_at_least_four() {
        for (cpus, workers) in [(1, 4), (2, 4), (3, 6), (16, 32), (u32::MAX, 256)] {
            assert_eq!(default_workers(cpus), workers);
        }
    }
}
