"""Measures one workload: its servers side by side, load after load, round after round.

Called by main for each workload of the table. The order is A B C A B C, so that what changes on the machine
meanwhile changes all servers alike. A server that fails a load once gets no figures there: quick and wrong is not
quick.
"""

import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path

from . import background, execs, loads, proc
from .server import Server, Unable

MIB = 1024


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    rounds: int = 5
    seconds: float = 1.5
    smoke: bool = False

    @property
    def counted(self):
        """Requests in which executed programs are counted."""
        return 50 if self.smoke else 200 if self.seconds < 1 else 1000


@dataclass
class Entry:
    """A server in one of its variants: a row of the tables."""

    peer: object
    variant: object
    loads: list
    server: object = None
    refused: dict = field(default_factory=dict)  # by load
    rounds: dict = field(default_factory=dict)  # by load
    executed: dict = field(default_factory=dict)  # by load

    @property
    def title(self):
        return f"{self.peer.title}, {self.variant.label}" if self.variant.label else self.peer.title


def measure(workload, peers, settings, say):
    """One workload as the report wants it: entries, loads, left out."""
    chosen = [load for load in workload.loads if load.smoke or not settings.smoke]
    entries, left_out = participants(workload, chosen, peers, settings)
    commands = {}
    with ExitStack() as running:
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="howdah-bench-")))
        for entry in entries:
            start(entry, workload, settings, running, scratch)
        for turn in range(settings.rounds):
            for load in chosen:
                for entry in entries:
                    if load in entry.loads and load.name not in entry.refused:
                        say(f"{workload.name} {load.name}, round {turn + 1}: {entry.title}")
                        commands[load.name] = once(entry, load, settings, scratch) or commands.get(load.name)
        if workload.executed and execs.possible():
            count_programs(workload, chosen, entries, settings, say)
    return described(workload, chosen, entries, commands, left_out)


def participants(workload, chosen, peers, settings):
    """(entries, {title: why it takes no part in some or all of the loads})"""
    entries, left_out = [], {}
    for variant in workload.variants:
        for peer in peers if variant.smoke or not settings.smoke else []:
            reason = workload.takes(peer, variant)
            loads_of = [] if reason is not None else [load for load in chosen if can(peer, load)]
            if loads_of:
                entries.append(Entry(peer, variant, loads_of))
            if reason or reason is None and len(loads_of) < len(chosen):
                left_out[peer.title] = reason or "where connections are kept, or HTTP/2 is spoken: it does not"
    return entries, left_out


def can(peer, load):
    return (peer.keepalive or not load.keepalive) and (peer.http2 or not load.streams)


def start(entry, workload, settings, running, scratch):
    """Starts a server and asks it once in each load's way; what it cannot do is refused at once."""
    try:
        entry.server = running.enter_context(Server(entry.peer, workload.plan(entry.variant)))
    except Unable as error:
        entry.refused = {load.name: str(error) for load in entry.loads}
        return
    for load in entry.loads:
        reason = cannot(entry, load, scratch)
        if reason:
            entry.refused[load.name] = reason
    able = [load for load in entry.loads if load.name not in entry.refused]
    if able:
        warm_up(entry, able[0], min(1, settings.seconds), scratch)


def cannot(entry, load, scratch):
    try:
        status, body = entry.server.get(load.path, loads.body_bytes(load, scratch), load.kind if load.body else None)
    except (OSError, HTTPException) as error:
        return f"no answer: {error}"
    if status == 200 and entry.peer.role == "floor":
        return None  # it has one answer for everything
    if status != 200 or len(body) != load.answer:
        return f"answers {status} with {len(body)} bytes, not 200 with {load.answer}"
    return None


def warm_up(entry, load, seconds, scratch):
    """A moment of the first load: caches, lazy loading and the workers' first requests are not what is asked."""
    loads.run(replace(load, background=""), entry.server.url, seconds, scratch)


