//! Whom the kernel ends first where there is no more memory: the process with most of it, to which each has so many thousandths of all
//! memory added as its `oom_score_adj` says (proc(5)).
//!
//! A front may hold more than each of its workers, and with it the whole server would end. Nobody may make a process count for less
//! without privileges, but everybody for more: so what can be replaced gets a figure, from which all that it starts inherits it. It is a
//! share of the memory for which the processes compete, so that it amounts to the same bytes in a small container, where it decides,
//! and on a large machine, where it is a thousandth or two and changes nothing for other programs.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags};

use crate::process::Pid;

/// Thousandths of which all of the memory is made.
const ALL: i32 = 1000;
/// The most that a process gets here: workers (`xs/zygote.c`) and scripts have a tenth more, so that they go first, and 1000 is the kernel's limit.
const MOST: i32 = 909;
/// Whoever has it is never ended for lack of memory, as somebody has wanted.
const EXEMPT: i32 = -1000;
const OWN: &CStr = c"/proc/self/oom_score_adj";

/// What an expendable process is to have as its `oom_score_adj`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score(i32);

impl Score {
    /// That of a process which counts for `bytes` more than it has, in comparison with this one. None where that changes nothing, or
    /// cannot be known: without /proc, and where this process is never to be ended.
    #[must_use]
    pub fn of(bytes: u64) -> Option<Self> {
        raised(own()?, bytes, System::read()?.memory()?).map(Self)
    }

    /// That of what an expendable process starts and should not go before: a tenth more than its own, as of workers.
    #[must_use]
    pub fn of_children() -> Option<Self> {
        a_tenth_more(own()?).map(Self)
    }

    /// Has this process have it. Where that is refused nothing changes. Makes system calls alone, for one between fork and exec.
    pub(crate) fn take(self) {
        self.write(OWN);
    }

