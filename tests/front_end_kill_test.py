"""`longhaul run` is killed at random moments: its cluster ends by itself and nothing is lost.

usage: front_end_kill_test.py LONGHAUL LONGHAUL-TRAINER

LONGHAUL_KILLS=50 kills as many runs, LONGHAUL_KILLS_SEED=7 chooses other moments.
"""
import glob
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

import local_run

KILLS = int(os.environ.get("LONGHAUL_KILLS", "4"))
SEED = int(os.environ.get("LONGHAUL_KILLS_SEED", "1"))
ENDLESS = ["--set", "train.steps=1000000", "--set", "snapshot.interval_steps=10",
           "--set", "train.evaluate_every=1000000"]
LATEST_KILL_SECONDS = 3.0  # after the start: from the first child process to some hundred steps
# Much more than the end takes on an idle machine, where it takes about a second.
END_SECONDS = 60


class FrontEndKill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = local_run.Lab(sys.argv_programs)
        cls.addClassCleanup(cls.lab.close)

    def committed_steps(self, name):
        manifests = glob.glob(f"{self.lab.folder}/runs/{name}/checkpoints/*/MANIFEST")
        return sorted(int(re.search(r"step-0*(\d+)", path).group(1)) for path in manifests)

    def sealed_step(self, name):
        """The newest snapshot in memory that the front end heard of."""
        steps = [int(notification["snapshot"]["step"]) for notification in self.lab.notifications(name)
                 if notification["type"] == "snapshot"]
        return max(steps, default=0)

    def await_end(self, began):
        local_run.await_that(lambda: not self.lab.processes(), "processes are left", END_SECONDS)
        return time.monotonic() - began

    def size(self, name):
        files = glob.glob(f"{self.lab.folder}/runs/{name}/**", recursive=True)
        return sum(os.lstat(path).st_size for path in files if os.path.isfile(path))

    def resume(self, name, step):
        """Continues for some steps and returns the step from which the run continued."""
        self.lab.run(name, "--resume", *ENDLESS, "--set", f"train.steps={step + 5}")
        restored = [int(notification["attempt"]["restore"].get("step", 0))
                    for notification in self.lab.notifications(name) if notification["type"] == "attempt"]
        return restored[-1]

    def test_the_cluster_ends_with_a_checkpoint_of_the_last_snapshot(self):
        moments = random.Random(SEED)
        longest = 0.0
        with_steps = 0
        for i in range(KILLS):
            name = f"kill-{i}"
            moment = moments.uniform(0.0, LATEST_KILL_SECONDS)
            with self.subTest(kill=i, seed=SEED, after_seconds=moment):
                run = self.lab.start(name, *ENDLESS)
                began = time.monotonic()
                # Every other kill is late, so that there is a snapshot to lose.
                if i % 2:
                    local_run.await_that(lambda: self.lab.last_step(name) > 12, "no steps")
                    began = time.monotonic()
                while time.monotonic() - began < moment:
                    time.sleep(0.01)
                run.send_signal(signal.SIGKILL)
                longest = max(longest, self.await_end(time.monotonic()))
                run.communicate()
                size = self.size(name)
                self.assertEqual(glob.glob(f"{self.lab.folder}/runs/{name}/**/*.tmp",
                                           recursive=True), [])
                sealed = self.sealed_step(name)
                committed = self.committed_steps(name)
                if sealed:
                    self.assertGreaterEqual(committed[-1], sealed, "a snapshot was lost")
                self.assertEqual(self.size(name), size, "somebody still writes")
                step = committed[-1] if committed else 0
                with_steps += step > 0
                if i % 10 == 1:
                    self.assertEqual(self.resume(name, step), step)
        self.assertGreater(with_steps, 0, "no kill came after a snapshot")
        print(f"{KILLS} kills, the slowest end took {longest:.2f} s")

    def test_it_ends_too_when_the_controller_dies_with_the_front_end(self):
        run = self.lab.start("both", *ENDLESS)
        local_run.await_that(lambda: self.lab.last_step("both") > 12, "no steps")
        controllers = [pid for pid in self.lab.processes() if self.is_controller(pid)]
        self.assertEqual(len(controllers), 1)
        run.send_signal(signal.SIGKILL)
        os.kill(controllers[0], signal.SIGKILL)
        self.await_end(time.monotonic())
        run.communicate()
        step = (self.committed_steps("both") or [0])[-1]
        self.assertEqual(self.resume("both", step), step)

    def is_controller(self, pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"controller" in file.read().split(b"\0")[:2]

    def test_a_worker_that_waits_for_another_ends_at_once(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = f"{self.lab.folder}/waiting.json"
        with open(config, "w") as file:
            json.dump({"data_directory": self.lab.folder, "run_directory": self.lab.folder}, file)
        worker = subprocess.Popen(
            [f"{self.lab.folder}/longhaul-trainer", "--worker", config],
            env={**os.environ, "WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(port)}, stderr=subprocess.DEVNULL)
        local_run.await_that(lambda: self.listens(port), "no store for the rendezvous")
        worker.send_signal(signal.SIGTERM)
        # Without an end of its own it waits 20 s for rank 1.
        self.assertEqual(worker.wait(timeout=15), 143)

    def listens(self, port):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            return False

    def test_a_resumed_run_waits_for_the_owner_of_its_folder(self):
        first = self.lab.start("owned", *ENDLESS)
        local_run.await_that(lambda: self.lab.last_step("owned") > 12, "no steps")
        second = self.lab.start("owned", "--resume", *ENDLESS)
        line = second.stdout.readline()
        self.assertRegex(line, rf"owned is in use by longhaul run, process {first.pid} on .*; "
                               "waiting for it to end")
        first.send_signal(signal.SIGKILL)
        local_run.await_that(
            lambda: len([one for one in self.lab.notifications("owned")
                         if one["type"] == "attempt" and one["attempt"].get("restore", {}).get("step")])
            > 0, "the second run does not start")
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=90)
        first.communicate()
        self.await_end(time.monotonic())


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
