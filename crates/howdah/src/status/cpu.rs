//! CPU time of the front, and of workers and zygotes, ended ones included; `collect` asks when somebody looks.
//!
//! A process that has been waited for counts as its parent's children's time: workers in their zygote's, zygotes in
//! ours. So ours, that of the zygotes and that of the living workers together miss nothing.

use std::collections::HashMap;
use std::fs;

use howdah_metrics::Cpu;
use howdah_supervisor::Pid;

/// Seconds in user mode and in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spent {
    user: f64,
    system: f64,
}

/// What a process has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    own: Spent,
    children: Spent,
}

/// Reads CPU times.
#[derive(Debug)]
pub(super) struct Meter {
    ticks: f64,
    highest: Cpu,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { ticks: rustix::param::clock_ticks_per_second() as f64, highest: Cpu::default() }
    }

    /// What has been spent by now, given the zygotes and workers that live.
    ///
    /// A worker that ends between two readings may be missed for once; a counter must not fall for that.
    pub(super) fn read(&mut self, processes: impl Iterator<Item = Pid>) -> Cpu {
        let mut workers = Spent::default();
        for pid in processes {
            let times = self.times(&format!("/proc/{}/stat", pid.as_raw_nonzero()));
            workers.add(times.own);
            workers.add(times.children);
        }
        let front = self.times("/proc/self/stat");
        workers.add(front.children);
        let highest = &mut self.highest;
        for (highest, now) in [
            (&mut highest.front_user, front.own.user),
            (&mut highest.front_system, front.own.system),
            (&mut highest.workers_user, workers.user),
            (&mut highest.workers_system, workers.system),
        ] {
            *highest = highest.max(now);
        }
        *highest
    }

    /// CPU seconds of the front threads, by their number: the first is the process's first thread, the others have
    /// their number in their name.
    pub(super) fn fronts(&self) -> HashMap<u32, f64> {
        let Ok(tasks) = fs::read_dir("/proc/self/task") else { return HashMap::new() };
        let seconds = |entry: fs::DirEntry| {
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            let first = entry.file_name().to_str()?.parse() == Ok(std::process::id());
            let number = if first { Some(0) } else { name.trim_end().strip_prefix("front ")?.parse().ok() };
            let own = self.times(entry.path().join("stat").to_str()?).own;
            Some((number?, own.user + own.system))
        };
        tasks.flatten().filter_map(seconds).collect()
    }

    /// Of a process that is gone, nothing.
    fn times(&self, path: &str) -> Times {
        fs::read(path).ok().and_then(|stat| parse(&stat, self.ticks)).unwrap_or_default()
    }
}

impl Spent {
    fn add(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
    }
}

/// Takes the times from a line of proc(5)'s `stat`. The name in it, which may be any bytes, ends at the last `)`.
fn parse(stat: &[u8], ticks: f64) -> Option<Times> {
    let stat = String::from_utf8_lossy(stat);
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let seconds = |at: usize| Some(fields.get(at)?.parse::<f64>().ok()? / ticks);
    let spent = |at: usize| Some(Spent { user: seconds(at)?, system: seconds(at + 1)? });
    Some(Times { own: spent(11)?, children: spent(13)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat =
            b"42 (howdah: a) b\xe9 (c) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 300 100 20 0 1 0 123 456 789\n";
        let expected =
            Times { own: Spent { user: 1.5, system: 0.5 }, children: Spent { user: 3.0, system: 1.0 } };
        assert_eq!(parse(stat, 100.0), Some(expected));
        assert_eq!(parse(b"42 (x", 100.0), None);
        assert_eq!(parse(b"42 (x) S 1 2", 100.0), None);
    }

    #[test]
    fn counters_do_not_fall() {
        let mut meter = Meter::new();
        let before = meter.read([rustix::process::getpid()].into_iter());
        meter.highest.workers_user = 1e6;
        let after = meter.read(std::iter::empty());
        assert!(after.workers_user >= 1e6 && after.front_user >= before.front_user, "{after:?}");
    }
}
