import os
import signal
import subprocess
import sys
import time
import unittest

from harness import proc

STAT = "42 (a (b) c) S 7 42 40 0 -1 4194560 1 0 0 0 150 50 25 75 20 0 1 0 9876 1000 10 0 0 0 0"
BUSY = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


class Parsing(unittest.TestCase):
    def test_stat_is_read_whatever_the_name_holds(self):
        one = proc.parse_stat(STAT)
        self.assertEqual((one.pid, one.parent, one.session, one.start), (42, 7, 40, 9876))
        self.assertAlmostEqual(one.own, 200 * proc.TICK)
        self.assertAlmostEqual(one.reaped, 100 * proc.TICK)

    def test_rollup_gives_rss_and_pss(self):
        text = "7f00-7fff ---p 0 00:00 0 [rollup]\nRss:     1200 kB\nPss:      700 kB\nPss_Anon:  5 kB\n"
        self.assertEqual(proc.parse_rollup(text), (1200, 700))

    def test_a_process_that_is_gone_has_no_memory(self):
        self.assertEqual(proc.parse_rollup(""), (0, 0))


class Family(unittest.TestCase):
    @staticmethod
    def process(pid, parent, session):
        return proc.Process(pid, parent, session, 1.0, 0.0)

    def test_descendants_and_members_of_the_session_belong_others_do_not(self):
        child, grandchild = self.process(11, 10, 10), self.process(12, 11, 10)
        orphan, daemon_child = self.process(13, 1, 10), self.process(14, 13, 14)
        stranger = self.process(15, 1, 15)
        found = proc.family([self.process(10, 1, 10), child, grandchild, orphan, daemon_child, stranger], 10)
        self.assertEqual({p.pid for p in found}, {10, 11, 12, 13, 14})


class Accounting(unittest.TestCase):
    def start(self, code):
        process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
        self.addCleanup(process.stdout.close)
        return process

    def test_children_count_while_they_live_and_after_they_were_reaped(self):
        # The first child ends and is reaped; the second one lives on.
        parent = self.start(
            "import subprocess, sys, time\n"
            f"subprocess.run([sys.executable, '-c', {BUSY!r}])\n"
            f"subprocess.Popen([sys.executable, '-c', {BUSY + 'time.sleep(60)'!r}])\n"
            "time.sleep(1)\nprint('done', flush=True)\ntime.sleep(60)")
        parent.stdout.readline()
        deadline = time.monotonic() + 20
        while (found := proc.usage(parent.pid)).others < 0.58 and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertGreater(found.others, 0.58)
        self.assertLess(found.others, 1.5)
        self.assertEqual(len(found.pids), 2)

    def test_short_times_are_seen_below_the_clock_tick(self):
        process = self.start("import time\nprint(time.process_time(), flush=True)\ntime.sleep(60)")
        process.stdout.readline()
        self.assertNotEqual(proc.usage(process.pid).first * 100 % 1, 0)

    def test_memory_of_a_process_is_found(self):
        process = self.start("print('ready', flush=True)\nimport time\ntime.sleep(60)")
        process.stdout.readline()
        rss, pss = proc.memory([process.pid])
        self.assertGreaterEqual(rss, pss)
        self.assertGreater(pss, 500)
        self.assertIsNone(proc.memory([]))
