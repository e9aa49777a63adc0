"""The proof of bench/recovery/labelled_faults.py, small: each kind that is named, once.

usage: labelled_faults_test.py LONGHAUL LONGHAUL_WORKER_LIBRARY
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

PYTHON = "/usr/bin/python3"
SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "bench/recovery/labelled_faults.py"


class LabelledFaults(unittest.TestCase):
    def measure(self, *words):
        done = subprocess.run(
            [PYTHON, "-B", str(SCRIPT), "--longhaul", sys.longhaul, "--json", *words],
            capture_output=True, text=True, env={**os.environ, "LONGHAUL_LIBRARY": sys.library})
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        for judged in result["runs"]:
            self.assertEqual((judged["false_alarms"], judged["wrong_evictions"]), ([], []))
        return result

    def test_a_hang_a_kill_an_error_a_nan_and_a_slow_worker_are_named(self):
        kinds = ["hang", "kill", "error", "nan", "slow"]
        result = self.measure("--runs", "1", "--each", "1", "--pairs", "0", "--flaps", "0",
                              "--no-step-limit", "14s",
                              *(word for kind in kinds for word in ("--kind", kind)))
        for kind in kinds:
            row = result["rows"][kind]
            self.assertEqual((row["labels"], row["named"]), (1, 1), f"{kind}: {result}")

    def test_the_gang_leaves_a_node_on_which_it_fails_again_and_again(self):
        result = self.measure("--runs", "0", "--flaps", "1")
        self.assertEqual(result["rows"]["flap"]["named"], 1, result)
        self.assertEqual(result["runs"][0]["evictions"], ["node-1"])


if __name__ == "__main__":
    sys.longhaul, sys.library = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
