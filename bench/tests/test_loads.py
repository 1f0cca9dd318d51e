import sys
import tempfile
import unittest
from pathlib import Path

from harness import alone
from harness.loads import Ab, Client, H2load, Load, Wrk, call

AB = """\
Concurrency Level:      8
Time taken for tests:   1.250 seconds
Complete requests:      10000
Failed requests:        {failed}
   (Connect: 0, Receive: 0, Length: 3, Exceptions: 0)
{more}
Keep-Alive requests:    9950
Requests per second:    8000.00 [#/sec] (mean)
"""
WRK = """\
Running 2s test @ http://127.0.0.1:5000/
  100 requests in 2.00s, 1.00MB read

BENCH {"requests":100,"seconds":2.000000,"p50":150.0,"p99":900.0,"connect":0,"read":%d,"write":0,"status":0,"timeout":1}
"""
H2LOAD = """\
starting benchmark...
Application protocol: %s
finished in 2.00s, 50.00 req/s, 1.35KB/s
requests: 106 total, 106 started, 101 done, 100 succeeded, 1 failed, 0 errored, %d timeout
status codes: 100 2xx, 0 3xx, 0 4xx, 1 5xx
"""
LOAD = Load("x", "x", "ab", 8, keepalive=False, path="/?a=1")


class Parsers(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.scratch = Path(holder.name)

    def test_ab_gives_rate_and_percentiles(self):
        (self.scratch / "ab.csv").write_text("Percentage served,Time in ms\n0,0.1\n50,0.512\n99,3.250\n")
        found = Ab.parse(AB.format(failed=0, more=""), self.scratch)
        self.assertEqual((found.rate, found.p50, found.p99, found.kept), (8000, 0.512, 3.25, 9950))
        self.assertEqual(found.failures, {})

    def test_ab_with_few_requests_has_the_nearest_percentile(self):
        (self.scratch / "ab.csv").write_text("Percentage served,Time in ms\n50,270.1\n97,300.5\n98,0.000\n99,0.000\n")
        self.assertEqual(Ab.percentiles(self.scratch / "ab.csv"), (270.1, 300.5))

    def test_ab_tells_failures(self):
        found = Ab.parse(AB.format(failed=3, more="Non-2xx responses:      7"), self.scratch)
        self.assertEqual(found.failures, {"failed": 3, "not 2xx": 7})

    def test_ab_that_gave_up_has_no_rate(self):
        found = Ab.parse("apr_socket_recv: Connection refused (111)", self.scratch)
        self.assertEqual(found.rate, 0)
        self.assertIn("apr_socket_recv: Connection refused (111)", found.failures)

    def test_wrk_gives_milliseconds_and_failures(self):
        found = Wrk.parse(WRK % 5, self.scratch)
        self.assertEqual((found.rate, found.p50, found.p99), (50, 0.15, 0.9))
        self.assertEqual(found.failures, {"read errors": 5, "timeouts": 1})

    def test_wrk_sends_as_many_requests_together_as_it_is_told(self):
        for pipeline, words in [(1, []), (16, ["--", "16"])]:
            said = Wrk.command(Load("x", "x", "wrk", 8, pipeline=pipeline), "http://127.0.0.1:1", 1, self.scratch)
            self.assertEqual(said[said.index("http://127.0.0.1:1/") + 1:], words)

    def test_h2load_gives_percentiles_of_its_log_and_failures(self):
        (self.scratch / "h2load.log").write_text("".join(f"1\t200\t{time}\n" for time in range(1000, 101_000, 1000)))
        found = H2load.parse(H2LOAD % ("h2", 2), self.scratch)
        self.assertEqual((found.rate, found.p50, found.p99), (50, 51, 100))
        self.assertEqual(found.failures, {"timeout": 2, "not 2xx": 1})

    def test_h2load_that_spoke_something_else_has_no_rate(self):
        for said, is_http2 in [("h2", True), ("h2c", True), ("http/1.1", False)]:
            (self.scratch / "h2load.log").write_text("")
            self.assertEqual(H2load.parse(H2LOAD % (said, 0), self.scratch).rate, 50 if is_http2 else 0, said)

    def test_client_that_died_is_a_failure(self):
        self.assertTrue(Client.parse("Traceback ...\nConnectionRefusedError", self.scratch).failures)

    def test_ab_asks_as_it_is_told(self):
        words = Ab.command(LOAD, "http://127.0.0.1:1", 1.5, self.scratch)
        self.assertNotIn("-k", words)
        self.assertEqual((words[words.index("-t") + 1], words[-1]), ("2", "http://127.0.0.1:1/?a=1"))

    def test_strace_table_is_read_with_and_without_errors(self):
        text = ("% time     seconds  usecs/call     calls    errors syscall\n"
                "------ ----------- ----------- --------- --------- ----------------\n"
                " 50.00    0.000100           1       100        20 accept4\n"
                " 50.00    0.000100           1       300           write\n"
                "------ ----------- ----------- --------- --------- ----------------\n"
                "100.00    0.000200           0       400        20 total\n")
        calls = alone.parse(text)
        self.assertEqual(calls, {"accept4": 100, "write": 300})
        self.assertEqual(alone.per_request(calls, 100)["calls"], 4)


class Calls(unittest.TestCase):
    def test_a_program_that_counts_whole_seconds_is_interrupted_in_time(self):
        code = ("import signal, sys, time\n"
                "signal.signal(signal.SIGINT, lambda *_: sys.exit(print('partial')))\n"
                "time.sleep(5)\nprint('whole')")
        self.assertEqual(call([sys.executable, "-c", code], 1.5, {}, True), "partial\n")

    def test_what_a_program_says_on_either_channel_is_kept(self):
        self.assertEqual(call(["sh", "-c", "echo one; echo two >&2"], 2, {}, True), "one\ntwo\n")
