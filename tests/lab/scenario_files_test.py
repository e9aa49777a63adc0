"""Every scenario of tests/lab/scenarios runs in the simulator, and mistakes are refused.

usage: scenario_files_test.py LONGHAUL
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCENARIOS = pathlib.Path(__file__).resolve().parent / "scenarios"


def simulate(*words):
    return subprocess.run([sys.longhaul, "simulate", *map(str, words)], capture_output=True,
                          text=True)


class ScenarioFiles(unittest.TestCase):
    def test_every_file_runs_to_its_last_step_twice_alike(self):
        files = sorted(SCENARIOS.glob("*.yaml"))
        self.assertGreaterEqual(len(files), 8)
        for file in files:
            with self.subTest(file.name):
                done = simulate("--scenario", file, "--twice", "--json")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                report = json.loads(done.stdout)
                self.assertEqual(report["scenario"]["name"], file.stem)
                self.assertEqual(report["last_step"], report["scenario"]["steps"])
                self.assertEqual(len(report["faults"]), len(report["scenario"]["faults"]))
                self.assertTrue(report["invariants_hold"])
                self.assertTrue(report["second_run_identical"])

    def test_the_files_have_every_kind_of_fault(self):
        kinds = set()
        for file in SCENARIOS.glob("*.yaml"):
            report = json.loads(simulate("--scenario", file, "--json").stdout)
            kinds |= {fault["fault"] for fault in report["scenario"]["faults"]}
        self.assertEqual(kinds, {"kill_worker", "stop_worker", "kill_agent", "power_off", "cut_link",
                                 "slow_link", "kill_controller", "full_disk"})

    def test_the_table_names_the_fault_and_its_cause(self):
        done = simulate("--scenario", SCENARIOS / "worker-killed.yaml", "--twice")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Simulated: worker-killed, 2 nodes and 0 spares, 4 workers", done.stdout)
        self.assertRegex(done.stdout, r"42  kill_worker worker 3 +[\d.]+ s +2  process: worker 3 was")
        self.assertIn("all invariants hold; the second run is identical", done.stdout)

    def test_a_mistake_is_wrong_usage_with_file_and_line(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "bad.yaml")
            file.write_text("name: bad\nnodes: 0\n")
            done = simulate("--scenario", file)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("bad.yaml:2: nodes is '0', expected a number from 1 to 64", done.stderr)
            done = simulate("--scenario", file, "--replay", "llama3")
            self.assertEqual(done.returncode, 2)
        done = simulate("--scenario", "/nonexistent.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent.yaml", done.stderr)

    def test_a_fault_that_cannot_happen_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "late.yaml")
            file.write_text("{name: late, nodes: 1, steps: 20, step: 10ms, faults: [{at_step: 19, "
                            "fault: kill_worker, rank: 0}, {after: 10min, fault: kill_worker, "
                            "rank: 0}]}")
            done = simulate("--scenario", file)
            self.assertEqual(done.returncode, 1)
            self.assertIn("1 of 2 faults happened", done.stderr)


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv.pop(1))
    unittest.main()
