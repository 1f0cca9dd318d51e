"""Writes what was measured: benchmarks.md, benchmarks.json, and one plot for each workload.

Called by main, after measuring or from an earlier benchmarks.json. Every figure is a median; goals.py judges them.
"""

import json
import shlex

from . import figures, goals, plots, stats

LEGEND = """\
Every figure is the median of the rounds. ± is how far the farthest round was from that median. *of Howdah* is a
server's rate divided by Howdah's, round by round, and the median of that: below 1 it is slower. CPU is the time of
all processes of the server, those that ended meanwhile included, divided by the requests answered: its *first
process* (Howdah's front, the others' master) and *the rest* (workers). *of floor* compares that CPU time with the
floor's: Howdah's own front with a canned answer in place of Perl, plus what env, application and response cost a
worker that is fed from memory (the floor's own row has the first alone). RSS and PSS are the highest sums over all
processes seen during the load; a page that ten processes share counts ten times in RSS, once in PSS.
A server that failed a request, or answered other than 2xx, gets no figures but the reason.
"""

NOT_REACHED = """\
What stands in the way of a goal that is not reached, with the profiles that show it:
[decisions/11](decisions/11-goals-not-reached.md).
"""

HEAD = ["Server", "requests/s", "of Howdah", "p50 ms", "p99 ms", "CPU µs/request", "first process + rest", "of floor",
        "RSS MiB", "PSS MiB"]


def write(result, out):
    out.mkdir(parents=True, exist_ok=True)
    pictures = out / "benchmarks"
    pictures.mkdir(exist_ok=True)
    for workload in result["workloads"]:
        (pictures / f"{workload['name']}.svg").write_text(plots.workload(workload))
    (out / "benchmarks.json").write_text(json.dumps(rounded(result), ensure_ascii=False) + "\n")
    (out / "benchmarks.md").write_text(page(result))


def rounded(value):
    """Five digits are more than the machine knows."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def page(result):
    parts = ["# Benchmarks", introduction(result), LEGEND, "## Goals", goals_table(result), NOT_REACHED]
    for workload in result["workloads"]:
        parts += workload_part(workload)
    if result["alone"]:
        parts += ["## Each server alone", ALONE, alone_table(result["alone"])]
    parts += worker_alone(result)
    return "\n\n".join(part.strip() for part in [*parts, *closing(result)]) + "\n"


def introduction(result):
    at, settings = result["machine"], result["settings"]
    size = "This was a quick run: shorter loads and fewer servers than in a full one." if result["quick"] else ""
    return f"""\
Made by `{shlex.join(result["command"])}` on {at["date"]}, in {result["minutes"]:.1f} minutes; do not edit.
{settings["rounds"]} rounds, {settings["seconds"]} s for each load (half of that for the brief ones); all servers of a
table are asked in turn. {size}

{at["system"]}, Linux {at["kernel"]}, {at["cpus"]} CPUs ({at["cpu"]}), {at["memory_gib"]} GiB; clients run on the same
CPUs as the servers. Howdah at commit {at["commit"] or "unknown"}.

