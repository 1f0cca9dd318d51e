"""`bench/run`: reads the tables, measures, writes the page. The order of things is all that is here."""

import argparse
import dataclasses
import json
import shutil
import signal
import sys
import time
from pathlib import Path

from . import alone, machine, peers, report, runner, worker
from .workloads import WORKLOADS

QUICK_PEERS = ["howdah", "floor", "starlet", "uwsgi", "mod_perl_registry", "mod_cgi", "mod_cgid", "wrapcgi",
               "howdah_exec", "howdah_fork", "howdah_fork_preload", "howdah_keep"]
SMOKE_PEERS = ["howdah", "starlet", "howdah_exec", "howdah_fork", "howdah_keep"]


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    try:
        result = read(options.source) if options.source else measure(options)
    except peers.Mistake as mistake:
        sys.exit(f"bench: {mistake}")
    except KeyboardInterrupt:
        sys.exit("bench: interrupted")
    report.write(result, options.out)
    say(f"wrote {options.out}/benchmarks.md")
    return judge(result)


def arguments():
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures Howdah and other servers side by side.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="shorter loads, the strongest peers only")
    size.add_argument("--smoke", action="store_true", help="two short rounds, to see that the harness works")
    option = parser.add_argument
    option("--rounds", type=int, metavar="N", help="rounds [5; --smoke 2]")
    option("--seconds", type=float, metavar="N", help="seconds of each load [1.5; --quick 0.4, --smoke 0.3]")
    option("--only", type=words, metavar="A,B", help=f"workloads, of: {', '.join(w.name for w in WORKLOADS)}, alone")
    option("--servers", type=words, metavar="A,B", help="servers, by their names in peers.toml")
    option("--peers", type=Path, action="append", default=[], metavar="FILE", help="more servers, as in peers.toml")
    option("--built", type=Path, default=peers.built, metavar="DIR",
           help="where peers that Debian lacks were built: DIR/feersum and others [target/peers]")
    option("--out", type=Path, default=peers.ROOT / "docs", metavar="DIR", help="where the page goes [docs]")
    option("--from", dest="source", type=Path, metavar="FILE", help="write the page anew from a benchmarks.json")
    option("--list", action="store_true", help="name servers and workloads, and measure nothing")
    return parser.parse_args()


def words(text):
    return [word for word in text.split(",") if word]


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise peers.Mistake(f"{path}: {error}") from error


def measure(options):
    peers.built = options.built
    settings = settings_of(options)
    check_clients()
    present, missing = take_stock(options)
    chosen = chosen_workloads(options)
    if options.list:
        print_stock(present, missing, chosen)
        sys.exit(0)
    begun = time.monotonic()
    result = {"settings": dataclasses.asdict(settings), "machine": machine.describe(present), "missing": missing,
              "quick": options.quick, "command": ["bench/run", *sys.argv[1:]]}
    say("alone: Howdah's worker")
    result["worker_alone"] = worker.measure(settings)
    result["workloads"] = [runner.measure(workload, present, settings, say) for workload in chosen]
    result["alone"] = {} if options.only and "alone" not in options.only else alone.measure(present, settings, say)
    worker.add_to_floor(result)
    result["minutes"] = (time.monotonic() - begun) / 60
    return result


def check_clients():
    absent = [program for program in ("ab", "wrk") if not shutil.which(program)]
    if absent:
        raise peers.Mistake(f"no program {' and '.join(absent)}: make bench-deps installs what is needed")


def settings_of(options):
    rounds, seconds = (2, 0.3) if options.smoke else (5, 0.4) if options.quick else (5, 1.5)
    return runner.Settings(options.rounds or rounds, options.seconds or seconds, options.smoke)


def take_stock(options):
    """(present, {title: why it is missing}); of the present ones only features that work here are kept."""
    known = {}
    for path in [peers.BENCH / "peers.toml", *options.peers]:
        known.update(peers.load(path))
    default = QUICK_PEERS if options.quick else SMOKE_PEERS if options.smoke else list(known)
    extra = [name for path in options.peers for name in peers.load(path)]
    wanted = options.servers or [*default, *(name for name in extra if name not in default)]
    strange = [name for name in wanted if name not in known]
    if strange:
        raise peers.Mistake(f"no server {', '.join(strange)}; there are {', '.join(known)}")
    missing = {known[name].title: reason for name in wanted if (reason := peers.missing(known[name]))}
    return [equipped(known[name]) for name in wanted if known[name].title not in missing], missing


def equipped(peer):
    working = {name: feature for name, feature in peer.features.items() if peers.has_feature(peer, name)}
    return dataclasses.replace(peer, features=working)


def chosen_workloads(options):
    names = [workload.name for workload in WORKLOADS] + ["alone"]
    strange = [name for name in options.only or [] if name not in names]
    if strange:
        raise peers.Mistake(f"no workload {', '.join(strange)}; there are {', '.join(names)}")
    return [workload for workload in WORKLOADS if not options.only or workload.name in options.only]


def print_stock(present, missing, chosen):
    for peer in present:
        print(f"server    {peer.name:18} {peer.title}, {peers.version(peer)}")
    for title, reason in missing.items():
        print(f"missing   {title}: {reason}; make bench-deps installs what Debian has")
    for workload in chosen:
        print(f"workload  {workload.name:18} {', '.join(load.name for load in workload.loads)}")


def judge(result):
    """Exit status: 1 when Howdah or the floor was refused its figures; a peer's failures are its own."""
    bad = report.refusals(result)
    for line in bad:
        say(f"refused: {line['text']}")
    return 1 if any(line["role"] != "peer" for line in bad) else 0


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)
