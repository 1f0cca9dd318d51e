"""The table of what is measured. To add a workload, add a row; README.md explains the words.

Read by runner. A workload starts every server that can take part once, in each of its variants, and asks them in
turn, round after round, with each of its loads.
"""

from dataclasses import dataclass, field

from .loads import Load
from .server import Plan


@dataclass(frozen=True)
class Variant:
    """A way of starting the servers of a workload."""

    label: str = ""
    app: str = ""  # instead of the workload's
    max_requests: int = 0
    feature: str = ""  # of peers.toml: only servers that have it take part
    smoke: bool = True  # whether bench-smoke runs it


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    about: str
    app: str
    loads: list
    variants: list = field(default_factory=lambda: [Variant()])
    workers: int = 10
    kind: str = "psgi"  # servers that list it in `apps` take part
    holds: bool = False  # only servers that hold more connections than they have workers
    also: tuple = ()  # servers that take part although `holds` leaves them out
    group: str = ""  # the word by which a server's `only` may name it
    feature: str = ""  # only servers with this feature of peers.toml
    floor: bool = True  # whether an answer of eleven bytes is the floor of this one
    executed: bool = False  # whether the programs that its servers execute are counted

    def takes(self, peer, variant):
        """None when a server takes part, else why not; "" where nobody would ask why."""
        if not {self.feature, variant.feature} <= {"", *peer.features}:
            return ""
        if self.kind not in peer.apps or peer.only and self.group not in peer.only:
            return ""
        if peer.role == "floor" and not (self.floor and variant in (Variant(), self.variants[0])):
            return ""
        if self.holds and not peer.holds and peer.name not in self.also:
            return "a kept connection occupies one of its workers"
        if self.replaces and peer.role != "floor" and not peer.takes("max_requests"):
            return "it does not replace workers"
        return None

    @property
    def replaces(self):
        return any(variant.max_requests for variant in self.variants)

    def plan(self, variant):
        return Plan(variant.app or self.app, self.workers, variant.max_requests, variant.feature)


FORM = "application/x-www-form-urlencoded"
MODULES = 136  # bytes that modules.cgi prints
QUERY = "/?name=camel&from=bactria&load=4&water=no"

