"""What env, application and response cost a worker that is fed from memory: Perl's half of the floor.

Called by main. The other half is the floor's own row: Howdah's front with a canned answer. The program
is crates/supervisor/examples/worker_alone.rs; without it the floor stays the front's half alone.
"""

import subprocess

from . import figures, peers, stats

APP = peers.BENCH / "apps" / "hello.psgi"
REQUESTS = 200_000
SMOKE_REQUESTS = 5_000


def measure(settings):
    """CPU microseconds a request, one value for each round; none when the program is not built."""
    program = peers.constants()["target"] / "release/examples/worker_alone"
    if not program.exists():
        return []
    requests = SMOKE_REQUESTS if settings.smoke else REQUESTS
    command = [program, APP, "/", str(requests), *(peers.ROOT / "blib" / part for part in ("lib", "arch"))]
    return [once(command) for _ in range(settings.rounds)]


def once(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired as late:
        raise peers.Mistake(f"{command[0]}: not done after {late.timeout:.0f} s") from late
    if done.returncode:
        raise peers.Mistake(f"{command[0]}: {done.stderr.strip()}")
    return int(done.stdout) / 1000


def add_to_floor(result):
    """Gives the floor's rows `floor_us`: both halves."""
    found = stats.summary(result["worker_alone"])
    for _, load in figures.tables(result):
        for row in load["rows"]:
            if found and row["role"] == "floor" and not row["refused"]:
                for one in row["rounds"]:
                    one["floor_us"] = one["cpu_us"] + found["median"]
