"""TensorBoard reads the event file of a run in which a worker is killed.

usage: tensorboard_test.py LONGHAUL LONGHAUL-TRAINER

Skipped where TensorBoard cannot be had from PyPI.
"""
import csv
import json
import os
import subprocess
import sys
import unittest

import tensorboard_environment

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import local_run  # noqa: E402

STEPS = 60
FAULT = "kill worker 1 at step 27"  # seven steps after a snapshot
READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [[event.step, event.value] for event in events.Scalars(tag)]
                  for tag in events.Tags()["scalars"]}))
"""


class TensorBoard(unittest.TestCase):
    def test_reads_each_step_once_although_some_were_done_again(self):
        python = tensorboard_environment.python_or_skip()
        lab = local_run.Lab(sys.argv_programs)
        self.addCleanup(lab.close)
        report = lab.run("seen", "--set", f"train.steps={STEPS}", "--inject", FAULT)
        self.assertEqual(len(report["faults"]), 1)
        read = subprocess.run([python, "-c", READ, f"{lab.folder}/runs/seen/tensorboard"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(read.returncode, 0, read.stderr)
        scalars = json.loads(read.stdout)
        self.assertEqual([step for step, _ in scalars["loss/training"]],
                         list(range(1, STEPS + 1)))
        with open(f"{lab.folder}/runs/seen/metrics.csv") as file:
            rows = list(csv.DictReader(file))
        self.assertGreater(len(rows), STEPS, "no step was done again")
        losses = {int(row["step"]): float(row["loss"]) for row in rows}
        for step, loss in scalars["loss/training"]:
            self.assertAlmostEqual(loss, losses[step], places=5)
        self.assertEqual({step for step, _ in scalars["loss/validation"]}, {10, 20, 30, 40, 50, 60})


if __name__ == "__main__":
    sys.argv_programs = [os.path.abspath(path) for path in sys.argv[1:]]
    unittest.main(argv=sys.argv[:1])
