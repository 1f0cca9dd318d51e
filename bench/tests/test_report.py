import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from harness import goals, plots, report, worker


def record(rate, **more):
    base = {"requests": rate, "seconds": 1.0, "rate": rate, "p50": 0.1, "p99": 2.0, "kept": None, "cpu_us": 20.0,
            "first_us": 15.0, "others_us": 5.0, "client_cpu": 0.5, "noise": 0.0, "rss": 90.0, "pss": 20.0,
            "first_pss_before": 4000, "first_pss_with": 4000, "background": None, "failures": {}}
    return {**base, **more}


def row(server, rounds, role="peer", refused=None, variant=""):
    return {"server": server, "role": role, "title": server.title(), "variant": variant, "refused": refused,
            "rounds": rounds}


def result(*rows, workload="connections", load="wrk-64", alone=None):
    table = {"name": load, "title": "64 connections", "brief": False, "connections": 64, "command": ["wrk", "-c", "64"],
             "rows": list(rows)}
    machine = {"date": "today", "kernel": "6", "system": "Debian", "cpu": "some", "cpus": 2, "memory_gib": 4,
               "load_average": 0.1, "commit": "abc", "versions": {"Perl": "5.36.0"}}
    found = {"name": workload, "title": "Hello", "about": "", "workers": 10, "app": "hello", "left_out": {},
             "servers": {"Howdah": ["bin/howdah"]}, "loads": [table]}
    return {"settings": {"rounds": 2, "seconds": 1.5, "smoke": False}, "machine": machine, "quick": False,
            "missing": {"Other": "no program"}, "command": ["bench/run"], "minutes": 1.0, "alone": alone or {},
            "workloads": [found]}


HOWDAH = row("howdah", [record(300), record(330)], role="howdah")
STARLET = row("starlet", [record(100), record(110)])


class Report(unittest.TestCase):
    def write(self, found):
        with tempfile.TemporaryDirectory() as out:
            report.write(found, Path(out))
            return (Path(out) / "benchmarks.md").read_text()

    def test_a_row_has_median_spread_and_ratio(self):
        text = self.write(result(HOWDAH, STARLET))
        self.assertIn("| Starlet | 105 ±5% | 0.33 |", text)

    def test_a_refused_row_has_its_reason_and_no_figures(self):
        refused = row("starlet", [record(99_999)], refused="timeouts: 3")
        text = self.write(result(HOWDAH, refused))
        self.assertIn("| Starlet | no figures: timeouts: 3 |", text)
        self.assertNotIn("99,999", text)
        self.assertEqual([line["text"] for line in report.refusals(result(HOWDAH, refused))],
                         ["connections wrk-64: Starlet: timeouts: 3"])

    def test_howdah_is_set_against_the_floor(self):
        floor = row("floor", [record(600, cpu_us=10.0), record(660, cpu_us=10.0)], role="floor")
        text = self.write(result(HOWDAH, floor))
        self.assertIn("Howdah / floor: 0.50 of its requests per second, 2.00 times its CPU", text)

    def test_the_floor_has_two_halves(self):
        floor = row("floor", [record(600, cpu_us=8.0), record(660, cpu_us=8.0)], role="floor")
        found = {**result(HOWDAH, floor), "worker_alone": [1.9, 2.0, 2.4]}
        worker.add_to_floor(found)
        text = self.write(found)
        self.assertIn("2.00 times its CPU", text)
        self.assertIn("2.00 µs ±20%", text)

    def test_executed_programs_are_listed_as_who_what_count(self):
        executed = {"requests": 1000, "rows": [["httpd", "page.cgi", 1000]]}
        none = {"requests": 1000, "rows": []}
        text = self.write(result({**HOWDAH, "executed": none}, {**STARLET, "executed": executed}))
        self.assertIn("executed in 1,000 requests", text)
        self.assertIn("| Howdah | – | – | 0 |\n| Starlet | httpd | page.cgi | 1,000 |", text)
        self.assertNotIn("WHO", self.write(result(HOWDAH, STARLET)))

    def test_servers_that_are_not_here_are_named(self):
        self.assertIn("- Other: no program", self.write(result(HOWDAH)))

    def test_a_busy_machine_is_told(self):
        busy = row("howdah", [record(300, noise=0.3)], role="howdah")
        self.assertIn("not to be quoted", self.write(result(busy)))
        self.assertNotIn("not to be quoted", self.write(result(HOWDAH)))

    def test_plots_are_well_formed(self):
        picture = plots.workload(result(HOWDAH, row("a<b", [record(5)]))["workloads"][0])
        self.assertEqual(len(ElementTree.fromstring(picture).findall("{*}rect")), 3)


