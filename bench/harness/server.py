"""One running server: started in a session of its own, asked until it answers, stopped with all its processes.

Called by runner and alone. Nothing but what was started here is ever signalled.
"""

import grp
import http.client
import os
import pwd
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from . import peers, proc

READY = 20.0  # seconds for a server to answer its first request
STOP = 5.0  # seconds to stop by itself

# Below the ports that Linux gives to clients (32768 and up): no connection of a load can hold one of them.
PORTS = iter(range(20000, 32000))


class Unable(Exception):
    """A server that did not start, or did not answer as its application does."""


@dataclass(frozen=True)
class Plan:
    """How a server is to be started."""

    app: str
    workers: int = 10
    max_requests: int = 0
    feature: str = ""


def free_port():
    for port in PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise Unable("no free port between 20000 and 32000")


class Server:
    """with Server(peer, plan) as server: server.port, server.pid, server.command."""

    def __init__(self, peer, plan):
        self.peer, self.plan, self.port = peer, plan, free_port()
        self.holder = tempfile.TemporaryDirectory(prefix="howdah-bench-", ignore_cleanup_errors=True)
        self.dir = Path(self.holder.name)
        self.command = [peers.fill(word, self.values()) for word in self.words()]
        self.process = None

    def words(self):
        words = list(self.peer.command)
        if self.plan.feature:
            # Before the application, which is the last word.
            words[-1:-1] = self.peer.features[self.plan.feature]["options"]
        return words

    def values(self):
        limit = self.plan.max_requests or self.peer.unlimited
        app = peers.BENCH / "apps" / f"{self.plan.app}.psgi"
        return {"port": self.port, "workers": self.plan.workers, "max_requests": limit,
                "app": app, "dir": self.dir, **owner(), **peers.constants()}

    @property
    def pid(self):
        return self.process.pid

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        os.chmod(self.dir, 0o755)  # Apache's workers are another user
        self.write_files()
        with open(self.dir / "output", "wb") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                cwd=self.dir, env={**os.environ, "PLACK_ENV": "deployment"})
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def write_files(self):
        """Templates, files of so many bytes, and for TLS a certificate that nobody trusts."""
        for name, source in self.peer.files.items():
            path = self.dir / name
            path.parent.mkdir(exist_ok=True)
            text = "x" * source if isinstance(source, int) else (peers.BENCH / source).read_text()
            path.write_text(peers.fill(text, self.values()))
        if self.peer.tls:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-days", "2", "-subj", "/CN=localhost", "-keyout", self.dir / "key.pem", "-out",
                            self.dir / "cert.pem"], check=True, capture_output=True)

    @property
    def url(self):
        return f"{'https' if self.peer.tls else 'http'}://127.0.0.1:{self.port}"

    def connect(self):
        if self.peer.tls:
            trusting = ssl._create_unverified_context()  # pylint: disable=protected-access
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=trusting)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)

    def wait_until_ready(self):
        end = time.monotonic() + READY
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Unable(f"{self.peer.name} ended at once: {self.last_words()}")
            try:
                self.get("/")
                return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.03)
        raise Unable(f"{self.peer.name} did not answer within {READY:.0f} s: {self.last_words()}")

    def get(self, path, body=None, kind=None):
        """(status, body) of one request."""
        connection = self.connect()
        try:
            headers = {"Content-Type": kind} if kind else {}
            connection.request("POST" if body is not None else "GET", path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def shown(self, command):
        """A command as a person would type it: ports and directories of this run left open."""
        here = {str(self.dir): "DIR", str(peers.ROOT) + "/": "", str(self.port): "PORT",
                sys.executable: "python3"}
        return [replaced(str(word), here) for word in command]

    def death(self):
        """[what is known of its end] when it ended by itself, else []."""
        if self.process.poll() is None:
            return []
        return [f"the server had ended with status {self.process.returncode}: {self.last_words()}"]

    def last_words(self):
        lines = (self.dir / "output").read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-3:]) or "it said nothing"

    def family(self):
        return proc.family(proc.all_processes(), self.pid)

    def stop(self):
        """The first process is asked; what is left of its family after STOP seconds is killed."""
        if self.process is None:
            return
        members = {p.identity for p in self.family()}
        if self.process.poll() is None:
            self.process.send_signal(getattr(signal, f"SIG{self.peer.stop}"))
            try:
                self.process.wait(STOP)
            except subprocess.TimeoutExpired:
                members |= {p.identity for p in self.family()}
                self.process.kill()
        self.process.wait()
        kill_all(members)
        self.process = None
        self.holder.cleanup()


def replaced(text, pairs):
    for old, new in pairs.items():
        text = text.replace(old, new)
    return text


def kill_all(members):
    """Kills those that are left, and waits until they are gone: the next server is not to share the CPUs with them."""
    end = time.monotonic() + STOP
    while (left := living(members)) and time.monotonic() < end:
        for process in left:
            kill(process.pid)
        time.sleep(0.01)


def living(members):
    return [p for p in proc.all_processes() if p.identity in members and not p.ended]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def owner():
    """Apache refuses to serve as root, so its workers become nobody."""
    if os.geteuid() == 0:
        return {"user": "nobody", "group": grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name}
    return {"user": pwd.getpwuid(os.geteuid()).pw_name, "group": grp.getgrgid(os.getegid()).gr_name}
