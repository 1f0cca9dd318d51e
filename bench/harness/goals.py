"""What Howdah is meant to reach, and whether this run shows it.

Called by report. A goal is a function of the result that gives (reached, what was measured), or None when the run
holds no figures for it. Peers that were refused their figures do not count.
"""

from . import figures

HOWDAH, FLOOR, STARLET = "howdah", "floor", "starlet"


def judged(result):
    return [judge(result, number, text, function) for number, text, function in GOALS]


def judge(result, number, text, function):
    try:
        found = function(result)
    except (TypeError, IndexError, ValueError):  # what a run without these figures gives: None, no rounds, no rows
        found = None
    reached, measured = found or (None, "not measured")
    verdict = {True: "reached", False: "**not reached**", None: ""}[reached]
    return {"number": number, "text": text, "measured": measured, "verdict": verdict, "reached": reached}


def row(result, workload, load, server, variant=""):
    return figures.row_of(figures.load_of(result, workload, load), server, variant)


def against(result, workload, load, server, figure, variant=""):
    """Howdah's figure divided by a server's."""
    rows = [row(result, workload, load, name, variant) for name in (HOWDAH, server)]
    return figures.ratio(*rows, figure)


def peers_of(result, workload, load, variant=""):
    """Names of the measured servers that are neither Howdah nor the floor."""
    found = figures.load_of(result, workload, load)
    return [one["server"] for one in found["rows"] if found and one["role"] == "peer" and one["variant"] == variant
            and not one["refused"]] if found else []


def against_best(result, workload, load, variant=""):
    """(Howdah's rate divided by that of the quickest peer, its name), or None."""
    ratios = [(against(result, workload, load, peer, "rate", variant), peer)
              for peer in peers_of(result, workload, load, variant)]
    return min((one for one in ratios if one[0] is not None), default=None)


def at_least(value, least, unit="times"):
    return value >= least, f"{value:.2f} {unit}"


def at_most(value, most, unit="times"):
    return value <= most, f"{value:.2f} {unit}"


def rate_against(workload, load, server, least, variant=""):
    return lambda result: at_least(against(result, workload, load, server, "rate", variant), least)


def of_floor(workload, load, most, variant=""):
    def goal(result):
        rows = (row(result, workload, load, name, variant) for name in (HOWDAH, FLOOR))
        return at_most(figures.of_floor(*rows), most)
    return goal


def best_against(workload, load, least, variant=""):
    def goal(result):
        ratio, peer = against_best(result, workload, load, variant)
        return ratio >= least, f"{ratio:.2f} times {peer}"
    return goal


def ahead_of_all(workload, loads):
    """Ahead of the quickest peer in each of several loads; the closest of them is told."""
    def goal(result):
        found = [against_best(result, workload, load) for load in loads]
        ratio, peer = min(found)
        return ratio > 1, f"{ratio:.2f} times {peer} at the closest"
    return goal


def nobody_ahead(workload, load, variant="", figure="rate"):
    """No peer does better, or only within the middle half of the rounds; the closest one is told, with that half."""
    def goal(result):
        ours = row(result, workload, load, HOWDAH, variant)
        found = [(figures.paired(ours, row(result, workload, load, peer, variant), figure), peer)
                 for peer in peers_of(result, workload, load, variant)]
        better = max if figure == "cpu_us" else min
        ratio, peer = better(((pair, peer) for pair, peer in found if pair), key=lambda one: one[0]["median"])
        reached = ratio["low"] <= 1 if figure == "cpu_us" else ratio["high"] >= 1
        return reached, f"{ratio['median']:.2f} of {peer}'s ({ratio['low']:.2f} to {ratio['high']:.2f})"
    return goal


def line_of_all(title, workload, load, variant=""):
    """The two goals of a line on which no peer is to do better: rate and CPU."""
    return [("12", f"{title}: no peer has a higher rate", nobody_ahead(workload, load, variant)),
            ("12", "… or needs less CPU", nobody_ahead(workload, load, variant, "cpu_us"))]