    /// Has `command` take it before it executes its program. Before it changes its user, too: what it may write of its own in /proc is
    /// root's after that.
    pub(crate) fn give(self, command: &mut Command) {
        let take = move || {
            self.take();
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes system calls alone; it takes no lock and does not allocate.
        unsafe { command.pre_exec(take) };
    }

    /// The same for a child of this process that nobody has waited for.
    pub fn set(self, child: Pid) {
        if let Ok(path) = std::ffi::CString::new(format!("/proc/{}/oom_score_adj", child.as_raw_pid())) {
            self.write(&path);
        }
    }

    fn write(self, path: &CStr) {
        let mut text = [0; 8];
        let text = decimal(self.0, &mut text);
        if let Ok(file) = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
            let _ = rustix::io::write(&file, text);
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn own() -> Option<i32> {
    std::fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok()
}

fn a_tenth_more(own: i32) -> Option<i32> {
    let more = own.saturating_add((own.max(0) + 9) / 10).min(ALL);
    (own > 0 && more > own).then_some(more)
}

/// Formatting allocates nothing.
fn decimal(number: i32, text: &mut [u8; 8]) -> &[u8] {
    let mut rest = &mut text[..];
    let _ = io::Write::write_fmt(&mut rest, format_args!("{number}"));
    let left = rest.len();
    let length = text.len() - left;
    &text[..length]
}

/// Never lower than `own`, which a process inherits.
fn raised(own: i32, bytes: u64, memory: u64) -> Option<i32> {
    if own <= EXEMPT {
        return None;
    }
    let share = bytes.saturating_mul(ALL.unsigned_abs().into()).div_ceil(memory.max(1));
    let share = i32::try_from(share).unwrap_or(ALL).min(ALL);
    Some(own.saturating_add(share).min(MOST)).filter(|score| *score > own)
}

/// What the kernel tells of memory, and of groups that may have less.
#[derive(Debug, Default)]
struct System {
    /// /proc/meminfo
    memory: String,
    /// /proc/self/cgroup
    groups: String,
    /// /proc/self/mountinfo
    mounts: String,
}

impl System {
    fn read() -> Option<Self> {
        let memory = std::fs::read_to_string("/proc/meminfo").ok()?;
        // In names there may be anything.
        let read = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        Some(Self { memory, groups: read("/proc/self/cgroup"), mounts: read("/proc/self/mountinfo") })
    }

    /// Bytes of memory and swap for which this process competes, as the kernel counts them: those of the group, among its own and those
    /// above it, that has fewest, or of the machine.
    fn memory(&self) -> Option<u64> {
        let kilobytes = |name| Some(number_behind(name, &self.memory)?.saturating_mul(1024));
        let swap = kilobytes("SwapTotal:").unwrap_or_default();
        let machine = kilobytes("MemTotal:")?.saturating_add(swap);
        let found = |limit: fn(&Path, &Path, u64) -> Option<u64>, kind, names: &str| {
            let path = self.group(names)?;
            self.mounts
                .lines()
                .filter_map(|line| place(line, kind, names, &path))
                .find_map(|(top, group)| limit(&top, &group, swap))
        };
        // Where both kinds are mounted, memory is counted in one of them.
        let limits = [found(unified, "cgroup2", ""), found(legacy, "cgroup", "memory")];
        Some(limits.into_iter().flatten().fold(machine, u64::min))
    }

    /// The path of this process's group in the hierarchy of that controller; without a name in the unified one.
    fn group(&self, controller: &str) -> Option<PathBuf> {
        let path = |line: &str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then(|| PathBuf::from(path))
        };
        self.groups.lines().find_map(path)
    }
}

/// Where a hierarchy is mounted, and the directory of a group in it. None where the line is another's, or does not show that group: the part
/// that is mounted need not have it, and a process may be outside of its own namespace of groups.
fn place(line: &str, kind: &str, controller: &str, group: &Path) -> Option<(PathBuf, PathBuf)> {
    let (mount, system) = line.split_once(" - ")?;
    let (mut mount, mut system) = (mount.split(' ').skip(3), system.split(' '));
    let is_it = system.next() == Some(kind);
    let mut options = system.nth(1)?.split(',');
    if !is_it || !controller.is_empty() && !options.any(|option| option == controller) {
        return None;
    }
    let (root, top) = (unescaped(mount.next()?), PathBuf::from(unescaped(mount.next()?)));
    let below = group.strip_prefix(root).ok()?;
    let is_inside = below.components().all(|part| matches!(part, Component::Normal(_)));
    let directory = top.join(below);
    is_inside.then_some((top, directory))
}

/// As the kernel writes a path into a list: a blank is `\040`.
fn unescaped(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (escaped, byte)| path.replace(escaped, byte))
}

/// Version 2: each group has limits of its own.
fn unified(top: &Path, group: &Path, swap: u64) -> Option<u64> {
    let groups = group.ancestors().take_while(|group| group.starts_with(top));
    groups.filter_map(|group| limit_of(group, swap)).min()
}

fn limit_of(group: &Path, swap: u64) -> Option<u64> {
    // "max" is no number, and the topmost group has no file.
    let limit = |name| std::fs::read_to_string(group.join(name)).ok()?.trim().parse().ok();
    let swapped = limit("memory.swap.max").unwrap_or(u64::MAX);
    Some(u64::saturating_add(limit("memory.max")?, swap.min(swapped)))
}

/// Version 1: the kernel tells the smallest of the group and those above it, of memory and of memory with swap.
fn legacy(_top: &Path, group: &Path, swap: u64) -> Option<u64> {
    let told = std::fs::read_to_string(group.join("memory.stat")).ok()?;
    let memory = number_behind("hierarchical_memory_limit", &told)?;
    let both = number_behind("hierarchical_memsw_limit", &told).unwrap_or(u64::MAX);
    Some(memory.saturating_add(swap.min(both.saturating_sub(memory))))
}

fn number_behind(name: &str, text: &str) -> Option<u64> {
    let mut words = text.lines().map(str::split_ascii_whitespace);
    words.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn the_figure_amounts_to_the_same_bytes_however_much_memory_there_is() {
        for (own, memory, expected) in [
            (0, 64 * GIB, Some(2)),
            (0, GIB, Some(125)),
            (0, 256 * MIB, Some(500)),
            (0, 96 * MIB, Some(909)),
            (0, 0, Some(909)),
            (200, GIB, Some(325)),
            (-500, GIB, Some(-375)),
            (-997, 96 * MIB, Some(3)),
            // There is no more...
            (900, 256 * MIB, Some(909)),
            (950, 256 * MIB, None),
            (1000, GIB, None),
            // ...and nobody is to be ended who was never to be.
            (-1000, GIB, None),
        ] {
            assert_eq!(raised(own, 128 * MIB, memory), expected, "{own} of {memory}");
        }
        assert_eq!(raised(5, 0, GIB), None);
        assert_eq!(raised(5, u64::MAX, GIB), Some(909));
    }

    #[test]
    fn what_it_starts_has_a_tenth_more_unless_it_has_none() {
        for (own, expected) in [
            (1, Some(2)),
            (125, Some(138)),
            (909, Some(1000)),
            (950, Some(1000)),
            (1000, None),
            (0, None),
            (-999, None),
        ] {
            assert_eq!(a_tenth_more(own), expected, "{own}");
        }
    }

    #[test]
    fn a_figure_is_written_as_it_is_read() {
        for number in [0, 7, 1000, -999] {
            assert_eq!(decimal(number, &mut [0; 8]), number.to_string().as_bytes());
        }
    }

    /// The machine has a GiB, and 512 MiB of swap.
    fn system(groups: &str, mounts: &str) -> System {
        let memory = "MemTotal:        1048576 kB\nMemFree:   5 kB\nSwapTotal:      524288 kB\n";
        System { memory: memory.into(), groups: groups.into(), mounts: mounts.into() }
    }

    fn write(directory: &Path, files: &[(&str, &str)]) {
        std::fs::create_dir_all(directory).unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(directory.join(name), text).unwrap());
    }

