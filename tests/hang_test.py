"""Workers of a plain command that stand still are found, named and restarted.

usage: hang_test.py LONGHAUL

The scripts need nothing but Python. Limits are short, so that the tests are; that a legitimate
silence is no hang is tested with the same limits.
"""
import glob
import json
import os
import re
import sys
import unittest

import ddp_test

PATTERN = r"step (?P<step>\d+)"

# At step 5 of its first attempt the workers do what the test names. Others wait for a byte of a
# pipe that nobody writes, as they would wait in a collective.
SCRIPT = """
import os, signal, sys, time
import {package}

def wait_for_others():
    os.read(os.pipe()[0], 1)

def endless_sleep():
    time.sleep(100000)

def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass

rank, mode, steps = os.environ["RANK"], sys.argv[1], sys.argv[2] == "steps"
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
for step in range(1, 9):
    time.sleep(0.05)
    if rank == "0" and steps:
        print(f"step {{step}}", flush=True)
    if not first or step != 5:
        continue
    if mode == "stop" and rank == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif mode == "stop twice" and rank == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
    elif mode == "one" and rank == "1" or mode == "all":
        endless_sleep()
    elif mode in ("one", "stop twice"):
        wait_for_others()
    elif mode == "compute" and rank == "0":
        compute(5)
    elif mode == "write" and rank == "0":
        for _ in range(100):
            with open("checkpoint", "wb") as file:
                file.write(bytes(1 << 20))
                time.sleep(0.05)
    elif mode in ("compute", "write"):
        time.sleep(5)
print("the end", flush=True)
if mode == "at the end" and rank == "1" and first:
    endless_sleep()
"""
# The first attempt stands still in its third step, and the second one before its first step.
HANGS_TWICE = """
import os, time

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) + 1
for step in range(1, 9):
    if (attempt, step) in ((1, 3), (2, 1)):
        time.sleep(100000)
    time.sleep(0.05)
    if os.environ["RANK"] == "0":
        print(f"step {step}", flush=True)
"""
LIMITS = ("--stopped-limit", "1s", "--no-step-limit", "2s", "--idle-limit", "2s")