def cpu_against(workload, load, server, most):
    return lambda result: at_most(against(result, workload, load, server, "cpu_us"), most)


def within(workload, load, variant, base_load, base_variant, part):
    """Howdah's rate in one table or variant against another of its own."""
    def goal(result):
        here = row(result, workload, load, HOWDAH, variant)
        base = row(result, workload, base_load, HOWDAH, base_variant)
        ratio = figures.ratio(here, base, "rate")
        return ratio >= 1 - part, f"{ratio:.2f} of it"
    return goal


def one_connection(result):
    ours, theirs = (figures.middle(row(result, "connections", "wrk-1", name), "p50") for name in (HOWDAH, STARLET))
    return ours <= theirs, f"{ours * 1000:.0f} µs against {theirs * 1000:.0f} µs"


def head_of_line(result):
    base, slow = (figures.middle(row(result, "slow-requests", load, HOWDAH), "p99") for load in ("none", "slow"))
    return slow - base <= 2, f"{slow - base:+.1f} ms ({base:.1f} and {slow:.1f} ms)"


def idle_memory(result):
    """The front's growth from before the first idle connections to the rounds with them."""
    found = row(result, "idle", "idle", HOWDAH)
    before = figures.rounds(found, "first_pss_before")[0]
    each = (figures.middle(found, "first_pss_with") - before) / found["rounds"][0]["background"]["wanted"]
    return each < 6, f"{each:.1f} KiB"


def slow_clients(result):
    loads = [load["name"] for workload, load in figures.tables(result) if workload["name"] == "slow-clients"]
    base = row(result, "slow-clients", "alone", HOWDAH)
    ratios = {load: figures.ratio(row(result, "slow-clients", load, HOWDAH), base, "rate")
              for load in loads if load != "alone"}
    return min(ratios.values()) >= 0.9, ", ".join(f"{load} {ratio:.2f}" for load, ratio in ratios.items())


def scripts(load, ours, theirs, least):
    """Among servers of CGI scripts it is named which mode of Howdah's is meant."""
    def goal(result):
        rows = (row(result, "cgi", load, name) for name in (ours, theirs))
        return at_least(figures.ratio(*rows, "rate"), least)
    return goal


def idle_workers(result):
    sizes = {one["server"]: one.get("pss") for one in result["alone"].values()}
    more = sizes.get(HOWDAH) - sizes.get(STARLET)
    return more <= 8, f"{more:+.1f} MiB ({sizes[HOWDAH]:.1f} against {sizes[STARLET]:.1f})"


