"""`longhaul slurm` on real Slurm daemons (tests/slurm/slurm_cluster.py).

usage: slurm_test.py LONGHAUL LONGHAUL-TRAINER

LONGHAUL_SLURM_TESTS=all also runs the tests that wait for time-outs, 1 to 4 minutes each.
Skipped, with a line, where Slurm's daemons or root are missing.
"""
import csv
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import local_run

sys.path.insert(0, str(pathlib.Path(__file__).parent / "slurm"))
import slurm_cluster  # noqa: E402

ALL = os.environ.get("LONGHAUL_SLURM_TESTS") == "all"
WAITS = "waits for time-outs: set LONGHAUL_SLURM_TESTS=all"
EXAMPLE = [str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "headers-gpt.yaml"),
           "--nodes", "2", "--procs", "2"]


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
        return self.start_run(name, options, [
            "tiny.yaml", "--set", f"train.steps={steps}", "--set", "snapshot.interval_steps=50",
            "--set", "train.evaluate_every=1000000"])

    def start_run(self, name, options, job):
        return subprocess.Popen(
            ["./longhaul", "slurm", "submit", "--wait", *options, "--run-dir", f"runs/{name}",
             *job], cwd=self.lab.folder, env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)

    def slurm(self, *words, code=0):
        """What `longhaul slurm` prints."""
        done = subprocess.run(["./longhaul", "slurm", *words], cwd=self.lab.folder,
                              env=self.environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def roles(self, name):
        """The parts of the living Slurm jobs of a run and their nodes, by job."""
        lines = self.slurm("status", f"runs/{name}").splitlines()
        rows = [re.split(r"\s{2,}", line.strip()) for line in lines[2:]]
        return {row[0]: (row[1], row[2], row[3]) for row in rows if len(row) > 3}

    def await_step(self, name, step, seconds=120):
        local_run.await_that(
            lambda: self.lab.last_step(name) >= step,
            lambda: f"no step {step}\n{self.cluster.call('squeue')}\n{self.log(name)[-3000:]}", seconds)

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
                     "train.evaluate_every=1000000", timeout=900)
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
                (["--part", "--constraint=leaf0", "tiny.yaml"], 2, "add --nodes=N"),
                (["--part", "--nodes=3", "tiny.yaml"], 2, "resources.nodes is 2"),
                (["--sbatch=--comment=mine", "tiny.yaml"], 2, "is set by Longhaul"),
                (["--start-limit", "soon", "tiny.yaml"], 2, "--start-limit"),
                (["--partition", "absent", "tiny.yaml"], 1, "sbatch refused")]
        for words, code, text in rows:
            done = subprocess.run(["./longhaul", "slurm", "submit", *words], cwd=self.lab.folder,
                                  env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)
        self.assertEqual(self.cluster.call("squeue", "-h", "--states=all"), "")

    TWO_KINDS = ["--part", "--nodes=1 --constraint=leaf0", "--part", "--nodes=1 --constraint=leaf1"]

    def test_a_run_of_two_kinds_of_nodes_survives_the_loss_of_one_of_its_jobs(self):
        waiting = self.submit("kinds", 4000, *self.TWO_KINDS)
        self.await_step("kinds", 300)
        roles = self.roles("kinds")
        self.assertEqual(sorted(row[1] for row in roles.values()), ["part 1, controller", "part 2"])
        second = next(job for job, row in roles.items() if row[1] == "part 2")
        self.cluster.call("scancel", second)
        log = self.end(waiting, "kinds")
        self.assertIn(f"asked Slurm for a node of part 2 in job {int(second) + 1}", log)
        gangs = self.nodes_of_attempts("kinds")
        for gang in gangs:
            self.assertIn(gang[0], ("n1", "n2"))
            self.assertIn(gang[1], ("n3", "n4"))
        self.assertGreater(len(gangs), 1, log)
        self.expect_undisturbed_losses("kinds", 4000)

    def test_a_run_whose_part_stays_pending_ends_with_the_reason(self):
        for node in ("n3", "n4"):
            self.cluster.call("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        waiting = self.submit("pending", 1000, *self.TWO_KINDS, "--start-limit", "4s")
        log = self.end(waiting, "pending", code=1)
        self.assertRegex(log, "the run ends, because Slurm has not given all parts their nodes "
                              r"within 4 s \(--start-limit\); job 2 for a node of part 2 is "
                              r"PENDING \(")
        self.assertRegex(log, "job 2 waits for a node of part 2: ")

    ELASTIC = ["--nodes", "1", "--minimum-nodes", "1", "--maximum-nodes", "3", "--procs", "1", "--",
               "sh", "-c", "while [ ! -e stop ]; do sleep 0.2; done"]

    def await_nodes(self, name, nodes):
        local_run.await_that(lambda: (self.nodes_of_attempts(name) or [[]])[-1] == nodes,
                             lambda: f"{self.nodes_of_attempts(name)}\n{self.log(name)}", 150)

    @unittest.skipUnless(ALL, WAITS)
    def test_an_elastic_run_grows_and_shrinks_by_further_jobs(self):
        waiting = self.start_run("elastic", [], self.ELASTIC)
        self.await_nodes("elastic", ["n1", "n2", "n3"])
        roles = self.roles("elastic")
        self.assertEqual([row[1] for _, row in sorted(roles.items())],
                         ["part 1, controller", "growth", "growth"])
        # One of the jobs of the growth is lost, and another one takes its place.
        attempts = len(self.nodes_of_attempts("elastic"))
        self.cluster.call("scancel", "3")
        local_run.await_that(lambda: len(self.nodes_of_attempts("elastic")) > attempts, "no restart")
        local_run.await_that(lambda: self.nodes_of_attempts("elastic")[-1] in (
            ["n1", "n2", "n3"], ["n1", "n2", "n4"]), lambda: self.log("elastic"))
        self.assertNotIn("3", self.roles("elastic"))
        self.assertIn("4 nodes: this run takes 1 to 3", self.slurm("resize", "runs/elastic", "4",
                                                                  code=1))
        self.slurm("resize", "runs/elastic", "1")
        self.await_nodes("elastic", ["n1"])
        local_run.await_that(lambda: list(self.roles("elastic")) == ["1"],
                             lambda: self.slurm("status"), 60)
        pathlib.Path(f"{self.lab.folder}/stop").touch()
        log = self.end(waiting, "elastic")
        self.assertIn("the run is to have a node", log)
        self.assertEqual(self.lab.report("elastic")["state"], "succeeded")

    def test_a_cancelled_run_leaves_nothing_behind(self):
        waiting = self.start_run("gone", [], self.ELASTIC)
        local_run.await_that(lambda: len(self.roles("gone")) == 3, "no growth", 60)
        self.slurm("cancel", "runs/gone")
        self.assertEqual(self.roles("gone"), {})
        self.end(waiting, "gone", code=1)
        self.assertIn("Slurm has no jobs of the run", self.slurm("cancel", "runs/gone", code=1))

    @unittest.skipUnless(ALL, WAITS)
    def test_the_further_jobs_of_a_run_that_was_killed_end_by_themselves(self):
        waiting = self.submit("killed", 1_000_000, *self.TWO_KINDS)
        self.await_step("killed", 100)
        self.kill_first_job()
        # The agent of the second job notices it after a minute without a controller.
        self.end(waiting, "killed", code=1, seconds=150)
        log = self.log("killed")  # after the end of the second job
        self.assertIn("an agent of job 2 ends, because job 1 has no controller", log)
        self.assertNotIn("queued again", log)

    def kill_first_job(self):
        """Kills its processes, as if its machine were off."""
        for pid in self.cluster.processes():
            if b"SLURM_JOB_ID=1" not in slurm_cluster.environment_of(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended with its parent

    @unittest.skipUnless(ALL, WAITS)
    def test_a_run_that_starts_again_cancels_the_further_jobs_of_its_earlier_start(self):
        waiting = self.submit("again", 1_000_000, *self.TWO_KINDS)
        self.await_step("again", 100)
        self.kill_first_job()
        waiting.communicate(timeout=60)
        self.cluster.call("scontrol", "requeue", "1")
        self.assertIn("2", self.roles("again"))
        local_run.await_that(lambda: "3" in self.roles("again"), lambda: self.log("again"), 150)
        local_run.await_that(lambda: "2" not in self.roles("again"), "the earlier job stays")
        attempts = len(self.nodes_of_attempts("again"))
        local_run.await_that(lambda: len(self.nodes_of_attempts("again")) > attempts or
                             self.lab.last_step("again") > 100, lambda: self.log("again"), 60)
        self.slurm("cancel", "runs/again")
        self.assertEqual(self.cluster.call("squeue", "-h"), "")

    def lose_on_the_way(self, name, lose, steps=15_000, seconds=900):
        """Submits a run, calls lose() after some hundred steps, and returns the log of its end.

        The run has more steps than it makes until Slurm has noticed the loss. `seconds` is enough for
        them on a machine with other work.
        """
        waiting = self.submit(name, steps)
        self.await_step(name, 300)
        lose()
        return self.end(waiting, name, seconds=seconds)

    @unittest.skipUnless(ALL, WAITS)
    def test_the_agent_of_a_dead_slurmd_ends_once_slurm_has_given_up_the_node(self):
        steps = 15_000
        log = self.lose_on_the_way("orphan", lambda: self.cluster.kill("n2"), steps)
        self.assertIn("Slurm has taken n2 out of job 1", log)
        self.assertIn(self.nodes_of_attempts("orphan")[-1], (["n1", "n3"], ["n1", "n4"]))
        self.expect_undisturbed_losses("orphan", steps)

    @unittest.skipUnless(ALL, WAITS)
    def test_the_example_survives_a_node_that_goes_down_and_a_slurmd_that_dies(self):
        waiting = self.start_run("example", [], EXAMPLE)
        self.await_step("example", 40, seconds=600)
        self.cluster.call("scontrol", "update", "nodename=n2", "state=down", "reason=test")
        self.await_step("example", 120, seconds=600)
        gang = self.nodes_of_attempts("example")[-1]
        self.assertIn(gang, (["n1", "n3"], ["n1", "n4"]))
        # Its workers go on, at most until Slurm has noticed the loss.
        self.cluster.kill(gang[1])
        log = self.end(waiting, "example", seconds=1800)
        self.assertIn("Slurm has taken n2 out of job 1", log)
        undisturbed = subprocess.run(
            ["./longhaul", "run", "--run-dir", "runs/undisturbed", *EXAMPLE], cwd=self.lab.folder,
            env=self.environment, capture_output=True, text=True, timeout=1800)
        self.assertEqual(undisturbed.returncode, 0, undisturbed.stdout + undisturbed.stderr)
        self.assertEqual(len(self.losses("example")), 320)
        self.assertEqual(self.losses("example"), self.losses("undisturbed"))

    @unittest.skipUnless(ALL, WAITS)
    def test_a_run_goes_on_elsewhere_when_its_first_node_is_lost(self):
        log = self.lose_on_the_way("first", lambda: self.cluster.kill("n1"))
        self.assertIn("Slurm has taken this node out of job 1", log)
        self.assertNotIn("n1", self.nodes_of_attempts("first")[-1])

    @unittest.skipUnless(ALL, WAITS)
    def test_a_run_continues_from_its_checkpoint_when_the_machine_of_its_controller_is_off(self):
        log = self.lose_on_the_way("off", lambda: self.cluster.kill_machine("n1"))
        self.assertIn("the controller cannot be reached", log)
        self.assertNotIn("n1", self.nodes_of_attempts("off")[-1], log)

    @unittest.skipUnless(ALL, WAITS)
    def test_a_run_at_its_time_limit_continues_in_the_next_allocation(self):
        steps = 12_000
        waiting = self.submit("limit", steps)
        self.await_step("limit", 300)
        self.cluster.call("scancel", "--batch", "--signal=USR1", "1")
        log = self.end(waiting, "limit", seconds=900)
        self.assertIn("stopped by signal 10", log)
        self.assertEqual(self.lab.last_step("limit"), steps)


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
