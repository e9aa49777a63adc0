"""The state of torchdata's StatefulDataLoader in `longhaul.snapshot`.

usage: data_loader_test.py LONGHAUL LIBLONGHAUL VERSION

VERSION is one that tools/pytorch_environment makes. Skipped without that environment.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from ddp_test import Run  # noqa: E402

LIMIT_S = 120
PASS, STEPS = 16, 22  # steps of a pass over the data, and of the run
LINE = r"attempt (\d+) rank (\d) step (\d+) batch (\[[\d, ]+\])"


class DataLoader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = subprocess.run([sys.executable, "-B", ROOT / "tools/pytorch_environment", sys.torch,
                                "--libraries", "--if-made"], capture_output=True, text=True)
        if found.returncode != 0:
            raise unittest.SkipTest(found.stderr.strip().splitlines()[-1])
        cls.variables = {"PYTHON_EXEC": found.stdout.strip(), "OMP_NUM_THREADS": "1",
                         "PYTHONWARNINGS": "ignore", "LONGHAUL_LIBRARY": sys.library,
                         "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                         "GLOO_SOCKET_IFNAME": "lo"}

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="data-loader-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def batches(self, name, workers, *words, step_time=0.0):
        """The batch of each rank and step, by attempt."""
        run = Run(sys.longhaul, str(self.folder),
                  ["--run-dir", name, "--nodes", "1", "--procs", "2", *words,
                   str(HERE / "data_loader_script.py"), str(STEPS), str(step_time), str(workers)],
                  limit_s=LIMIT_S, **self.variables)
        self.addCleanup(lambda: run.child.poll() is None and run.child.kill())
        self.assertEqual(run.end(), 0, run.text())
        found = {}
        for attempt, rank, step, batch in re.findall(LINE, run.text()):
            found.setdefault(int(attempt), {})[int(rank), int(step)] = batch
        return found

    def check(self, workers):
        [clean] = self.batches("clean", workers).values()
        self.assertEqual(len(clean), 2 * STEPS)
        self.assertNotEqual(clean[0, 1], clean[1, 1])
        # A pass has 16 batches, so the second kill is in the second pass.
        killed = self.batches("killed", workers, "--inject",
                              "kill worker 1 at step 6; kill worker 0 at step 21", step_time=0.1)
        self.assertEqual(len(killed), 3)
        first = {attempt: min(step for _, step in found) for attempt, found in killed.items()}
        self.assertEqual(first, {0: 1, 1: 5, 2: 21})
        self.assertEqual(set().union(*killed.values()), set(clean))
        # Without worker processes, torchdata 0.11.0 itself draws another order for the pass after
        # the one that it restored, with or without Longhaul.
        last = STEPS if workers else PASS
        for attempt, found in killed.items():
            for (rank, step), batch in found.items():
                where = f"attempt {attempt}, rank {rank}, step {step}"
                if step <= last:
                    self.assertEqual(batch, clean[rank, step], where)
                before = killed.get(attempt - 1, {})
                self.assertEqual(batch, before.get((rank, step), batch), where)
        self.assertIn((0, 21), killed[1])  # so that this step is compared
        for rank in (0, 1):
            merged = {step: json.loads(batch) for found in killed.values()
                      for (of, step), batch in found.items() if of == rank}
            for steps in (range(1, PASS + 1), range(PASS + 1, STEPS + 1)):
                samples = [sample for step in steps for sample in merged[step]]
                self.assertEqual(len(samples), len(set(samples)), "a sample came twice in a pass")

    def test_a_restart_continues_with_the_batches_after_the_snapshot(self):
        self.check(workers=0)

    def test_a_restart_with_worker_processes_continues_with_the_batches_after_the_snapshot(self):
        self.check(workers=2)


if __name__ == "__main__":
    sys.longhaul, sys.library, sys.torch = *map(os.path.abspath, sys.argv[1:3]), sys.argv[3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
