"""What goes on beside a load: idle connections, or clients that are slow on purpose.

Called by runner around one load: `with start(name, server) as background`, then background.report(): what was
really held open, for a server that throws idle or slow clients out is quick for another reason.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .peers import BENCH

IDLE = 10_000
SLOW = 500
# slowhttptest's modes: what is slow, and the path it asks for. Slow readers need something to read.
SLOW_MODES = {"slow-headers": ["-H"], "slow-bodies": ["-B"], "slow-readers": ["-X"]}
SLOW_PATHS = {"slow-readers": "/100k"}


class NoBackground(Exception):
    """The background could not be set up: the load beside it would be measured without it."""


def start(name, server, seconds):
    if not name:
        return Nothing()
    return Idle(server) if name == "idle" else Slow(name, server, seconds)


class Nothing:
    """Background of most loads."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def report(self):
        return None


class Idle:
    """client.py holding IDLE connections, each after one answered request."""

    def __init__(self, server):
        self.url = f"{server.url}/"

    def __enter__(self):
        words = [sys.executable, BENCH / "loads" / "client.py", "idle", "--url", self.url, "--connections", IDLE]
        self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not self.process.stdout.readline().startswith("ready"):
            said = self.process.communicate()[1].strip().splitlines()
            raise NoBackground(f"{IDLE} idle connections: {said[-1] if said else 'the client ended'}")
        return self

    def report(self):
        """Ends the connections and says how many the server had kept until then."""
        out = self.process.communicate("", timeout=30)[0]
        said = json.loads(out.strip().splitlines()[-1])
        return {"wanted": IDLE, "held": said["kept"]}

    def __exit__(self, *_):
        end(self.process)


class Slow:
    """slowhttptest with SLOW clients of one kind."""

    SETTLE = 1.0  # seconds for all of them to connect

    def __init__(self, name, server, seconds):
        self.port = server.port
        self.holder = tempfile.TemporaryDirectory(prefix="howdah-bench-")
        prefix = Path(self.holder.name) / "slow"
        url = f"{server.url}{SLOW_PATHS.get(name, '/')}"
        length = int(self.SETTLE + seconds + 6)
        self.words = ["slowhttptest", *SLOW_MODES[name], "-c", str(SLOW), "-r", str(2 * SLOW), "-l", str(length),
                      "-i", "1", "-p", "10", "-g", "-o", str(prefix), "-v", "0", "-u", url]

    def __enter__(self):
        try:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL)
        except FileNotFoundError as error:
            raise NoBackground("no program slowhttptest") from error
        time.sleep(self.SETTLE)
        if self.process.poll() is not None:
            raise NoBackground("slowhttptest ended: the server kept none of its connections")
        return self

    def report(self):
        """Says how many of the slow clients are connected still, and ends them."""
        held = connected(self.process.pid, self.port)
        self.process.terminate()
        self.process.wait(10)
        return {"wanted": SLOW, "held": held}

    def __exit__(self, *_):
        end(self.process)
        self.holder.cleanup()


def connected(process, port):
    """Connections of a process to that port of this machine which neither side has ended, by /proc."""
    own = set()
    for entry in os.scandir(f"/proc/{process}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it has closed that
            own.add(os.readlink(entry.path))
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file][1:]
    # Local address, remote address, state; 01 is ESTABLISHED.
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" and f"socket:[{row[9]}]" in own for row in rows)


def end(process):
    if process.poll() is None:
        process.kill()
        process.wait()
