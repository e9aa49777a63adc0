"""Folders and ports that cannot be used: one line that names the thing and the remedy.

usage: bad_input_test.py LONGHAUL

A root user may write to folders of any mode, so the folders are file systems in a mount namespace of
the test's own: unshare and a user namespace, or root. Skipped where neither is permitted.
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

LIMIT_S = 60
# Mounts a file system with the options $1 on the folder `place`, and runs the rest in it.
MOUNT = """
mount -t tmpfs -o "$1" tmpfs place
shift
"$@"
code=$?
find place -mindepth 1 | sort > left
exit $code
"""


class BadInputTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bad-input-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "place").mkdir()

    def refused(self, *words, options=None):
        """The one line that `longhaul WORDS` prints; its exit code is 1, and no file is left."""
        command = [sys.program, *words]
        if options:
            command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh",
                       options, *command]
        done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"^longhaul: [^\n]+\n$")
        if options:
            self.assertEqual((self.folder / "left").read_text(), "")
        return done.stderr

    def need_mounts(self):
        probe = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                                "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest("this user cannot mount a file system in a namespace of its own")

    def test_a_folder_that_is_read_only(self):
        self.need_mounts()
        for words, option in ((["run", "--run-dir", "place/run", "--", "true"], "--run-dir"),
                              (["controller", "--state-dir", "place/state"], "--state-dir"),
                              (["agent", "--allow-root", "--controller", "localhost:1", "--node", "a",
                                "--state-dir", "place/state"], "--state-dir")):
            line = self.refused(*words, options="ro")
            self.assertIn("place/", line)
            self.assertIn(f"read-only file system; name another place with {option}", line)

    def test_a_run_folder_on_a_disk_that_is_full(self):
        self.need_mounts()
        line = self.refused("run", "--run-dir", "place/a/run", "--", "true", options="size=1m")
        self.assertRegex(line, "only 1.00 MiB are free where .*/place/a/run lies: make room, or "
                               "name another place with --run-dir")

    def test_a_run_folder_below_a_file(self):
        (self.folder / "file").write_text("")
        line = self.refused("run", "--run-dir", "file/run", "--", "true")
        self.assertRegex(line, "file/run: .*; name another place with --run-dir")

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            for option in ("--rest", "--agents"):
                line = self.refused("controller", "--state-dir", "state", option, address)
                self.assertIn(address, line)
                self.assertIn(f"with {option} HOST:PORT", line)


if __name__ == "__main__":
    sys.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
