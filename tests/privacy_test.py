"""What a run leaves for other users of the machine: nothing to read, and names of its processes.

usage: privacy_test.py LONGHAUL LONGHAUL_TRAINER
"""
import json
import os
import stat
import subprocess
import sys
import unittest

import local_run

SECRET = "s3cret-that-is-nowhere"
JOB = f"""
name: keeper
command: [sh, -c, 'umask; touch made-$RANK; while [ ! -e end ]; do sleep 0.05; done']
environment: {{API_KEY: {SECRET}}}
resources: {{nodes: 2, processes_per_node: 1}}
"""


def modes_beneath(folder):
    """Path and mode of the folder and of all that is in it, sockets and all."""
    for place, folders, files in os.walk(folder):
        yield place, os.lstat(place).st_mode
        for name in files:
            path = os.path.join(place, name)
            yield path, os.lstat(path).st_mode


def command_of(pid):
    """The process's short name and first argument."""
    with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/cmdline") as arguments:
        return comm.read().strip(), arguments.read().split("\0")[0]


class PrivacyTest(unittest.TestCase):
    def setUp(self):
        self.lab = local_run.Lab(sys.programs)
        self.addCleanup(self.lab.close)
        self.umask = os.umask(0)
        self.addCleanup(os.umask, self.umask)

    def assert_private(self, folder):
        count = 0
        for path, mode in modes_beneath(folder):
            self.assertEqual(stat.S_IMODE(mode) & 0o077, 0, f"{path}: {stat.filemode(mode)}")
            count += 1
        self.assertGreater(count, 10)

    def test_a_run_is_private_and_its_second_tier_shared(self):
        shared = f"{self.lab.folder}/shared"
        with open(f"{self.lab.folder}/tiny.yaml", "w") as file:
            file.write(local_run.JOB.replace("{interval_steps: 10}",
                                             f"{{interval_steps: 10, copy_to: {shared}}}"))
        run = self.lab.start("built-in")
        seen = {}  # the newest names of each process: a new one has another for a moment
        while run.poll() is None:
            for pid in self.lab.processes():
                try:
                    seen[pid] = command_of(pid)
                except OSError:
                    pass  # it has just ended
        self.assertEqual(run.returncode, 0, run.stdout.read())
        run.stdout.close()
        self.assert_private(f"{self.lab.folder}/runs")
        checkpoints = os.listdir(f"{self.lab.folder}/runs/built-in/checkpoints")
        self.assertTrue(checkpoints)
        copies = list(modes_beneath(shared))
        self.assertGreater(len(copies), 3)
        for path, mode in copies:
            self.assertEqual(stat.S_IMODE(mode), 0o777 if stat.S_ISDIR(mode) else 0o666, path)
        names = set(seen.values())
        short = {name for name, _ in names}
        self.assertNotIn("exe", short)
        for name in ("longhaul-ctrl", "longhaul-agent", "longhaul-keeper", "longhaul-traine"):
            self.assertIn(name, short)
        self.assertNotIn("/proc/self/exe", {first for _, first in names})

    def test_the_values_of_an_environment_are_in_the_log_alone(self):
        with open(f"{self.lab.folder}/keeper.yaml", "w") as file:
            file.write(JOB)
        key, value = self.lab.marker.split("=")
        environment = {**os.environ, key: value}
        run = subprocess.Popen(
            ["./longhaul", "run", "keeper.yaml", "--json"], cwd=self.lab.folder, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        made = [f"{self.lab.folder}/made-{rank}" for rank in range(2)]
        local_run.await_that(lambda: all(map(os.path.exists, made)), "the workers")

        def ask(*words):
            return subprocess.run(["./longhaul", *words], cwd=self.lab.folder, env=environment,
                                  text=True, check=True, capture_output=True).stdout

        for words in (["status", "keeper"], ["status", "keeper", "--json"], ["status", "--json"],
                      ["jobs", "--json"], ["events", "--help"]):
            self.assertNotIn(SECRET, ask(*words), words)
        self.assertIn('"API_KEY": "<redacted>"', ask("status", "keeper", "--json"))
        self.assertIn(f"API_KEY={SECRET}", ask("status", "keeper", "--show-environment"))
        whole = json.loads(ask("status", "keeper", "--json", "--show-environment"))
        self.assertEqual(whole["job"]["workload"]["environment"], {"API_KEY": SECRET})
        open(f"{self.lab.folder}/end", "w").close()
        output, _ = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, output)
        self.assertNotIn(SECRET, output)

        run_folder = f"{self.lab.folder}/runs/keeper"
        self.assert_private(run_folder)
        holders = set()
        for path, mode in modes_beneath(f"{self.lab.folder}/runs"):
            if stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    if SECRET.encode() in file.read():
                        holders.add(os.path.basename(path))
        self.assertIn("events.db", {name.removesuffix("-wal") for name in holders})
        self.assertLessEqual(holders, {"events.db", "events.db-wal"})
        # The script itself keeps the umask that the user has set.
        for path in made:
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o666, path)
        with open(f"{run_folder}/logs/attempt-1/rank-0.log") as file:
            self.assertEqual(file.read().split()[0].lstrip("0"), "")


if __name__ == "__main__":
    sys.programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
