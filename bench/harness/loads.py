"""The programs that put a server under load: how each is called, and what its output says.

Called by runner. Each driver has `command(load, url, seconds, scratch)` and `parse(text, scratch)`; the latter
gives an Outcome. ab, wrk and h2load do what they can; client.py, our own, does what none of them can.
"""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from .peers import BENCH

GRACE = 15  # seconds beyond its time after which a load is ended
PATIENCE = 5  # seconds that ab waits for one response


@dataclass(frozen=True)
class Load:
    """One way of asking: a line of the table in workloads.py."""

    name: str
    title: str
    driver: str
    connections: int
    keepalive: bool = True
    path: str = "/"
    body: str = ""  # a file below bench/, or the number of bytes
    kind: str = "application/octet-stream"
    answer: int = 11  # length of the response body
    slow_every: int = 0  # for our client: one request in so many goes to /slow
    background: str = ""  # what else goes on: see background.py
    brief: bool = False  # runs for half the time: a large difference is looked for, or a percentile
    least: float = 0.0  # seconds that it takes in any case, where a request may take long
    smoke: bool = True  # whether bench-smoke runs it
    streams: int = 0  # for HTTP/2: requests at a time on each connection
    pipeline: int = 1  # for wrk: requests in one write


@dataclass
class Outcome:
    """What a driver saw. Latencies in milliseconds; failures by kind, only those that happened."""

    requests: int
    seconds: float
    p50: float | None = None
    p99: float | None = None
    failures: dict = field(default_factory=dict)
    kept: int | None = None  # requests on kept connections, where the driver counts them
    client_cpu: float = 0.0

    @property
    def rate(self):
        return self.requests / self.seconds if self.seconds else 0.0


class Ab:
    """ab ends after its time or 50,000 requests, whichever comes first."""

    MOST = 50_000

    @staticmethod
    def command(load, url, seconds, scratch):
        words = ["ab", "-q", "-S", "-s", PATIENCE, "-c", load.connections, "-t", ceil(seconds), "-n", Ab.MOST]
        if load.keepalive:
            words.append("-k")
        if load.body:
            words += ["-p", body_file(load, scratch), "-T", load.kind]
        return [str(word) for word in [*words, "-e", scratch / "ab.csv", url + load.path]]

    @staticmethod
    def parse(text, scratch):
        requests = number(r"Complete requests:\s+(\d+)", text)
        seconds = number(r"Time taken for tests:\s+([\d.]+)", text)
        if not requests or not seconds:
            return Outcome(0, 0.0, failures={"no answer": 1, last_line(text): 1})
        failures = {"failed": number(r"Failed requests:\s+(\d+)", text),
                    "not 2xx": number(r"Non-2xx responses:\s+(\d+)", text),
                    "write errors": number(r"Write errors:\s+(\d+)", text)}
        p50, p99 = Ab.percentiles(scratch / "ab.csv")
        kept = number(r"Keep-Alive requests:\s+(\d+)", text)
        return Outcome(int(requests), seconds, p50, p99, happened(failures), kept)

    @staticmethod
    def percentiles(path):
        try:
            rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
            known = {int(part): float(value) for part, value in rows if float(value)}
        except (OSError, ValueError):
            return None, None
        # With few requests ab looks one beyond the last of them, and finds 0: then the part below is the nearest.
        return tuple(known[max(p for p in known if p <= part)] if known else None for part in (50, 99))


class Wrk:
    """One thread: on the machines we have, a second one takes the CPU that the server needs."""

    @staticmethod
    def command(load, url, seconds, scratch):
        duration = f"{ceil(seconds)}s"
        words = ["wrk", "-t", 1, "-c", load.connections, "-d", duration, "-s", BENCH / "loads" / "report.lua"]
        together = ["--", load.pipeline] if load.pipeline > 1 else []
        return [str(word) for word in [*words, url + load.path, *together]]

    @staticmethod
    def parse(text, _scratch):
        line = re.search(r"^BENCH (.*)$", text, re.M)
        if not line:
            return Outcome(0, 0.0, failures={"no result": 1, last_line(text): 1})
        said = json.loads(line[1])
        kinds = {"connect": "connect errors", "read": "read errors", "write": "write errors", "status": "not 2xx",
                 "timeout": "timeouts"}
        failures = happened({title: said[kind] for kind, title in kinds.items()})
        if not said["requests"]:
            failures["no answer"] = 1
        return Outcome(said["requests"], said["seconds"], said["p50"] / 1000, said["p99"] / 1000, failures)


