import os
import struct
import subprocess
import unittest

from harness import execs


def packet(what, *words):
    return bytes(16 + 20) + struct.pack("=IIQ", what, 0, 0) + struct.pack("=IIIIII", *words, *[0] * (6 - len(words)))


class Events(unittest.TestCase):
    def test_forks_execs_and_exits_of_processes_are_read(self):
        cases = [(packet(execs.FORK, 10, 10, 11, 11), (execs.FORK, 11, 10)),
                 (packet(execs.FORK, 10, 10, 12, 10), None),  # a thread
                 (packet(execs.EXEC, 11, 11), (execs.EXEC, 11, None)),
                 (packet(execs.EXIT, 11, 11, 0, 17), (execs.EXIT, 11, None)),
                 (packet(execs.EXIT, 12, 10, 0, 17), None),
                 (packet(0x200, 11, 11), None),  # a name
                 (b"short", None)]
        for text, meaning in cases:
            self.assertEqual(execs.parse(text), meaning)


class Books(unittest.TestCase):
    def test_who_executes_is_called_as_before(self):
        names = {11: "page.cgi", 12: "sh", 20: "elsewhere"}
        book = execs.Book({1: "httpd"}, names.get)
        for event in [(execs.FORK, 11, 1), (execs.EXEC, 11, None), (execs.FORK, 12, 11), (execs.EXEC, 12, None),
                      (execs.EXIT, 11, None), (execs.FORK, 20, 19), (execs.EXEC, 20, None),
                      (execs.FORK, 11, 1), (execs.EXEC, 11, None), (execs.FORK, 13, 1), (execs.EXEC, 13, None)]:
            book.note(*event)
        self.assertEqual(book.rows(), [["httpd", "(gone)", 1], ["page.cgi", "sh", 1], ["httpd", "page.cgi", 2]])

    @unittest.skipUnless(execs.possible(), "the kernel does not tell whoever runs this")
    def test_the_kernel_tells_of_our_children(self):
        book = execs.Book({os.getpid(): "tests"}, execs.name_of)
        with execs.Listener(book):
            for _ in range(3):
                subprocess.run(["sleep", "0.05"], check=True)
        self.assertEqual([row for row in book.rows() if row[1] != "(gone)"], [["tests", "sleep", 3]])
