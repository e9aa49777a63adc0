"""`longhaul top` in a terminal of 80 columns and 24 rows, and without one.

usage: top_test.py LONGHAUL
"""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import unittest

import ddp_test

ROWS, COLUMNS = 24, 80
ESCAPE = re.compile(r"\x1b\[[0-9?;]*[A-Za-z]")


class Terminal:
    """A child on a terminal of its own, and what it has written."""

    def __init__(self, command, folder):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.slave = slave
        self.before = termios.tcgetattr(slave)
        self.text = ""
        self.child = subprocess.Popen(command, cwd=folder, stdin=slave, stdout=slave, stderr=slave,
                                      env={**os.environ, "TERM": "xterm"}, start_new_session=True)

    def until(self, done, limit_s=30):
        end = time.monotonic() + limit_s
        while not done(self.text):
            if time.monotonic() > end:
                raise AssertionError(f"not in time:\n{self.text}")
            if select.select([self.master], [], [], 0.2)[0]:
                self.text += os.read(self.master, 65536).decode(errors="replace")

    def close(self):
        self.child.kill()
        self.child.wait()
        os.close(self.master)
        os.close(self.slave)


class Top(ddp_test.RunTest):
    def setUp(self):
        super().setUp()
        self.write("wait.py", "import time\nprint('up', flush=True)\ntime.sleep(600)\n")
        self.run_ = self.start("--procs", "2", "--", ddp_test.PYTHON, "wait.py")
        self.run_.until("up")

    def tearDown(self):
        self.run_.child.terminate()
        self.run_.end()
        super().tearDown()

    def test_in_a_terminal(self):
        terminal = Terminal([sys.longhaul, "top"], self.folder)
        try:
            # Three pictures; each goes up and replaces the one before, line by line.
            terminal.until(lambda text: text.count("nodes ready") >= 3)
            pictures = terminal.text.split("\x1b[?25l")[1:3]
            for picture in pictures:
                lines = ESCAPE.sub("", picture).replace("\r", "").split("\n")
                self.assertLessEqual(len(lines), ROWS)
                self.assertLessEqual(max(map(len, lines)), COLUMNS)
            self.assertNotIn("\x1b[2J", terminal.text, "the screen is not cleared")
            self.assertIn("wait-1", pictures[0])
            self.assertIn("q: quit", pictures[0])
            during = termios.tcgetattr(terminal.slave)
            self.assertFalse(during[3] & termios.ECHO)
            os.write(terminal.master, b"xq")
            self.assertEqual(terminal.child.wait(timeout=10), 0)
            self.assertEqual(termios.tcgetattr(terminal.slave), terminal.before)
            terminal.until(lambda text: text.endswith("\x1b[?25h"))
        finally:
            terminal.close()

    def test_a_signal_restores_the_terminal(self):
        terminal = Terminal([sys.longhaul, "top"], self.folder)
        try:
            terminal.until(lambda text: "q: quit" in text)
            terminal.child.terminate()
            self.assertEqual(terminal.child.wait(timeout=10), 0)
            self.assertEqual(termios.tcgetattr(terminal.slave), terminal.before)
        finally:
            terminal.close()

    def test_without_a_terminal(self):
        def top(*words):
            done = subprocess.run([sys.longhaul, "top", *words], cwd=self.folder, text=True,
                                  capture_output=True, timeout=30)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("\x1b", done.stdout)
            return done.stdout

        self.assertIn("wait-1", top("--once"))
        view = json.loads(top("--once", "--json"))
        self.assertEqual([job["id"] for job in view["running"]], ["wait-1"])
        self.assertEqual(view["running"][0]["workers"], 2)
        follower = subprocess.Popen([sys.longhaul, "top"], cwd=self.folder, text=True,
                                    stdout=subprocess.PIPE)
        heads = 0
        while heads < 2:
            heads += "nodes ready" in follower.stdout.readline()
        follower.stdout.close()  # as `head` does
        self.assertEqual(follower.wait(timeout=10), 0)


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
