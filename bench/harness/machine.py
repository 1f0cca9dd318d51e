"""Where the figures come from: kernel, CPUs, versions. Called by main; printed at the top of the report."""

import os
import platform
import re
import time
from pathlib import Path

from . import peers


def describe(present):
    return {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "kernel": platform.release(),
            "system": system(), "cpu": cpu(), "cpus": os.cpu_count(), "memory_gib": round(memory_gib(), 1),
            "load_average": os.getloadavg()[0], "commit": commit(), "versions": versions(present)}


def system():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def cpu():
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


def memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def commit():
    """The commit measured, marked when there are changes that it does not hold."""
    return peers.output(["git", "-C", str(peers.ROOT), "describe", "--always", "--dirty", "--abbrev=10"]).strip()


def versions(present):
    tools = {"Perl": ["perl", "-e", "print substr $^V, 1"], "Plack": ["perl", "-MPlack", "-e", "print Plack->VERSION"],
             "ab": ["ab", "-V"], "wrk": ["dpkg-query", "-W", "-f=${Version}", "wrk"],
             "slowhttptest": ["dpkg-query", "-W", "-f=${Version}", "slowhttptest"],
             "strace": ["strace", "--version"], "Python": ["python3", "--version"]}
    known = {name: first_number(peers.output(command)) for name, command in tools.items()}
    return {**{peer.title: peers.version(peer) for peer in present if peer.role != "floor"}, **known}


def first_number(text):
    found = re.search(r"\d+(?:\.\d+)+\S*", text)
    return found[0].rstrip(",>") if found else "none"