class Goals(unittest.TestCase):
    def verdict(self, found, text):
        return next(goal for goal in goals.judged(found) if text in goal["text"])

    def test_a_goal_is_reached_or_not(self):
        self.assertTrue(self.verdict(result(HOWDAH, STARLET), "3 times Starlet's")["reached"])
        slower = row("howdah", [record(250), record(250)], role="howdah")
        self.assertFalse(self.verdict(result(slower, STARLET), "3 times Starlet's")["reached"])

    def test_a_goal_without_figures_is_not_measured(self):
        for goal in goals.judged(result()):
            self.assertEqual((goal["reached"], goal["measured"]), (None, "not measured"), goal["text"])

    def test_a_refused_peer_is_not_the_best_one(self):
        refused = row("uwsgi", [record(9999)], refused="timeouts: 1")
        goal = self.verdict(result(HOWDAH, STARLET, refused), "1.5 times the best")
        self.assertEqual(goal["measured"], "3.00 times starlet")

    def test_memory_of_idle_connections_is_the_growth_since_before_the_first(self):
        beside = {"background": {"wanted": 1000, "held": 1000}}
        rounds = [record(1, first_pss_before=4000, first_pss_with=9000, **beside),
                  record(1, first_pss_before=8900, first_pss_with=9000, **beside)]
        found = result(row("howdah", rounds, role="howdah"), workload="idle", load="idle")
        self.assertEqual(self.verdict(found, "10,000 idle")["measured"], "5.0 KiB")

    def test_modes_of_cgi_scripts_are_compared_by_name(self):
        exec_mode, fork = (row(f"howdah_{mode}", [record(rate)], role="howdah") for mode, rate in [("exec", 100), ("fork", 290)])
        peers = [row(name, [record(100)]) for name in ("mod_cgi", "mod_cgid")]
        found = result(exec_mode, fork, *peers, workload="cgi", load="ab-10")
        self.assertTrue(self.verdict(found, "mod_cgid's rate")["reached"])
        self.assertFalse(self.verdict(found, "fork: 3 times mod_cgi")["reached"])
        self.assertIsNone(self.verdict(found, "keep: 1.2 times Registry")["reached"])

    def test_idle_workers_are_compared_in_pss(self):
        alone = {"Howdah": {"server": "howdah", "pss": 25.0}, "Starlet": {"server": "starlet", "pss": 20.0}}
        goal = self.verdict(result(HOWDAH, alone=alone), "10 idle")
        self.assertEqual(goal["measured"], "+5.0 MiB (25.0 against 20.0)")

    def test_a_peer_is_ahead_when_most_rounds_say_so(self):
        ours = row("howdah", [record(rate, cpu_us=10.0) for rate in (100, 100, 100, 100)], role="howdah")
        for rates, reached in (((90, 95, 110, 120), True), ((105, 110, 110, 120), False)):
            found = result(ours, row("other", [record(rate, cpu_us=9.0) for rate in rates]), STARLET)
            goal = self.verdict(found, "Hello, 64 kept: no peer")
            self.assertEqual(goal["reached"], reached)
        self.assertEqual(goal["measured"], "0.91 of other's (0.83 to 0.91)")
        cpu = goals.judge(found, "", "", goals.nobody_ahead("connections", "wrk-64", figure="cpu_us"))
        self.assertEqual((cpu["reached"], cpu["measured"]), (False, "1.11 of other's (1.11 to 1.11)"))