class H2load:
    """HTTP/2: over TLS by ALPN, else by prior knowledge."""

    @staticmethod
    def command(load, url, seconds, scratch):
        words = ["h2load", "-t", 1, "-c", load.connections, "-m", load.streams, "-D", f"{round(seconds * 1000)}ms",
                 "--log-file", scratch / "h2load.log", url + load.path]
        return [str(word) for word in words]

    @staticmethod
    def parse(text, scratch):
        took = re.search(r"finished in ([\d.]+)(s|ms|us)", text)
        seconds = float(took[1]) * {"s": 1, "ms": 1e-3, "us": 1e-6}[took[2]] if took else 0
        kinds = ("total", "started", "done", "succeeded", "failed", "errored", "timeout")
        counts = re.search("requests: " + ", ".join(rf"(\d+) {kind}" for kind in kinds), text)
        said = dict(zip(kinds, map(int, counts.groups()))) if counts else {}
        if not seconds or not said.get("succeeded"):
            return Outcome(0, 0.0, failures={"no answer": 1, last_line(text): 1})
        if not re.search(r"^Application protocol: h2", text, re.M):
            return Outcome(0, 0.0, failures={"answered, but not in HTTP/2": 1})
        failures = {kind: said[kind] for kind in ("errored", "timeout")}
        failures["not 2xx"] = sum(number(rf"(\d+) {status}xx", text) for status in (3, 4, 5))
        return Outcome(said["succeeded"], seconds, *H2load.percentiles(scratch / "h2load.log"), happened(failures))

    @staticmethod
    def percentiles(path):
        """Of its log: a line has when a request began, its status, and microseconds until its answer."""
        times = sorted(int(line.split("\t")[2]) / 1000 for line in path.read_text().splitlines())
        return tuple(times[len(times) * part // 100] if times else None for part in (50, 99))


class Client:
    """client.py: it tells quick from slow requests and counts connections that got no answer at all."""

    @staticmethod
    def command(load, url, seconds, _scratch):
        words = [sys.executable, BENCH / "loads" / "client.py", "load", "--url", url + load.path,
                 "--connections", load.connections, "--seconds", seconds, "--slow-every", load.slow_every]
        return [str(word) for word in words]

    @staticmethod
    def parse(text, _scratch):
        try:
            said = json.loads(text.strip().splitlines()[-1])
        except (IndexError, ValueError):
            return Outcome(0, 0.0, failures={"no result": 1, last_line(text): 1})
        return Outcome(said["requests"], said["seconds"], said["p50"], said["p99"], happened(said["failures"]))


DRIVERS = {"ab": Ab, "wrk": Wrk, "h2load": H2load, "client": Client}


def run(load, url, seconds, scratch):
    """(Outcome, command): runs a load to its end, or ends it."""
    driver = DRIVERS[load.driver]
    command = driver.command(load, url, seconds, scratch)
    before = os.times()
    said = call(command, seconds, body_environment(load, scratch), driver in (Ab, Wrk))
    outcome = driver.parse(said, scratch) if said is not None else Outcome(0, 0.0, failures={"no end": 1})
    if load.pipeline > 1:
        outcome.p50 = outcome.p99 = None  # wrk measures one of those that go out together, and counts them all
    after = os.times()
    outcome.client_cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return outcome, command


def call(command, seconds, environment, counts_whole_seconds):
    """What a driver printed. ab and wrk count whole seconds; at Ctrl-C they report what they have so far."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, **pipes, env={**os.environ, **environment}) as process:
        try:
            if counts_whole_seconds and seconds < ceil(seconds):
                wait_or_interrupt(process, seconds)
            return process.communicate(timeout=seconds + GRACE)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return None


def wait_or_interrupt(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)


def body_environment(load, scratch):
    return {"BENCH_BODY": str(body_file(load, scratch)), "BENCH_TYPE": load.kind} if load.body else {}


def body_file(load, scratch):
    """The file with a request's body; one of so many zeros is made when the table gives a number."""
    if not load.body.isdigit():
        return BENCH / load.body
    path = Path(scratch) / f"body-{load.body}"
    if not path.exists():
        path.write_bytes(b"0" * int(load.body))
    return path


def body_bytes(load, scratch):
    return body_file(load, scratch).read_bytes() if load.body else None


def number(pattern, text):
    found = re.search(pattern, text)
    if not found:
        return 0
    return float(found[1]) if "." in found[1] else int(found[1])


def happened(failures):
    return {kind: int(count) for kind, count in failures.items() if count}


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "it printed nothing"
