"""The harness against servers of its own making: no Perl server is needed."""

import json
import os
import socket
import subprocess
import sys
import unittest

from harness import background, peers, runner
from harness.loads import Load
from harness.server import Plan, Server, Unable, living
from harness.workloads import Variant, Workload

# Forks like a prefork server; each process serves one kept connection at a time, as those do.
PREFORK = """
import os, socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(1024)
for _ in range(int(sys.argv[2]) - 1):
    if os.fork() == 0: break
while True:
    c = s.accept()[0]
    n = 0
    try:
        while c.recv(65536):
            n += 1
            c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 11\\r\\n\\r\\nHello World")
    except ConnectionError: pass
"""
CLIENT = [sys.executable, str(peers.BENCH / "loads" / "client.py")]


def peer(code=PREFORK, **more):
    command = [sys.executable, "-c", code, "{port}", "{workers}"]
    return peers.Peer(name="mine", title="Mine", command=command, stop="KILL", **more)


def client(server, *words):
    done = subprocess.run([*CLIENT, *words, "--url", f"http://127.0.0.1:{server.port}/"], input="", timeout=30,
                          capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()


class Servers(unittest.TestCase):
    def test_a_server_and_its_children_are_stopped_whatever_the_first_one_does(self):
        with Server(peer(), Plan("hello", workers=3)) as server:
            self.assertEqual(server.get("/"), (200, b"Hello World"))
            members = {p.identity for p in server.family()}
        self.assertEqual(len(members), 3)
        self.assertEqual(living(members), [])

    def test_a_server_that_ends_at_once_is_told_with_its_last_words(self):
        with self.assertRaisesRegex(Unable, "ended at once: no such app"):
            Server(peer("import sys; sys.exit('no such app')"), Plan("hello")).start()

    def test_options_of_a_feature_come_before_the_application(self):
        feature = {"log": {"options": ["-l", "f"]}}
        one = peers.Peer(name="x", title="x", command=["x", "{port}", "{app}"], features=feature)
        server = Server(one, Plan("hello", feature="log"))
        self.addCleanup(server.holder.cleanup)
        self.assertEqual(server.words(), ["x", "{port}", "-l", "f", "{app}"])


class OwnClient(unittest.TestCase):
    def test_answers_are_counted_and_timed(self):
        with Server(peer(), Plan("hello", workers=4)) as server:
            words = ["load", "--connections", "4", "--seconds", "0.3", "--slow-every", "10"]
            said = json.loads(client(server, *words)[-1])
        self.assertGreater(said["requests"], 100)
        self.assertAlmostEqual(said["slow"] / said["requests"], 0.1, places=1)
        self.assertEqual(said["failures"], {})
        self.assertLessEqual(said["p50"], said["p99"])

    def test_connections_that_wait_for_a_worker_all_the_time_are_failures(self):
        with Server(peer(), Plan("hello", workers=2)) as server:
            said = json.loads(client(server, "load", "--connections", "5", "--seconds", "1.1")[-1])
        self.assertEqual(said["failures"], {"connections of 5 without any answer": 3})

    def test_idle_connections_are_opened_and_held(self):
        with Server(peer(), Plan("hello", workers=3)) as server:
            ready, held = client(server, "idle", "--connections", "3")
        self.assertEqual((ready, json.loads(held)), ("ready 3", {"opened": 3, "kept": 3}))


class Rounds(unittest.TestCase):
    def measure(self, one, load, **more):
        workload = Workload("w", "W", "", "hello", [load], [Variant()], workers=2, **more)
        return runner.measure(workload, [one], runner.Settings(2, 0.3), lambda text: None)["loads"][0]["rows"]

    def test_a_round_is_accounted_for(self):
        row, = self.measure(peer(), Load("l", "L", "client", 2))
        self.assertIsNone(row["refused"])
        self.assertEqual(len(row["rounds"]), 2)
        for one in row["rounds"]:
            self.assertGreater(one["cpu_us"], 1)
            self.assertAlmostEqual(one["cpu_us"], one["first_us"] + one["others_us"])
            self.assertGreater(one["rss"], one["pss"])

    def test_another_answer_than_expected_is_refused_before_any_load(self):
        row, = self.measure(peer(), Load("l", "L", "client", 2, answer=12))
        self.assertEqual((row["refused"], row["rounds"]), ("answers 200 with 11 bytes, not 200 with 12", []))

    def test_a_failed_request_refuses_the_row_and_ends_its_rounds(self):
        # Good for a hundred requests on a connection, then no more.
        bad = PREFORK.replace('b"HTTP/1.1 200 OK', '(b"HTTP/1.1 200 OK" if n < 100 else b"HTTP/1.1 500 No") + b"')
        row, = self.measure(peer(bad), Load("l", "L", "client", 2))
        self.assertRegex(row["refused"], r"^not 2xx: \d+$")
        self.assertEqual(len(row["rounds"]), 1)

    def test_a_server_that_does_not_start_is_a_row_with_the_reason(self):
        row, = self.measure(peer("import sys; sys.exit('broken')"), Load("l", "L", "client", 2))
        self.assertIn("broken", row["refused"])

    def test_a_server_that_closes_connections_is_left_out_where_they_are_kept(self):
        self.assertEqual(self.measure(peer(keepalive=False), Load("l", "L", "client", 2)), [])


class Backgrounds(unittest.TestCase):
    def test_connections_are_counted_that_neither_side_has_ended(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        port = listener.getsockname()[1]
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        accepted = [listener.accept()[0] for _ in clients]
        for one in clients + accepted:
            self.addCleanup(one.close)
        self.assertEqual(background.connected(os.getpid(), port), 3)
        accepted[0].close()
        clients[1].close()
        self.assertEqual(background.connected(os.getpid(), port), 1)
        self.assertEqual(background.connected(os.getppid(), port), 0)
