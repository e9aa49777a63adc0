"""A worker of PyTorch that sleeps while the others wait for it in a collective.

usage: hang_test.py LONGHAUL VERSION

VERSION is one that tools/pytorch_environment makes. Skipped without that environment.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from ddp_test import Run  # noqa: E402

LIMIT_S = 200

# The first attempt hangs at step 5: rank 1 sleeps, and the others are in an all-reduce of Gloo. In
# a slow run the others wait at step 3 for an evaluation of rank 1.
SCRIPT = """
import os, sys, time
import torch
import torch.distributed as dist

def evaluate():
    end = time.monotonic() + 8
    matrix = torch.rand(64, 64)
    while time.monotonic() < end:
        matrix = torch.tanh(matrix @ matrix)

def endless_sleep():
    time.sleep(100000)

dist.init_process_group("gloo")
rank, first = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
for step in range(1, 9):
    if sys.argv[1] == "slow" and step == 3 and rank == 1:
        evaluate()
    if sys.argv[1] == "hang" and step == 5 and rank == 1 and first:
        endless_sleep()
    value = torch.ones(4)
    dist.all_reduce(value)
    if rank == 0:
        print(f"step {step}", flush=True)
# The group is not destroyed: with PyTorch 2.4 that may wait for ever (docs/pytorch.md).
time.sleep(2)  # until all have the last sum
os._exit(0)
"""


class Hang(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = subprocess.run([sys.executable, "-B", ROOT / "tools/pytorch_environment", sys.torch,
                                "--if-made"], capture_output=True, text=True)
        if found.returncode != 0:
            raise unittest.SkipTest(found.stderr.strip().splitlines()[-1])
        cls.variables = {"PYTHON_EXEC": found.stdout.strip(), "OMP_NUM_THREADS": "1",
                         "PYTHONDONTWRITEBYTECODE": "1", "GLOO_SOCKET_IFNAME": "lo"}

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hang-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "train.py").write_text(SCRIPT)

    def run_mode(self, mode):
        run = Run(sys.longhaul, str(self.folder),
                  ["--run-dir", mode, "--nodes", "1", "--procs", "3", "--cluster-slots", "3",
                   "--step-pattern", r"step (?P<step>\d+)", "--no-step-limit", "3s", "train.py",
                   mode], limit_s=LIMIT_S, **self.variables)
        self.addCleanup(lambda: run.child.poll() is None and run.child.kill())
        self.assertEqual(run.end(), 0, run.text())
        report = json.loads((self.folder / mode / "report.json").read_text())
        return run.text(), report["faults"]

    def test_the_rank_that_does_not_enter_the_collective_is_named(self):
        text, faults = self.run_mode("hang")
        self.assertEqual(len(faults), 1, text)
        what = faults[0]["what"]
        self.assertEqual((faults[0]["class_name"], faults[0]["rank"]), ("hang", 1), what)
        self.assertIn("worker 1 differs from the others", what)
        self.assertRegex(what, r"worker 1 \[\w{8}\]: endless_sleep \(")
        self.assertRegex(what, r"workers 0, 2 \[\w{8}\]: all_reduce \(")

    def test_ranks_that_wait_for_an_evaluation_do_not_hang(self):
        text, faults = self.run_mode("slow")
        self.assertEqual(faults, [], text)


if __name__ == "__main__":
    sys.longhaul, sys.torch = os.path.abspath(sys.argv[1]), sys.argv[2]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
