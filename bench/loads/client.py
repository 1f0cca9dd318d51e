#!/usr/bin/env python3
"""A load client for what ab and wrk cannot do. Talks HTTP/1.1 over kept connections from one epoll loop.

  client.py load --url http://127.0.0.1:5000/ --connections 64 --seconds 2 --slow-every 100
      asks without pause on every connection; with --slow-every N, every Nth request goes to /slow. Prints one line of
      JSON: p50 and p99 are those of the other requests, in milliseconds; a connection that got no answer at all
      in a second is a failure, for a client of its own would have waited all that time.
  client.py idle --url http://127.0.0.1:5000/ --connections 10000
      opens the connections, asks once on each, prints "ready N", holds them until its input ends, and prints
      how many of them the server kept.

Called by harness/loads.py and harness/background.py; by hand as above.
"""

import argparse
import json
import select
import socket
import sys
import time
from urllib.parse import urlsplit

CONNECT = 5.0  # seconds
PATIENCE = 1.0  # seconds after which a connection without any answer is a failure


def request(host, path):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def connect(address):
    link = socket.create_connection(address, CONNECT)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def response_length(data):
    """Bytes of the response that `data` begins with, or None while its head is not whole."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = data[:end].lower()
    start = head.find(b"content-length:")
    if start < 0:
        raise ValueError("a response without Content-Length")
    return end + 4 + int(head[start + 15 :].split(b"\r\n", 1)[0])


class Connection:
    """One connection of the load and the request under way on it."""

    def __init__(self, load):
        self.load, self.link, self.answers, self.used = load, None, 0, False
        self.slow = False

    def open(self):
        self.link = connect(self.load.address)
        self.link.setblocking(False)
        self.load.connections[self.link.fileno()] = self
        self.load.poll.register(self.link, select.EPOLLIN)
        self.used = False

    def ask(self):
        self.slow = self.load.next_is_slow()
        self.begun, self.data = time.perf_counter(), b""
        self.link.send(self.load.slow_request if self.slow else self.load.request)

    def reopen(self):
        fileno = self.link.fileno()
        self.load.poll.unregister(self.link)
        del self.load.connections[fileno]
        self.link.close()
        self.open()

    def readable(self):
        try:
            data = self.link.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            return self.ended()
        self.data += data
        length = response_length(self.data)
        if length is not None and len(self.data) >= length:
            self.answered()

    def ended(self):
        """A server may close a kept connection at any time; elsewhere an end is a failure."""
        if not self.used or self.data:
            self.load.fail("connections cut")
        self.reopen()
        self.ask()

    def answered(self):
        self.load.note(self, time.perf_counter() - self.begun)
        self.answers, self.used = self.answers + 1, True
        if b"connection: close" in self.data.lower() or self.data.startswith(b"HTTP/1.0"):
            self.reopen()
        self.ask()


class Load:
    """All connections, and what was seen on them."""

    def __init__(self, url, count, slow_every):
        self.address = (url.hostname, url.port)
        self.request, self.slow_request = request(url.netloc, url.path or "/"), request(url.netloc, "/slow")
        self.count, self.slow_every, self.asked = count, slow_every, 0
        self.poll, self.connections = select.epoll(), {}
        self.quick, self.slow, self.failures = [], [], {}

    def next_is_slow(self):
        self.asked += 1
        return bool(self.slow_every) and self.asked % self.slow_every == 0

    def note(self, connection, seconds):
        (self.slow if connection.slow else self.quick).append(seconds)
        if not connection.data.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
            self.fail("not 2xx")

    def fail(self, kind, count=1):
        self.failures[kind] = self.failures.get(kind, 0) + count

    def run(self, seconds):
        everyone = [Connection(self) for _ in range(self.count)]
        for connection in everyone:
            connection.open()
        begun = time.perf_counter()
        for connection in everyone:
            connection.ask()
        while time.perf_counter() < begun + seconds:
            for fileno, _ in self.poll.poll(0.1):
                self.connections[fileno].readable()
        silent = sum(not connection.answers for connection in everyone) if seconds >= PATIENCE else 0
        if silent:
            self.fail(f"connections of {self.count} without any answer", silent)
        return self.report(time.perf_counter() - begun)

    def report(self, seconds):
        return {"requests": len(self.quick) + len(self.slow), "slow": len(self.slow), "seconds": seconds,
                "p50": milliseconds(self.quick, 0.5), "p99": milliseconds(self.quick, 0.99),
                "failures": self.failures}


def milliseconds(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000 if ordered else None


def hold(url, count):
    """Opens `count` connections, each with one request answered, until standard input ends."""
    links = [one_answer(url) for _ in range(count)]
    print(f"ready {len(links)}", flush=True)
    sys.stdin.read()
    print(json.dumps({"opened": len(links), "kept": sum(map(is_open, links))}), flush=True)


def one_answer(url):
    link = connect((url.hostname, url.port))
    link.sendall(request(url.netloc, url.path or "/"))
    data = b""
    while (length := response_length(data)) is None or len(data) < length:
        more = link.recv(65536)
        if not more:
            raise ConnectionError("the server closed a connection before its answer was whole")
        data += more
    return link


def is_open(link):
    link.setblocking(False)
    try:
        return bool(link.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["load", "idle"])
    parser.add_argument("--url", required=True, type=urlsplit)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--slow-every", type=int, default=0)
    options = parser.parse_args()
    if options.mode == "idle":
        hold(options.url, options.connections)
    else:
        load = Load(options.url, options.connections, options.slow_every)
        print(json.dumps(load.run(options.seconds)))


if __name__ == "__main__":
    main()
