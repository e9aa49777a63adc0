"""A loss that is NaN, with each policy: a worker whose state shows which samples it has used.

usage: numeric_fault_test.py LONGHAUL LONGHAUL_WORKER_LIBRARY
"""
import json
import os
import pathlib
import sys
import unittest

import ddp_test

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench/recovery"))
import fault_worker  # noqa: E402

WORKER = ROOT / "bench/recovery/fault_worker.py"
STEPS = 60
BAD = 33


class NumericFaults(ddp_test.RunTest):
    def train(self, name, code, *options, steps=STEPS, **fault):
        """Runs 4 workers on 2 nodes, of which worker 3 reports NaN at step BAD."""
        folder = pathlib.Path(self.folder) / name
        (folder / "injected").mkdir(parents=True)
        faults = [{"id": "0", "kind": "nan", "step": BAD, "rank": 3, **fault}]
        (folder / "faults.json").write_text(json.dumps(faults))
        run = self.start("--name", name, "--nodes", "2", "--procs", "2", "--set",
                         "snapshot.interval_steps=10", *options, "--", ddp_test.PYTHON, str(WORKER),
                         "--folder", str(folder), "--steps", str(steps),
                         LONGHAUL_LIBRARY=sys.library)
        self.assertEqual(run.end(), code, run.text())
        return run.text(), self.report(name)

    def weights(self, name):
        """The final weights of every worker that reached the end."""
        ends = set()
        for record in (pathlib.Path(self.folder) / name / "records").iterdir():
            ends.update(line.split()[2].rstrip(";") for line in record.read_text().splitlines()
                        if line.startswith("end"))
        return ends

    def test_a_nan_that_the_replay_does_not_repeat_names_its_node(self):
        text, report = self.train("once", 0, "--not-finite", "rollback")
        self.assertEqual([fault["class_name"] for fault in report["faults"]], ["numeric"], text)
        fault = report["faults"][0]
        self.assertIn(f"the loss of step {BAD} is not finite", fault["what"])
        self.assertIn("reported by worker 3 on node-2", fault["what"])
        self.assertEqual((fault["node"], fault["rank"]), ("node-2", 3))
        self.assertIn("roll back and replay, restart from memory at step 30", fault["action"])
        self.assertIn("the replay from step 30 was clean (the losses of the 2 steps before it are "
                      "the same, bit for bit): the hardware is suspected", fault["action"])
        self.assertEqual(report["restarts"], 1, text)
        data = fault_worker.Data(3000, 15, 1)
        expected = fault_worker.expected_weights(data, STEPS)
        self.assertEqual(self.weights("once"), {expected.tobytes().hex()})

    def test_a_nan_that_the_replay_repeats_ends_the_job(self):
        text, report = self.train("always", 1, "--not-finite", "rollback", always=True)
        self.assertEqual([fault["class_name"] for fault in report["faults"]], ["numeric"] * 2, text)
        self.assertIn("again in the replay", report["faults"][1]["what"])
        self.assertIn("the program or its data is the cause, not the hardware", report["reason"])
        self.assertEqual(report["state"], "failed")
        # The state with which the NaN was computed, and later ones, are not on disk.
        kept = os.listdir(f"{self.folder}/runs/always/checkpoints")
        self.assertTrue(kept, text)
        for checkpoint in kept:
            self.assertLess(int(checkpoint.split("-")[1].split(".")[0]), BAD - 1, kept)

    def test_without_a_snapshot_the_job_stops_and_the_default_only_warns(self):
        text, report = self.train("early", 1, "--not-finite", "rollback", step=5)
        self.assertIn("it cannot be rolled back, because there is no snapshot of step 3 or an "
                      "earlier one", report["reason"])
        text, report = self.train("warned", 0)
        self.assertEqual(report["faults"], [], text)
        self.assertIn(f"the loss of step {BAD} is not finite (NaN or infinity), reported by "
                      "worker 3; training continues", text)


if __name__ == "__main__":
    sys.longhaul, sys.library = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