class Hangs(ddp_test.RunTest):
    def setUp(self):
        super().setUp()
        self.packages = f"{self.folder}/lib/site-packages"
        os.makedirs(self.packages)
        self.write("lib/site-packages/useful.py", "")
        self.runs = 0

    def run_mode(self, mode, steps, *options, limits=LIMITS, package="sys"):
        self.write("train.py", SCRIPT.format(package=package))
        pattern = ("--step-pattern", PATTERN) if steps else ()
        self.runs += 1
        name = f"train-{self.runs}"
        run = self.start("--name", name, "--nodes", "1", "--procs", "2", *pattern, *limits, *options, "--",
                         ddp_test.PYTHON, "train.py", mode, "steps" if steps else "none",
                         PYTHONPATH=self.packages)
        code = run.end()
        self.assertEqual(code, 0, run.text())
        return run.text(), self.report(name)

    def stacks_of_page(self):
        """The stacks of the only fault in report.html, by rank."""
        with open(f"{self.folder}/runs/train-{self.runs}/report.html") as file:
            data = re.search(r'id="report">(.*?)</script>', file.read(), re.DOTALL)[1]
        fault, = json.loads(data)["faults"]
        return {stack["rank"]: " ".join(stack["calls"]) for stack in fault["fault"]["stacks"]}

    def only_fault(self, report, text):
        self.assertEqual(len(report["faults"]), 1, text)
        fault = report["faults"][0]
        self.assertEqual(fault["class_name"], "hang", text)
        return fault

    def test_a_stopped_worker_is_continued_and_named(self):
        for steps in (True, False):
            with self.subTest(steps=steps):
                text, report = self.run_mode("stop", steps)
                fault = self.only_fault(report, text)
                self.assertRegex(fault["what"], r"worker 1 was stopped \(state T\) for ")
                self.assertEqual(fault["rank"], 1)
                self.assertEqual(report["restarts"], 0, text)

    def test_a_worker_that_is_stopped_again_is_restarted(self):
        text, report = self.run_mode("stop twice", False, "--idle-limit", "never",
                                     limits=LIMITS[:2])
        self.assertEqual(len(report["faults"]), 2, text)
        self.assertIn("although it was continued before", report["faults"][1]["what"])
        self.assertIn("worker 1 differs from the others", report["faults"][1]["what"])
        self.assertEqual(report["restarts"], 1, text)

    def test_one_worker_that_sleeps_while_the_others_wait_is_a_hang(self):
        for steps in (True, False):
            with self.subTest(steps=steps):
                text, report = self.run_mode("one", steps)
                fault = self.only_fault(report, text)
                self.assertIn("no activity of any worker for ", fault["what"])
                self.assertEqual("no step for" in fault["what"], steps)
                self.assertEqual(report["restarts"], 1, text)
                self.assertIn("nanosleep", self.stacks_of_page()[1])
                self.assertIn("read", self.stacks_of_page()[0])

    def test_all_workers_that_sleep_are_a_hang(self):
        for steps in (True, False):
            with self.subTest(steps=steps):
                text, report = self.run_mode("all", steps)
                self.assertIn("no activity of any worker for ",
                              self.only_fault(report, text)["what"])

    def test_a_second_hang_without_a_step_in_between_checks_the_nodes(self):
        self.write("train.py", HANGS_TWICE)
        run = self.start("--name", "again", "--nodes", "2", "--procs", "1", "--step-pattern",
                         PATTERN, *LIMITS, "--", ddp_test.PYTHON, "train.py")
        self.assertEqual(run.end(), 0, run.text())
        self.assertIn("it has hung 2 times without a step in between", run.text())
        self.assertIn("the check of its nodes: no node is faulty", run.text())
        report = self.report("again")
        self.assertEqual([fault["class_name"] for fault in report["faults"]], ["hang", "hang"])
        self.assertEqual(report["restarts"], 2, run.text())

    def test_the_stacks_name_the_worker_that_does_something_else(self):
        text, report = self.run_mode("one", True, package="useful")
        fault = self.only_fault(report, text)
        self.assertEqual(fault["rank"], 1, text)
        self.assertIn("worker 1 differs from the others", fault["what"])
        self.assertRegex(fault["what"], r"worker 1 \[\w{8}\]: endless_sleep \(.*train\.py:\d+\)")
        self.assertRegex(fault["what"], r"worker 0 \[\w{8}\]: wait_for_others \(")
        named = re.search(r"logs/attempt-1/stacks-[\w-]+\.txt", fault["what"])[0]
        with open(f"{self.folder}/runs/train-1/{named}") as file:
            stacks = file.read()
        self.assertIn("in endless_sleep", stacks)
        self.assertRegex(stacks, r"thread \d+ \(python3.*\): state S, \w*nanosleep")
        self.assertEqual(glob.glob(f"{self.folder}/runs/train-1/logs/*/*.stack"), [])

    def test_a_worker_that_does_not_end_after_the_others_is_named_before_the_restart(self):
        text, report = self.run_mode("at the end", False, package="useful",
                                     limits=("--idle-limit", "45s"))
        self.only_fault(report, text)
        named = re.search(r"worker 1 on node-1 has not ended, .* after worker 0 ended with success; .*",
                          text)
        self.assertIsNotNone(named, text)
        self.assertIn("endless_sleep", named[0])
        self.assertIn("all workers are restarted if none is active for 45", named[0])

    def test_a_worker_without_a_handler_of_the_signal_is_not_ended_by_it(self):
        text, report = self.run_mode("one", True, "--no-fork-server", package="useful")
        fault = self.only_fault(report, text)
        self.assertIn("stacks: ", fault["what"])
        self.assertIn("nanosleep", fault["what"])

    def test_the_native_stacks_name_the_worker_that_does_something_else(self):
        program = os.path.join(os.path.dirname(os.path.realpath(sys.longhaul)), "hanging_program")
        script = ('test "$TORCHELASTIC_RESTART_COUNT" = 0 || exit 0; '
                  f'test "$RANK" = 1 && exec {program} sleep; exec {program} wait')
        run = self.start("--name", "native", "--nodes", "1", "--procs", "3", *LIMITS, "--", "sh", "-c", script)
        self.assertEqual(run.end(), 0, run.text())
        fault = self.only_fault(self.report("native"), run.text())
        self.assertEqual(fault["rank"], 1, run.text())
        self.assertIn("worker 1 differs from the others", fault["what"])
        self.assertRegex(fault["what"], r"worker 1 \[\w{8}\]: clock_nanosleep < hanging::sleep_forever < main")
        self.assertRegex(fault["what"], r"workers 0, 2 \[\w{8}\]: read < hanging::wait_for_a_byte < ")
        named = re.search(r"logs/attempt-1/stacks-[\w-]+\.txt", fault["what"])[0]
        with open(f"{self.folder}/runs/native/{named}") as file:
            self.assertRegex(file.read(), r"thread \d+ \(stopped for \d+ us\)\n  read\n  hanging::")

    def test_work_of_one_worker_is_no_hang_of_those_that_wait_for_it(self):
        for mode in ("compute", "write"):
            for steps in (True, False):
                with self.subTest(mode=mode, steps=steps):
                    text, report = self.run_mode(mode, steps)
                    self.assertEqual(report["faults"], [], text)

    def test_the_pause_of_a_planned_fault_is_not_reported(self):
        text, report = self.run_mode("none", True, "--inject", "stop worker 1 for 3s at step 2")
        self.assertEqual([fault["what"] for fault in report["faults"]
                          if "was stopped" in fault["what"]], [], text)

    def test_limits_are_checked_and_can_be_turned_off(self):
        run = self.start("--idle-limit", "soon", "--", ddp_test.PYTHON, "train.py")
        self.assertEqual(run.end(), 2, run.text())
        self.assertIn("hang.idle: 'soon' is not a time such as 90s, or never", run.text())
        text, report = self.run_mode("compute", False, "--idle-limit", "never",
                                     "--stopped-limit", "never", limits=())
        self.assertEqual(report["faults"], [], text)


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
