"""Steps that `longhaul run` reads from a command's output, and faults that happen at them.

usage: plain_command_test.py LONGHAUL

The scripts need nothing but Python.
"""
import os
import re
import sys
import unittest

import ddp_test

PATTERN = r"step (?P<step>\d+) of (?P<total>\d+) loss (?P<loss>\S+)"

# Saves its step every 10 steps, as scripts do, and continues from there. At the step `hold` of a
# first attempt it waits for the fault that the test planned.
SCRIPT = """
import os, sys, time
rank, total, hold = os.environ["RANK"], int(sys.argv[1]), int(sys.argv[2])
saved = f"saved-{rank}"
first = int(open(saved).read()) + 1 if os.path.exists(saved) else 1
for step in range(first, total + 1):
    time.sleep(0.02)
    while first == 1 and step == hold:
        time.sleep(0.02)
    if rank == "0":
        print(f"step {step} of {total} loss {9 / step:.4f}")
    if step % 10 == 0:
        with open(saved + ".new", "w") as file:
            file.write(str(step))
        os.replace(saved + ".new", saved)
"""
# Leaves a file once it has reported its last step.
REPORTS = """
import os
import longhaul
for step in range(1, 13):
    longhaul.report(step)
open("over-" + os.environ["LONGHAUL_ATTEMPT"], "w").close()
"""


class PlainCommand(ddp_test.RunTest):
    def run_script(self, *options, steps=60, hold=0, **environment):
        self.write("train.py", SCRIPT)
        run = self.start(*options, "--", ddp_test.PYTHON, "train.py", str(steps), str(hold),
                         **environment)
        code = run.end()
        return code, run.text()

    def test_a_planned_fault_happens_and_the_run_is_accounted_for(self):
        code, text = self.run_script("--procs", "2", "--step-pattern", PATTERN, "--inject",
                                     "kill worker 1 at step 25", hold=29)
        self.assertEqual(code, 0, text)
        report = self.report("train")
        self.assertTrue(report["reports_steps"])
        self.assertEqual(report["steps"], 60)
        self.assertEqual((report["first_loss"], report["loss"]), (9, 0.15))
        self.assertEqual(len(report["faults"]), 1)
        fault = report["faults"][0]
        self.assertTrue(fault["injected"])
        self.assertEqual(fault["from_step"], 21)
        self.assertGreaterEqual(fault["lost_steps"], 4)
        self.assertGreater(fault["recovery_seconds"], 0)
        self.assertGreater(report["goodput"], 0)
        self.assertGreater(report["ledger"]["categories"]["lost work"]["seconds"], 0.05)
        self.assertNotIn("unreported", report["ledger"]["categories"])
        self.assertRegex(text, r"fault 1: a new step after ")
        with open(f"{self.folder}/runs/train/loss.svg") as file:
            self.assertIn("<polyline", file.read())
        with open(f"{self.folder}/runs/train/metrics.csv") as file:
            self.assertEqual(len(re.findall(r"^60,2,", file.read(), re.MULTILINE)), 1)

    def test_a_fault_that_never_happened_is_named_and_fails_the_run(self):
        code, text = self.run_script("--inject", "kill worker 0 at step 5", steps=10)
        self.assertEqual(code, 1, text)
        self.assertIn("1 planned fault did not happen (kill worker 0 at step 5): the command "
                      "reported no steps: read them from its output with --step-pattern",
                      " ".join(text.split()))
        report = self.report("train")
        self.assertEqual(report["state"], "succeeded")
        self.assertEqual(report["missed_faults"], ["kill worker 0 at step 5"])

    def test_a_step_beyond_the_last_one_is_a_fault_that_never_happened(self):
        code, text = self.run_script("--step-pattern", PATTERN, "--inject",
                                     "kill worker 0 at step 500", steps=10)
        self.assertEqual(code, 1, text)
        self.assertIn("the last step was 10", text)

    def test_what_can_never_happen_is_refused_at_once(self):
        code, text = self.run_script("--inject", "kill worker 7 at step 5")
        self.assertEqual(code, 2, text)
        self.assertIn("the job's workers are 0 to 0", text)
        code, text = self.run_script("--step-pattern", "nanogtp")
        self.assertEqual(code, 2, text)
        self.assertIn("is not a preset (nanogpt, lightning, ", text)

    def test_a_report_without_a_loss_is_progress(self):
        self.write("reports.py", REPORTS)
        run = self.start("--inject", "kill worker 0 at step 12", "--", ddp_test.PYTHON,
                         "reports.py", PYTHONPATH=os.path.abspath("python"))
        run.end()
        report = self.report("reports")
        self.assertEqual(report["missed_faults"], [], run.text())
        # It waits for its end in its last report.
        self.assertFalse(os.path.exists(f"{self.folder}/over-1"), run.text())
        self.assertTrue(os.path.exists(f"{self.folder}/over-2"), run.text())
        self.assertEqual([fault["class_name"] for fault in report["faults"]], ["process"],
                         run.text())

    def test_nothing_is_lost_work_in_a_run_without_faults(self):
        code, text = self.run_script("--step-pattern", PATTERN, steps=10)
        self.assertEqual(code, 0, text)
        self.assertNotIn("lost work", self.report("train")["ledger"]["categories"])


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