def once(entry, load, settings, scratch):
    """One load on one server: its record is kept, or the reason why it is refused. Gives the command."""
    seconds = max(load.least, settings.seconds / (2 if load.brief else 1))
    try:
        record, command = observe(entry.server, load, seconds, scratch)
    except background.NoBackground as error:
        entry.refused[load.name] = str(error)
        return None
    entry.rounds.setdefault(load.name, []).append(record)
    if record["failures"]:
        entry.refused[load.name] = ", ".join([f"{kind}: {count}" for kind, count in record["failures"].items()]
                                             + entry.server.death())
    return command


def observe(server, load, seconds, scratch):
    """Runs a load and accounts for it."""
    first_before = proc.memory([server.pid])
    with background.start(load.background, server, seconds) as beside:
        first_with = proc.memory([server.pid])
        accounts = Accounts(server.pid)
        with proc.Sampler(server.pid) as sampler:
            outcome, command = loads.run(load, server.url, seconds, scratch)
        spent = accounts.spent(outcome)
        sampler.note()
        held = beside.report()
    record = {"requests": outcome.requests, "seconds": outcome.seconds, "rate": outcome.rate, "p50": outcome.p50,
              "p99": outcome.p99, "kept": outcome.kept, **spent, **sizes(sampler.peak),
              "first_pss_before": pss(first_before), "first_pss_with": pss(first_with),
              "background": held, "failures": {**outcome.failures, **short(held)}}
    if load.background:
        record["noise"] = None  # the background's own CPU time would count as a stranger's
    return record, server.shown(command)


class Accounts:
    """CPU time from now until spent()."""

    def __init__(self, pid):
        self.pid, self.before = pid, proc.usage(pid)
        self.busy, self.self_used, self.begun = proc.machine_busy(), own_cpu(), time.monotonic()

    def spent(self, outcome):
        after, wall = proc.usage(self.pid), time.monotonic() - self.begun
        used = after.total - self.before.total
        strangers = proc.machine_busy() - self.busy - used - outcome.client_cpu - own_cpu() + self.self_used
        per = 1e6 / outcome.requests if outcome.requests else 0.0
        return {"cpu_us": used * per, "first_us": (after.first - self.before.first) * per,
                "others_us": (after.others - self.before.others) * per, "client_cpu": outcome.client_cpu / wall,
                "noise": max(0.0, strangers) / (wall * os.cpu_count())}


def own_cpu():
    times = os.times()
    return times.user + times.system


def sizes(peak):
    return {"rss": peak[0] / MIB, "pss": peak[1] / MIB} if peak else {"rss": None, "pss": None}


def pss(memory):
    return memory[1] if memory else None


def short(held):
    """Idle connections that the server did not hold were not measured; slow clients it may throw out."""
    if held and held["wanted"] == background.IDLE and held["held"] < held["wanted"]:
        return {f"idle connections of {held['wanted']} closed by the server": held["wanted"] - held["held"]}
    return {}


def count_programs(workload, chosen, entries, settings, say):
    """After the rounds, for to listen to the kernel takes time."""
    for load in chosen:
        for entry in entries:
            if load in entry.loads and load.name not in entry.refused:
                say(f"{workload.name} {load.name}, executed programs: {entry.title}")
                entry.executed[load.name] = execs.count(entry.server, load, settings.counted)


def described(workload, chosen, entries, commands, left_out):
    """What the report and the JSON file hold."""
    rows = {load.name: [row(entry, load) for entry in entries if load in entry.loads] for load in chosen}
    return {"name": workload.name, "title": workload.title, "about": workload.about, "workers": workload.workers,
            "app": workload.app, "left_out": left_out,
            "servers": {entry.title: entry.server.shown(entry.server.command) for entry in entries if entry.server},
            "loads": [{"name": load.name, "title": load.title, "brief": load.brief, "connections": load.connections,
                       "command": commands.get(load.name), "rows": rows[load.name]} for load in chosen]}


def row(entry, load):
    refused = entry.refused.get(load.name)
    return {"server": entry.peer.name, "role": entry.peer.role, "title": entry.title,
            "variant": entry.variant.label, "refused": refused, "rounds": entry.rounds.get(load.name, []),
            "executed": entry.executed.get(load.name)}