    #[test]
    fn the_smallest_limit_from_the_group_upwards_counts_with_its_swap() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("a b");
        write(&top, &[("memory.stat", "anon 5\n")]);
        write(&top.join("large"), &[("memory.max", "max\n"), ("memory.swap.max", "0\n")]);
        write(&top.join("large/small"), &[("memory.max", "104857600\n"), ("memory.swap.max", "1048576\n")]);
        write(&top.join("large/small/none"), &[("memory.max", "max\n"), ("memory.swap.max", "max\n")]);
        write(&top.join("swaps"), &[("memory.max", "104857600\n"), ("memory.swap.max", "max\n")]);
        write(&top.join("huge"), &[("memory.max", "104857600000\n"), ("memory.swap.max", "0\n")]);
        let at = top.display().to_string().replace(' ', "\\040");
        let mount = |root| {
            format!(
                "1 2 0:1 / /proc rw - proc proc rw\n5 4 0:9 {root} {at} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
            )
        };
        let whole = GIB + 512 * MIB;
        for (group, root, expected) in [
            ("/large/small/none", "/", 101 * MIB),
            ("/large/small", "/", 101 * MIB),
            // A container sees its own group, whose path it has cut off or not.
            ("/docker/1/large/small", "/docker/1", 101 * MIB),
            ("/swaps", "/", 612 * MIB),
            ("/large", "/", whole),
            ("/huge", "/", whole),
            ("/", "/", whole),
            // A group that cannot be seen from here.
            ("/../other", "/", whole),
            ("/small", "/large", whole),
            ("/swaps", "/../..", whole),
            ("/gone/gone", "/", whole),
        ] {
            let system = system(&format!("5:pids:/elsewhere\n0::{group}\n"), &mount(root));
            assert_eq!(system.memory(), Some(expected), "{group} in {root}");
        }
        assert_eq!(system("", "").memory(), Some(whole));
        assert_eq!(system("nonsense\n0::/swaps\n", "nonsense - \n").memory(), Some(whole));
        assert_eq!(System::default().memory(), None);
    }

    #[test]
    fn of_version_1_the_kernel_tells_the_smallest_limit_itself() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let mounts = format!(
            "5 4 0:9 / /none rw - cgroup cgroup rw,cpu\n6 4 0:8 / {at} rw,nosuid shared:4 - cgroup cgroup rw,memory\n\
             7 4 0:7 / /unified rw - cgroup2 cgroup2 rw\n"
        );
        for (told, expected) in [
            ("cache 5\nhierarchical_memory_limit 104857600\ntotal_rss 0\n", 612 * MIB),
            ("hierarchical_memory_limit 104857600\nhierarchical_memsw_limit 104857600\n", 100 * MIB),
            ("hierarchical_memory_limit 104857600\nhierarchical_memsw_limit 209715200\n", 200 * MIB),
            ("hierarchical_memory_limit 9223372036854771712\n", GIB + 512 * MIB),
            ("", GIB + 512 * MIB),
        ] {
            write(&dir.path().join("app"), &[("memory.stat", told)]);
            let system = system("4:memory:/app\n1:cpu:/other\n0::/\n", &mounts);
            assert_eq!(system.memory(), Some(expected), "{told}");
        }
    }
}
