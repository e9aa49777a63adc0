"""What remains after `longhaul run`: its documented run folder, and no process, memory or file.

usage: leftovers_test.py LONGHAUL LIBLONGHAUL.SO

The workers start processes that leave their process group and their session, and that ignore
SIGTERM. Other programs of the machine may run beside this test: processes are found by a marker in
their environment, and temporary files and shared memory by folders of their own.
"""
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

import local_run

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The files of a run folder (docs/getting-started.md) that are no data of a job.
EXPECTED = {"cluster", "events.jsonl", "logs", "loss.svg", "metrics.csv", "owner.lock",
            "report.html", "report.json", "report.md", "tensorboard", "timeline.svg"}
# Rank 0 of each node starts a process that is in no group or session of the worker.
WORKER = """
import os, subprocess, sys, time
import longhaul
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True)
subprocess.Popen([sys.executable, "-c", stubborn])
saved = longhaul.restore()
for step in range(saved.step + 1 if saved else 1, int(sys.argv[1]) + 1):
    longhaul.snapshot({"step": step}, step)
    longhaul.report(step)
    time.sleep(0.01)
sys.exit(int(sys.argv[2]))
"""


class LeftoversTest(unittest.TestCase):
    def setUp(self):
        self.lab = local_run.Lab([])
        self.addCleanup(self.lab.close)
        folder = tempfile.TemporaryDirectory(prefix="leftovers-")
        self.addCleanup(folder.cleanup)
        self.temporary = folder.name
        self.work = pathlib.Path(self.lab.folder)
        (self.work / "worker.py").write_text(WORKER)
        self.before = self.shared_memory()
        self.groups_before = self.control_groups()

    def start(self, steps=30, code=0, *options):
        key, value = self.lab.marker.split("=")
        return subprocess.Popen(
            [sys.program, "run", "--nodes", "2", "--procs", "2", "--run-dir", "run", *options, "--",
             sys.executable, "worker.py", str(steps), str(code)], cwd=self.work,
            env={**os.environ, key: value, "TMPDIR": self.temporary,
                 "PYTHONPATH": str(ROOT / "python"), "LONGHAUL_LIBRARY": sys.library},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def shared_memory(self):
        return {entry.name for entry in os.scandir("/dev/shm")
                if "longhaul" in entry.name or "keeper" in entry.name}

    def control_groups(self):
        """Those that agents make, where they can (docs/security.md)."""
        return {str(path) for path in pathlib.Path("/sys/fs/cgroup").glob("**/longhaul-*")}

    def assert_no_group_left(self):
        # Of other programs that run meanwhile, groups come and go.
        left = self.control_groups() - self.groups_before
        local_run.await_that(lambda: not any(map(os.path.exists, left)), f"groups are left: {left}")

    def assert_nothing_left(self, complete=True, seconds=0):
        if seconds:
            local_run.await_that(lambda: not self.lab.processes(), self.commands, seconds)
        self.assertEqual(self.commands(), [])
        self.assertEqual(os.listdir(self.temporary), [])
        self.assertEqual(self.shared_memory(), self.before)
        self.assert_no_group_left()
        run = self.work / "run"
        found = {path.name for path in run.iterdir()}
        self.assertEqual(found - EXPECTED - {"checkpoints"}, set())
        if complete:
            self.assertEqual(EXPECTED - found, set())
        special = [str(path) for path in run.rglob("*")
                   if not (stat.S_ISREG(path.lstat().st_mode) or path.is_dir())]
        special += [str(path) for path in run.rglob("*") if path.suffix in (".tmp", ".partial")]
        self.assertEqual(special, [])

    def commands(self):
        found = []
        for pid in self.lab.processes():
            try:
                found.append(pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
            except OSError:
                pass
        return found

    def end(self, run, code):
        output, _ = run.communicate(timeout=90)
        self.assertEqual(run.returncode, code, output)

    def await_steps(self):
        def has_step():
            # The last line may not be whole yet.
            lines = self.text("run/events.jsonl").split("\n")[:-1]
            return any(json.loads(line)["type"] == "step" for line in lines)
        local_run.await_that(has_step, "no steps")

    def text(self, path):
        try:
            return (self.work / path).read_text()
        except OSError:
            return ""

    def test_after_a_clean_end(self):
        self.end(self.start(), 0)
        self.assert_nothing_left()

    def test_after_a_command_that_fails(self):
        self.end(self.start(5, 3), 1)
        self.assert_nothing_left()

    def test_after_a_killed_worker(self):
        self.end(self.start(30, 0, "--inject", "kill worker 1 at step 10"), 0)
        self.assert_nothing_left()

    def test_after_a_killed_agent(self):
        self.end(self.start(30, 0, "--inject", "kill agent 2 at step 10"), 0)
        self.assert_nothing_left()

    def test_after_a_job_of_an_agent_that_runs_on(self):
        """No front end ends the processes here: the agent has to, before it ends itself."""
        key, value = self.lab.marker.split("=")
        environment = {**os.environ, key: value, "PYTHONPATH": str(ROOT / "python"),
                       "LONGHAUL_LIBRARY": sys.library,
                       "LONGHAUL_ENDPOINT": str(self.work / "controller/endpoint.json")}

        def start(*words):
            return subprocess.Popen([sys.program, *words], cwd=self.work, env=environment,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)

        controller = start("controller", "--state-dir", "controller")
        local_run.await_that((self.work / "controller/endpoint.json").exists, "no controller")
        address = json.loads(self.text("controller/endpoint.json"))["agents"]
        agent = start("agent", "--controller", address, "--token-file", "controller/token", "--node",
                      "node-1", "--slots", "2", "--state-dir", "agent", "--allow-root")
        local_run.await_that(lambda: len(self.lab.processes()) == 3, "no agent and keeper")
        # A job that no node could run is refused, so the agent has to be connected.
        local_run.await_that(
            lambda: "node-1" in subprocess.run([sys.program, "nodes"], cwd=self.work,
                                               env=environment, capture_output=True,
                                               text=True).stdout, "no connected agent")
        (self.work / "job.yaml").write_text(json.dumps({
            "name": "job", "command": [sys.executable, "worker.py", "5", "0"],
            "resources": {"nodes": 1, "processes_per_node": 2}}))
        self.assertEqual(start("submit", "job.yaml", "--watch").wait(timeout=60), 0)
        local_run.await_that(lambda: len(self.lab.processes()) == 3, self.commands)
        status = json.loads(subprocess.run(
            [sys.program, "status", "job-1", "--json"], cwd=self.work, env=environment,
            capture_output=True, text=True, check=True).stdout)
        self.assertEqual(status["attempt"], 1, "the agent killed a rank that had not ended")
        agent.terminate()
        self.assertEqual(agent.wait(timeout=60), 0)
        controller.terminate()
        self.assertEqual(controller.wait(timeout=60), 0)
        self.assertEqual(self.commands(), [])
        self.assert_no_group_left()

    def test_after_ctrl_c(self):
        run = self.start(1_000_000)
        self.await_steps()
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=90)
        self.assert_nothing_left()

    def test_after_a_kill_of_the_front_end(self):
        run = self.start(1_000_000)
        self.await_steps()
        run.kill()
        run.communicate(timeout=90)
        self.assert_nothing_left(complete=False, seconds=60)


if __name__ == "__main__":
    sys.program, sys.library = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
