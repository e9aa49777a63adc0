"""The Python package under `longhaul run`: snapshots in memory, verified restore, equal weights.

usage: python_package_test.py LONGHAUL

Needs the PyTorch of /usr/bin/python3; skipped without.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PYTHON = "/usr/bin/python3"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = os.path.join(ROOT, "examples", "ddp_snapshot.py")
HAS_TORCH = os.path.exists(PYTHON) and subprocess.run(
    [PYTHON, "-c", "import importlib.util as u; u.find_spec('torch') or exit(1)"]).returncode == 0
LIMIT_S = 120
STEPS = 60

# The state is spoiled as soon as its snapshot has begun, and put right after the wait.
BEGUN = '''
import time
import longhaul, torch
state = {"weights": torch.zeros(1 << 20), "count": torch.zeros(1)}
saved = longhaul.restore(into=state)
first = 1
if saved:
    first = saved.step + 1
    fine = bool((state["weights"] == saved.step).all()) and state["count"].item() == saved.step
    print(f"restored step {saved.step}, {'fine' if fine else 'wrong'}", flush=True)
else:
    longhaul.prepare(state)
for step in range(first, 11):
    for tensor in state.values():
        tensor.fill_(step)
    longhaul.snapshot_begin(state, step)
    for tensor in state.values():
        tensor.fill_(-1)
    longhaul.wait()
    longhaul.report(step, loss=1.0)
    time.sleep(0.1)
print("way:", longhaul.snapshot_way(), flush=True)
'''


@unittest.skipUnless(HAS_TORCH, f"{PYTHON} has no PyTorch: install python3-torch")
class PythonPackage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="python-package-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_script(self, *options):
        words = [LONGHAUL, "run", "--nodes", "2", "--procs", "2", "--run-dir", "run", *options,
                 "--", PYTHON, "-B", SCRIPT, "--steps", str(STEPS), "--step-time", "0.03"]
        done = subprocess.run(words, cwd=self.folder, text=True, timeout=LIMIT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(os.path.join(self.folder, "run", "report.json")) as file:
            report = json.load(file)
        shutil.rmtree(os.path.join(self.folder, "run"))
        weights = re.findall(r"done after step \d+, weights (\w+)", done.stdout)
        self.assertTrue(weights, done.stdout)
        return done.stdout, weights[-1], report

    def test_faults_leave_no_trace_in_the_weights(self):
        _, expected, calm = self.run_script()
        self.assertEqual(calm["faults"], [])
        text, weights, report = self.run_script(
            "--inject", "kill worker 1 at step 25; kill node 2 at step 45")
        self.assertEqual(weights, expected, text)
        self.assertEqual([fault["class_name"] for fault in report["faults"]][:2],
                         ["process", "node"], text)
        self.assertRegex(text, r"attempt 2: .* from memory at step \d+")
        # A peer's memory has it, unless the kill came before the copy was sealed there.
        self.assertRegex(text, r"attempt 3: .* from (a peer's memory|disk) at step \d+")
        self.assertTrue(report["reports_steps"])

    def test_a_snapshot_that_was_begun_is_the_state_of_its_beginning(self):
        script = os.path.join(self.folder, "begun.py")
        with open(script, "w") as file:
            file.write(BEGUN)
        done = subprocess.run(
            [LONGHAUL, "run", "--nodes", "1", "--procs", "1", "--run-dir", "run", "--inject",
             "kill worker 0 at step 7", "--", PYTHON, "-B", script],
            cwd=self.folder, text=True, timeout=LIMIT_S, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"restored step [67], fine")
        self.assertRegex(done.stdout, r"way: .*asynchronous: [\d.]+ [mu]s")

    def test_without_longhaul_it_does_nothing(self):
        code = ("import longhaul; assert longhaul.restore() is None; assert not longhaul.due(1); "
                "longhaul.prepare({}); longhaul.snapshot({}, 1); longhaul.snapshot_begin({}, 1); "
                "longhaul.wait(); longhaul.report(1, loss=1.0); "
                "assert not longhaul.available(); print('fine')")
        done = subprocess.run([PYTHON, "-B", "-c", code], text=True, capture_output=True,
                              env={"PYTHONPATH": os.path.join(ROOT, "python")})
        self.assertEqual(done.stdout, "fine\n", done.stderr)


if __name__ == "__main__":
    LONGHAUL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