GOALS = [
    ("1", "Hello, kept, 64 connections: 3 times Starlet's rate", rate_against("connections", "wrk-64", STARLET, 3)),
    ("1", "… 8 connections: 2.5 times Starlet's rate", rate_against("connections", "wrk-8", STARLET, 2.5)),
    ("1", "… 64 connections: 1.5 times the best peer", best_against("connections", "wrk-64", 1.5)),
    ("1", "… 8 connections: 1.5 times the best peer", best_against("connections", "wrk-8", 1.5)),
    ("1", "… 64 connections: at most 1.35 times the floor's CPU", of_floor("connections", "wrk-64", 1.35)),
    ("1", "… 8 connections: at most 1.6 times the floor's CPU", of_floor("connections", "wrk-8", 1.6)),
    ("2", "Hello on new connections: ahead of every peer", best_against("max-requests", "new", 1, "unlimited")),
    ("2", "… at most 0.75 times uWSGI's CPU", lambda result: at_most(
        against(result, "max-requests", "new", "uwsgi", "cpu_us", "unlimited"), 0.75)),
    ("2", "… at most 1.3 times the floor's CPU", of_floor("max-requests", "new", 1.3, "unlimited")),
    ("3", "A worker for 128 requests: within 10 % of unlimited, new connections",
     within("max-requests", "new", "128 requests", "new", "unlimited", 0.1)),
    ("3", "… kept connections", within("max-requests", "kept", "128 requests", "kept", "unlimited", 0.1)),
    ("4", "Parameters: ahead of every peer, new and kept", ahead_of_all("params", ["new", "kept"])),
    ("4", "… 1.4 times Starlet, new connections", rate_against("params", "new", STARLET, 1.4)),
    ("4", "… 1.4 times Starlet, kept connections", rate_against("params", "kept", STARLET, 1.4)),
    ("5", "Howdah's access log: within 5 % of none",
     within("hello-new", "ab-8", "its own access log", "ab-8", "", 0.05)),
    ("5", "… on 64 kept connections", within("logs", "wrk-64", "access log", "wrk-64", "neither log nor option", 0.05)),
    ("6", "One connection: p50 no worse than Starlet's", one_connection),
    ("7", "p99 of quick requests beside slow ones: at most 2 ms more", head_of_line),
    ("8", "10,000 idle connections: under 6 KiB of the front's memory each", idle_memory),
    ("8", "… hello within 5 % of its speed without them", within("idle", "idle", "", "alone", "", 0.05)),
    ("8", "500 slow clients: hello within 10 %", slow_clients),
    ("9", "10 MB responses: at least Starlet's rate", rate_against("sizes", "10m", STARLET, 1)),
    ("9", "1 MB uploads: ahead of Starlet", rate_against("uploads", "1m", STARLET, 1)),
    ("10", "Memory of 10 idle workers: at most Starlet's PSS and 8 MB", idle_workers),
    ("11", "CGI page of 34 KB, exec: at least mod_cgid's rate", scripts("ab-10", "howdah_exec", "mod_cgid", 1)),
    ("11", "… fork: 3 times mod_cgi", scripts("ab-10", "howdah_fork", "mod_cgi", 3)),
    ("11", "… keep: 1.2 times Registry", scripts("ab-10", "howdah_keep", "mod_perl_registry", 1.2)),
    ("11", "CGI script with modules, fork: 8 times mod_cgi", scripts("modules", "howdah_fork", "mod_cgi", 8)),
    ("11", "… with --cgi-preload", scripts("modules", "howdah_fork_preload", "mod_cgi", 8)),
    *line_of_all("Hello, 64 kept", "connections", "wrk-64"),
    *line_of_all("Hello, 16 kept", "connections", "wrk-16"),
    *line_of_all("Hello, 8 kept", "connections", "wrk-8"),
    *line_of_all("Hello, 8 kept, 16 requests at a time", "connections", "pipelined"),
    *line_of_all("Hello, new", "hello-new", "ab-8"),
    *line_of_all("Hello with Plack's AccessLog, new", "hello-new", "ab-8", "Plack AccessLog"),
    *line_of_all("Parameters, new", "params", "new"),
    *line_of_all("Parameters, kept", "params", "kept"),
    *line_of_all("A worker for 128 requests, new", "max-requests", "new", "128 requests"),
    *line_of_all("100 KB", "sizes", "100k"),
    *line_of_all("1 MB", "sizes", "1m"),
    *line_of_all("10 MB", "sizes", "10m"),
    *line_of_all("One kept connection", "connections", "wrk-1"),
    *line_of_all("Beside other languages: hello, new", "languages", "new"),
    *line_of_all("Beside other languages: hello, 8 kept", "languages", "wrk-8"),
    *line_of_all("Beside other languages: hello, 64 kept", "languages", "wrk-64"),
    *line_of_all("Beside other languages: 1 MB", "languages", "1m"),
    *[("13", f"Hello, {count} kept: at most 0.91 of the CPU of Feersum built anew",
       cpu_against("connections", f"wrk-{count}", "feersum_built", 1 / 1.1)) for count in (64, 16, 8)],
    ("13", "Two front threads, 64 kept: within 5 % of one",
     within("connections", "wrk-64", "two front threads", "wrk-64", "", 0.05)),
]
