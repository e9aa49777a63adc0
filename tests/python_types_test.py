"""The types of the Python package, as `mypy --strict` checks them. Skipped where mypy is not installed.

usage: python_types_test.py
"""
import importlib.util
import subprocess
import sys
import tempfile
import unittest


class Types(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("mypy"),
                         f"{sys.executable} HAS NO MYPY: install python3-mypy")
    def test_mypy_reports_no_errors(self):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--config-file", "python/pyproject.toml",
                 "--cache-dir", cache, "python/longhaul"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
