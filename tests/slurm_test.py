"""`longhaul slurm submit` on real Slurm daemons (tests/slurm/slurm_cluster.py).

usage: slurm_test.py LONGHAUL LONGHAUL-TRAINER

LONGHAUL_SLURM_TESTS=all also runs the tests that wait for Slurm's own time-outs, 2 to 4 minutes.
Skipped, with a line, where Slurm's daemons or root are missing.
"""
import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import local_run

sys.path.insert(0, str(pathlib.Path(__file__).parent / "slurm"))
import slurm_cluster  # noqa: E402

ALL = os.environ.get("LONGHAUL_SLURM_TESTS") == "all"
WAITS = "waits for Slurm's time-outs: set LONGHAUL_SLURM_TESTS=all"


@unittest.skipIf(slurm_cluster.missing(), f"no {slurm_cluster.missing()} here")
class Slurm(unittest.TestCase):
    def setUp(self):
        self.lab = local_run.Lab(sys.argv_programs)
        self.addCleanup(self.lab.close)
        folder = tempfile.mkdtemp(prefix="slurm-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.cluster = slurm_cluster.SlurmCluster(folder)
        self.addCleanup(self.cluster.stop)
        self.cluster.start()
        key, value = self.lab.marker.split("=")
        self.environment = {**self.cluster.environment, key: value}

    def submit(self, name, steps, *options):
        """Submits the tiny job as job 1 and returns the process that waits for its end."""
        return subprocess.Popen(
            ["./longhaul", "slurm", "submit", "--wait", *options, "tiny.yaml", "--run-dir",
             f"runs/{name}", "--set", f"train.steps={steps}", "--set", f"snapshot.interval_steps=50",
             "--set", "train.evaluate_every=1000000"],
            cwd=self.lab.folder, env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)

    def await_step(self, name, step, seconds=60):
        local_run.await_that(lambda: self.lab.last_step(name) >= step, f"no step {step}", seconds)

    def end(self, waiting, name, code=0, seconds=120):
        output, _ = waiting.communicate(timeout=seconds)
        log = self.log(name)
        self.assertEqual(waiting.returncode, code, f"{output}\n{log[-3000:]}")
        # Slurm may kill an agent before it has ended its snapshot keeper, which then ends by itself.
        local_run.await_that(lambda: all(map(self.is_keeper, self.lab.processes())),
                             "processes are left")
        # Slurm's own clean-up comes after the end of the processes.
        local_run.await_that(lambda: self.cluster.call("squeue", "-h") == "", "jobs are left")
        return log

    def is_keeper(self, pid):
        try:
            return b"snapshot-keeper" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return True  # it has ended

    def log(self, name):
        return pathlib.Path(f"{self.lab.folder}/runs/{name}/slurm/output.log").read_text()

    def losses(self, name):
        with open(f"{self.lab.folder}/runs/{name}/metrics.csv", encoding="utf-8") as file:
            return {row["step"]: row["loss"] for row in csv.DictReader(file)}

    def nodes_of_attempts(self, name):
        return [notification["attempt"]["gang"] for notification in self.lab.notifications(name)
                if notification["type"] == "attempt"]

    def expect_undisturbed_losses(self, name, steps):
        self.lab.run("undisturbed", "--set", f"train.steps={steps}", "--set",
                     "train.evaluate_every=1000000", timeout=120)
        self.assertEqual(self.losses(name), self.losses("undisturbed"))

    def test_a_node_that_goes_down_is_replaced(self):
        waiting = self.submit("down", 2500)
        self.await_step("down", 300)
        self.cluster.call("scontrol", "update", "nodename=n2", "state=down", "reason=test")
        log = self.end(waiting, "down")
        self.assertIn("Slurm has taken n2 out of job 1", log)
        self.assertEqual(self.nodes_of_attempts("down")[0], ["n1", "n2"])
        self.assertIn(self.nodes_of_attempts("down")[-1], (["n1", "n3"], ["n1", "n4"]))
        self.assertEqual(len(self.lab.report("down")["faults"]), 1)
        self.expect_undisturbed_losses("down", 2500)

    def test_a_cancelled_job_ends_with_a_checkpoint(self):
        waiting = self.submit("cancelled", 1_000_000)
        self.await_step("cancelled", 100)
        self.cluster.call("scancel", "1")
        self.end(waiting, "cancelled", code=1)
        steps = list(pathlib.Path(f"{self.lab.folder}/runs/cancelled/checkpoints").glob("step-*"))
        self.assertGreater(len(steps), 0)

    def test_what_is_wrong_is_said_before_anything_is_submitted(self):
        rows = [(["tiny.yaml", "--set", "train.steps=none"], 2, "train.steps"),
                (["absent.yaml"], 2, "absent.yaml"),
                (["--controller", "http://127.0.0.1:1", "tiny.yaml"], 2, "--controller"),
                (["--partition", "absent", "tiny.yaml"], 1, "sbatch refused")]
        for words, code, text in rows:
            done = subprocess.run(["./longhaul", "slurm", "submit", *words], cwd=self.lab.folder,
                                  env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)
        self.assertEqual(self.cluster.call("squeue", "-h", "--states=all"), "")

    def lose_on_the_way(self, name, lose, steps=15_000, seconds=300):
        """Submits a run, calls lose() after some hundred steps, and returns the log of its end."""
        waiting = self.submit(name, steps)
        self.await_step(name, 300)
        lose()
        return self.end(waiting, name, seconds=seconds)

    @unittest.skipUnless(ALL, WAITS)
    def test_the_agent_of_a_dead_slurmd_ends_once_slurm_has_given_up_the_node(self):
        steps = 15_000
        log = self.lose_on_the_way("orphan", lambda: self.cluster.kill("n2"), steps, seconds=240)
        self.assertIn("Slurm has taken n2 out of job 1", log)
        self.assertIn(self.nodes_of_attempts("orphan")[-1], (["n1", "n3"], ["n1", "n4"]))
        self.expect_undisturbed_losses("orphan", steps)

    @unittest.skipUnless(ALL, WAITS)
    def test_a_run_goes_on_elsewhere_when_its_first_node_is_lost(self):
        log = self.lose_on_the_way("first", lambda: self.cluster.kill("n1"))
        self.assertIn("Slurm has taken this node out of job 1", log)
        self.assertNotIn("n1", self.nodes_of_attempts("first")[-1])

    @unittest.skipUnless(ALL, WAITS)
    def test_a_run_continues_from_its_checkpoint_when_the_machine_of_its_controller_is_off(self):
        log = self.lose_on_the_way("off", lambda: self.cluster.kill_machine("n1"), seconds=400)
        self.assertIn("the controller cannot be reached", log)
        self.assertNotIn("n1", self.nodes_of_attempts("off")[-1], log)

    @unittest.skipUnless(ALL, WAITS)
    def test_a_run_at_its_time_limit_continues_in_the_next_allocation(self):
        steps = 12_000
        waiting = self.submit("limit", steps)
        self.await_step("limit", 300)
        self.cluster.call("scancel", "--batch", "--signal=USR1", "1")
        log = self.end(waiting, "limit", seconds=300)
        self.assertIn("stopped by signal 10", log)
        self.assertEqual(self.lab.last_step("limit"), steps)


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
