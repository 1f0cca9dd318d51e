"""Which programs a server executes, and who does: as exec.d of DTrace's toolkit counts them, WHO WHAT COUNT.

Called by runner after a workload's rounds, in a run of its own: the kernel's process connector tells every fork, exec and
exit of the machine, and to listen costs what is not to be measured. It needs root; without it nothing is counted.
"""

import os
import socket
import struct
import subprocess
import threading
import time
from collections import Counter

from . import loads, proc

# linux/connector.h, linux/cn_proc.h
NETLINK_CONNECTOR, CN_IDX_PROC, CN_VAL_PROC = 11, 1, 1
LISTEN, IGNORE = 1, 2
SO_RCVBUFFORCE = 33
FORK, EXEC, EXIT = 0x1, 0x2, 0x80000000
EVENT = 36  # behind the heads of netlink and connector
BUFFER = 8 << 20
LONGEST = 60  # seconds for the requests, or nothing is told
QUIET = 0.3  # seconds without news after which all has been heard


def possible():
    """Whether the kernel tells us."""
    try:
        connect().close()
    except OSError:
        return False
    return True


def connect():
    """A socket on which events come."""
    news = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_CONNECTOR)
    try:
        news.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        news.bind((0, CN_IDX_PROC))
        news.send(order(LISTEN))
    except OSError:
        news.close()
        raise
    return news


def order(what):
    text = struct.pack("=IIIIHHI", CN_IDX_PROC, CN_VAL_PROC, 0, 0, 4, 0, what)
    return struct.pack("=IHHII", 16 + len(text), 3, 0, 0, os.getpid()) + text


def parse(packet):
    """(what, process, its parent or None) of an event that concerns a whole process, else None."""
    if len(packet) < EVENT + 32:
        return None
    what, = struct.unpack_from("=I", packet, 20 + 16)
    words = struct.unpack_from("=IIII", packet, EVENT + 16)
    if what == FORK and words[2] == words[3]:
        return FORK, words[3], words[1]
    if what in (EXEC, EXIT) and words[0] == words[1]:
        return what, words[1], None
    return None


class Book:
    """Who belongs to the server, what each is called, and what each has executed."""

    def __init__(self, names, name_of):
        self.names, self.name_of, self.counts = dict(names), name_of, Counter()

    def note(self, what, pid, parent):
        if what == FORK and parent in self.names:
            self.names[pid] = self.names[parent]
        elif what == EXEC and pid in self.names:
            name = self.name_of(pid) or "(gone)"
            self.counts[self.names[pid], name] += 1
            self.names[pid] = name
        elif what == EXIT:
            self.names.pop(pid, None)

    def rows(self):
        """[who, what, count], the least often first, as exec.d prints them."""
        return [[*pair, count] for pair, count in sorted(self.counts.items(), key=lambda one: (one[1], one[0]))]


def name_of(pid):
    """What a process is called: after the exec of a script that is the script's name."""
    return proc.read(f"/proc/{pid}/comm").strip()


class Listener(threading.Thread):
    """with Listener(book): ... ; at the end all that has happened stands in the book."""

    def __init__(self, book):
        super().__init__(daemon=True)
        self.book, self.news, self.heard, self.ending = book, connect(), time.monotonic(), False
        self.news.settimeout(0.05)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        while time.monotonic() - self.heard < QUIET:
            time.sleep(0.05)
        self.ending = True
        self.join()
        self.news.send(order(IGNORE))
        self.news.close()

    def run(self):
        while not self.ending:
            try:
                event = parse(self.news.recv(4096))
            except OSError:  # nothing for a moment, or more than there was room for
                continue
            if event and event[1] in self.book.names or event and event[2] in self.book.names:
                self.heard = time.monotonic()
                self.book.note(*event)


def count(server, load, requests):
    """What the server executed while it answered so many requests: {"requests", "rows"}, or None if it did not answer."""
    names = {process.pid: name_of(process.pid) for process in server.family()}
    book = Book(names, name_of)
    url = server.url + load.path
    command = ["ab", "-q", "-s", str(LONGEST), "-c", str(load.connections), "-n", str(requests), url]
    with Listener(book):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return None
    answered = loads.number(r"Complete requests:\s+(\d+)", done.stdout)
    return {"requests": answered, "rows": book.rows()} if answered == requests else None
