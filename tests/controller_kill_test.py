"""The controller of a run is killed ten times: the workers train on and nothing is forgotten.

usage: controller_kill_test.py LONGHAUL LONGHAUL_TRAINER
"""
import csv
import json
import os
import signal
import sys
import unittest

import local_run

KILLS = 10
STEPS = 2000  # enough that training outlasts the kills: workers continue without a controller


class ControllerKills(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = local_run.Lab(sys.argv_programs)
        cls.addClassCleanup(cls.lab.close)
        cls.killed = set()
        path = f"{cls.lab.folder}/output.txt"
        with open(path, "w") as output:
            cls.process = cls.lab.start("kills", "--json", "--set", f"train.steps={STEPS}",
                                        output=output)
        try:
            for _ in range(KILLS):
                cls.kill_controller()
        finally:
            cls.process.wait(timeout=120)
            with open(path) as output:
                cls.output = output.read()

    @classmethod
    def controller(cls):
        """The pid of a controller that has not been killed yet and listens."""
        if cls.process.poll() is not None:
            raise AssertionError(f"the run ended after {len(cls.killed)} of {KILLS} kills")
        try:
            with open(f"{cls.lab.folder}/runs/kills/cluster/endpoint.json") as file:
                pid = json.load(file)["pid"]
        except FileNotFoundError:
            return None
        return None if pid in cls.killed else pid

    @classmethod
    def kill_controller(cls):
        pid = local_run.await_that(cls.controller, "a controller that listens")
        before = cls.lab.last_step("kills")
        # News of a step after that: the agents have found this controller, and so has the run.
        local_run.await_that(lambda: cls.lab.last_step("kills") > before, "a step")
        os.kill(pid, signal.SIGKILL)
        cls.killed.add(pid)

    def test_succeeds(self):
        self.assertEqual(self.process.returncode, 0, self.output)
        self.assertEqual(len(self.killed), KILLS)
        reported = [notification for notification in self.lab.notifications("kills") if notification["type"] == "message"
                and "the controller was killed by SIGKILL" in notification["message"]["text"]]
        self.assertEqual(len(reported), KILLS)

    def test_restarts_no_worker(self):
        report = self.lab.report("kills")
        self.assertEqual(report["restarts"], 0)
        self.assertEqual(report["faults"], [])
        attempts = {notification["attempt"]["attempt"] for notification in self.lab.notifications("kills")
                  if notification["type"] == "attempt"}
        self.assertEqual(attempts, {1})

    def test_knows_every_step_once(self):
        with open(f"{self.lab.folder}/runs/kills/metrics.csv") as file:
            steps = [int(row["step"]) for row in csv.DictReader(file)]
        self.assertEqual(steps, list(range(1, STEPS + 1)))
        self.assertEqual(self.lab.report("kills")["samples_committed"], STEPS * 8)

    def test_leaves_no_process(self):
        self.assertEqual(self.lab.processes(), [])


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
