"""Workers, agents and whole nodes killed while state of their own is saved: nothing sealed is lost.

usage: state_loss_test.py LONGHAUL

Each rank has a state that no other has. It counts every step that it makes into it, so that what is
restored can be held against the step that is reported: a wrong, torn or mixed state ends the run with
exit code 3. Needs NumPy in /usr/bin/python3; skipped without.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PYTHON = "/usr/bin/python3"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HAS_NUMPY = os.path.exists(PYTHON) and subprocess.run(
    [PYTHON, "-c", "import importlib.util as u; u.find_spec('numpy') or exit(1)"]).returncode == 0
LIMIT_S = 120
STEPS = 120

WORKER = '''
import os, sys, time
import numpy, longhaul

NON_FINITE = os.environ.get("STATE_LOSS_NON_FINITE") == "yes"

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
attempt = os.environ["LONGHAUL_ATTEMPT"]
state = {"rows": numpy.zeros(200_003, numpy.float32), "rank": numpy.array([rank], numpy.int64)}

def expected(step):
    return numpy.arange(200_003, dtype=numpy.float32) % 97 * step + rank

def progress(of):
    try:
        with open(f"progress-{attempt}-{of}") as file:
            return int(file.read() or 0)
    except FileNotFoundError:
        return 0

def in_step(step):
    # Stands for the collectives that keep the ranks of a real job together.
    with open(f"progress-{attempt}-{rank}.new", "w") as file:
        file.write(str(step))
    os.replace(f"progress-{attempt}-{rank}.new", f"progress-{attempt}-{rank}")
    while min(progress(of) for of in range(world)) < step:
        time.sleep(0.001)

restored = longhaul.restore()
first = 1
if restored is not None:
    saved, step = restored.state, restored.step
    if int(saved["rank"][0]) != rank or not (saved["rows"] == expected(step)).all():
        print(f"rank {rank}: step {step} came back wrong", flush=True)
        sys.exit(3)
    print(f"rank {rank}: exact at step {step}", flush=True)
    first = step + 1
for step in range(first, STEPS + 1):
    time.sleep(0.02)
    state["rows"][:] = expected(step)
    if NON_FINITE and attempt == "1" and rank == 1 and step >= 40:
        state["rows"][77] = numpy.nan
    if step % 4 == 0:
        longhaul.snapshot(state, step)
    longhaul.report(step, loss=1.0)
    in_step(step)
longhaul.wait()
'''.replace("STEPS", str(STEPS))


@unittest.skipUnless(HAS_NUMPY, f"{PYTHON} has no NumPy: install python3-numpy")
class StateLoss(unittest.TestCase):
    def run_with(self, faults, non_finite=False):
        folder = tempfile.mkdtemp(prefix="state-loss-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        script = os.path.join(folder, "worker.py")
        with open(script, "w") as file:
            file.write(WORKER)
        words = [LONGHAUL, "run", "--nodes", "2", "--procs", "2", "--run-dir", "run", "--inject",
                 faults, "--", PYTHON, "-B", script]
        done = subprocess.run(words, cwd=folder, text=True, timeout=LIMIT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"),
                                   "STATE_LOSS_NON_FINITE": "yes" if non_finite else "no"})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("came back wrong", done.stdout)
        with open(os.path.join(folder, "run", "report.json")) as file:
            return done.stdout, json.load(file)

    def test_a_lost_node_comes_back_from_its_peers_memory(self):
        text, report = self.run_with("kill node 2 at step 60")
        self.assertEqual([fault["class_name"] for fault in report["faults"]], ["node"], text)
        self.assertRegex(text, r"attempt 2: .* from a peer's memory at step \d+")
        self.assertIn("a peer's memory", report["faults"][0]["action"])

    def test_a_new_agent_adopts_the_memory_of_a_killed_one(self):
        text, report = self.run_with("kill agent 2 at step 60")
        self.assertEqual([fault["class_name"] for fault in report["faults"]], ["node"], text)
        self.assertRegex(text, r"has adopted the memory of the one before: step \d+ is there")
        self.assertRegex(text, r"attempt 2: .* from memory at step \d+")
        self.assertLessEqual(int(report["faults"][0].get("lost_steps", 0)), 8, text)

    def test_a_state_with_nan_is_not_gone_on_from(self):
        text, report = self.run_with("kill worker 2 at step 58", non_finite=True)
        self.assertRegex(text, r"step 40 on node-1 has NaN or infinity")
        self.assertEqual(int(report["faults"][0]["from_step"]), 36, text)

    def test_workers_agents_both_and_nodes_are_killed(self):
        text, report = self.run_with(
            "kill worker 1 at step 20; kill agent 1 at step 40; kill worker 2 at step 60; "
            "kill agent 2 at step 61; kill node 1 at step 90; kill agent 2 at step 105")
        self.assertIn("node", [fault["class_name"] for fault in report["faults"]], text)
        self.assertRegex(text, r"exact at step \d+")
        # The newest step that all had: a snapshot is taken every 4 steps.
        for fault in report["faults"]:
            self.assertLessEqual(int(fault.get("lost_steps", 0)), 12, text)


if __name__ == "__main__":
    LONGHAUL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
