"""The optimizers of longhaul.optim in a PyTorch of tools/pytorch_environment.

usage: optimizers_test.py LIBLONGHAUL VERSION

Skipped without that environment. The tests are in optimizers_cases.py, which its Python runs.
"""
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT_S = 120


class Optimizers(unittest.TestCase):
    def test_cases_pass(self):
        found = subprocess.run([sys.executable, "-B", ROOT / "tools/pytorch_environment", sys.torch,
                                "--if-made"], capture_output=True, text=True)
        if found.returncode != 0:
            self.skipTest(found.stderr.strip().splitlines()[-1])
        done = subprocess.run(
            [found.stdout.strip(), "-B", HERE / "optimizers_cases.py"], capture_output=True,
            text=True, timeout=LIMIT_S,
            env={**os.environ, "LONGHAUL_LIBRARY": sys.library, "OMP_NUM_THREADS": "1",
                 "PYTHONPATH": str(ROOT / "python")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.torch = sys.argv.pop()
    sys.library = sys.argv.pop()
    unittest.main(verbosity=2)
