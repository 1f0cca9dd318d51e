"""What a server's processes cost: CPU time and memory, read from /proc.

Called by runner before and after each load, and by Sampler during it. "The server" is every process that descends
from the one we started or belongs to its session, so a worker that outlived its parent still counts. A process
that was reaped counts too: the kernel adds its time to its parent's cutime and cstime.
"""

import os
import threading
from dataclasses import dataclass

TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """One line of /proc/PID/stat; times in seconds."""

    pid: int
    parent: int
    session: int
    own: float
    reaped: float
    start: int = 0
    ended: bool = False  # waits to be reaped

    @property
    def identity(self):
        """What tells it from a later process with its number."""
        return self.pid, self.start


@dataclass(frozen=True)
class Usage:
    """CPU seconds since the server started: of its first process alone, and of all others."""

    first: float
    others: float
    pids: frozenset

    @property
    def total(self):
        return self.first + self.others


def parse_stat(text):
    """A Process from the text of /proc/PID/stat; the name in parentheses may hold anything."""
    pid, _, rest = text.partition(" (")
    fields = rest.rpartition(") ")[2].split()
    times = [int(field) * TICK for field in fields[11:15]]
    own, reaped = times[0] + times[1], times[2] + times[3]
    return Process(int(pid), int(fields[1]), int(fields[3]), own, reaped, int(fields[19]), fields[0] == "Z")


def all_processes(proc="/proc"):
    texts = (read(f"{proc}/{name}/stat") for name in os.listdir(proc) if name.isdigit())
    return [parse_stat(text) for text in texts if text]


def family(processes, root):
    """The processes of the server whose first process is `root`."""
    children = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    pids, waiting = set(), [root] + [p.pid for p in processes if p.session == root]
    while waiting:
        pid = waiting.pop()
        if pid not in pids:
            pids.add(pid)
            waiting.extend(children.get(pid, []))
    return [process for process in processes if process.pid in pids]


def precise(process):
    """A living process's own time. stat counts in steps of 10 ms; schedstat in nanoseconds, but only for threads
    that still run: the larger of the two is the nearer one."""
    tasks = f"/proc/{process.pid}/task"
    try:
        spent = [read(f"{tasks}/{task}/schedstat").split() for task in os.listdir(tasks)]
    except OSError:
        return process.own
    return max(process.own, sum(int(words[0]) for words in spent if words) / 1e9)


def usage_of(members, root):
    own = {p.pid: precise(p) for p in members}
    first = own.pop(root, 0.0)
    others = sum(own.values()) + sum(p.reaped for p in members)
    return Usage(first, others, frozenset(p.pid for p in members))


def usage(root):
    """CPU time of a server. Read again when processes came or went meanwhile, for then a sum may be torn."""
    members = usage_of(family(all_processes(), root), root)
    for _ in range(5):
        again = usage_of(family(all_processes(), root), root)
        if again.pids == members.pids:
            return again
        members = again
    return members


def parse_rollup(text):
    """(rss, pss) in KiB from the text of smaps_rollup."""
    sizes = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB":
            sizes[words[0]] = int(words[1])
    return sizes.get("Rss:", 0), sizes.get("Pss:", 0)


def memory(pids):
    """(rss, pss) in KiB of these processes together, or None when we may not read them."""
    rolls = [parse_rollup(read(f"/proc/{pid}/smaps_rollup")) for pid in pids]
    rss, pss = (sum(column) for column in zip(*rolls)) if rolls else (0, 0)
    return (rss, pss) if pss else None


def machine_busy():
    """CPU seconds that all CPUs of the machine have worked, idle and waiting for disks left out."""
    with open("/proc/stat", encoding="ascii") as stat:
        words = [int(word) for word in stat.readline().split()[1:9]]
    user, nice, system, _idle, _wait, irq, softirq, steal = words
    return (user + nice + system + irq + softirq + steal) * TICK


def read(path):
    """The text of a file of /proc, or "" for a process that is gone or not ours to read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class Sampler(threading.Thread):
    """Notes the highest RSS and PSS of a server while a load runs: with Sampler(root) as s: ...; s.peak."""

    # Often enough for loads of one second and longer, seldom enough to cost below 1 % of a CPU.
    INTERVAL = 0.4

    def __init__(self, root):
        super().__init__(daemon=True)
        self.root, self.peak, self._stop_asked = root, None, threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._stop_asked.set()
        self.join()

    def run(self):
        while not self._stop_asked.wait(self.INTERVAL):
            self.note()

    def note(self):
        sizes = memory(p.pid for p in family(all_processes(), self.root))
        if sizes:
            self.peak = tuple(map(max, self.peak, sizes)) if self.peak else sizes
