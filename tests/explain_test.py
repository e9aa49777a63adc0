"""`longhaul explain` after real runs of a plain script: the story of each fault, as text and JSON.

usage: explain_test.py LONGHAUL

The scripts need nothing but Python.
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

import ddp_test
import plain_command_test

PATTERN = plain_command_test.PATTERN

# Fails once at step 30 of the first attempt, after it has written to its standard error.
FAILS_ONCE = """
import os, sys, time
first = int(open("saved").read()) + 1 if os.path.exists("saved") else 1
for step in range(first, 41):
    time.sleep(0.02)
    if step == 30 and not os.path.exists("failed"):
        open("failed", "w").close()
        print("reading shard 7", file=sys.stderr)
        raise RuntimeError("the data of shard 7 are damaged")
    print(f"step {step} of 40 loss 1.0")
    with open("saved.new", "w") as file:
        file.write(str(step - step % 10))
    os.replace("saved.new", "saved")
"""
ALWAYS_FAILS = "import sys\nsys.exit('no such data set')\n"


class Explain(ddp_test.RunTest):
    def explain(self, *words, code=0):
        done = subprocess.run([sys.longhaul, "explain", *words], cwd=self.folder, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def story(self, *words):
        return json.loads(self.explain(*words, "--json"))

    def test_a_killed_worker(self):
        self.write("train.py", plain_command_test.SCRIPT)
        run = self.start("--procs", "2", "--step-pattern", PATTERN, "--inject",
                         "kill worker 1 at step 25", "--", ddp_test.PYTHON, "train.py", "60", "29")
        self.assertEqual(run.end(), 0, run.text())
        story = self.story("runs/train")
        report = self.report("train")
        self.assertEqual(story["state"], "succeeded")
        self.assertAlmostEqual(story["goodput"], report["goodput"])
        self.assertEqual(len(story["faults"]), 1)
        fault = story["faults"][0]
        self.assertEqual((fault["class"], fault["rank"], fault["node"]),
                         ("process", 1, "node-1"))
        self.assertEqual((fault["signal"], fault["exit_code"]), (9, None))
        self.assertTrue(fault["injected"])
        self.assertGreaterEqual(fault["last_step"], 25)
        self.assertEqual((fault["attempt"], fault["next_attempt"]), (1, 2))
        self.assertEqual(fault["from_step"], 21)
        self.assertIn("Worker 1 on node-1 was ended by signal 9 (SIGKILL).",
                      [each["text"] for each in fault["observations"]])
        actions = [each["text"] for each in fault["actions"]]
        self.assertIn("The controller decided: restart all workers.", actions)
        self.assertIn("Attempt 2 was opened with 2 workers on node-1.", actions)
        # The parts are the whole, and the whole is that of the report.
        self.assertAlmostEqual(sum(fault["cost_by_category"].values()), fault["cost_seconds"])
        self.assertAlmostEqual(fault["cost_seconds"], report["faults"][0]["cost_seconds"])
        self.assertGreater(fault["cost_by_category"]["lost work"], 0)
        self.assertEqual(story["causes"][0]["injected"], 1)

        # The page of the run: written at its end, and from what the run has left.
        page = self.explain("runs/train", "--html", "page.html")
        self.assertEqual(page, "Page: page.html\n")
        for name in ("page.html", "runs/train/report.html"):
            with open(f"{self.folder}/{name}") as file:
                self.assertIn("Worker 1 on node-1 was ended by signal 9", file.read())
        self.assertIn("leave out --controller, --json and --fault",
                      self.explain("runs/train", "--html", "page.html", "--json", code=2))

        text = self.explain("runs/train")
        self.assertIn("There was 1 fault.", text)
        self.assertIn("Work continued from step 21;", text)
        self.assertIn("Summary", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertIn("has faults 1 to 1", self.explain("runs/train", "--fault", "2", code=2))

        # A run on another controller has the notifications alone.
        shutil.rmtree(f"{self.folder}/runs/train/cluster")
        less = self.story("runs/train")
        self.assertEqual(less["faults"][0]["cost_seconds"], fault["cost_seconds"])
        self.assertEqual(less["faults"][0]["observations"], [])
        self.assertIn("There is no event log here", less["notes"][0])

    def test_an_error_of_the_script_with_its_last_lines(self):
        self.write("train.py", FAILS_ONCE)
        run = self.start("--step-pattern", PATTERN, "--", ddp_test.PYTHON, "train.py")
        self.assertEqual(run.end(), 0, run.text())
        fault = self.story("runs/train")["faults"][0]
        self.assertEqual((fault["class"], fault["exit_code"], fault["signal"]), ("error", 1, None))
        self.assertEqual(fault["output"][-1], "RuntimeError: the data of shard 7 are damaged")
        self.assertIn("reading shard 7", fault["output"])
        self.assertEqual(fault["output_file"], "logs/attempt-1/rank-0.log")
        text = self.explain("runs/train", "--fault", "1")
        self.assertIn("| reading shard 7\n", text)
        os.remove(f"{self.folder}/runs/train/logs/attempt-1/rank-0.log")
        kept = self.story("runs/train")["faults"][0]
        self.assertEqual(kept["output"][-1], fault["output"][-1], "the event log has them, too")
        self.assertEqual(kept["output_file"], "")

    def test_a_run_that_failed_is_explained_to_its_end(self):
        self.write("train.py", ALWAYS_FAILS)
        run = self.start("--max-restarts", "1", "--", ddp_test.PYTHON, "train.py")
        self.assertEqual(run.end(), 1, run.text())
        story = self.story("runs/train")
        self.assertEqual(story["state"], "failed")
        self.assertEqual(len(story["faults"]), 2)
        last = story["faults"][1]
        self.assertFalse(last["restarted"])
        self.assertIn("The job failed: out of restarts (1 allowed)", last["actions"][-1]["text"])
        self.assertGreater(last["cost_seconds"], 0, "a fault that ended the run has a cost")
        self.assertIn("The same error ended the workers 2 times", story["advice"])
        self.assertIn("Work did not continue.", self.explain("runs/train"))

    def test_a_run_is_explained_while_it_runs_and_by_its_controller(self):
        self.write("train.py", plain_command_test.SCRIPT)
        run = self.start("--procs", "2", "--step-pattern", PATTERN, "--", ddp_test.PYTHON,
                         "train.py", "60", "29")
        run.until(r"step 28 of 60")
        with open(f"{self.folder}/runs/endpoint.json") as file:
            endpoint = json.load(file)
        controller = ("--controller", endpoint["rest"], "--token-file", endpoint["token_file"])
        for words in (("runs/train",), ("train", *controller)):
            story = self.story(*words)
            self.assertEqual((story["state"], story["ended_at"], story["faults"]),
                             ("running", None, []), words)
        run.kill_worker(1)
        run.until(r"step 35 of 60")
        of_log, of_controller = self.story("runs/train"), self.story("train", *controller)
        self.assertEqual(run.end(), 0, run.text())
        for story in (of_log, of_controller):
            self.assertEqual(len(story["faults"]), 1)
            fault = story["faults"][0]
            self.assertEqual((fault["class"], fault["rank"], fault["injected"]),
                             ("process", 1, False))
            self.assertEqual((fault["next_attempt"], fault["from_step"]), (2, 21))

    def test_wrong_use_names_the_remedy(self):
        self.assertIn("name one, such as runs/NAME", self.explain("runs/none", code=2))
        self.write("report.json", "{}")
        self.assertIn("is not the directory of a run", self.explain(".", code=2))


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