{noise(result)}"""


def noise(result):
    known = [one["noise"] for _, load in figures.tables(result) for row in load["rows"] for one in row["rounds"]]
    known = [part for part in known if part is not None]
    if not known:
        return ""
    mean, loud = sum(known) / len(known), sum(part > 0.05 for part in known)
    warning = " **This was no quiet machine: the figures are not to be quoted.**" if mean > 0.1 else ""
    return (f"Other programs took {mean:.1%} of the machine's CPUs during the loads, and more than 5 % in {loud} of "
            f"{len(known)} of them. The load average at the start was {result['machine']['load_average']:.2f}.{warning}")


def goals_table(result):
    lines = ["| | Goal | Measured | |", "|---|---|---|---|"]
    for goal in goals.judged(result):
        lines.append(f"| {goal['number']} | {goal['text']} | {goal['measured']} | {goal['verdict']} |")
    return "\n".join(lines)


def workload_part(workload):
    parts = [f"## {workload['title']}", f"{workload['about']} {workload['workers']} workers."]
    if not any(load["rows"] for load in workload["loads"]):
        return [*parts, "No server here has this yet."]
    for load in workload["loads"]:
        parts += [heading(load), table(load), *below(load)]
    parts.append(f"![requests per second](benchmarks/{workload['name']}.svg)")
    if not any(row["role"] == "howdah" for load in workload["loads"] for row in load["rows"]):
        parts.append("Howdah has no row here: it cannot do this yet, or was not asked to in this run.")
    if workload["left_out"]:
        absent = "; ".join(f"{title} ({reason})" for title, reason in workload["left_out"].items())
        parts.append(f"Not in these tables: {absent}.")
    return parts


def heading(load):
    title = load["title"][:1].upper() + load["title"][1:]
    return f"### {title}{' (brief)' if load['brief'] else ''}"


def worker_alone(result):
    found = stats.summary(result.get("worker_alone") or [])
    if not found:
        return []
    return ["## A worker alone", f"Env, application and response of hello cost a worker that is fed from memory, with no front and no "
            f"wake-up, {found['median']:.2f} µs ±{found['spread']:.0%} of CPU a request."]


def table(load):
    lines = ["| " + " | ".join(HEAD) + " |", "|---|" + "---:|" * (len(HEAD) - 1)]
    return "\n".join(lines + [line(load, row) for row in load["rows"]])


def line(load, row):
    if row["refused"]:
        return f"| {row['title']} | no figures: {row['refused']} |" + " |" * (len(HEAD) - 2)
    howdah, floor = (figures.base_row(load, role, row["variant"]) for role in ("howdah", "floor"))
    cells = [row["title"], with_spread(row, "rate"), times(figures.ratio(row, howdah, "rate")), plain(row, "p50", 3),
             plain(row, "p99", 3), with_spread(row, "cpu_us", 1), parts_of_cpu(row),
             times(figures.of_floor(row, floor)), plain(row, "rss", 0), plain(row, "pss", 0)]
    return "| " + " | ".join(cells) + " |"


def with_spread(row, figure, digits=0):
    found = figures.summary(row, figure)
    return f"{found['median']:,.{digits}f} ±{found['spread']:.0%}" if found else "–"


def plain(row, figure, digits):
    found = figures.middle(row, figure)
    return f"{found:,.{digits}f}" if found is not None else "–"


def parts_of_cpu(row):
    return f"{plain(row, 'first_us', 1)} + {plain(row, 'others_us', 1)}"


def times(value):
    return f"{value:.2f}" if value is not None else "–"


def below(load):
    """What a table is said to be in words: Howdah and the floor, background, the command."""
    howdah, floor = figures.base_row(load, "howdah"), figures.base_row(load, "floor")
    said = []
    rate, cpu = figures.ratio(howdah, floor, "rate"), figures.of_floor(howdah, floor)
    if rate and cpu:
        said.append(f"Howdah / floor: {rate:.2f} of its requests per second, {cpu:.2f} times its CPU time a request.")
    if not floor:
        said.append("There is no floor for this: the program without Perl has one answer of eleven bytes.")
    said += held(load) + not_kept(load) + executed(load)
    if load["command"]:
        said.append(f"`{typed(load['command'])}`")
    return said


def executed(load):
    """WHO WHAT COUNT, for the servers of which it is known."""
    known = [(row["title"], row["executed"]) for row in load["rows"] if row.get("executed")]
    if not known:
        return []
    lines = [f"Programs executed in {known[0][1]['requests']:,} requests, as the kernel told them:", "",
             "| Server | WHO | WHAT | COUNT |", "|---|---|---|---:|"]
    for title, found in known:
        rows = found["rows"] or [["–", "–", 0]]
        lines += [f"| {title} | {who} | {what} | {count:,} |" for who, what, count in rows]
    return ["\n".join(lines)]


def held(load):
    """How many of the background's connections each server had open."""
    known = []
    for row in load["rows"]:
        counts = [one["background"]["held"] for one in row["rounds"] if one["background"]]
        if counts and None not in counts:
            known.append(f"{row['title']} {min(counts):,}")
    return [f"Connections of the background that were open: {', '.join(known)}."] if known else []


def not_kept(load):
    """ab asks in HTTP/1.0 for kept connections; some servers keep those of HTTP/1.1 only."""
    if "-k" not in (load["command"] or []):
        return []
    measured = [row for row in load["rows"] if not row["refused"]]
    loose = [row["title"] for row in measured if figures.middle(row, "kept") < figures.middle(row, "requests") / 2]
    return [f"Closed its connections all the same: {', '.join(loose)}."] if loose else []


def typed(command):
    """As a person would type it, without the file that ab writes its percentiles to."""
    words = [word for word in command if not word.endswith("ab.csv") and word != "-e"]
    return shlex.join(words)


ALONE = """\
Ten workers of hello after a second of requests, no other server running. System calls were counted by `strace -f -c`
in a run of their own: that slows servers down, and those that do several things per wake-up then do fewer."""


def alone_table(found):
    names = sorted({name for one in found.values() for name in one.get("calls", {})})
    head = ["Server", "PSS MiB idle", "RSS MiB idle", *(f"calls/request, {name}" for name in names)]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for title, one in found.items():
        if "refused" in one:
            lines.append(f"| {title} | no figures: {one['refused']} |" + " |" * (len(names) + 1))
            continue
        calls = [call_cell(one["calls"].get(name)) for name in names]
        lines.append(f"| {title} | {size(one['pss'])} | {size(one['rss'])} | " + " | ".join(calls) + " |")
    return "\n".join(lines)


def call_cell(found):
    if not found:
        return "–"
    if "refused" in found:
        return f"no figures: {found['refused']}"
    most = list(found["most"].items())[:4]
    return f"{found['calls']:.2f} ({', '.join(f'{call} {count:.2f}' for call, count in most)})"


def size(value):
    return f"{value:.1f}" if value is not None else "–"


def closing(result):
    versions = "\n".join(f"- {name}: {version}" for name, version in result["machine"]["versions"].items())
    commands = {}
    for workload in result["workloads"]:
        for title, command in workload["servers"].items():
            commands.setdefault(title, f"- {title}: `{typed(command)}`")
    parts = ["## Versions", versions, "## How the servers were started", "\n".join(commands.values())]
    if result["missing"]:
        absent = "\n".join(f"- {title}: {reason}" for title, reason in result["missing"].items())
        parts += ["## Not measured here", f"`make bench-deps` installs what Debian has.\n\n{absent}"]
    return parts


def refusals(result):
    """Every row without figures."""
    found = []
    for workload, load in figures.tables(result):
        for row in load["rows"]:
            if row["refused"]:
                text = f"{workload['name']} {load['name']}: {row['title']}: {row['refused']}"
                found.append({"role": row["role"], "text": text})
    return found
