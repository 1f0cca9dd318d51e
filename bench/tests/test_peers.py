import os
import tempfile
import unittest
from pathlib import Path

from harness import peers
from harness.loads import DRIVERS
from harness.workloads import WORKLOADS

GOOD = '[mine]\ntitle = "Mine"\ncommand = ["mine", "{port}", "{max_requests}"]\n'


class Peers(unittest.TestCase):
    def load(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            return peers.load(file.name)

    def test_our_own_file_is_good(self):
        found = peers.load(peers.BENCH / "peers.toml")
        self.assertEqual(found["howdah"].role, "howdah")
        self.assertTrue(all(peer.title for peer in found.values()))

    def test_a_server_from_elsewhere_is_one_more_table(self):
        mine = self.load(GOOD)["mine"]
        self.assertTrue(mine.takes("max_requests"))
        self.assertFalse(mine.takes("workers"))
        self.assertEqual(peers.missing(mine), None)

    def test_a_key_that_is_not_known_is_refused_with_its_table(self):
        with self.assertRaisesRegex(peers.Mistake, r"\[mine\] has the unknown key comand"):
            self.load(GOOD + 'comand = "x"\n')

    def test_a_command_without_a_port_is_refused(self):
        with self.assertRaisesRegex(peers.Mistake, "mentions {port}"):
            self.load('[mine]\ncommand = ["mine"]\n')

    def test_what_is_missing_is_named(self):
        cases = [('needs.programs = ["no-such-program"]', "no program no-such-program"),
                 ('needs.files = ["/no/such/file"]', "no file /no/such/file"),
                 ('needs.modules = ["No::Such::Module"]', "no Perl module No::Such::Module")]
        for line, reason in cases:
            self.assertEqual(peers.missing(self.load(GOOD + line)["mine"]), reason)

    def test_a_feature_counts_when_its_option_is_listed(self):
        feature = '[mine.features.log]\noptions = ["--log", "x"]\nlisted = ["echo", "%s"]\n'
        self.assertTrue(peers.has_feature(self.load(GOOD + feature % "--log FILE")["mine"], "log"))
        self.assertFalse(peers.has_feature(self.load(GOOD + feature % "--other")["mine"], "log"))
        self.assertFalse(peers.has_feature(self.load(GOOD)["mine"], "log"))

    def test_other_braces_stay(self):
        self.assertEqual(peers.fill("sub { {port} }", {"port": 80}), "sub { 80 }")


class Workloads(unittest.TestCase):
    def test_every_row_names_things_that_exist(self):
        for workload in WORKLOADS:
            apps = {variant.app or workload.app for variant in workload.variants} if workload.kind == "psgi" else set()
            for app in apps:
                self.assertTrue((peers.BENCH / "apps" / f"{app}.psgi").exists(), app)
            for load in workload.loads:
                self.assertIn(load.driver, DRIVERS)
                if load.body and not load.body.isdigit():
                    self.assertTrue((peers.BENCH / load.body).exists(), load.body)

    def test_names_are_unique(self):
        names = [(workload.name, load.name) for workload in WORKLOADS for load in workload.loads]
        self.assertEqual(len(names), len(set(names)))

    def test_who_takes_part(self):
        known = peers.load(peers.BENCH / "peers.toml")
        table = {workload.name: workload for workload in WORKLOADS}
        cases = [("connections", "starlet", None), ("connections", "mod_cgi", ""), ("cgi", "mod_cgi", None),
                 ("max-requests", "feersum", "it does not replace workers"), ("connections", "uwsgi-router", ""),
                 ("idle", "starlet", "a kept connection occupies one of its workers"), ("idle", "uwsgi-router", None),
                 ("slow-clients", "starlet", None), ("sizes", "floor", ""), ("connections", "floor", None)]
        for workload, peer, reason in cases:
            one = table[workload]
            self.assertEqual(one.takes(known[peer], one.variants[0]), reason, (workload, peer))

    def test_cgi_programs_answer_the_pages_that_are_expected(self):
        loads = {load.name: load for workload in WORKLOADS if workload.name == "cgi" for load in workload.loads}
        for load in loads.values():
            program = peers.BENCH / "cgi" / Path(load.path.partition("?")[0]).name
            self.assertTrue(os.access(program, os.X_OK), program)
            said = peers.output(["perl", str(program), "name=camel"])
            if said:  # where its modules are installed
                self.assertEqual(len(said.replace("\r\n", "\n").partition("\n\n")[2]), load.answer, program)
        self.assertTrue(33_000 < loads["ab-10"].answer < 35_500)