WORKLOADS = [
    Workload(
        "hello-new", "Hello on new connections, with and without an access log",
        "Eleven bytes to eight clients that connect anew for each request: the command of the old blogs.",
        "hello", group="hello-new",
        loads=[Load("ab-8", "8 clients, new connections", "ab", 8, keepalive=False)],
        variants=[Variant(), Variant("Plack AccessLog", app="hello-log"),
                  Variant("its own access log", feature="access-log")]),
    Workload(
        "params", "Parameters",
        "Plack::Request->param with Plack's AccessLog and a page of 4000 bytes; then a form of 4000 bytes is posted "
        "to the same application.",
        "params",
        loads=[Load("new", "query, new connections", "ab", 10, keepalive=False, path=QUERY, answer=4000),
               Load("kept", "query, kept connections", "ab", 10, path=QUERY, answer=4000, smoke=False),
               Load("post-new", "form of 4000 bytes, new connections", "ab", 10, keepalive=False, path="/",
                    body="loads/form.txt", kind=FORM, answer=4000, smoke=False, brief=True),
               Load("post-kept", "form of 4000 bytes, kept connections", "wrk", 10, path="/",
                    body="loads/form.txt", kind=FORM, answer=4000, smoke=False, brief=True)]),
    Workload(
        "max-requests", "Workers that are replaced",
        "What it costs to replace a worker after 1000 or 128 requests, against never.",
        "hello", group="max-requests",
        loads=[Load("new", "10 clients, new connections", "ab", 10, keepalive=False, smoke=False),
               Load("kept", "10 clients, kept connections", "ab", 10)],
        variants=[Variant("unlimited"), Variant("1000 requests", max_requests=1000, smoke=False),
                  Variant("128 requests", max_requests=128)]),
    Workload(
        "connections", "Hello on kept connections",
        "The same eleven bytes on 1, 8, 16, 64 and 256 kept connections. A server that keeps a worker to a connection lets "
        "the others wait: wrk does not see that, the client of the tables on slow requests does. Howdah is measured with two "
        "front threads, too.",
        "hello",
        loads=[Load("wrk-1", "1 connection", "wrk", 1, smoke=False, brief=True),
               Load("wrk-8", "8 connections", "wrk", 8, smoke=False),
               Load("wrk-16", "16 connections", "wrk", 16, smoke=False),
               Load("wrk-64", "64 connections", "wrk", 64),
               Load("wrk-256", "256 connections", "wrk", 256, smoke=False, brief=True),
               Load("pipelined", "8 connections, 16 requests at a time", "wrk", 8, smoke=False, brief=True, pipeline=16)],
        variants=[Variant(), Variant("two front threads", feature="two-front-threads", smoke=False)]),
    Workload(
        "slow-requests", "Quick requests beside slow ones",
        "4 workers, 64 kept connections; one request in 100 takes 5 ms. p50 and p99 are those of the other 99. A "
        "connection without an answer for the whole load is a failure: its client would have waited all that time.",
        "slow", workers=4,
        loads=[Load("none", "no slow requests", "client", 64, smoke=False),
               Load("slow", "one in 100 takes 5 ms", "client", 64, slow_every=100)]),
    Workload(
        "sizes", "Large responses and uploads",
        "Responses of 100 KB, 1 MB and 10 MB from memory on 8 kept connections.",
        "sizes", floor=False,
        loads=[Load("100k", "100 KB responses", "wrk", 8, path="/100k", answer=102_400, smoke=False, brief=True),
               Load("1m", "1 MB responses", "wrk", 8, path="/1m", answer=1_048_576, smoke=False),
               Load("10m", "10 MB responses", "wrk", 8, path="/10m", answer=10_485_760)]),
    Workload(
        "uploads", "Uploads", "Request bodies of 1 MB, read by the application in pieces of 64 KB.", "upload",
        loads=[Load("1m", "1 MB uploads", "wrk", 8, body="1048576", answer=7, brief=True)]),
    Workload(
        "idle", "Hello beside 10,000 idle connections",
        "10,000 kept connections that have had one answer each stay open and silent while hello runs.",
        "hello", holds=True, group="crowd",
        loads=[Load("alone", "no idle connections", "wrk", 64, smoke=False),
               Load("idle", "10,000 idle connections", "wrk", 64, background="idle")]),
    Workload(
        "slow-clients", "Hello beside 500 slow clients",
        "slowhttptest keeps 500 connections busy: with heads sent a line a second, with bodies sent a few bytes a "
        "second, with responses of 100 KB read five bytes a second.",
        "sizes", holds=True, also=("starlet",), group="crowd",
        loads=[Load("alone", "no slow clients", "wrk", 8, smoke=False, brief=True),
               Load("headers", "500 slow heads", "wrk", 8, background="slow-headers", brief=True),
               Load("bodies", "500 slow bodies", "wrk", 8, background="slow-bodies", smoke=False, brief=True),
               Load("readers", "500 slow readers", "wrk", 8, background="slow-readers", smoke=False, brief=True)]),
    Workload(
        "cgi", "CGI scripts",
        "One script prints a table of 523 rows, 34 KB, by CGI.pm; the other loads CGI.pm, JSON::PP and Template Toolkit and "
        "prints three lines: what it costs is to begin. At most 10 run at a time. *Of Howdah* is of its mode exec; the CPU time of "
        "mod_cgid is without that of its scripts, which it lets the kernel forget.",
        "cgi", kind="cgi", executed=True,
        loads=[Load("ab-10", "the page of 34 KB", "ab", 10, keepalive=False, path="/page.cgi?name=camel",
                    answer=34_082, least=2),
               Load("modules", "the script with modules", "ab", 10, keepalive=False, path="/modules.cgi?name=camel",
                    answer=MODULES, least=3, smoke=False)]),
    Workload(
        "edge", "TLS and HTTP/2",
        "What stands at the edge: TLS by a certificate with an ECDSA key, HTTP/1.1 and HTTP/2 (h2load). Where connections are new "
        "each makes a full handshake. *No TLS* shows what TLS costs; nginx that serves files has no application to run.",
        "sizes", kind="edge", floor=False,
        loads=[Load("kept", "16 kept connections", "wrk", 16),
               Load("new", "8 clients, new connections", "ab", 8, keepalive=False, smoke=False),
               Load("100k", "100 KB responses, 8 kept connections", "wrk", 8, path="/100k", answer=102_400, smoke=False),
               Load("h2-1", "HTTP/2, 16 connections, one stream each", "h2load", 16, streams=1),
               Load("h2-32", "HTTP/2, 4 connections, 32 streams each", "h2load", 4, streams=32),
               Load("h2-100k", "HTTP/2, 100 KB responses, 8 connections, one stream each", "h2load", 8, path="/100k",
                    answer=102_400, smoke=False, streams=1)]),
    Workload(
        "languages", "Servers of other languages",
        "The same responses by a Python and a Ruby application, on the servers that these languages have of this kind: what is compared "
        "is server and language together.",
        "sizes", kind="languages", floor=False,
        loads=[Load("new", "hello, 8 clients, new connections", "ab", 8, keepalive=False, smoke=False),
               Load("wrk-8", "hello, 8 kept connections", "wrk", 8, smoke=False),
               Load("wrk-64", "hello, 64 kept connections", "wrk", 64, smoke=False),
               Load("1m", "1 MB responses, 8 kept connections", "wrk", 8, path="/1m", answer=1_048_576, smoke=False)]),
    Workload(
        "status", "Live status on and off",
        "Hello on 64 kept connections, with status page, metrics and the requests in process titles off and on.", "hello",
        loads=[Load("wrk-64", "64 connections", "wrk", 64)],
        feature="status", variants=[Variant("off", feature="no-status"), Variant("on", feature="status")]),
    Workload(
        "logs", "Access log and request ids",
        "Hello on 64 kept connections: as it is, with an access log (combined, to a file), without request ids.", "hello",
        loads=[Load("wrk-64", "64 connections", "wrk", 64)], feature="no-request-id", floor=False,
        variants=[Variant("neither log nor option"), Variant("access log", feature="access-log"),
                  Variant("no request ids", feature="no-request-id")]),
]
