"""What is measured on each server alone: the memory of idle workers, and system calls per request.

Called by main after the rounds. Memory wants no neighbours, for PSS divides a shared library among all processes
that map it. System calls are counted by strace, which slows a server down many times: no figure of speed is taken
here, and a server that does several things per wake-up does fewer of them when it is slow.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from . import loads, proc
from .loads import Load
from .server import Plan, Server, Unable

WARM = Load("warm", "", "ab", 10, keepalive=False)
TRACED = [Load("ab-10", "10 clients, new connections", "ab", 10, keepalive=False),
          Load("wrk-8", "8 kept connections", "wrk", 8), Load("wrk-64", "64 kept connections", "wrk", 64)]


def measure(peers, settings, say):
    """{title: {"pss", "rss", "calls"}} for every server that runs hello with 10 workers."""
    found = {}
    for peer in peers:
        if "psgi" in peer.apps and not peer.only:
            say(f"alone: {peer.title}")
            found[peer.title] = {"server": peer.name, **one(peer, settings)}
    return found


def one(peer, settings):
    try:
        with tempfile.TemporaryDirectory(prefix="howdah-bench-") as scratch, Server(peer, Plan("hello")) as server:
            loads.run(WARM, server.url, min(1, settings.seconds), Path(scratch))
            time.sleep(0.5)
            known = proc.memory(p.pid for p in server.family())
            rss, pss = (size / 1024 for size in known) if known else (None, None)
            chosen = [load for load in TRACED if peer.keepalive or not load.keepalive]
            if settings.smoke:
                del chosen[1:]
            return {"rss": rss, "pss": pss, "calls": traced(server, chosen, min(1, settings.seconds), Path(scratch))}
    except Unable as error:
        return {"refused": str(error)}


def traced(server, chosen, seconds, scratch):
    """{load: calls per request, or the reason why there are none}"""
    if not shutil.which("strace"):
        return {load.name: {"refused": "no program strace"} for load in chosen}
    return {load.name: trace(server, load, seconds, scratch) for load in chosen}


def trace(server, load, seconds, scratch):
    pids = [p.pid for p in server.family()]
    counts = scratch / f"strace-{load.name}"
    strace = subprocess.Popen(["strace", "-f", "-c", "-o", str(counts), *(f"-p{pid}" for pid in pids)],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        if not attached(strace, len(pids)):
            return {"refused": "strace may not look at the server"}
        outcome, _ = loads.run(load, server.url, seconds, scratch)
        strace.send_signal(signal.SIGINT)
        strace.communicate(timeout=20)
    finally:
        if strace.poll() is None:
            strace.kill()
            strace.wait()
    if outcome.failures or not outcome.requests:
        return {"refused": ", ".join(outcome.failures) or "no answer"}
    return per_request(parse(counts.read_text()), outcome.requests)


def attached(strace, count):
    """Waits until strace says that it holds each process."""
    said, end = b"", time.monotonic() + 5
    while time.monotonic() < end and strace.poll() is None:
        if select.select([strace.stderr], [], [], 0.1)[0]:
            said += os.read(strace.stderr.fileno(), 65536)
        if len(re.findall(rb"Process \d+ attached", said)) >= count:
            return True
    return False


def parse(text):
    """{call: times} from strace's table: % time, seconds, usecs/call, calls, errors (may be empty), syscall."""
    calls = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) in (5, 6) and words[0][:1].isdigit() and words[-1] != "total":
            calls[words[-1]] = calls.get(words[-1], 0) + int(words[3])
    return calls


def per_request(calls, requests):
    most = sorted(calls.items(), key=lambda item: -item[1])[:8]
    return {"requests": requests, "calls": sum(calls.values()) / requests,
            "most": {call: times / requests for call, times in most}}
